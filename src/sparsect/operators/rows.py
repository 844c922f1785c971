"""Operators whose measurements are those of another one, transformed: selected, or whitened."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.array_checks import check_magnitude, floating
from ..backend.arrays import (
    Array,
    IntArray,
    NumpyArray,
    from_numpy,
    is_complex,
    namespace,
    real_dtype,
    take_rows,
    to_numpy,
)
from ..backend.checks import reject
from ..backend.norms import magnitudes
from .base import Operator
from .dense import DenseOperator
from .sparse import SparseOperator

# A covariance matrix whose smallest eigenvalue is below this fraction of the largest one is singular.
SINGULAR = 1e-12


class TransformedRows(Operator):
    """The operator L Phi, for another operator Phi.

    Parameters
    ----------
    operator : Operator
        The operator Phi, of shape (m, n).
    count : int
        The number of rows of L.
    transform : callable
        Function that computes L r for every row of an array.
    back : callable
        Function that computes L^H r for every row of an array.
    """

    def __init__(
        self, operator: Operator, count: int, transform: Callable[[Array], Array], back: Callable[[Array], Array]
    ) -> None:
        self._operator, self._transform, self._back = operator, transform, back
        self.shape = (count, operator.shape[1])

    def forward(self, x: Array) -> Array:
        """Compute L Phi x for every row of ``x``."""
        return self._transform(self._operator.forward(x))

    def adjoint(self, r: Array) -> Array:
        """Compute Phi^H L^H r for every row of ``r``."""
        return self._operator.adjoint(self._back(r))

    def prepared(self, y: Array) -> tuple[Operator, Array]:
        """Convert Phi and ``y`` to a common dtype."""
        operator, wide = self._operator.prepared(self._back(y))
        same = operator is self._operator
        converted = self if same else TransformedRows(operator, self.shape[0], self._transform, self._back)
        return converted, namespace(y).astype(y, wide.dtype, copy=False)

    def _probe(self, generate: np.random.Generator, size: int) -> Array:
        return self._operator._probe(generate, size)


def select_rows(operator: Operator, kept: IntArray) -> Operator:
    """Return the operator with some of its rows.

    Parameters
    ----------
    operator : Operator
        The operator Phi, of shape (m, n).
    kept : array of int
        The rows that are kept.

    Returns
    -------
    Operator
        The operator of shape (number of rows kept, n).
    """
    if operator.is_dense:
        return DenseOperator(take_rows(operator.Phi, kept), operator.rank_tol)
    if isinstance(operator, SparseOperator):
        return SparseOperator(operator.Phi[kept], operator.rank_tol)
    m = operator.shape[0]

    def transform(r: Array) -> Array:
        return namespace(r).take(r, from_numpy(kept, r), axis=-1)

    def back(r: Array) -> Array:
        # Entries that are not kept are taken from a zero at the end.
        xp, places = namespace(r), np.full(m, kept.size)
        places[kept] = np.arange(kept.size)
        return xp.take(xp.concat([r, xp.zeros_like(r[..., :1])], axis=-1), from_numpy(places, r), axis=-1)

    return TransformedRows(operator, kept.size, transform, back)


def whitened(operator: Operator, y: Any, noise_std: Any) -> tuple[Operator, Array]:
    """Transform measurements so that their noise is white, with variance 1.

    Parameters
    ----------
    operator : Operator
        The operator Phi, of shape (m, n).
    y : array, shape (..., m)
        The measurements.
    noise_std : array, shape (m,) or (m, m)
        The standard deviation of the noise of each measurement, or the covariance matrix of the noise.

    Returns
    -------
    operator : Operator
        The operator W Phi, where W is the inverse of the standard deviations, or of the Cholesky factor of the
        covariance.
    y : array, shape (..., m)
        W y for every row.

    Raises
    ------
    InputError
        If y does not fit Phi, or if ``noise_std`` has another shape, is not positive, or is a singular matrix.
    """
    m, data = operator.shape[0], floating("y", y)
    if data.ndim == 0 or data.shape[-1] != m:
        raise reject(
            "y", f"shape {tuple(data.shape)}", f"have {m} measurements, to match Phi of shape {operator.shape}"
        )
    W = whitening_matrix("noise_std", noise_std, m)

    def product(matrix: NumpyArray, r: Array) -> Array:
        xp, placed = namespace(r), from_numpy(matrix, r)
        placed = placed if is_complex(matrix) else xp.astype(placed, real_dtype(r))
        return r * placed if matrix.ndim == 1 else r @ (placed if is_complex(matrix) else xp.astype(placed, r.dtype)).T

    white = product(W, data)
    _check_range(noise_std, white)
    if operator.is_dense:
        Phi = product(W, operator.Phi.T).T
        _check_range(noise_std, Phi)
        check_magnitude("noise_std", Phi)
        return DenseOperator(Phi, operator.rank_tol), white
    if isinstance(operator, SparseOperator) and W.ndim == 1:
        weighted = operator.Phi.multiply(W[:, None]).astype(operator.dtype).tocsr()
        check_magnitude("noise_std", weighted.data)
        return SparseOperator(weighted, operator.rank_tol), white
    conjugate = np.conj(W).T
    transformed = TransformedRows(operator, m, lambda r: product(W, r), lambda r: product(conjugate, r))
    return transformed, white


def _check_range(noise_std: Any, white: Array) -> None:
    """Refuse noise so far from the size of the data that squares of whitened numbers leave the range of their dtype."""
    xp = namespace(white)
    if not bool(xp.all(magnitudes(white) < float(xp.finfo(white.dtype).max) ** 0.5 / max(1, math.prod(white.shape)))):
        noise = to_numpy(floating("noise_std", noise_std))
        what, numbers = ("variances", np.diag(noise).real) if noise.ndim == 2 else ("numbers", noise)
        raise reject("noise_std", f"{what} as small as {numbers.min():g}", "have the scale of the noise in y")


def whitening_matrix(name: str, noise_std: Any, m: int) -> NumpyArray:
    """Return the factors, or the matrix, that make noise white, with variance 1.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    noise_std : array, shape (m,) or (m, m)
        The standard deviation of the noise of each measurement, or the covariance matrix of the noise.
    m : int
        The number of measurements.

    Returns
    -------
    numpy.ndarray, shape (m,) or (m, m)
        The inverses of the standard deviations, or the inverse of the Cholesky factor of the covariance.

    Raises
    ------
    InputError
        If ``noise_std`` has another shape, is not positive, or is a singular matrix.
    """
    noise = to_numpy(floating(name, noise_std, dimensions=(0, 1, 2)))
    if noise.ndim == 0:
        noise = np.full(m, noise)
    if noise.shape not in ((m,), (m, m)):
        raise reject(name, f"shape {noise.shape}", f"have shape ({m},), or ({m}, {m}) for a covariance")
    if noise.ndim == 1:
        if is_complex(noise) or not (noise > 0).all():
            raise reject(name, f"{noise.min()}", "positive numbers")
        return np.asarray(1 / noise)
    if is_complex(noise) and not noise.imag.any():
        noise = noise.real
    if not np.allclose(noise, noise.conj().T, rtol=1e-6, atol=1e-12 * np.abs(noise).max()):
        raise reject(name, "a matrix that is not symmetric", "a symmetric covariance matrix")
    values = np.linalg.eigvalsh(noise)
    if not values[0] > SINGULAR * values[-1]:
        raise reject(name, f"a covariance with the eigenvalue {values[0]:.2g}", "have positive eigenvalues")
    return np.linalg.inv(np.linalg.cholesky(noise))
