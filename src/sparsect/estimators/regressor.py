"""Linear regression on few features: the best subset of a given size, of the likeliest one, or of a validated one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy.special import gammaln
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..backend.array_checks import check_magnitude, floating, refuse_masked
from ..backend.arrays import FloatArray, IntArray
from ..backend.checks import choice, real_number, reject, truth_value, whole_number
from ..recover import recover
from ..sets import GroupSparse, JointSparse, SignalSet, Sparse
from ..solvers.base import Solver
from .subsets import NormalEquations, Subset, best_subsets, inclusion_probability, restarted

# Centred columns smaller than this, relative to their largest entry before, are rounding errors of constant columns.
CONSTANT = 1e-13
# Sizes up to the first are compared by the criterion, and twice as many as long as the best one is in the upper half;
# by cross-validation, sizes up to the second.
FIRST, VALIDATED = 16, 50
# A squared residual of this part of the squared norm of the targets is an exact fit.
EXACT = 1e-14


class Standardized:
    """The columns of an array, centred and divided by their norms, with rows multiplied by the roots of their weights.

    Parameters
    ----------
    array : array, shape (m, k)
        The columns.
    weights : array, shape (m,)
        The weights of the rows.
    centred : bool
        Whether weighted means are subtracted.

    Attributes
    ----------
    means, norms : array, shape (k,)
        What is subtracted from the columns, and what they are divided by.
    columns : array, shape (m, k)
        The columns, of norm 1; constant ones are zero.
    """

    def __init__(self, array: FloatArray, weights: FloatArray, centred: bool) -> None:
        self.means = np.average(array, axis=0, weights=weights) if centred else np.zeros(array.shape[1])
        self.columns = np.sqrt(weights)[:, None] * (array - self.means)
        self.norms = np.sqrt(np.einsum("ij,ij->j", self.columns, self.columns))
        constant = self.norms <= CONSTANT * weights.sum() ** 0.5 * np.max(np.abs(array), axis=0)
        self.norms[constant] = 1.0
        self.columns /= self.norms
        self.columns[:, constant] = 0.0


@dataclass(frozen=True, eq=False)
class Samples:
    """Features and targets with the weights of the samples.

    Attributes
    ----------
    X : array, shape (m, n)
        The features.
    Y : array, shape (m, targets)
        The targets.
    weights : array, shape (m,)
        The weights, which count as repetitions of samples.
    intercept : bool
        Whether the model has an intercept.
    """

    X: FloatArray
    Y: FloatArray
    weights: FloatArray
    intercept: bool

    @cached_property
    def features(self) -> Standardized:
        """The standardized features."""
        return Standardized(self.X, self.weights, self.intercept)

    @cached_property
    def targets(self) -> Standardized:
        """The standardized targets."""
        return Standardized(self.Y, self.weights, self.intercept)

    def take(self, rows: IntArray) -> Samples:
        """Return some of the samples.

        Parameters
        ----------
        rows : array of int
            Their numbers.

        Returns
        -------
        Samples
            These samples.
        """
        return Samples(self.X[rows], self.Y[rows], self.weights[rows], self.intercept)

    def model(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts in the units of the samples.

        Parameters
        ----------
        x : array, shape (..., targets, n)
            Coefficients of the standardized features for the standardized targets.

        Returns
        -------
        coef : array, shape (..., targets, n)
            The coefficients.
        intercept : array, shape (..., targets)
            The intercepts.
        """
        coef = x * self.targets.norms[:, None] / self.features.norms
        return coef, self.targets.means - coef @ self.features.means


def largest_size(samples: float, features: int) -> int:
    """Return the largest number of features that is tried: samples / (log features log log samples), as in abess.

    Parameters
    ----------
    samples : float
        The number of samples.
    features : int
        The number of features.

    Returns
    -------
    int
        At least 1, and at most what leaves two samples for the noise.
    """
    limit = samples / (max(1.0, math.log(features)) * max(1.0, math.log(max(1.0, math.log(max(samples, 1.0))))))
    return int(max(1, min(limit, features, samples - 2)))


