"""Linear regression on few features: the best subset of a given size, or of the most likely size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from scipy.special import gammaln
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from ..backend.array_checks import check_magnitude, floating, refuse_masked
from ..backend.arrays import FloatArray, IntArray
from ..backend.checks import real_number, reject, shown, truth_value, whole_number
from ..backend.files import check_size
from ..recover import recover
from ..sets import GroupSparse, JointSparse, SignalSet, Sparse
from ..solvers.base import Solver
from .samples import Samples
from .subsets import (
    NEGLIGIBLE,
    NormalEquations,
    Subset,
    best_subsets,
    exchanged_in_pairs,
    inclusion_probability,
    restarted,
)

# Sizes up to this are compared by the criterion, and twice as many as long as the best one is in the upper half.
FIRST = 16
# With at least so many samples for each feature, up to half as many features as samples are tried. With fewer samples,
# large subsets may fit the noise, and the criterion would choose them.
AMPLE = 1.5
# Weights with a smaller mean, or one above the inverse, are probably relative ones.
RELATIVE = 0.1
# What scikit-learn's validation accepts; entries that are not finite are refused with the name of the argument.
NUMBERS: dict[str, Any] = {"dtype": (np.float64, np.float32), "ensure_all_finite": False}


def largest_size(samples: float, features: int) -> int:
    """Return the size up to which all sizes are tried: samples / (log features log log samples), as in abess.

    Parameters
    ----------
    samples : float
        The number of samples.
    features : int
        The number of features.

    Returns
    -------
    int
        The size. It leaves at least two samples for the noise and one for the intercept, and is 0 for up to three
        samples.
    """
    limit = samples / (max(1.0, math.log(features)) * max(1.0, math.log(max(1.0, math.log(max(samples, 1.0))))))
    return int(max(0, min(max(1, limit), features, samples - 3)))


def extended_bic(residuals: FloatArray, coefficients: Any, selected: Any, candidates: int, samples: float) -> Any:
    """Compute the extended Bayesian information criterion of several models (Chen and Chen 2008).

    Parameters
    ----------
    residuals : array, shape (models, targets)
        Squared residuals, relative to the squared norms of the targets.
    coefficients, selected : int or array of int, shape (models,)
        The number of fitted coefficients, and of selected features or groups.
    candidates : int
        The number of features or groups to select from.
    samples : float
        The number of samples.

    Returns
    -------
    array, shape (models,)
        The criterion; the smaller, the better.

    Notes
    -----
    With m samples, n candidates of which s are selected, and p coefficients, it is::

        m sum_t log ||residual_t||^2 + p log(m) + 2 log binomial(n, min(s, n / 2))
    """
    # There are fewer subsets of most features, but they are no less complex.
    taken = np.minimum(selected, candidates // 2)
    ways = gammaln(candidates + 1) - gammaln(taken + 1) - gammaln(candidates - taken + 1)
    fit = samples * np.log(np.maximum(residuals, NEGLIGIBLE)).sum(axis=1)
    return fit + np.multiply(coefficients, math.log(max(samples, 1.0))) + 2 * ways


def likeliest(equations: NormalEquations, samples: float) -> Subset:
    """Find the best subset by the extended Bayesian information criterion.

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
    """
    targets, features = equations.b.shape
    limit = largest_size(samples, features)
    most = max(limit, min(features, int(samples / 2))) if samples >= AMPLE * features else limit
    size = min(FIRST, limit)
    path: list[Subset] = []
    while True:
        path = best_subsets(equations, size, path)
        s = np.arange(len(path))
        residuals = np.array([subset.residuals for subset in path])
        criterion = extended_bic(residuals, targets * s, s, features, samples)
        # As many independent features as there are samples fit anything.
        criterion[[limit < each.support.size < features and not (each.gain >= 0).any() for each in path]] = np.inf
        best = int(np.argmin(criterion))
        # Beyond the limit, only if the criterion still falls there.
        larger = size < limit or (best == size < most)
        if 2 * best <= size or len(path) <= size or not larger:
            return path[best]
        size = min(2 * size, limit if size < limit else most)


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
        X : array or SciPy sparse array, shape (n_samples, n_features)
            The samples.

        Returns
        -------
        array, shape (n_samples,) or (n_samples, n_targets)
            The predictions.
        """
        check_is_fitted(self)
        predicted: FloatArray = self._checked(X) @ self.coef_.T + self.intercept_
        return predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _checked(self, X: Any) -> FloatArray:
        refuse_masked("X", X)
        X = validate_data(self, _dense(X), reset=False, **NUMBERS)
        return np.asarray(floating("X", X))

    def _samples(self, X: Any, y: Any, sample_weight: Any) -> Samples:
        """Check the samples and the parameters that constrain the coefficients."""
        for name in ("fit_intercept", "nonnegative", "joint"):
            truth_value(name, getattr(self, name))
        asked = {"nonnegative": self.nonnegative, "groups": self.groups is not None, "joint": self.joint}
        given = [name for name, value in asked.items() if value]
        if len(given) > 1:
            raise reject(given[1], f"a value together with {given[0]}", "left out")
        refuse_masked("X", X)
        refuse_masked("y", y)
        if y is not None:
            _check_numbers("y", y)
        whole_number("max_iter", self.max_iter, 1)
        X, y = validate_data(self, _dense(X), y, multi_output=True, y_numeric=True, **NUMBERS)
        X, Y = floating("X", X), floating("y", y, dimensions=(1, 2))
        check_magnitude("X", X)
        check_magnitude("y", Y)
        weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        count, total = np.count_nonzero(weights), weights.sum()
        if 0 < total < RELATIVE * count or total > count / RELATIVE:
            advice = f"if weights are relative, multiply them by {count / total:.3g}"
            text = f"`sample_weight` counts {count} samples as {total:.3g}: {advice}"
            warnings.warn(text, UserWarning, stacklevel=3)
        self._dtype, self._single = X.dtype, Y.ndim == 1
        X, Y = (np.asarray(array, dtype=np.float64) for array in (X, Y[:, None] if self._single else Y))
        return Samples(X, Y, weights, self.fit_intercept)

    def _ridge(self, name: str, value: Any, accepted: str = "a number of at least 0") -> float:
        """Check a penalty."""
        ridge = real_number(name, value, accepted, low=0.0)
        if ridge and not self._exchanges:
            raise reject(name, f"{ridge} with a method of recover", "0")
        return ridge

    @property
    def _default(self) -> bool:
        """Whether no particular method of ``recover`` is asked for."""
        return isinstance(self.method, str) and self.method == "auto"

    @property
    def _exchanges(self) -> bool:
        """Whether subsets are found by exchanges of features; otherwise ``recover`` finds the coefficients."""
        return self._default and not self.nonnegative and self.groups is None

    def _equations(self, samples: Samples, ridge: float) -> Iterator[tuple[IntArray, NormalEquations]]:
        """Yield the targets that have a subset in common, and their normal equations."""
        targets = samples.targets.columns
        each = np.arange(targets.shape[1])
        for some in [each] if self.joint else each[:, None]:
            yield some, NormalEquations(samples.features.columns, targets[:, some], ridge)

    def _recovered(self, samples: Samples, sparsity: int | str, targets: slice = slice(None)) -> Any:
        """Return the result of ``recover`` for some of the targets."""
        asked: SignalSet = Sparse(sparsity, nonnegative=self.nonnegative)
        if self.groups is not None:
            asked = GroupSparse(sparsity, self.groups)
        elif self.joint:
            asked = JointSparse(sparsity)
        options: dict[str, Any] = {"max_iter": self.max_iter, "refit": True, "record": (), "check_fit": False}
        # A method that is asked for by its name is left as it is.
        options["polish"] = self._default
        return recover(samples.features.columns, samples.targets.columns[:, targets].T, asked, self.method, **options)

    def _likeliest_recovered(self, samples: Samples, target: int) -> Any:
        """Return the result of ``recover`` for one target and the likeliest number of features, or of groups.

        The number that ``recover`` chooses is for posterior means, and too large for least-squares fits. From there,
        numbers are compared in steps that are halved until no neighbour is likelier.
        """
        features, y = samples.features.columns, samples.targets.columns[:, target]
        groups = np.arange(features.shape[1]) if self.groups is None else np.asarray(self.groups)
        results: dict[int, Any] = {}

        def criterion(size: int) -> float:
            if size not in results:
                results[size] = self._recovered(samples, size, slice(target, target + 1))
            x = results[size].x[0]
            model = np.count_nonzero(x), size, self._most(samples), float(samples.weights.sum())
            return float(extended_bic(np.array([[np.sum((y - features @ x) ** 2)]]), *model)[0])

        found = self._recovered(samples, "auto", slice(target, target + 1))
        best = largest = np.unique(groups[found.support[0]]).size
        results[largest], step = found, max(largest // 2, 1)
        while step:
            better = [size for size in (best - step, best + step) if 0 <= size <= largest]
            better = [size for size in better if criterion(size) < criterion(best)]
            if better:
                best = min(better, key=criterion)
            else:
                step //= 2
        return results[best]

    def _most(self, samples: Samples) -> int:
        """Return the number of features, or of groups of them."""
        n = samples.X.shape[1]
        return n if self.groups is None else GroupSparse(0, self.groups).structure(n).layout.count

    def _fit(self, samples: Samples, sparsity: Any, ridge: float) -> None:
        """Set the attributes for a number of features, or for the most likely number."""
        counting = np.flatnonzero(samples.weights)
        if 0 < counting.size < samples.weights.size:
            samples = samples.take(counting)
        n, targets = samples.X.shape[1], samples.Y.shape[1]
        size = None
        if isinstance(sparsity, str):
            if sparsity != "auto":
                raise reject("sparsity", shown(sparsity), "a whole number or 'auto'")
        elif (size := whole_number("sparsity", sparsity, 0)) > (most := self._most(samples)):
            there = f"X has n_features={n}" if self.groups is None else f"There are {most} groups"
            raise reject("sparsity", size, f"a whole number from 0 to {most}", f"{there}.")
        x, probability, self.n_iter_ = np.zeros((targets, n)), np.zeros((targets, n)), 0
        if self._exchanges:
            count = float(samples.weights.sum())
            for some, equations in self._equations(samples, ridge):
                chosen = likeliest(equations, count) if size is None else best_subsets(equations, size)[-1]
                if chosen.residual > 0:
                    chosen = exchanged_in_pairs(equations, restarted(equations, chosen))
                # More accurate than the solution of the normal equations.
                taken = chosen.support.size
                columns = np.vstack([samples.features.columns[:, chosen.support], ridge**0.5 * np.eye(taken)])
                values = np.vstack([samples.targets.columns[:, some], np.zeros((taken, some.size))])
                fitted = np.linalg.lstsq(columns, values, rcond=None)[0]
                x[np.ix_(some, chosen.support)] = fitted.T
                probability[some] = inclusion_probability(chosen, count * equations.b.shape[0])
                self.n_iter_ = max(self.n_iter_, equations.fits)
        elif size is None and self._default:
            for target in range(targets):
                result = self._likeliest_recovered(samples, target)
                x[target], probability[target] = result.x[0], result.inclusion_probability[0]
                self.n_iter_ = max(self.n_iter_, int(result.n_iter[0]))
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


def _dense(X: Any) -> Any:
    """Return X as a dense array if it is sparse, such as the codes of a :class:`sparsect.SparseCoder`."""
    if not issparse(X):
        return X
    check_size("X", X.dtype.itemsize * math.prod(X.shape))
    return X.toarray()


def _check_numbers(name: str, values: Any) -> None:
    """Refuse NaN, infinity and non-numbers, before scikit-learn does so without the name of the argument."""
    array = np.asarray(values)
    if array.dtype.kind in "fOSU":
        try:
            array = array.astype(np.float64)
        except (TypeError, ValueError):
            raise reject(name, f"an array of dtype {array.dtype}", "have real numbers only") from None
        floating(name, array)


class SparseRegressor(SubsetRegressor):
    """Linear regression on at most ``sparsity`` features: best-subset selection.

    By default, features are added, removed and exchanged one at a time until no exchange lowers the squared error, and
    some of them are replaced at random several times to escape local optima. The coefficients are the least-squares fit
    on the selected features. The selection does not depend on the units of the columns.

    Parameters
    ----------
    sparsity : int or {'auto'}, optional
        The number of features, or of groups of them, for each target. ``'auto'`` chooses it by the extended Bayesian
        information criterion, or as :func:`sparsect.recover` does with another ``method``. :class:`SparseRegressorCV`
        chooses it by cross-validation.
    fit_intercept : bool, optional
        Whether the model has an intercept. If not, X and y should be centred.
    nonnegative : bool, optional
        Whether coefficients are nonnegative. They are then found by :func:`sparsect.recover`.
    groups : array of int, shape (n_features,), optional
        The group of each feature, numbered from 0 without gaps, as for categories that are coded by several columns.
        Features of a group are selected together, by :func:`sparsect.recover`.
    joint : bool, optional
        Whether all targets share the same features, with equal weight in their selection. By default, each target has
        its own features.
    ridge : float, optional
        Penalty on the squared coefficients, for features and targets of norm 1: 0.1 shrinks the coefficient of a single
        feature by a tenth. With much noise, or features that resemble each other, a penalty improves predictions.
    method : str or Solver, optional
        ``'auto'``, or a method of :func:`sparsect.recover` that finds the support.
    max_iter : int, optional
        The maximum number of iterations of :func:`sparsect.recover`, if that is used.

    Attributes
    ----------
    coef_ : array, shape (n_features,) or (n_targets, n_features)
        The coefficients.
    intercept_ : float or array, shape (n_targets,)
        The intercept; 0 without one.
    support_ : array of bool, shape (n_features,) or (n_targets, n_features)
        True for the selected features, whose coefficients are not zero.
    inclusion_probability_ : array, shape (n_features,) or (n_targets, n_features), or None
        The probability that each feature belongs to the model, given the size of the subset and that its other features
        are right; for methods of :func:`sparsect.recover`, its ``inclusion_probability``.
    n_iter_ : int
        The number of subsets that were fitted, or of iterations of :func:`sparsect.recover`.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : array of str, shape (n_features,)
        Names of the features, if X has feature names.

    See Also
    --------
    SparseRegressorCV : Choose the number of features by cross-validation.

    Notes
    -----
    The least-squares fit is not shrunk, unlike the posterior mean that :func:`sparsect.recover` returns; neither
    predicts better in general. Use ``ridge`` if there is much noise. The search is that of best-subset selection; see
    Zhu et al., "A polynomial algorithm for best-subset selection problem", PNAS 2020. The criterion of 'auto' is that
    of Chen and Chen, "Extended Bayesian information criteria for model selection with large model spaces", Biometrika
    2008.

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
        X : array or SciPy sparse array, shape (n_samples, n_features)
            The samples; a sparse array is converted to a dense one.
        y : array, shape (n_samples,) or (n_samples, n_targets)
            The targets.
        sample_weight : array, shape (n_samples,), optional
            Weights of the samples. A sample of weight 2 counts like two samples, so relative weights should have a mean
            of 1. If :func:`sparsect.recover` chooses the number of features (with another ``method``), weights are
            relative.

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
