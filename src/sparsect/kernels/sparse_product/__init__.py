"""Product of rows that are mostly zero with a matrix: only the rows of the matrix that are needed are read."""

from __future__ import annotations

import math

import numpy as np

from ...backend.arrays import Array, is_numpy, namespace

# Dense products of many rows run near the machine's peak rate, gathered ones do not: above this fraction of nonzeros
# and this many rows the dense product is faster (measured with 1000x400).
DENSE_FRACTION, FEW_ROWS = 0.12, 64


def sparse_product(x: Array, matrix: Array, nonzeros: int, out: Array | None = None) -> Array:
    """x @ matrix for ``x`` (..., n) with at most ``nonzeros`` nonzeros in each row and ``matrix`` (n, m).

    ``out`` is where the product goes, a NumPy array (rows, m).
    """
    xp, rows, (n, m) = namespace(x), math.prod(x.shape[:-1]), matrix.shape
    flat = xp.reshape(x, (rows, n))
    if is_numpy(xp) and nonzeros <= n * (0.5 if rows <= FEW_ROWS else DENSE_FRACTION):
        # Imported on first use: importing Numba takes longer than many a small problem.
        from ...backend.parallel import over_rows
        from .cpu import gathered_product

        product = np.empty((rows, m), dtype=x.dtype) if out is None else out
        over_rows(gathered_product, rows, flat, matrix, product, work=nonzeros * m)
    else:
        product = flat @ matrix if out is None else np.matmul(flat, matrix, out=out)
    return xp.reshape(product, (*x.shape[:-1], m))
