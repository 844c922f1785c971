"""Least squares on given supports where Phi is there as an array, in double precision."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from ...backend.arrays import Array, conj, contiguous, has_kernels, is_complex, worth_compiling
from . import plain

# Squared distance of a unit column from the span of others, for each of their entries, that is rounding.
DEPENDENT = 4 * 2.0**-52


class DensePhi(Protocol):
    """What a fit reads of Phi."""

    shape: tuple[int, int]
    Phi: Array
    columns: Array
    gram_matrix: Array
    double_gram_matrix: Array


def corrects_rounding(y: Array, support: Array) -> bool:
    """Whether :func:`fit` fits what rounding has left of the residual, too."""
    return worth_compiling(y, support) or (has_kernels(support) and not is_complex(y))


def fit(dense: DensePhi, y: Array, support: Array) -> Array:
    """argmin ||Phi x - y|| over x that vanish outside ``support``, (batch, n), for every row of y.

    Columns that depend on others of the same support get small coefficients or none.
    """
    if worth_compiling(y, support):
        from ...backend.parallel import over_rows
        from . import cpu

        (m, n), batch = dense.shape, y.shape[0]
        x = np.empty((batch, n), dtype=y.dtype)
        size = int(np.max(np.count_nonzero(support, axis=-1)))
        problem = (dense.double_gram_matrix, dense.columns, contiguous(y), support, DEPENDENT * max(m, n), x)
        over_rows(cpu.fit, batch, *problem, work=size**3 / 3 + 4 * size * m)
        return x
    if has_kernels(support) and not is_complex(y):
        from . import gpu

        return gpu.fit(dense.double_gram_matrix, dense.Phi, y, support, DEPENDENT)
    return plain.fit(dense.gram_matrix, y @ conj(dense.Phi), support)
