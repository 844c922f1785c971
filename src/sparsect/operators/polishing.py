"""Supports improved by exchanging one column at a time, until no exchange lowers the residual."""

from __future__ import annotations

from math import comb

from ..backend.arrays import Array, namespace, placed, to_numpy
from ..kernels.supports import best_of_all, best_pair, swap, wide
from .base import Operator
from .least_squares import refit
from .repeated import Repeated

# The largest number of exchanges in a row, for each nonzero.
LIMIT = 10
# All pairs of columns are looked at if there are at most this many columns for each row of Phi: that takes no longer
# than ten iterations of the Difference Map.
PAIRS = 8
# All supports are looked at if there are at most this many.
SUPPORTS = 5000


def polish(operator: Operator, y: Array, x: Array) -> tuple[Array, Array, Array]:
    """Exchange columns of the supports of ``x`` as long as that lowers the residual, and refit.

    A support of one column becomes the best one there is, and so does a support of two if Phi has at most eight times
    as many columns as rows, and any support if there are few in all.

    Parameters
    ----------
    operator : Operator
        Phi, a dense operator of shape (m, n).
    y : array, shape (batch, m)
        Measurements.
    x : array, shape (batch, n)
        Signals whose supports are improved.

    Returns
    -------
    x : array, shape (batch, n)
        The least-squares fits on the improved supports.
    swaps : array of int, shape (batch,)
        The number of exchanges in each row, after a look at all pairs if there was one.
    optimal : array of bool, shape (batch,)
        Whether no exchange of one column lowers the residual any more.
    """
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
    few = (sparsity == 2 and n <= PAIRS * m) or (0 < sparsity < min(m, n) and comb(n, sparsity) <= SUPPORTS)
    return operator.is_dense and (sparsity == 1 or few)


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
    dense = operator.inner if isinstance(operator, Repeated) else operator
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
