"""Pseudo-inverse by conjugate gradients, and the spectrum by the Lanczos iteration, from products with Phi alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...backend.arrays import Array, epsilon, from_numpy, is_single, namespace
from ...backend.norms import norm, real_vecdot, squared_norm
from .base import PseudoInverse

# Steps of the Lanczos iteration before the first test for convergence.
FIRST_TEST = 8


class ConjugateGradients(PseudoInverse):
    """Pseudo-inverse of an operator known by its products alone: image coordinates are Phi x, solves are CGLS runs.

    A run ends when the norm of every row's gradient is below the tolerance (1e-10, or 1e-5 in single precision)
    times its initial value, or after ``max_iter`` steps. Runs that end at ``max_iter`` are counted in
    ``unconverged``.

    Parameters
    ----------
    forward : callable
        Function that computes Phi x.
    adjoint : callable
        Function that computes Phi^H r.
    shape : tuple of int
        Shape (m, n) of Phi.

    Attributes
    ----------
    max_iter : int
        Maximum number of steps, 4 min(m, n) but at least 50.
    """

    def __init__(
        self, forward: Callable[[Array], Array], adjoint: Callable[[Array], Array], shape: tuple[int, int]
    ) -> None:
        self._forward, self._adjoint = forward, adjoint
        self.max_iter = max(50, 4 * min(shape))

    def tolerance(self, like: Array) -> float:
        """Relative accuracy of a solve in the precision of ``like``."""
        return 1e-5 if is_single(like) else 1e-10

    def image(self, x: Array) -> Array:
        """Compute Phi x for every row of ``x``."""
        return self._forward(x)

    def target(self, y: Array) -> Array:
        """Project every row of ``y`` onto the range of Phi, by a CGLS run."""
        return self.correction(y, 0.0)[1]

    def distance_to_range(self, y: Array, target: Array) -> Array:
        """Compute the norm of y - target for every row of ``y``."""
        return norm(y - target)

    def residual(self, image: Array, target: Array) -> Array:
        """Compute Phi x - target."""
        return image - target

    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        """Compute coordinates and eigenvalues by Gauss quadrature with the Lanczos iteration."""
        xp, size = namespace(r), norm(r)[..., None]
        before, vector = xp.zeros_like(r), r / xp.where(size > 0, size, xp.ones_like(size))
        diagonal: list[Array] = []
        beside: list[Array] = []
        coordinates, squares, due = size, xp.zeros_like(size), FIRST_TEST
        while len(diagonal) < self.max_iter:
            image = self._forward(self._adjoint(vector)) - (beside[-1] * before if beside else 0)
            diagonal.append(real_vecdot(vector, image)[..., None])
            image = image - diagonal[-1] * vector
            length = norm(image)[..., None]
            # Where nothing is left, the Krylov space of r is exhausted.
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
            self.unconverged += 1
        return coordinates, squares

    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        """Compute Phi^H (K + alpha I)^-1 r and its image, by a CGLS run."""
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
            # Where no x can reduce the residual further, the iteration only amplifies rounding errors: stop a row
            # once its gradient grows.
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
            self.unconverged += 1
        return x, start - residual


def _tridiagonal_spectrum(diagonal: list[Array], beside: list[Array]) -> tuple[Array, Array]:
    """Eigenvalues of tridiagonal matrices, clipped at zero, and the first entries of their eigenvectors."""
    xp, steps = namespace(diagonal[0]), np.arange(len(diagonal))

    def placed(numbers: list[Array], offset: int) -> Array:
        """Matrix with the numbers on the diagonal at the given offset, in double precision."""
        places = xp.astype(from_numpy(steps[:, None] + offset == steps, numbers[0]), xp.float64)
        return xp.astype(xp.concat(numbers, axis=-1), xp.float64)[..., None] * places

    above = placed([*beside, 0 * diagonal[0]], 1)
    values, vectors = xp.linalg.eigh(placed(diagonal, 0) + above + xp.matrix_transpose(above))
    return xp.maximum(values, xp.zeros_like(values)), vectors[..., 0, :]
