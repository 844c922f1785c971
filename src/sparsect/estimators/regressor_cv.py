"""Linear regression on few features, whose number is chosen by cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted

from ..backend.arrays import FloatArray
from ..backend.checks import choice, reject, shown, whole_number
from ..solvers.base import Solver
from .regressor import RELATIVE, SubsetRegressor, largest_size
from .samples import Samples

# Sizes up to this are compared unless others are given.
VALIDATED = 50
# Runs of consecutive samples in a test set, whose errors are compared; samples of a run may depend on each other.
RUNS = 10
# How many standard errors a difference has to exceed to be significant.
SIGNIFICANT = 2.0
# What the argument ridges accepts, for errors.
RIDGES = "numbers of at least 0"
# The largest number of names in a plot.
LABELS = 24


def _spaced(heights: FloatArray, gap: float) -> FloatArray:
    """Move increasing heights apart, so that labels there do not overlap."""
    spaced = heights.copy()
    for place in range(1, spaced.size):
        spaced[place] = max(spaced[place], spaced[place - 1] + gap)
    moved: FloatArray = spaced - np.mean(spaced - heights) if spaced.size else spaced
    return moved


def _counted(weights: FloatArray) -> int:
    """Return the number of samples that positive weights stand for; relative weights stand for one sample each."""
    total = weights.sum()
    return int(total) if weights.size <= total <= weights.size / RELATIVE else weights.size


def _standard_error(sums: FloatArray, weights: FloatArray) -> FloatArray:
    """Return the standard errors of ``sums.sum(axis=0) / weights.sum()``, of independent rows."""
    count, total = len(weights), weights.sum()
    deviations = sums - weights[:, None] * sums.sum(axis=0) / total
    error: FloatArray = np.sqrt(np.sum(deviations**2, axis=0) * count / max(count - 1, 1)) / total
    return error


class SparseRegressorCV(SubsetRegressor):
    """Linear regression on few features, whose number is chosen by cross-validation.

    Parameters
    ----------
    sizes : array of int, optional
        The numbers of features to compare. The default is all numbers from 0 to n_samples / (log n_features log log
        n_samples), as in abess, or to 50 if that is less. Unless there are more features than samples, the largest
        number is then doubled as long as its error exceeds the least error by at most two standard errors. Only
        training samples with a positive weight are counted.
    cv : int, cross-validation generator or iterable, optional
        The number of folds, or how samples are split, as in scikit-learn. The default is 5 folds. Pass splits that keep
        groups of samples together as a list, ``list(GroupKFold(5).split(X, y, labels))``; the parameter ``groups``
        refers to groups of features.
    rule : {'least', 'one standard error', 'significant'}, optional
        The size that is chosen: the one with the least error; the smallest one whose error is within one standard error
        of the least error; or the smallest one whose error is not significantly larger, that is, exceeds the least
        error by at most two standard errors of their difference. The last two select fewer features that have nothing
        to do with the targets.
    fit_intercept, nonnegative : bool, optional
        See :class:`SparseRegressor`.
    groups : array of int, shape (n_features,), optional
        See :class:`SparseRegressor`.
    joint : bool, optional
        See :class:`SparseRegressor`.
    ridges : array, optional
        The values of ``ridge`` to compare, each with all sizes; see :class:`SparseRegressor`.
    method : str or Solver, optional
        See :class:`SparseRegressor`. With ``'auto'``, the subsets of all sizes are found together; other methods need a
        run of :func:`sparsect.recover` for each size and fold.
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
        'split1_error', ...), their mean ('mean_error') and its standard error ('standard_error'), and the standard
        error of the difference from the least mean ('difference_error').
    coef_, intercept_, support_, inclusion_probability_, n_iter_, n_features_in_, feature_names_in_ : object
        As for :class:`SparseRegressor`.

    See Also
    --------
    SparseRegressor : Give the number of features, or choose it by a criterion.

    Notes
    -----
    All sizes predict the same samples, so that errors common to all sizes cancel in the difference of two errors. Its
    standard error is that of the mean over ten runs of consecutive samples in each test set: unlike single samples,
    runs are nearly independent even in a time series.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((80, 200))
    >>> y = 4.0 + 2.0 * X[:, 3] - X[:, 150] + 0.5 * rng.standard_normal(80)
    >>> model = sparsect.SparseRegressorCV(sizes=range(10), rule="significant").fit(X, y)
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
        rule: str = "least",
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
        self.rule = rule
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
        X : array or SciPy sparse array, shape (n_samples, n_features)
            The samples; a sparse array is converted to a dense one.
        y : array, shape (n_samples,) or (n_samples, n_targets)
            The targets. If there are several, their errors are divided by their variances and averaged.
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
        rule = choice("rule", self.rule, ("least", "one standard error", "significant"))
        samples = self._samples(X, y, sample_weight)
        # Samples without weight are left out.
        weighted, numbers = samples.weights > 0, np.arange(samples.weights.size)
        try:
            parts = [[numbers[part] for part in split] for split in check_cv(self.cv).split(samples.X, samples.Y)]
        except IndexError as error:
            raise reject("cv", f"other ones ({error})", "yield numbers of samples") from None
        splits = [[rows[weighted[rows]] for rows in split] for split in parts]
        splits = [split for split in splits if all(map(len, split))]
        if not splits:
            if weighted.all():
                raise reject("cv", "no fold with training and test samples", "yield some of both")
            got = "only zeros for the training or the test samples of each fold"
            raise reject("sample_weight", got, "positive for some of both")
        count = min(_counted(samples.weights[train]) for train, _ in splits)
        sizes, most = self._sizes(samples, count), self._most(samples)
        # If there are more features than samples, more sizes take long and hardly ever pay.
        most = min(most, max(count - 3, 0)) if most <= count else sizes[-1]
        # As objects, numbers stay what they are, also next to what is no number.
        ridges = [self._ridge("ridges", ridge, RIDGES) for ridge in np.atleast_1d(np.array(self.ridges, dtype=object))]
        if not ridges:
            raise reject("ridges", "an empty list", "have at least one number of at least 0")
        folds = [(samples.take(train), samples.take(test)) for train, test in splits]
        unit = samples.targets.norms / samples.weights.sum() ** 0.5
        while True:
            found = [[self._errors(*fold, sizes, ridge, unit) for fold in folds] for ridge in ridges]
            means = [np.array([sums.sum(axis=0) / weights.sum() for sums, weights in each]) for each in found]
            least = int(np.argmin([errors.mean(axis=0).min() for errors in means]))
            self.ridge_, errors = ridges[least], means[least]
            mean = errors.mean(axis=0)
            spread = errors.std(axis=0, ddof=1) / len(errors) ** 0.5 if len(errors) > 1 else np.zeros_like(mean)
            best = int(np.argmin(mean))
            if self.sizes is not None or sizes[-1] >= most or mean[-1] > mean[best] + SIGNIFICANT * spread[best]:
                break
            sizes = list(range(min(2 * sizes[-1], most) + 1))
        sums, weights = (np.concatenate(parts) for parts in zip(*found[least], strict=True))
        difference = _standard_error(sums - sums[:, [best]], weights)
        table = {"mean_error": mean, "standard_error": spread, "difference_error": difference}
        table |= {f"split{fold}_error": row for fold, row in enumerate(errors)}
        square = float(unit[0]) ** 2 if unit.size == 1 else 1.0
        self.cv_results_ = {"sparsity": np.array(sizes)} | {name: square * column for name, column in table.items()}
        if rule == "one standard error":
            best = int(np.argmax(mean <= mean[best] + spread[best]))
        elif rule == "significant":
            best = int(np.argmax(mean <= mean[best] + SIGNIFICANT * difference))
        self.sparsity_ = sizes[best]
        path = self._path(samples, sizes, self.ridge_)[0].astype(self._dtype)
        self.path_ = path[:, 0] if self._single else path
        self._fit(samples, self.sparsity_, self.ridge_)
        self.path_[best] = self.coef_
        return self

    def plot(self, axes: Any = None, names: Sequence[str] | None = None) -> Any:
        """Plot the errors of all sizes, and the coefficients, the largest of which are labelled.

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
        if names is None:
            names = getattr(self, "feature_names_in_", [f"x{feature}" for feature in range(self.n_features_in_)])
        if len(names) != self.n_features_in_:
            raise reject("names", f"{len(names)} names", f"have one for each of {self.n_features_in_} features")
        if axes is None:
            from matplotlib import pyplot

            axes = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")[1]
        try:
            errors, coefficients = axes
        except (TypeError, ValueError):
            raise reject("axes", shown(axes), "two axes, for the errors and for the coefficients") from None
        sizes, found = self.cv_results_["sparsity"], self.cv_results_
        errors.errorbar(sizes, found["mean_error"], found["standard_error"], marker="o", capsize=3)
        counted = "number of features" if self.groups is None else "number of groups"
        errors.set(xlabel=counted, ylabel="mean squared error of the folds")
        curves = self.path_.reshape(len(sizes), -1)
        coefficients.plot(sizes, curves[:, curves.any(axis=0)])
        coefficients.set(xlabel=counted, ylabel="coefficient")
        chosen = self.coef_.ravel()
        places = np.flatnonzero(chosen)
        places = places[np.argsort(-np.abs(chosen[places]))][:LABELS]
        places = places[np.argsort(chosen[places])]
        low, high = coefficients.get_ylim()
        for place, height in zip(places, _spaced(chosen[places], (high - low) / LABELS), strict=True):
            coefficients.annotate(
                names[place % self.n_features_in_],
                (self.sparsity_, chosen[place]),
                (1.02, height),
                textcoords=coefficients.get_yaxis_transform(),
                arrowprops={"arrowstyle": "-", "color": "0.7", "linewidth": 0.6},
                fontsize=8,
                va="center",
                annotation_clip=False,
            )
        for each in axes:
            each.axvline(self.sparsity_, color="0.7", linestyle="--", zorder=0)
            each.xaxis.get_major_locator().set_params(integer=True)
        return errors.figure

    def _sizes(self, samples: Samples, count: int) -> list[int]:
        """Return the sizes to compare, in increasing order."""
        most = self._most(samples)
        if self.sizes is None:
            return list(range(min(largest_size(count, most), VALIDATED) + 1))
        if np.ndim(self.sizes) != 1 or len(self.sizes) == 0:
            given = "no numbers" if np.ndim(self.sizes) == 1 else f"an object of type {type(self.sizes).__name__}"
            raise reject("sizes", given, "a list of whole numbers")
        return sorted({whole_number("sizes", size, 0, most) for size in self.sizes})

    def _errors(
        self, training: Samples, test: Samples, sizes: Sequence[int], ridge: float, unit: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return sums of squared errors in runs of test samples, shape (runs, sizes), and their weights."""
        coef, intercept = self._path(training, sizes, ridge)
        used = coef.any(axis=(0, 1))
        predicted = np.einsum("mn,stn->smt", test.X[:, used], coef[..., used], optimize=True) + intercept[:, None, :]
        squares = np.mean(((predicted - test.Y) / unit) ** 2, axis=-1).T * test.weights[:, None]
        count = len(squares)
        starts = np.arange(runs := min(RUNS, count)) * count // runs
        return np.add.reduceat(squares, starts, axis=0), np.add.reduceat(test.weights, starts)
