"""Best subsets of features of every size: features are added, exchanged and removed one at a time.

Everything is computed from the normal equations. Only the rows of the Gram matrix for selected features are needed, so
that there may be many features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..backend.arrays import FloatArray, IntArray

# A feature is not selected if its squared distance from the span of the others is below this, relative to its square.
DEPENDENT = 1e-9
# A fit that leaves this part of the squared norm of the targets is exact: neither larger nor other subsets are tried.
EXACT = 1e-20
# With a squared residual below this, relative to that norm, rounding errors in products may be mistaken for gains.
CLOSE = 1e-7
# Smaller squared residuals, relative to that norm, are equally likely.
NEGLIGIBLE = 1e-14
# Subsets are exchanged if that lowers the squared residual by this part: more than rounding errors do.
GAIN = 1e-9
# Rows of the Gram matrix that are computed together; those beyond the one that is needed are likely to be needed soon.
AHEAD = 32
# The largest number of passes over all sizes, and of exchanges in a subset for each of its features.
PASSES, EXCHANGES = 10, 10
# How often a part of a subset is replaced at random to leave a local optimum; less often if there are more exchanges to
# compare than this, divided by that number. The part that is replaced.
RESTARTS, COMPARED, REPLACED = 60, 5e4, 0.4
# Exchanges of two features at a time are compared if there are at most this many.
PAIRS = 1e6


class NormalEquations:
    """The Gram matrix of the features and their products with the targets.

    Parameters
    ----------
    X : array, shape (m, n)
        The features, centred if there is an intercept; columns of zeros are never selected.
    Y : array, shape (m, targets)
        The targets, which have one subset in common.
    ridge : float, optional
        The number added to the diagonal of the Gram matrix: the penalty on squared coefficients. Residuals include it.

    Attributes
    ----------
    squares : array, shape (n,)
        The diagonal of the Gram matrix.
    b : array, shape (targets, n)
        The products of targets and features.
    energies : array, shape (targets,)
        The squared norms of the targets.
    energy : float
        Their sum.
    fits : int
        The number of subsets that have been fitted.
    """

    def __init__(self, X: FloatArray, Y: FloatArray, ridge: float = 0.0) -> None:
        self.fits, self._ridge = 0, ridge
        self._X, self._Y = X, Y
        self._rows, self._where = np.empty((0, X.shape[1])), np.full(X.shape[1], -1)
        squares = np.einsum("ij,ij->j", X, X)
        self.squares = np.where(squares > 0, squares + ridge, 0.0)
        self.b: FloatArray = Y.T @ X
        self.energies: FloatArray = np.sum(Y * Y, axis=0)
        self.energy = float(np.sum(self.energies))

    def rows(self, support: IntArray, likely: FloatArray | None = None) -> FloatArray:
        """Return rows of the Gram matrix.

        Parameters
        ----------
        support : array of int, shape (s,)
            The features.
        likely : array, shape (n,), optional
            How promising each feature is; rows of the most promising ones are also computed.

        Returns
        -------
        array, shape (s, n)
            Their products with all features.
        """
        missing = support[self._where[support] < 0]
        if missing.size:
            if likely is not None:
                promise = np.where(self._where < 0, likely, -np.inf)
                promise[missing] = -np.inf
                more = min(AHEAD, promise.size - 1)
                best = np.argpartition(-promise, more)[:more]
                missing = np.concatenate([missing, best[np.isfinite(promise[best])]])
            self._where[missing] = len(self._rows) + np.arange(missing.size)
            products = self._X[:, missing].T @ self._X
            products[np.arange(missing.size), missing] += self._ridge
            self._rows = np.concatenate([self._rows, products])
        found: FloatArray = self._rows[self._where[support]]
        return found

    def inverse(self, support: IntArray) -> FloatArray | None:
        """Invert the Gram matrix of some features.

        Parameters
        ----------
        support : array of int, shape (s,)
            The features, whose rows have been computed.

        Returns
        -------
        array, shape (s, s), or None
            The inverse; None if a feature is too close to the span of the others.
        """
        try:
            found: FloatArray = np.linalg.inv(self.rows(support)[:, support])
        except np.linalg.LinAlgError:
            return None
        # The diagonal has the reciprocal squared distances.
        largest = np.max(np.abs(np.diag(found)) * self.squares[support], initial=0.0)
        return found if largest * DEPENDENT < 1 else None

    def fit(self, support: IntArray, inverse: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fit the targets by some features.

        Close fits are refined with the samples themselves, because their residuals are smaller than rounding errors in
        products.

        Parameters
        ----------
        support : array of int, shape (s,)
            The features.
        inverse : array, shape (s, s)
            The inverse of their Gram matrix.

        Returns
        -------
        coefficients : array, shape (targets, s)
            The least-squares fit.
        residuals : array, shape (targets,)
            The squared norms of its residuals; zero if the fit is exact.
        """
        b = self.b[:, support]
        x: FloatArray = b @ inverse
        squares = self.energies - np.sum(x * b, axis=1)
        if (squares < CLOSE * self.energies).any():
            X = self._X[:, support]
            x += ((self._Y - X @ x.T).T @ X - self._ridge * x) @ inverse
            squares = np.sum((self._Y - X @ x.T) ** 2, axis=0) + self._ridge * np.sum(x * x, axis=1)
        return x, np.where(squares > EXACT * self.energies, squares, 0.0)

    @property
    def promising(self) -> IntArray:
        """The features whose rows have been computed so far."""
        return np.flatnonzero((self._where >= 0) & (self.squares > 0))


