"""How is a residual carried back through Phi? By singular vectors, by a tight frame, or by conjugate gradients.

Every data projection moves x within the row space of Phi. A :class:`RowSpace` offers just what that needs, in
*image coordinates* of its own choosing: ``image(x)`` is V^H x where an orthonormal basis V of the row space is
known (Phi = U S V^H) and Phi x otherwise. With K = Phi Phi^H, for a residual ``r`` in image coordinates,

    correction(r, alpha) = Phi^H (K + alpha I)^-1 r      (and its image; alpha = 0 is the pseudo-inverse)
    spectrum(r, ...)     = coordinates and eigenvalues in which K is diagonal, as far as r is concerned
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.arrays import (
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
    real_vecdot,
    squared_norm,
    to_numpy,
)
from ..kernels.sparse_product import sparse_product

# Steps of Lanczos' iteration before what they say is looked at for the first time.
FIRST_LOOK = 8


class RowSpace(ABC):
    """What a data projection asks of Phi (see the module's text for the symbols).

    ``unfinished`` counts solves that stopped above their tolerance.
    """

    unfinished: int = 0

    def tolerance(self, like: Array) -> float:
        """Relative accuracy of a solve in the precision of ``like``."""
        return 100 * epsilon(like)

    def unfinished_remark(self, before: int = 0) -> str | None:
        """A remark on solves since ``before`` that stopped above their tolerance; None if there are none."""
        count = self.unfinished - before
        advice = "scale Phi, relax the projection (ProximalStep), or give frame_bound if Phi is a tight frame"
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
    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        """Coordinates c of r, (..., k), and squares q, such that ||f(K) r||^2 is the sum of |c f(q)|^2 for smooth f.

        Where that takes an approximation that is refined step by step, ``settled(c, q)`` says when it is good enough.
        """


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

    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        return r, self.singular_values**2


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

    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        """Gauss quadrature by Lanczos' iteration: eigenvalues of its tridiagonal matrix, weights of their vectors."""
        xp, size = namespace(r), norm(r)[..., None]
        before, vector = xp.zeros_like(r), r / xp.where(size > 0, size, xp.ones_like(size))
        diagonal: list[Array] = []
        beside: list[Array] = []
        coordinates, squares, due = size, xp.zeros_like(size), FIRST_LOOK
        while len(diagonal) < self.max_iter:
            image = self._forward(self._adjoint(vector)) - (beside[-1] * before if beside else 0)
            diagonal.append(real_vecdot(vector, image)[..., None])
            image = image - diagonal[-1] * vector
            length = norm(image)[..., None]
            # Where nothing is left, all that r can reach has been seen.
            left = length > 10 * epsilon(r) * diagonal[0]
            beside.append(xp.where(left, length, xp.zeros_like(length)))
            before, vector = vector, xp.where(left, image / xp.where(left, length, xp.ones_like(length)), 0 * image)
            ended = not bool(xp.any(left))
            if len(diagonal) >= due or ended:
                squares, weights = _tridiagonal_spectrum(diagonal, beside[:-1])
                coordinates = xp.astype(size, weights.dtype) * weights
                if settled(coordinates, squares) or ended:
                    break
                due = round(1.5 * due)
        else:
            self.unfinished += 1
        return coordinates, squares

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


def _tridiagonal_spectrum(diagonal: list[Array], beside: list[Array]) -> tuple[Array, Array]:
    """Eigenvalues of tridiagonal matrices, none below zero, and the first entries of their eigenvectors."""
    xp, steps = namespace(diagonal[0]), np.arange(len(diagonal))

    def placed(numbers: list[Array], offset: int) -> Array:
        """A matrix with the numbers beside its diagonal, in double precision whatever theirs."""
        places = xp.astype(from_numpy(steps[:, None] + offset == steps, numbers[0]), xp.float64)
        return xp.astype(xp.concat(numbers, axis=-1), xp.float64)[..., None] * places

    above = placed([*beside, 0 * diagonal[0]], 1)
    values, vectors = xp.linalg.eigh(placed(diagonal, 0) + above + xp.matrix_transpose(above))
    return xp.maximum(values, xp.zeros_like(values)), vectors[..., 0, :]


def _flat_product(rows: Array, matrix: Array) -> Array:
    """rows @ matrix as one product, whatever the leading axes: one pass over ``matrix`` even for stacked batches."""
    xp = namespace(rows)
    flat = xp.reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])) @ matrix
    return xp.reshape(flat, (*rows.shape[:-1], matrix.shape[-1]))
