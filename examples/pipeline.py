"""
In a scikit-learn pipeline
==========================

Sparse codes as features: a dictionary is learned inside a pipeline, and cross-validation chooses the sparsity.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler

import sparsect

# %%
# Handwritten digits of 8x8 pixels. The learner is an estimator like any other: it can be cloned, searched and put into
# a pipeline.

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X / 16, y, train_size=1000, stratify=y, random_state=0)

model = make_pipeline(
    sparsect.DictionaryLearner(n_atoms=150, rounds=5, random_state=0), MaxAbsScaler(), LogisticRegression(max_iter=1000)
)
sizes = [1, 2, 4, 8, 16]
search = GridSearchCV(model, {"dictionarylearner__sparsity": sizes}, cv=4).fit(X_train, y_train)
plain = LogisticRegression(max_iter=1000).fit(X_train, y_train)
print(f"chosen: {search.best_params_}, {search.score(X_test, y_test):.3f} on the test set")
print(f"from pixels: {plain.score(X_test, y_test):.3f}")

# %%
# Cross-validated accuracy over the number of nonzeros, and the atoms of the chosen model.

scores = search.cv_results_
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained", width_ratios=(1.2, 1))
left.errorbar(sizes, scores["mean_test_score"], scores["std_test_score"], fmt="o-", capsize=3)
left.set_xscale("log", base=2)
left.set(xlabel="nonzeros of a code", ylabel="accuracy, four folds", xticks=sizes, xticklabels=sizes)
atoms = search.best_estimator_[0].components_[:100].reshape(10, 10, 8, 8)
spaced = np.pad(atoms, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=np.nan)
right.imshow(spaced.swapaxes(1, 2).reshape(100, 100), cmap="gray")
right.set_title("100 of the atoms")
right.axis("off")
plt.show()