@dataclass(frozen=True)
class Subset:
    """A subset of the features, and the change of the residual if features are added, removed or exchanged.

    Attributes
    ----------
    support : array of int, shape (s,)
        The features.
    coefficients : array, shape (targets, s)
        The least-squares fit.
    residuals : array, shape (targets,)
        The squared norms of its residuals; zero if it is exact.
    loss : array, shape (s,)
        The increase of their sum if a feature is removed.
    gain : array, shape (n,)
        The decrease of their sum if a feature is added; negative if the feature must not be added.
    exchange : array, shape (s, n)
        The decrease of their sum if a feature is replaced by another one; minus infinity for exchanges that must not be
        made.
    """

    support: IntArray
    coefficients: FloatArray
    residuals: FloatArray
    loss: FloatArray
    gain: FloatArray
    exchange: FloatArray

    @cached_property
    def residual(self) -> float:
        """The squared norm of the residuals of all targets."""
        return float(np.sum(self.residuals))

    @classmethod
    def fitted(cls, equations: NormalEquations, support: IntArray, likely: FloatArray | None = None) -> Subset | None:
        """Fit the targets by a subset.

        With H the inverse of the Gram matrix of the subset, x = H b_S and V = H G_S, the residual has the correlations
        c = b - x G_S with the features, whose squared distances from the span of the subset are d = diag(G - G_S' V).
        Without feature p they are c + V_p x_p / H_pp and d + V_p^2 / H_pp. Adding feature k gains c_k^2 / d_k.

        Parameters
        ----------
        equations : NormalEquations
            The normal equations.
        support : array of int, shape (s,)
            The features.
        likely : array, shape (n,), optional
            See :meth:`NormalEquations.rows`.

        Returns
        -------
        Subset or None
            The subset; None if its features depend on each other.
        """
        equations.fits += 1
        G, b, squares = equations.rows(support, likely), equations.b, equations.squares
        H = equations.inverse(support)
        if H is None:
            return None
        (x, residuals), V = equations.fit(support, H), H @ G
        c, d, pivot = b - x @ G, squares - np.einsum("pk,pk->k", G, V), np.diag(H)
        loss = np.sum(x * x, axis=0) / pivot
        usable, least = squares > 0, DEPENDENT * squares
        usable[support] = False
        # Of features that gain the same, as all do that make the fit exact, the most independent one comes first.
        gain = np.where(usable & (d > least), np.sum(c * c, axis=0) / np.where(d > least, d + least, 1.0), -1.0)
        after = sum(((row + V * (values / pivot)[:, None]) ** 2 for row, values in zip(c, x, strict=True)), 0 * V)
        distance = d + V * V / pivot[:, None]
        free = usable & (distance > least)
        exchange = np.where(free, after / np.where(free, distance, 1.0) - loss[:, None], -np.inf)
        return cls(support, x, residuals, loss, gain, exchange)


