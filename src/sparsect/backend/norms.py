"""Inner products, norms and magnitudes of rows, also of rows whose squares would overflow."""

from __future__ import annotations

import math

import numpy as np

from .arrays import Array, FloatArray, from_numpy, is_complex, namespace, to_numpy

# Numbers from 2^-NEAR_ONE to 2^NEAR_ONE, their products and the squares of these products are in the range of every
# dtype.
NEAR_ONE = 10


def conj(x: Array) -> Array:
    """Compute the complex conjugate; real arrays are returned without a copy.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    array
        The conjugate.
    """
    return namespace(x).conj(x) if is_complex(x) else x


def real_vecdot(x: Array, y: Array) -> Array:
    """Compute the real part of <x, y> along the last axis.

    Parameters
    ----------
    x, y : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The real parts of the inner products.
    """
    xp = namespace(x, y)
    total = xp.vecdot(x, y)
    return xp.real(total) if is_complex(total) else total


def squared_norm(x: Array) -> Array:
    """Compute the squared Euclidean norm along the last axis.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The squared norms, real; infinite where squares exceed the range of the dtype.
    """
    # The imaginary part of a complex sum may be infinity minus infinity; it is discarded.
    with np.errstate(over="ignore", invalid="ignore"):
        return real_vecdot(x, x)


def norm(x: Array) -> Array:
    """Compute the Euclidean norm along the last axis.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The norms.
    """
    return namespace(x).sqrt(squared_norm(x))


def magnitudes(x: Array) -> Array:
    """Compute magnitudes that cannot overflow.

    Parameters
    ----------
    x : array
        Real or complex array.

    Returns
    -------
    array
        The absolute values; for complex ``x``, the larger one of the real and the imaginary part.
    """
    xp = namespace(x)
    return xp.maximum(xp.abs(xp.real(x)), xp.abs(xp.imag(x))) if is_complex(x) else xp.abs(x)


def largest(array: Array) -> float:
    """Find the largest number in an array, whatever its sign.

    Parameters
    ----------
    array : array
        Real or complex array.

    Returns
    -------
    float
        The largest absolute value of all real and imaginary parts; 0 if the array is empty.
    """
    if not math.prod(array.shape):
        return 0.0
    xp = namespace(array)
    parts = (xp.real(array), xp.imag(array)) if is_complex(array) else (array,)
    # Magnitudes of a large matrix are not stored.
    return max(abs(float(extreme(part))) for part in parts for extreme in (xp.min, xp.max))


def units(sizes: FloatArray) -> FloatArray:
    """Find powers of two by which ``sizes`` can be divided, without rounding, to be near 1.

    Parameters
    ----------
    sizes : array
        Numbers of at least 0.

    Returns
    -------
    array
        The powers of two; 1 where a size is near 1 already, or zero.
    """
    exponents = np.frexp(sizes)[1] - 1
    return np.where((sizes > 0) & (np.abs(exponents) > NEAR_ONE), np.ldexp(1.0, exponents), 1.0)


def row_norms(x: Array) -> FloatArray:
    """Compute the norms of rows of any magnitude without overflow.

    Parameters
    ----------
    x : array, shape (batch, n)
        Vectors, one per row.

    Returns
    -------
    numpy.ndarray, shape (batch,)
        The norms, in double precision.
    """
    xp = namespace(x)
    unit = units(to_numpy(xp.max(magnitudes(x), axis=-1)).astype(np.float64))
    if (unit != 1).any():
        x = x / xp.astype(from_numpy(unit, x), x.dtype)[:, None]
    return np.asarray(unit * to_numpy(norm(x)))
