"""Pseudo-inverses by an orthonormal basis of the row space: singular vectors, or the rows of a tight frame."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from ...backend.arrays import Array, contiguous, from_numpy, namespace, on_host, real_dtype, to_numpy
from ...backend.norms import conj, norm
from ...kernels.sparse_product import sparse_product
from .base import PseudoInverse

# Singular values are nearly the same if they differ by at most this part of the largest one.
EQUAL = 1e-3


class OrthonormalBasis(PseudoInverse):
    """Pseudo-inverse by an orthonormal basis of the row space: every solve is a division by singular values.

    Attributes
    ----------
    singular_values : array, shape (k,), or float
        The nonzero singular values of Phi; a number if they are all equal.
    """

    singular_values: Any

    @cached_property
    def has_equal_values(self) -> bool:
        """Whether the nonzero singular values are the same, nearly."""
        values = np.atleast_1d(to_numpy(self.singular_values))
        return bool(np.ptp(values) <= EQUAL * values.max())

    @abstractmethod
    def synthesis(self, image: Array) -> Array:
        """Compute the point V a of the row space with the given coordinates.

        Parameters
        ----------
        image : array, shape (..., k)
            Coordinates a.

        Returns
        -------
        array, shape (..., n)
            The point V a.
        """

    def residual(self, image: Array, target: Array) -> Array:
        """Compute S V^H x - target, with the singular values S."""
        return self.singular_values * image - target

    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        """Compute Phi^H (K + alpha I)^-1 r and its image, by division by singular values."""
        coordinates = r * (self.singular_values / (self.singular_values**2 + alpha))
        return self.synthesis(coordinates), coordinates

    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        """Return ``r`` and the squared singular values, since K is diagonal in the basis."""
        return r, self.singular_values**2


class SingularVectors(OrthonormalBasis):
    """Pseudo-inverse of a dense Phi by a singular value decomposition, truncated at the numerical rank.

    The decomposition runs in double precision, whatever the dtype of Phi.

    Parameters
    ----------
    Phi : array, shape (m, n)
        The matrix.
    rank_tol : float
        Singular values up to ``rank_tol`` times the largest one count as zero.

    Attributes
    ----------
    rank : int
        Numerical rank of Phi.
    singular_values : array, shape (rank,)
        The singular values that do not count as zero.
    """

    def __init__(self, Phi: Array, rank_tol: float) -> None:
        xp = namespace(Phi)
        wide = xp.complex128 if xp.isdtype(Phi.dtype, "complex floating") else xp.float64
        # Phi^H is the taller orientation of the usual wide Phi, which LAPACK decomposes faster.
        V, s, Uh = _decomposed(conj(xp.astype(Phi, wide)).T)
        self.rank = int(xp.sum(xp.astype(s > rank_tol * s[0], xp.int64)))
        self.singular_values = xp.astype(s[: self.rank], real_dtype(Phi))
        self._analysis = contiguous(xp.astype(conj(V[:, : self.rank]), Phi.dtype))
        self._synthesis = contiguous(xp.astype(V[:, : self.rank], Phi.dtype).T)
        self._left = xp.astype(Uh[: self.rank, :], Phi.dtype).T

    @property
    def basis(self) -> tuple[Array, Array, Array]:
        """Matrices conj(V) and V^T, which multiply rows from the right, and the singular values, for the kernels."""
        return self._analysis, self._synthesis, self.singular_values

    def image(self, x: Array) -> Array:
        """Compute V^H x for every row of ``x``."""
        return _flat_product(x, self._analysis)

    def image_of_sparse(self, x: Array, nonzeros: int) -> Array:
        """Compute V^H x for sparse rows, by a sparse product where it is faster."""
        return sparse_product(x, self._analysis, nonzeros)

    def synthesis(self, image: Array) -> Array:
        """Compute the point V a of the row space with the given coordinates."""
        return _flat_product(image, self._synthesis)

    def target(self, y: Array) -> Array:
        """Compute U^H y for every row of ``y``."""
        return _flat_product(y, self._left)

    def distance_to_range(self, y: Array, target: Array) -> Array:
        """Compute the norm of y - U U^H y for every row of ``y``."""
        return norm(y - _flat_product(target, conj(self._left).T))


class TightFrame(OrthonormalBasis):
    """Pseudo-inverse of an operator with Phi Phi^H = c I: the rows of Phi / sqrt(c) are an orthonormal basis.

    Parameters
    ----------
    forward : callable
        Function that computes Phi x.
    adjoint : callable
        Function that computes Phi^H r.
    bound : float
        The frame bound c.
    """

    def __init__(self, forward: Callable[[Array], Array], adjoint: Callable[[Array], Array], bound: float) -> None:
        self._forward, self._adjoint = forward, adjoint
        self.singular_values = bound**0.5

    def image(self, x: Array) -> Array:
        """Compute Phi x / sqrt(c) for every row of ``x``."""
        return self._forward(x) / self.singular_values

    def synthesis(self, image: Array) -> Array:
        """Compute Phi^H a / sqrt(c)."""
        return self._adjoint(image) / self.singular_values

    def target(self, y: Array) -> Array:
        """Return ``y``, since the range of Phi is the whole space."""
        return y

    def distance_to_range(self, y: Array, target: Array) -> Array:
        """Return zeros, since the range of Phi is the whole space."""
        return 0 * norm(y)


def _decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition, by LAPACK also for GPU arrays: a GPU's own routine takes ten times as long."""
    if on_host(matrix):
        return tuple(namespace(matrix).linalg.svd(matrix, full_matrices=False))
    U, s, Vh = (from_numpy(part, matrix) for part in np.linalg.svd(to_numpy(matrix), full_matrices=False))
    return U, s, Vh


def _flat_product(rows: Array, matrix: Array) -> Array:
    """Product rows @ matrix with the leading axes flattened: ``matrix`` is read only once even for stacked batches."""
    xp = namespace(rows)
    flat = xp.reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])) @ matrix
    return xp.reshape(flat, (*rows.shape[:-1], matrix.shape[-1]))
