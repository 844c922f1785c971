"""Product of sparse rows with a matrix, reading only the rows of the matrix that are needed."""

from __future__ import annotations

import math

import numpy as np

from ...backend.arrays import Array, NumpyArray, is_numpy, namespace

# Dense products of many rows run near the peak rate of the machine; gathered products do not. Above this fraction of
# nonzeros and this many rows the dense product is faster (measured with a 1000 x 400 matrix).
DENSE_FRACTION, FEW_ROWS = 0.12, 64


def sparse_product(x: Array, matrix: Array, nonzeros: int, out: NumpyArray | None = None) -> Array:
    """Multiply sparse rows by a matrix.

    Parameters
    ----------
    x : array, shape (..., n)
        Rows with at most ``nonzeros`` nonzeros each.
    matrix : array, shape (n, m)
        The matrix.
    nonzeros : int
        Upper bound on the number of nonzeros in a row.
    out : numpy.ndarray, shape (rows, m), optional
        Array for the product.

    Returns
    -------
    array, shape (..., m)
        The product x @ matrix.
    """
    xp, rows, (n, m) = namespace(x), math.prod(x.shape[:-1]), matrix.shape
    flat = xp.reshape(x, (rows, n))
    if is_numpy(xp) and nonzeros <= n * (0.5 if rows <= FEW_ROWS else DENSE_FRACTION):
        # Imported on first use, because importing Numba takes longer than solving many small problems.
        from ...backend.parallel import over_rows
        from .cpu import gathered_product

        product = np.empty((rows, m), dtype=x.dtype) if out is None else out
        over_rows(gathered_product, rows, flat, matrix, product, work=nonzeros * m)
    else:
        product = flat @ matrix if out is None else np.matmul(flat, matrix, out=out)
    return xp.reshape(product, (*x.shape[:-1], m))
