"""Least-squares fits on given supports for a dense Phi, in double precision."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backend.arrays import Array, contiguous, from_numpy, is_complex, is_single, to_numpy
from ...backend.engines import has_kernels, worth_compiling
from ...backend.norms import conj
from ..thresholding import Structure
from . import plain

# What is added to the squared norms of unit columns for each column of a support, so that dependent columns share small
# coefficients instead of getting large ones that cancel. In double precision it is the level of rounding errors in
# products of columns; in single precision, coefficients up to its inverse square root can still be told apart.
RIDGE = {"single": 1e-10, "double": 4 * 2.0**-52}


class DensePhi(Protocol):
    """Attributes of a dense operator that a fit uses.

    Attributes
    ----------
    shape : tuple of int
        Shape (m, n) of Phi.
    Phi : array, shape (m, n)
        The matrix.
    columns : array, shape (n, m)
        Contiguous transpose of Phi.
    gram_matrix : array, shape (n, n)
        Phi^H Phi.
    double_gram_matrix : array, shape (n, n)
        Phi^H Phi computed in double precision.
    """

    shape: tuple[int, int]
    Phi: Array
    columns: Array
    gram_matrix: Array
    double_gram_matrix: Array


def corrects_rounding(y: Array, support: Array) -> bool:
    """Whether :func:`fit` also fits the residual that is due to rounding errors.

    Parameters
    ----------
    y : array, shape (batch, m)
        Measurements.
    support : array of bool, shape (batch, n)
        Supports of the fits.

    Returns
    -------
    bool
        True if no further correction is needed.
    """
    return worth_compiling(y, support) or (has_kernels(support) and not is_complex(y))


def fit(dense: DensePhi, y: Array, support: Array) -> Array:
    """Minimize ||Phi x - y|| over all x that vanish outside ``support``, for every row.

    Columns of a support that depend on each other share small coefficients.

    Parameters
    ----------
    dense : DensePhi
        Phi and its Gram matrices.
    y : array, shape (batch, m)
        Measurements.
    support : array of bool, shape (batch, n)
        True where x may be nonzero.

    Returns
    -------
    array, shape (batch, n)
        The least-squares solutions.
    """
    ridge = RIDGE["single" if is_single(y) else "double"]
    if worth_compiling(y, support):
        from ...backend.parallel import over_rows
        from . import cpu

        (m, n), batch = dense.shape, y.shape[0]
        x = np.empty((batch, n), dtype=y.dtype)
        size = int(np.max(np.count_nonzero(support, axis=-1)))
        problem = (dense.double_gram_matrix, dense.columns, contiguous(y), support, ridge, x)
        over_rows(cpu.fit, batch, *problem, work=size**3 / 3 + 4 * size * m)
        return x
    if has_kernels(support) and not is_complex(y):
        from . import gpu

        return gpu.fit(dense.double_gram_matrix, dense.Phi, y, support, ridge)
    return plain.fit(dense.gram_matrix, y @ conj(dense.Phi), support)


def fit_bounded(dense: DensePhi, y: Array, x: Array, structure: Structure) -> Array:
    """Minimize ||Phi x - y|| within bounds, over all points that vanish where x does, for every row.

    The fit runs in main memory.

    Parameters
    ----------
    dense : DensePhi
        Phi and its Gram matrices.
    y : array, shape (batch, m)
        Measurements.
    x : array, shape (batch, n)
        Points within the bounds.
    structure : Structure
        The bounds.

    Returns
    -------
    array, shape (batch, n)
        The least-squares solutions.
    """
    from ...backend.parallel import over_rows
    from . import cpu

    start = to_numpy(x).astype(np.float64)
    b = to_numpy(y).astype(np.float64) @ to_numpy(dense.Phi).astype(np.float64)
    found, size = np.empty_like(start), int(np.max(np.count_nonzero(start, axis=-1), initial=0))
    problem = (to_numpy(dense.double_gram_matrix), b, start, structure.low, structure.high, RIDGE["double"], found)
    over_rows(cpu.fit_bounded, start.shape[0], *problem, work=2 * size**3)
    return from_numpy(found.astype(to_numpy(y).dtype), y)
