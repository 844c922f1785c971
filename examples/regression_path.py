"""
A path of regressions
=====================

Which features explain how diabetes progresses: a path of best subsets, cross-validated.

Run ``python examples/regression_path.py``. The features are the ten measurements of scikit-learn's diabetes data, their
squares and products. The picture, regression_path.png, shows the errors of all sizes and the coefficients.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.linear_model import LassoCV
from sklearn.model_selection import KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from sparsect import SparseRegressorCV

matplotlib.use("agg")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("regression_path.png"))
    options = parser.parse_args()

    data = load_diabetes()
    products = make_pipeline(StandardScaler(), PolynomialFeatures(2, include_bias=False), StandardScaler())
    X, y = products.fit_transform(data.data), data.target
    names = products[1].get_feature_names_out(data.feature_names)

    model = SparseRegressorCV(range(21), cv=KFold(10, shuffle=True, random_state=0), rule="significant").fit(X, y)
    print(f"{model.sparsity_} of {len(names)} features:")
    for feature in np.flatnonzero(model.support_):
        probability = model.inclusion_probability_[feature]
        print(f"  {names[feature]:8} {model.coef_[feature]:7.1f}   probability {probability:.2f}")

    folds = KFold(5, shuffle=True, random_state=1)
    ridge = SparseRegressorCV(range(21), ridges=(0.03, 0.1, 0.3, 1.0))
    lasso = LassoCV(alphas=30, tol=1e-3, max_iter=10_000)
    for name, other in (("SparseRegressorCV", model), ("SparseRegressorCV with a ridge", ridge), ("LassoCV", lasso)):
        scores = cross_val_score(other, X, y, cv=folds)
        print(f"R2 of {name}: {scores.mean():.3f}, {np.count_nonzero(clone(other).fit(X, y).coef_)} features")

    figure = model.plot(names=names)
    figure.suptitle(f"Diabetes: progression after a year, from {len(names)} measurements, squares and products")
    figure.savefig(options.out, dpi=130)
    print(f"Written: {options.out}")


if __name__ == "__main__":
    main()
