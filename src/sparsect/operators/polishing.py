"""Supports improved by exchanging one column at a time, until no exchange lowers the residual."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np

from ..backend.arrays import Array, from_numpy, namespace, placed, take_rows, to_numpy
from ..backend.norms import norm
from ..kernels.supports import best_of_all, best_pair, exchange, swap, wide
from ..kernels.thresholding import Kind, Structure, project
from .base import Operator
from .least_squares import refit

# The largest number of exchanges in a row, for each nonzero.
LIMIT = 10
# All pairs of columns are looked at if there are at most this many columns for each row of Phi: that takes no longer
# than ten iterations of the Difference Map.
PAIRS = 8
# All supports are looked at if there are at most so many: in any case, for each entry of Phi, and in the largest case.
# For each entry, that takes no longer than a thousand iterations of the Difference Map.
SUPPORTS = 100_000, 50, 2_000_000
# The largest supports of which all are looked at.
LARGEST = 12
# All supports of groups, of entries within bounds, or at several times are looked at if there are at most so many.
UNIT_SUPPORTS = 1_000
# A residual is larger than another one if it exceeds that by this part.
ROUNDING = 1e-6


def polish(operator: Operator, y: Array, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Exchange columns of the supports of ``x`` as long as that lowers the residual, and refit.

    Groups are exchanged as a whole, and columns stay in their level. The result is the best of all supports of its
    size if these are few and, unless x has groups or bounds, also for one nonzero, and for two if Phi has at most eight
    times as many columns as rows.

    Parameters
    ----------
    operator : Operator
        Phi, a dense operator of shape (m, n).
    y : array, shape (batch, m)
        Measurements.
    x : array, shape (batch, n)
        Signals whose supports are improved.
    structure : Structure
        What signals may look like.

    Returns
    -------
    x : array, shape (batch, n)
        The least-squares fits on the improved supports.
    swaps : array of int, shape (batch,)
        The number of exchanges in each row, after a look at all pairs if there was one.
    optimal : array of bool, shape (batch,)
        Whether no exchange of one column or group lowers the residual any more. False if a nonzero is at its bound:
        then this is not known.
    """
    polished, swaps, optimal = (_polish_columns if structure.plain else _polish_units)(operator, y, x, structure)
    xp, before = namespace(polished), refit(operator, y, x, structure)
    # Where columns almost depend on each other, rounding errors may have led astray.
    misfit, least = (norm(operator.forward(each) - y) for each in (polished, before))
    astray = misfit > (1 + ROUNDING) * least
    polished = xp.where(astray[:, None], before, polished)
    # A row without nonzeros has nothing to exchange, but any column would lower its residual.
    empty = ~to_numpy(xp.any(polished != 0, axis=-1)) & (to_numpy(norm(y)) > 0)
    kept = ~to_numpy(astray)
    return polished, np.where(kept, swaps, 0), optimal & kept & ~empty


