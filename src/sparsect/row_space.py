"""How is a residual carried back through Phi? By singular vectors, by a tight frame, or by conjugate gradients.

Every data projection moves x within the row space of Phi. A :class:`RowSpace` offers just what that needs, in
*image coordinates* of its own choosing: ``image(x)`` is V^H x where an orthonormal basis V of the row space is
known (Phi = U S V^H) and Phi x otherwise. With K = Phi Phi^H, for a residual ``r`` in image coordinates,

    correction(r, alpha) = Phi^H (K + alpha I)^-1 r      (and its image; alpha = 0 is the pseudo-inverse)
    resolvent(r, nu)     = (I + nu K)^-1 r
    gram(r)              = K r
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from .arrays import (
    Array,
    conj,
    contiguous,
    epsilon,
    from_numpy,
    is_single,
    namespace,
    norm,
    on_host,
    real_dtype,
    squared_norm,
    to_numpy,
)
from .kernels.sparse_rows import sparse_product


class RowSpace(ABC):
    """What a data projection asks of Phi (see the module's text for the symbols).

    ``unfinished`` counts solves that stopped above their tolerance.
    """

    unfinished: int = 0

    def tolerance(self, like: Array) -> float:
        """Relative accuracy of a solve in the precision of ``like``."""
        return 100 * epsilon(like)

    def words_on_unfinished(self, before: int = 0) -> str | None:
        """What to warn of if solves since ``before`` of them stopped above their tolerance."""
        count = self.unfinished - before
        advice = "scale Phi, relax the projection (Relaxed), or give frame_bound if Phi is a tight frame"
        return f"{count} conjugate-gradient solves stopped above their tolerance: {advice}" if count else None

    @abstractmethod
    def image(self, x: Array) -> Array:
        """Image coordinates of every row of ``x``."""

    def image_of_sparse(self, x: Array, nonzeros: int) -> Array:
        """Image coordinates of rows with at most ``nonzeros`` nonzeros each, at less cost where that can be had."""
        return self.image(x)

    @abstractmethod
    def target(self, y: Array) -> Array:
        """Image coordinates of the part of ``y`` that Phi can reach."""

    @abstractmethod
    def defect(self, y: Array, target: Array) -> Array:
        """Norm of the part of ``y`` that Phi cannot reach; ``target`` is that of y."""

    @abstractmethod
    def residual(self, image: Array, target: Array) -> Array:
        """Phi x - y within the range of Phi, from the image coordinates of x and the target."""

    @abstractmethod
    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        """Phi^H (K + alpha I)^-1 r and its image; alpha is a number or (..., 1), infinity meaning no correction."""

    @abstractmethod
    def resolvent(self, r: Array, nu: Array) -> Array:
        """(I + nu K)^-1 r with nu of shape (..., 1)."""

    @abstractmethod
    def gram(self, r: Array) -> Array:
        """K r."""


class Orthonormal(RowSpace):
    """Image coordinates in an orthonormal basis: every solve is a division by singular values."""

    singular_values: Any

    @abstractmethod
    def synthesis(self, image: Array) -> Array:
        """The point of the row space with the given coordinates, V a."""

    def residual(self, image: Array, target: Array) -> Array:
        return self.singular_values * image - target

    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        coordinates = r * (self.singular_values / (self.singular_values**2 + alpha))
        return self.synthesis(coordinates), coordinates

    def resolvent(self, r: Array, nu: Array) -> Array:
        return r / (1 + nu * self.singular_values**2)

    def gram(self, r: Array) -> Array:
        return self.singular_values**2 * r


class SingularVectors(Orthonormal):
    """Row space of a dense Phi by a singular value decomposition, truncated at its numerical rank.

    The decomposition runs in double precision whatever Phi's dtype.
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
        """V and V^H (its plain transpose), and the singular values: what compiled kernels work with."""
        return self._analysis, self._synthesis, self.singular_values

    def image(self, x: Array) -> Array:
        return _flat_product(x, self._analysis)

    def image_of_sparse(self, x: Array, nonzeros: int) -> Array:
        return sparse_product(x, self._analysis, nonzeros)

    def synthesis(self, image: Array) -> Array:
        return _flat_product(image, self._synthesis)

    def target(self, y: Array) -> Array:
        return _flat_product(y, self._left)

    def defect(self, y: Array, target: Array) -> Array:
        return norm(y - _flat_product(target, conj(self._left).T))


class TightFrame(Orthonormal):
    """Row space of a Phi with Phi Phi^H = c I: its rows over sqrt(c) are the orthonormal basis."""

    def __init__(self, forward: Callable[[Array], Array], adjoint: Callable[[Array], Array], bound: float) -> None:
        self._forward, self._adjoint = forward, adjoint
        self.singular_values = bound**0.5

    def image(self, x: Array) -> Array:
        return self._forward(x) / self.singular_values

    def synthesis(self, image: Array) -> Array:
        return self._adjoint(image) / self.singular_values

    def target(self, y: Array) -> Array:
        return y

    def defect(self, y: Array, target: Array) -> Array:
        return 0 * norm(y)


class ConjugateGradients(RowSpace):
    """Row space of a Phi known only by its products: image coordinates are Phi x, solves are CGLS runs.

    A run ends when every row's normal residual is below ``tol`` times its start (1e-10, or 1e-5 in single
    precision), or after ``max_iter`` steps (4 min(m, n), at least 50), which ``unfinished`` counts.
    """

    def __init__(
        self, forward: Callable[[Array], Array], adjoint: Callable[[Array], Array], shape: tuple[int, int]
    ) -> None:
        self._forward, self._adjoint = forward, adjoint
        self.max_iter = max(50, 4 * min(shape))

    def tolerance(self, like: Array) -> float:
        return 1e-5 if is_single(like) else 1e-10

    def image(self, x: Array) -> Array:
        return self._forward(x)

    def target(self, y: Array) -> Array:
        return self.correction(y, 0.0)[1]

    def defect(self, y: Array, target: Array) -> Array:
        return norm(y - target)

    def residual(self, image: Array, target: Array) -> Array:
        return image - target

    def gram(self, r: Array) -> Array:
        return self._forward(self._adjoint(r))

    def resolvent(self, r: Array, nu: Array) -> Array:
        xp = namespace(r)
        moving = nu > 0
        alpha = xp.where(moving, 1 / xp.where(moving, nu, xp.ones_like(nu)), xp.full_like(nu, xp.inf))
        return r - self.correction(r, alpha)[1]

    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        xp = namespace(r)
        alpha = alpha + xp.zeros_like(norm(r))[..., None]
        moving = xp.isfinite(alpha)
        residual = xp.where(moving, r, xp.zeros_like(r))
        alpha = xp.where(moving, alpha, xp.zeros_like(alpha))
        start = residual
        gradient = direction = self._adjoint(residual)
        x = xp.zeros_like(gradient)
        energy = squared_norm(gradient)[..., None]
        goal = self.tolerance(r) ** 2 * energy
        lowest = energy
        for _ in range(self.max_iter):
            # A residual that no x can lessen leaves only rounding to follow, which grows: stop a row when it does.
            lowest = xp.minimum(lowest, energy)
            going = (energy > goal) & (energy <= 1e6 * lowest)
            if not bool(xp.any(going)):
                break
            image = self._forward(direction)
            curvature = squared_norm(image)[..., None] + alpha * squared_norm(direction)[..., None]
            usable = going & (curvature > 0)
            step = xp.where(
                usable, energy / xp.where(usable, curvature, xp.ones_like(curvature)), xp.zeros_like(energy)
            )
            x = x + step * direction
            residual = residual - step * image
            gradient = self._adjoint(residual) - alpha * x
            before, energy = energy, squared_norm(gradient)[..., None]
            ratio = xp.where(usable, energy / xp.where(usable, before, xp.ones_like(before)), xp.zeros_like(energy))
            direction = gradient + ratio * direction
        else:
            self.unfinished += 1
        return x, start - residual


def _decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition; by LAPACK for arrays on a GPU, whose own takes ten times as long."""
    if on_host(matrix):
        return tuple(namespace(matrix).linalg.svd(matrix, full_matrices=False))
    U, s, Vh = (from_numpy(part, matrix) for part in np.linalg.svd(to_numpy(matrix), full_matrices=False))
    return U, s, Vh


def _flat_product(rows: Array, matrix: Array) -> Array:
    """rows @ matrix as one product, whatever the leading axes: one pass over ``matrix`` even for stacked batches."""
    xp = namespace(rows)
    flat = xp.reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])) @ matrix
    return xp.reshape(flat, (*rows.shape[:-1], matrix.shape[-1]))