def likeliest(equations: NormalEquations, samples: float) -> Subset:
    """Find the best subset by the extended Bayesian information criterion (Chen and Chen 2008).

    Parameters
    ----------
    equations : NormalEquations
        The normal equations, of targets of norm 1.
    samples : float
        The number of samples.

    Returns
    -------
    Subset
        The subset with the smallest criterion.

    Notes
    -----
    The criterion, with m samples, n features, t targets and a subset of size s, is::

        m sum_t log ||residual_t||^2 + s t log(m) + 2 log binomial(n, s)
    """
    targets, features = equations.b.shape
    limit, size = largest_size(samples, features), FIRST
    path: list[Subset] = []
    while True:
        path = best_subsets(equations, min(size, limit), path)
        s = np.arange(len(path))
        residuals = np.maximum([subset.residuals for subset in path], EXACT)
        ways = gammaln(features + 1) - gammaln(s + 1) - gammaln(features - s + 1)
        fit = samples * np.log(residuals).sum(axis=1)
        criterion = fit + targets * s * math.log(max(samples, 1.0)) + 2 * ways
        best = int(np.argmin(criterion))
        if 2 * best <= size or len(path) <= size:
            return path[best]
        size *= 2


class SubsetRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Base class of the regressors.

    Subclasses have the parameters of :class:`SparseRegressor` except ``sparsity``, and call ``_fit`` in ``fit``.

    Attributes
    ----------
    coef_ : array, shape (n_features,) or (n_targets, n_features)
        The coefficients.
    intercept_ : float or array, shape (n_targets,)
        The intercept.
    """

    fit_intercept: bool
    nonnegative: bool
    groups: Any
    joint: bool
    method: Any
    max_iter: int
    coef_: FloatArray
    intercept_: Any

    def predict(self, X: Any) -> FloatArray:
        """Predict the targets.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array, shape (n_samples,) or (n_samples, n_targets)
            The predictions.
        """
        check_is_fitted(self)
        predicted: FloatArray = self._checked(X) @ self.coef_.T + self.intercept_
        return predicted

    def _checked(self, X: Any) -> FloatArray:
        refuse_masked("X", X)
        X = validate_data(self, X, reset=False, dtype=(np.float64, np.float32), ensure_all_finite=False)
        return np.asarray(floating("X", X))

    def _samples(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Check the samples and the parameters that say what is asked of the coefficients."""
        for name in ("fit_intercept", "nonnegative", "joint"):
            truth_value(name, getattr(self, name))
        asked = {"nonnegative": self.nonnegative, "groups": self.groups is not None, "joint": self.joint}
        given = [name for name, value in asked.items() if value]
        if len(given) > 1:
            raise reject(given[1], f"a value together with {given[0]}", "left out")
        refuse_masked("X", X)
        refuse_masked("y", y)
        if y is not None and np.asarray(y).dtype.kind == "f":
            floating("y", np.asarray(y))
        X, y = validate_data(
            self, X, y, multi_output=True, y_numeric=True, dtype=(np.float64, np.float32), ensure_all_finite=False
        )  # fmt: skip
        X, Y = floating("X", X), floating("y", y, dimensions=(1, 2))
        check_magnitude("X", X)
        check_magnitude("y", Y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self._dtype, self._single = X.dtype, Y.ndim == 1
        X, Y = (np.asarray(array, dtype=np.float64) for array in (X, Y[:, None] if self._single else Y))
        return Samples(X, Y, weights, self.fit_intercept)

    def _ridge(self, name: str, value: Any) -> float:
        """Check a penalty."""
        ridge = real_number(name, value, "a number of at least 0", low=0.0)
        if ridge and not self._exchanges:
            raise reject(name, f"{ridge} with a method of recover", "0")
        return ridge

    @property
    def _exchanges(self) -> bool:
        """Whether subsets are found by exchanges of features; otherwise ``recover`` finds the coefficients."""
        return isinstance(self.method, str) and self.method == "auto" and not self.nonnegative and self.groups is None

    def _equations(self, samples: Samples, ridge: float) -> Iterator[tuple[IntArray, NormalEquations]]:
        """Yield the targets that have a subset in common, and their normal equations."""
        targets = samples.targets.columns
        each = np.arange(targets.shape[1])
        for some in [each] if self.joint else each[:, None]:
            yield some, NormalEquations(samples.features.columns, targets[:, some], ridge)

    def _recovered(self, samples: Samples, sparsity: int | str) -> Any:
        """Return the result of ``recover``."""
        asked: SignalSet = Sparse(sparsity, nonnegative=self.nonnegative)
        if self.groups is not None:
            asked = GroupSparse(sparsity, self.groups)
        elif self.joint:
            asked = JointSparse(sparsity)
        options: dict[str, Any] = {"max_iter": self.max_iter, "refit": True, "record": (), "check_fit": False}
        return recover(samples.features.columns, samples.targets.columns.T, asked, self.method, **options)

    def _most(self, samples: Samples) -> int:
        """Return how many features, or groups of them, there are."""
        n = samples.X.shape[1]
        return n if self.groups is None else GroupSparse(0, self.groups).structure(n).layout.count

    def _fit(self, samples: Samples, sparsity: Any, ridge: float) -> None:
        """Set the attributes for a number of features, or for the likeliest one."""
        n, targets = samples.X.shape[1], samples.Y.shape[1]
        size = None
        if isinstance(sparsity, str):
            choice("sparsity", sparsity, ("auto",))
        elif (size := whole_number("sparsity", sparsity, 0)) > (most := self._most(samples)):
            raise reject("sparsity", size, f"a whole number from 0 to {most}", f"X has n_features={n}.")
        x, probability, self.n_iter_ = np.zeros((targets, n)), np.zeros((targets, n)), 0
        if self._exchanges:
            count = float(samples.weights.sum())
            for some, equations in self._equations(samples, ridge):
                chosen = likeliest(equations, count) if size is None else best_subsets(equations, size)[-1]
                chosen = restarted(equations, chosen)
                # More accurate than the solution of the normal equations.
                taken = chosen.support.size
                columns = np.vstack([samples.features.columns[:, chosen.support], ridge**0.5 * np.eye(taken)])
                values = np.vstack([samples.targets.columns[:, some], np.zeros((taken, some.size))])
                fitted = np.linalg.lstsq(columns, values, rcond=None)[0]
                x[np.ix_(some, chosen.support)] = fitted.T
                probability[some] = inclusion_probability(chosen, count * equations.b.shape[0])
                self.n_iter_ = max(self.n_iter_, equations.fits)
        else:
            result = self._recovered(samples, sparsity)
            x, probability = result.x, result.inclusion_probability
            self.n_iter_ = int(np.max(result.n_iter))
        coef, intercept = (array.astype(self._dtype) for array in samples.model(x))
        one = self._single
        self.coef_, self.intercept_ = (coef[0], intercept[0]) if one else (coef, intercept)
        self.support_ = self.coef_ != 0
        known = None if probability is None else probability.astype(self._dtype)
        self.inclusion_probability_ = known[0] if one and known is not None else known

    def _path(self, samples: Samples, sizes: Sequence[int], ridge: float) -> tuple[FloatArray, FloatArray]:
        """Return coefficients and intercepts of every size, shapes (sizes, targets, n) and (sizes, targets)."""
        x = np.zeros((len(sizes), samples.Y.shape[1], samples.X.shape[1]))
        if self._exchanges:
            for some, equations in self._equations(samples, ridge):
                path = best_subsets(equations, max(sizes))
                for place, size in enumerate(sizes):
                    subset = path[min(size, len(path) - 1)]
                    x[place][np.ix_(some, subset.support)] = subset.coefficients
        else:
            for place, size in enumerate(sizes):
                x[place] = self._recovered(samples, size).x
        return samples.model(x)


class SparseRegressor(SubsetRegressor):
    """Linear regression on at most ``sparsity`` features: best-subset selection.

    By default, features are added, removed and exchanged one at a time until no exchange lowers the squared error, and
    a part of them is replaced at random several times to leave local optima. The coefficients are the least-squares fit
    on the selected features, which are found in the same way whatever the units of the columns are.

    Parameters
    ----------
    sparsity : int or {'auto'}, optional
        The number of features, or of groups of them, for each target. ``'auto'`` chooses it by the extended Bayesian
        information criterion, or as :func:`sparsect.recover` does if that is used. :class:`SparseRegressorCV` chooses
        it by cross-validation.
    fit_intercept : bool, optional
        Whether the model has an intercept. If not, X and y should be centred.
    nonnegative : bool, optional
        Whether coefficients are nonnegative. They are then found by :func:`sparsect.recover`.
    groups : array of int, shape (n_features,), optional
        The group of each feature, numbered from 0 without gaps, as for categories that are coded by several columns.
        Features of a group are selected together, by :func:`sparsect.recover`.
    joint : bool, optional
        Whether all targets have the same features, and count the same in their choice. By default, each target has
        features of its own.
    ridge : float, optional
        Penalty of the squared coefficients, for features and targets of norm 1: 0.1 shrinks the coefficient of a single
        feature by a tenth. With much noise, or features that resemble each other, this predicts better.
    method : str or Solver, optional
        ``'auto'``, or a method of :func:`sparsect.recover` that finds the support.
    max_iter : int, optional
        The maximum number of iterations of :func:`sparsect.recover`, where that is used.

    Attributes
    ----------
    coef_ : array, shape (n_features,) or (n_targets, n_features)
        The coefficients.
    intercept_ : float or array, shape (n_targets,)
        The intercept; 0 without one.
    support_ : array of bool, shape (n_features,) or (n_targets, n_features)
        True for the selected features, whose coefficients are not zero.
    inclusion_probability_ : array, shape (n_features,) or (n_targets, n_features), or None
        The probability of each feature of being one of as many features as were selected, if the others of them are
        right; for methods of :func:`sparsect.recover`, its ``inclusion_probability``.
    n_iter_ : int
        The number of subsets that were fitted, or of iterations of :func:`sparsect.recover`.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : array of str, shape (n_features,)
        Names of the features, if X has some.

    See Also
    --------
    SparseRegressorCV : Choose the number of features by cross-validation.

    Notes
    -----
    The least-squares fit is not shrunk, unlike the posterior mean that :func:`sparsect.recover` returns; neither of
    them predicts better in general, and ``ridge`` is there for much noise. The search is that of best-subset selection;
    see Zhu et al., "A polynomial algorithm for best-subset selection problem", PNAS 2020. The criterion of 'auto' is
    that of Chen and Chen, "Extended Bayesian information criteria for model selection with large model spaces",
    Biometrika 2008.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 200))
    >>> y = 4.0 + 2.0 * X[:, 3] - X[:, 150] + 0.5 * rng.standard_normal(80)
    >>> model = sparsect.SparseRegressor().fit(X, y)
    >>> np.flatnonzero(model.support_).tolist()
    [3, 150]
    >>> model.coef_[[3, 150]].round(1), round(float(model.intercept_), 1)
    (array([ 2. , -0.9]), 4.0)
    >>> model.predict(X[:5]).shape
    (5,)
    """

    def __init__(
        self,
        sparsity: int | str = "auto",
        *,
        fit_intercept: bool = True,
        nonnegative: bool = False,
        groups: Any = None,
        joint: bool = False,
        ridge: float = 0.0,
        method: str | Solver = "auto",
        max_iter: int = 1000,
    ) -> None:
        self.sparsity = sparsity
        self.fit_intercept = fit_intercept
        self.nonnegative = nonnegative
        self.groups = groups
        self.joint = joint
        self.ridge = ridge
        self.method = method
        self.max_iter = max_iter

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Select the features and fit their coefficients.

        Parameters
        ----------
        X : array, shape (n_samples, n_features)
            The samples.
        y : array, shape (n_samples,) or (n_samples, n_targets)
            The targets.
        sample_weight : array, shape (n_samples,), optional
            Weights of the samples. A sample of weight 2 counts like two samples.

        Returns
        -------
        SparseRegressor
            The estimator itself.

        Raises
        ------
        InputError
            If an entry is NaN or infinite, or a parameter is invalid.
        """
        self._fit(self._samples(X, y, sample_weight), self.sparsity, self._ridge("ridge", self.ridge))
        return self


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