def polish_each_size(operator: Operator, y: Array, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Polish the supports of ``x``, each of which keeps its number of nonzeros.

    Parameters
    ----------
    operator, y, x, structure
        As for :func:`polish`.

    Returns
    -------
    x, swaps, optimal : array
        As for :func:`polish`.
    """
    polished, swaps = namespace(x).asarray(x, copy=True), np.zeros(x.shape[0], dtype=np.int64)
    optimal = np.zeros(x.shape[0], dtype=bool)
    sizes = np.count_nonzero(to_numpy(structure.unit_scores(x, x)), axis=-1)
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        some, signals = take_rows(y, rows), take_rows(x, rows)
        polished[from_numpy(rows, x)], swaps[rows], optimal[rows] = polish(
            operator, some, signals, structure.resized(int(size))
        )
    return polished, swaps, optimal


def _polish_columns(operator: Operator, y: Array, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Polish supports that are limited in their number alone."""
    n = operator.shape[1]
    gram, squares = gram_in_memory(operator)
    b, energy = correlations(operator, y)
    xp = namespace(b)
    nonzero = wide(x, operator.Phi) != 0
    counts = xp.sum(xp.astype(nonzero, xp.int64), axis=1)
    size = int(to_numpy(counts).max(initial=0))
    order = xp.argsort(xp.astype(~nonzero, xp.int8), axis=1, stable=True)
    support = xp.asarray(order[:, :size], copy=True)
    if size > 1 and small_enough(operator, size):
        full = counts == size
        some = b[full]
        support[full] = best_pair(gram, squares, some) if size == 2 else best_of_all(gram, squares, some, size)
    swaps, optimal = swap(gram, squares, b, energy, support, counts, LIMIT * max(size, 1))
    used = xp.arange(size, device=counts.device) < counts[:, None]
    improved = marked(xp.where(used, support, xp.full_like(support, n)), n, y)
    return refit(operator, y, improved), to_numpy(swaps), to_numpy(optimal)


def _polish_units(operator: Operator, y: Array, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Polish supports of units within bounds, in main memory.

    Two positive nonzeros that resemble each other can often be moved only together. If Phi has few columns for its
    rows, all pairs of columns are therefore compared: the best one is the solution with two positive nonzeros, and part
    of a second start if there are more.
    """
    sparsity = structure.counts[0]
    if len(structure.counts) == 1 and sparsity and comb(structure.layout.count, sparsity) <= UNIT_SUPPORTS:
        return _best_units(operator, y, structure)
    found = _exchanged(operator, y, structure.clipped(x), structure)
    m, n = operator.shape
    if not (structure.nonnegative and structure.scalable and sparsity > 1 and n <= PAIRS * m):
        return found
    gram, squares = gram_in_memory(operator, host=True)
    pair = best_pair(gram, squares, correlations(operator, y, host=True)[0], nonnegative=True)
    if sparsity == 2:
        none = np.zeros(y.shape[0], dtype=np.int64)
        return refit(operator, y, marked(pair, n, y), structure), none, np.ones(y.shape[0], dtype=bool)
    xp, start = namespace(y), structure.clipped(x)
    above = 1 + xp.max(start, axis=-1, keepdims=True)
    other = _exchanged(operator, y, project(start + above * marked(pair, n, y), structure), structure)
    better = norm(operator.forward(other[0]) - y) < norm(operator.forward(found[0]) - y)
    chosen = to_numpy(better)
    swaps, optimal = (np.where(chosen, other[part], found[part]) for part in (1, 2))
    return xp.where(better[:, None], other[0], found[0]), swaps, optimal


def _best_units(operator: Operator, y: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Fit all supports of units, and return the best fit of each row."""
    xp, units = namespace(y), structure.layout.count
    supports = np.array(list(combinations(range(units), min(structure.counts[0], units))))
    start = structure.inside(structure.of_entries(marked(supports, units, y)))
    best = []
    for row in range(y.shape[0]):
        same = xp.broadcast_to(y[row : row + 1, :], (len(supports), y.shape[1]))
        fits = refit(operator, same, start, structure)
        place = int(xp.argmin(norm(operator.forward(fits) - same)))
        best.append(fits[place : place + 1, :])
    return xp.concat(best), np.zeros(y.shape[0], dtype=np.int64), np.ones(y.shape[0], dtype=bool)


def _exchanged(operator: Operator, y: Array, x: Array, structure: Structure) -> tuple[Array, Array, Array]:
    """Exchange units of the supports of x, and refit."""
    gram, squares = gram_in_memory(operator, host=True)
    b, energy = correlations(operator, y, host=True)
    scores = to_numpy(structure.unit_scores(x, x))
    counts = np.count_nonzero(scores, axis=1)
    support = np.argsort(scores == 0, axis=1, kind="stable")[:, : max(counts.max(initial=0), 1)]
    swaps, optimal = exchange(gram, squares, b, energy, structure, support, counts, LIMIT * max(support.shape[1], 1))
    used = np.arange(support.shape[1]) < counts[:, None]
    units = marked(np.where(used, support, structure.layout.count), structure.layout.count, y)
    return refit(operator, y, structure.inside(structure.of_entries(units)), structure), swaps, optimal


def can_polish(operator: Operator, structure: Structure) -> bool:
    """Whether :func:`polish` takes an operator and a set.

    Parameters
    ----------
    operator : Operator
        Phi.
    structure : Structure
        What signals may look like.

    Returns
    -------
    bool
        True if Phi is dense and the set is not one of the user's own.
    """
    return operator.inner.is_dense and Kind.OWN not in structure.kinds


def small_enough(operator: Operator, sparsity: int) -> bool:
    """Whether :func:`polish` finds the best support of this size, whatever it starts from.

    Parameters
    ----------
    operator : Operator
        Phi, of shape (m, n).
    sparsity : int
        The number of nonzeros.

    Returns
    -------
    bool
        True for one nonzero, for two if Phi has few columns for its rows, and wherever there are few supports in all.
    """
    m, n = operator.shape
    return operator.is_dense and (sparsity == 1 or (sparsity == 2 and n <= PAIRS * m) or few_supports(m, n, sparsity))


def few_supports(m: int, n: int, sparsity: int) -> bool:
    """Whether there are so few supports that all of them can be looked at.

    Parameters
    ----------
    m, n : int
        The shape of Phi.
    sparsity : int
        The number of nonzeros.

    Returns
    -------
    bool
        True if that takes no longer than a search.
    """
    least, each, most = SUPPORTS
    return 0 < sparsity < min(m, n, LARGEST + 1) and comb(n, sparsity) <= min(max(least, each * m * n), most)


def marked(support: Array, n: int, like: Array) -> Array:
    """Mark the columns of supports.

    Parameters
    ----------
    support : array of int, shape (batch, s)
        The columns, of NumPy or of the library of ``like``; n for none.
    n : int
        The number of columns of Phi.
    like : array
        An array whose library and device are used.

    Returns
    -------
    array, shape (batch, n)
        1 at the columns of each support, 0 elsewhere.
    """
    xp = namespace(support)
    marks = xp.zeros((support.shape[0], n + 1), dtype=xp.float64, device=support.device)
    marks[xp.arange(support.shape[0], device=support.device)[:, None], support] = 1.0
    return placed(marks[:, :n], like)


def gram_in_memory(operator: Operator, host: bool = False) -> tuple[Array, Array]:
    """Return the Gram matrix and its diagonal in double precision, where the kernels process them.

    Parameters
    ----------
    operator : Operator
        A dense operator, or one that repeats it.
    host : bool, optional
        Whether the kernels exist for main memory only.

    Returns
    -------
    gram : array, shape (n, n)
        Phi^H Phi.
    squares : array, shape (n,)
        The squared norms of the columns.
    """
    dense = operator.inner
    gram = wide(dense.double_gram_matrix, None if host else dense.Phi)
    xp = namespace(gram)
    return gram, xp.abs(xp.linalg.diagonal(gram))


def correlations(operator: Operator, y: Array, host: bool = False) -> tuple[Array, Array]:
    """Return the correlations of y with the columns, and its squared norms, where the kernels process them.

    Parameters
    ----------
    operator : Operator
        Phi, a dense operator of shape (m, n).
    y : array, shape (batch, m)
        Measurements.
    host : bool, optional
        Whether the kernels exist for main memory only.

    Returns
    -------
    b : array, shape (batch, n)
        Phi^H y, in double precision.
    energy : array, shape (batch,)
        The squared norms of the rows of y.
    """
    like = None if host else operator.Phi
    data = wide(y, like)
    xp = namespace(data)
    return wide(operator.adjoint(y), like), xp.sum(xp.abs(data) ** 2, axis=-1)
