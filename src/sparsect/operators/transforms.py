"""Orthonormal Fourier and cosine transforms over the last axes: by SciPy for NumPy arrays, by FFTs otherwise."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..backend.arrays import Array, is_complex, is_numpy, namespace


def fourier(x: Array, ndim: int) -> Array:
    """Compute the unitary discrete Fourier transform over the last ``ndim`` axes.

    Parameters
    ----------
    x : array
        Signals.
    ndim : int
        Number of trailing axes to transform.

    Returns
    -------
    array
        The coefficients, complex and of the same shape.
    """
    xp = namespace(x)
    if is_numpy(xp):
        import scipy.fft

        return scipy.fft.fftn(x, axes=_last(ndim), norm="ortho", workers=-1)
    return xp.fft.fftn(x, axes=_last(ndim), norm="ortho")


def inverse_fourier(x: Array, ndim: int) -> Array:
    """Compute the inverse, which is also the adjoint, of :func:`fourier`.

    Parameters
    ----------
    x : array
        Coefficients.
    ndim : int
        Number of trailing axes to transform.

    Returns
    -------
    array
        The signals, complex and of the same shape.
    """
    xp = namespace(x)
    if is_numpy(xp):
        import scipy.fft

        return scipy.fft.ifftn(x, axes=_last(ndim), norm="ortho", workers=-1)
    return xp.fft.ifftn(x, axes=_last(ndim), norm="ortho")


def cosine(x: Array, ndim: int) -> Array:
    """Compute the orthonormal DCT-II over the last ``ndim`` axes.

    Parameters
    ----------
    x : array
        Signals, real or complex.
    ndim : int
        Number of trailing axes to transform.

    Returns
    -------
    array
        The coefficients, of the same shape.
    """
    if is_numpy(namespace(x)):
        import scipy.fft

        return scipy.fft.dctn(x, axes=_last(ndim), norm="ortho", workers=-1)
    return _along_axes(_cosine_rows, x, ndim)


def inverse_cosine(x: Array, ndim: int) -> Array:
    """Compute the inverse, which is also the adjoint, of :func:`cosine`.

    Parameters
    ----------
    x : array
        Coefficients, real or complex.
    ndim : int
        Number of trailing axes to transform.

    Returns
    -------
    array
        The signals, of the same shape.
    """
    if is_numpy(namespace(x)):
        import scipy.fft

        return scipy.fft.idctn(x, axes=_last(ndim), norm="ortho", workers=-1)
    return _along_axes(_inverse_cosine_rows, x, ndim)


def _last(ndim: int) -> tuple[int, ...]:
    return tuple(range(-ndim, 0))


def _along_axes(transform: Callable[[Array], Array], x: Array, ndim: int) -> Array:
    """Apply a last-axis transform of real rows along each of the last ``ndim`` axes of a real or complex array."""
    xp = namespace(x)
    if is_complex(x):
        return _along_axes(transform, xp.real(x), ndim) + 1j * _along_axes(transform, xp.imag(x), ndim)
    for axis in _last(ndim):
        x = xp.moveaxis(transform(xp.moveaxis(x, axis, -1)), -1, axis)
    return x


def _cosine_rows(x: Array) -> Array:
    """DCT-II of real rows by one FFT of the same length (Makhoul, 1980)."""
    xp, n = namespace(x), x.shape[-1]
    folded = xp.concat([x[..., ::2], xp.flip(x[..., 1::2], axis=-1)], axis=-1)
    spectrum = xp.fft.fft(_as_complex(folded), axis=-1) * _twiddle(x, n, -1.0)
    return xp.real(spectrum) * _scale(x, n)


def _inverse_cosine_rows(x: Array) -> Array:
    """Inverse of :func:`_cosine_rows`."""
    xp, n = namespace(x), x.shape[-1]
    scaled = x / _scale(x, n)
    mirrored = xp.concat([xp.zeros_like(scaled[..., :1]), xp.flip(scaled[..., 1:], axis=-1)], axis=-1)
    spectrum = (_as_complex(scaled) - 1j * _as_complex(mirrored)) * _twiddle(x, n, 1.0)
    folded = xp.real(xp.fft.ifft(spectrum, axis=-1))
    half = (n + 1) // 2
    back = xp.flip(folded[..., half:], axis=-1)
    padded = xp.concat([back, xp.zeros_like(folded[..., : half - back.shape[-1]])], axis=-1)
    woven = xp.stack([folded[..., :half], padded], axis=-1)
    return xp.reshape(woven, (*x.shape[:-1], 2 * half))[..., :n]


def _as_complex(x: Array) -> Array:
    xp = namespace(x)
    return xp.astype(x, xp.complex64 if x.dtype == xp.float32 else xp.complex128)


def _twiddle(x: Array, n: int, sign: float) -> Array:
    xp = namespace(x)
    angle = xp.arange(n, dtype=x.dtype, device=x.device) * (sign * math.pi / (2 * n))
    return xp.exp(1j * _as_complex(angle))


def _scale(x: Array, n: int) -> Array:
    """Factors, one per coefficient, that make the transform orthonormal."""
    xp = namespace(x)
    ones = xp.ones((n,), dtype=x.dtype, device=x.device)
    return xp.concat([ones[:1] * math.sqrt(1 / n), ones[1:] * math.sqrt(2 / n)])
