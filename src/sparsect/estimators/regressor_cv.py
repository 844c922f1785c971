"""Linear regression on few features, whose number is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import FloatArray
from ..backend.checks import reject, truth_value, whole_number
from ..solvers.base import Solver
from .regressor import SubsetRegressor, largest_size
from .samples import Samples

# Sizes up to this are compared unless others are given.
VALIDATED = 50


class SparseRegressorCV(SubsetRegressor):
    """Linear regression on few features, whose number is chosen by cross-validation.

    Parameters
    ----------
    sizes : array of int, optional
        The numbers of features to compare. The default is all from 0 to n_samples / (log n_features log log n_samples),
        as in abess, or to 50 if that is less.
    cv : int, cross-validation generator or iterable, optional
        The number of folds, or how samples are split, as in scikit-learn. The default is 5 folds.
    one_standard_error : bool, optional
        If True, take the smallest size whose error exceeds the least one by at most its standard error; otherwise the
        size of the least error. This gives fewer features that have nothing to do with the targets.
    fit_intercept, nonnegative : bool, optional
        See :class:`SparseRegressor`.
    groups : array of int, shape (n_features,), optional
        See :class:`SparseRegressor`.
    joint : bool, optional
        See :class:`SparseRegressor`.
    ridges : array, optional
        The values of ``ridge`` to compare, each with all sizes; see :class:`SparseRegressor`.
    method : str or Solver, optional
        See :class:`SparseRegressor`. With ``'auto'``, the subsets of all sizes are found together; otherwise every size
        takes a run of :func:`sparsect.recover` for each fold.
    max_iter : int, optional
        See :class:`SparseRegressor`.

    Attributes
    ----------
    sparsity_ : int
        The chosen number of features, for each target.
    ridge_ : float
        The chosen ridge: the one with the least error.
    path_ : array, shape (n_sizes, n_features) or (n_sizes, n_targets, n_features)
        The coefficients of all sizes with the chosen ridge, fitted to all samples.
    cv_results_ : dict of str to array, shape (n_sizes,)
        With the chosen ridge: the sizes ('sparsity'), the mean squared errors of the folds ('split0_error',
        'split1_error', ...), their mean ('mean_error') and its standard error ('standard_error').
    coef_, intercept_, support_, inclusion_probability_, n_iter_, n_features_in_, feature_names_in_ : object
        As for :class:`SparseRegressor`.

    See Also
    --------
    SparseRegressor : The number of features is given, or chosen by a criterion.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 200))
    >>> y = 4.0 + 2.0 * X[:, 3] - X[:, 150] + 0.5 * rng.standard_normal(80)
    >>> model = sparsect.SparseRegressorCV(sizes=range(10), one_standard_error=True).fit(X, y)
    >>> model.sparsity_, np.flatnonzero(model.support_).tolist()
    (2, [3, 150])
    >>> model.path_.shape
    (10, 200)
    """

    def __init__(
        self,
        sizes: Any = None,
        *,
        cv: Any = None,
        one_standard_error: bool = False,
        fit_intercept: bool = True,
        nonnegative: bool = False,
        groups: Any = None,
        joint: bool = False,
        ridges: Any = (0.0,),
        method: str | Solver = "auto",
        max_iter: int = 1000,
    ) -> None:
        self.sizes = sizes
        self.cv = cv
        self.one_standard_error = one_standard_error
        self.fit_intercept = fit_intercept
        self.nonnegative = nonnegative
        self.groups = groups
        self.joint = joint
        self.ridges = ridges
        self.method = method
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the number of features, select them, and fit their coefficients.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            The samples.
        y : array, shape (n_samples,) or (n_samples, n_targets)
            The targets. The errors of several targets are added up, so these should have the same units.
        sample_weight : array, shape (n_samples,), optional
            Weights of the samples, as for :class:`SparseRegressor`. Errors are weighted, too.

        Returns
        -------
        SparseRegressorCV
            The estimator itself.

        Raises
        ------
        InputError
            If an entry is NaN or infinite, or a parameter is invalid.
        """
        truth_value("one_standard_error", self.one_standard_error)
        samples = self._samples(X, y, sample_weight)
        splits = [split for split in check_cv(self.cv).split(samples.X, samples.Y) if samples.weights[split[1]].any()]
        sizes = self._sizes(samples, min(samples.weights[train].sum() for train, _ in splits))
        ridges = [self._ridge("ridges", ridge) for ridge in np.atleast_1d(self.ridges)]
        folds = [(samples.take(train), samples.take(test)) for train, test in splits]
        found = [np.array([self._errors(*fold, sizes, ridge) for fold in folds]) for ridge in ridges]
        least = int(np.argmin([errors.mean(axis=0).min() for errors in found]))
        self.ridge_, errors = ridges[least], found[least]
        mean = errors.mean(axis=0)
        spread = errors.std(axis=0, ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else np.zeros_like(mean)
        best = int(np.argmin(mean))
        if self.one_standard_error:
            best = int(np.argmax(mean <= mean[best] + spread[best]))
        self.cv_results_ = {"sparsity": np.array(sizes), "mean_error": mean, "standard_error": spread}
        self.cv_results_ |= {f"split{fold}_error": row for fold, row in enumerate(errors)}
        self.sparsity_ = sizes[best]
        path = self._path(samples, sizes, self.ridge_)[0].astype(self._dtype)
        self.path_ = path[:, 0] if self._single else path
        self._fit(samples, self.sparsity_, self.ridge_)
        self.path_[best] = self.coef_
        return self

    def plot(self, axes: Any = None, names: Sequence[str] | None = None) -> Any:
        """Plot the errors of all sizes, and the coefficients.

        Parameters
        ----------
        axes : sequence of two matplotlib.axes.Axes, optional
            Where to plot the errors and the coefficients. By default a new figure is made.
        names : sequence of str, optional
            The names of the features. The default is ``feature_names_in_`` or, if X had none, x0, x1, ...

        Returns
        -------
        matplotlib.figure.Figure
            The figure.
        """
        check_is_fitted(self)
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
        errors, coefficients = axes
        sizes, found = self.cv_results_["sparsity"], self.cv_results_
        errors.errorbar(sizes, found["mean_error"], found["standard_error"], marker="o", capsize=3)
        errors.set(xlabel="number of features", ylabel="mean squared error of the folds")
        curves = self.path_.reshape(len(sizes), -1)
        coefficients.plot(sizes, curves[:, curves.any(axis=0)])
        coefficients.set(xlabel="number of features", ylabel="coefficient")
        if names is None:
            names = getattr(self, "feature_names_in_", [f"x{feature}" for feature in range(self.n_features_in_)])
        for place, value in enumerate(self.coef_.ravel()):
            if value:
                label = names[place % self.n_features_in_]
                coefficients.annotate(label, (self.sparsity_, value), (3, 3), textcoords="offset points", fontsize=8)
        for each in axes:
            each.axvline(self.sparsity_, color="0.7", linestyle="--", zorder=0)
            each.xaxis.get_major_locator().set_params(integer=True)
        return errors.figure

    def _sizes(self, samples: Samples, count: float) -> list[int]:
        """Return the sizes to compare, in increasing order."""
        most = self._most(samples)
        if self.sizes is None:
            return list(range(min(largest_size(count, most), VALIDATED) + 1))
        if np.ndim(self.sizes) != 1 or len(self.sizes) == 0:
            raise reject("sizes", f"an object of type {type(self.sizes).__name__}", "a list of whole numbers")
        return sorted({whole_number("sizes", size, 0, most) for size in self.sizes})

    def _errors(self, training: Samples, test: Samples, sizes: Sequence[int], ridge: float) -> FloatArray:
        """Return the mean squared error of every size in a test set."""
        coef, intercept = self._path(training, sizes, ridge)
        used = coef.any(axis=(0, 1))
        predicted = np.einsum("mn,stn->smt", test.X[:, used], coef[..., used], optimize=True) + intercept[:, None, :]
        squares = np.mean((predicted - test.Y) ** 2, axis=-1)
        return np.asarray(np.average(squares, axis=1, weights=test.weights))