def exchanged(equations: NormalEquations, support: IntArray, likely: FloatArray | None = None) -> Subset | None:
    """Exchange features of a subset, one at a time, until no exchange lowers the residual.

    Parameters
    ----------
    equations : NormalEquations
        The normal equations.
    support : array of int, shape (s,)
        The features.
    likely : array, shape (n,), optional
        See :meth:`NormalEquations.rows`.

    Returns
    -------
    Subset or None
        A subset of the same size; None if the features depend on each other.
    """
    subset = Subset.fitted(equations, support, likely)
    if subset is None:
        return None
    for _ in range(EXCHANGES * support.size):
        if subset.residual == 0:
            break
        place, feature = divmod(int(np.argmax(subset.exchange)), subset.gain.size)
        if subset.exchange[place, feature] <= GAIN * subset.residual + EXACT * equations.energy:
            break
        support = subset.support.copy()
        support[place] = feature
        found = Subset.fitted(equations, support, np.max(subset.exchange, axis=0))
        if found is not None and found.residual < subset.residual:
            subset = found
        else:  # with features that almost depend on each other, the gain was a rounding error
            subset.exchange[place, feature] = -np.inf
    return subset


def best_subsets(equations: NormalEquations, largest: int, known: Sequence[Subset] = ()) -> list[Subset]:
    """Search for the best subset of every size.

    Sizes are visited in increasing order, adding the best feature to the subset of the previous size, and in decreasing
    order, removing the least important feature. Every new subset is improved by exchanges. This is repeated until no
    subset improves.

    Parameters
    ----------
    equations : NormalEquations
        The normal equations.
    largest : int
        The largest size.
    known : sequence of Subset, optional
        Subsets of sizes 0, 1, 2, ... that were found before.

    Returns
    -------
    list of Subset
        The subsets of sizes 0, 1, 2, ...; fewer if features depend on each other, or if the fit is exact.
    """
    path = list(known)
    if not path:
        empty = Subset.fitted(equations, np.empty(0, dtype=np.int64))
        assert empty is not None
        path.append(empty)
    for _ in range(PASSES):
        improved = False
        size = 1
        while size <= min(largest, len(path)):
            before = path[size - 1]
            feature = int(np.argmax(before.gain))
            if before.residual == 0 or before.gain[feature] <= EXACT * equations.energy:
                break
            least = path[size].residual if size < len(path) else math.inf
            if before.residual - before.gain[feature] < least - GAIN * before.residual:
                found = exchanged(equations, np.append(before.support, feature), before.gain)
                if found is None or found.residual >= least:  # the gain was a rounding error
                    before.gain[feature] = -1.0
                    continue
                path[size : size + 1] = [found]
                improved = True
            size += 1
        for size in range(len(path) - 2, 0, -1):
            after = path[size + 1]
            place = int(np.argmin(after.loss))
            if after.residual + after.loss[place] < path[size].residual * (1 - GAIN):
                found = exchanged(equations, np.delete(after.support, place))
                if found is not None and found.residual < path[size].residual:
                    path[size] = found
                    improved = True
        if not improved:
            break
    return path


