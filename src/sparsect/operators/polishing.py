"""Supports improved by exchanging one column at a time, until no exchange lowers the residual."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.arrays import Array, from_numpy, to_numpy
from ..kernels.supports import best_pair, swap
from .base import Operator
from .least_squares import refit

# The largest number of exchanges in a row, for each nonzero.
LIMIT = 10
# All pairs of columns are looked at if there are at most this many columns for each row of Phi: that takes no longer
# than ten iterations of the Difference Map.
PAIRS = 8


def polish(operator: Operator, y: Array, x: Array) -> tuple[Array, Array, Array]:
    """Exchange columns of the supports of ``x`` as long as that lowers the residual, and refit.

    A support of one column becomes the best one there is, and so does a support of two if Phi has at most eight times
    as many columns as rows.

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
    gram, squares = gram_in_memory(operator)
    b, energy = correlations(operator, y)
    nonzero = to_numpy(x) != 0
    counts = np.count_nonzero(nonzero, axis=1)
    size = int(counts.max(initial=0))
    support = np.argsort(~nonzero, axis=1, kind="stable")[:, :size]
    if size == 2 and small_enough(operator, size):
        support[counts == 2] = best_pair(gram, squares, b[counts == 2])
    swaps, optimal = swap(gram, squares, b, energy, support, counts, LIMIT * max(size, 1))
    improved = np.zeros(nonzero.shape)
    np.put_along_axis(improved, support, np.arange(size) < counts[:, None], axis=1)
    return refit(operator, y, from_numpy(improved, y)), swaps, optimal


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
        True for one nonzero, and for two if all pairs of columns are looked at.
    """
    m, n = operator.shape
    return operator.is_dense and (sparsity == 1 or (sparsity == 2 and n <= PAIRS * m))


def gram_in_memory(operator: Operator) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the Gram matrix and its diagonal as NumPy arrays in double precision.

    Parameters
    ----------
    operator : Operator
        A dense operator.

    Returns
    -------
    gram : array, shape (n, n)
        Phi^H Phi.
    squares : array, shape (n,)
        The squared norms of the columns.
    """
    gram = wide(operator.double_gram_matrix)
    return gram, np.diag(gram).real.copy()


def correlations(operator: Operator, y: Array) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return the correlations of y with the columns, and its squared norms, in double precision.

    Parameters
    ----------
    operator : Operator
        Phi, of shape (m, n).
    y : array, shape (batch, m)
        Measurements.

    Returns
    -------
    b : array, shape (batch, n)
        Phi^H y.
    energy : array, shape (batch,)
        The squared norms of the rows of y.
    """
    return wide(operator.adjoint(y)), np.sum(np.abs(wide(y)) ** 2, axis=-1)


def wide(array: Array) -> np.ndarray[Any, Any]:
    """Copy an array to main memory, in double precision.

    Parameters
    ----------
    array : array
        Numbers of any library and precision.

    Returns
    -------
    array
        A contiguous NumPy array; the array itself if it is one already.
    """
    values = to_numpy(array)
    return np.ascontiguousarray(values, dtype=np.complex128 if np.iscomplexobj(values) else np.float64)