def restarted(equations: NormalEquations, subset: Subset) -> Subset:
    """Replace a part of a subset at random and improve it by exchanges, several times, and return the best one.

    Only features that have looked promising before take part. The number of attempts is smaller if there are many
    features.

    Parameters
    ----------
    equations : NormalEquations
        The normal equations, from which the subset has been found.
    subset : Subset
        The subset.

    Returns
    -------
    Subset
        A subset of the same size, whose residual is not larger.
    """
    rng, size, promising = np.random.default_rng(0), subset.support.size, equations.promising
    for _ in range(int(min(RESTARTS, COMPARED / max(subset.exchange.size, 1)))):
        others = np.setdiff1d(promising, subset.support)
        count = min(max(2, round(REPLACED * size)), size, others.size)
        if count == 0:
            break
        kept = rng.permutation(subset.support)[count:]
        support = np.concatenate([kept, rng.choice(others, count, replace=False)])
        found = exchanged(equations, support)
        # The same subset in another order must not change what is tried next.
        if found is not None and found.residual < subset.residual * (1 - GAIN) - EXACT * equations.energy:
            subset = found
    return subset


def exchanged_in_pairs(equations: NormalEquations, subset: Subset) -> Subset:
    """Exchange features, two at a time, until no such exchange lowers the residual, if there are few of them.

    Features that resemble each other often have to be exchanged together. Without the features p and q, let c be the
    correlations of the features with the residual and R the Gram matrix of the parts orthogonal to the other features.
    Features i and j then gain (c_i^2 R_jj + c_j^2 R_ii - 2 c_i c_j R_ij) / (R_ii R_jj - R_ij^2).

    Parameters
    ----------
    equations : NormalEquations
        The normal equations.
    subset : Subset
        The subset.

    Returns
    -------
    Subset
        A subset of the same size, whose residual is not larger.
    """
    size, n = subset.support.size, subset.gain.size
    if not 1 < size <= n - 2 or math.comb(size, 2) * n * n > PAIRS:
        return subset
    G, b, squares = equations.rows(np.arange(n)), equations.b, equations.squares
    for _ in range(EXCHANGES * size):
        least, best = subset.residual * (1 - GAIN) - EXACT * equations.energy, None
        for pair in itertools.combinations(range(size), 2):
            kept = np.delete(subset.support, pair)
            x = np.linalg.solve(G[np.ix_(kept, kept)], np.column_stack([G[kept], b[:, kept].T]))
            R, c = G - G[:, kept] @ x[:, :n], b - x[:, n:].T @ G[kept]
            left = equations.energy - float(np.sum(x[:, n:].T * b[:, kept]))
            d = np.where((np.diag(R) > DEPENDENT * squares) & (squares > 0), np.diag(R), 0.0)
            d[kept] = 0.0
            volume = np.outer(d, d)
            area = volume - R * R
            fits = np.sum(c * c, axis=0)
            gain = np.outer(fits, d) + np.outer(d, fits) - 2 * (c.T @ c) * R
            free = area > DEPENDENT * volume
            gain = np.where(free & (volume > 0), gain / np.where(free, area, 1.0), -np.inf)
            place = int(np.argmax(gain))
            if left - gain.flat[place] < least:
                least, best = left - gain.flat[place], np.append(kept, divmod(place, n))
        found = None if best is None else exchanged(equations, best)
        if found is None or found.residual >= subset.residual:
            break
        subset = found
    return subset


def inclusion_probability(subset: Subset, samples: float) -> FloatArray:
    """Estimate the probability that each feature belongs to the subset.

    For each place in the subset, the other features are held fixed, and feature k has a probability proportional to the
    likelihood of normal noise of unknown variance, ||residual||^-samples.

    Parameters
    ----------
    subset : Subset
        A subset that no exchange improves, of targets of norm 1.
    samples : float
        The number of samples.

    Returns
    -------
    array, shape (n,)
        The probabilities.
    """
    left = max(subset.residual, NEGLIGIBLE)
    likelihood = np.maximum(1 - np.minimum(subset.exchange, 0.0) / left, 1.0) ** (-samples / 2)
    total = 1 + likelihood.sum(axis=1)
    probability: FloatArray = np.minimum((likelihood / total[:, None]).sum(axis=0), 1.0)
    probability[subset.support] = 1 / total
    return probability
