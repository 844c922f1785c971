"""Row spaces of operators: by singular vectors, by a tight frame, or by conjugate gradients.

Every data projection moves x within the row space of Phi. A :class:`RowSpace` provides the operations that this
requires, in *image coordinates* of its own choosing: ``image(x)`` is V^H x where an orthonormal basis V of the
row space is known (Phi = U S V^H) and Phi x otherwise. With K = Phi Phi^H, for a residual ``r`` in image
coordinates::

    correction(r, alpha) = Phi^H (K + alpha I)^-1 r      (and its image; alpha = 0 is the pseudo-inverse)
    spectrum(r, ...)     = coordinates of r and eigenvalues in which K is diagonal
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

# Steps of the Lanczos iteration before the first test for convergence.
FIRST_LOOK = 8


class RowSpace(ABC):
    """Operations on Phi that data projections need (see the module docstring for the symbols).

    Attributes
    ----------
    unfinished : int
        Number of solves that stopped above their tolerance.
    """

    unfinished: int = 0

    def tolerance(self, like: Array) -> float:
        """Relative accuracy of a solve in the precision of ``like``.

        Parameters
        ----------
        like : array
            Array of the working precision.

        Returns
        -------
        float
            The relative accuracy.
        """
        return 100 * epsilon(like)

    def unfinished_remark(self, before: int = 0) -> str | None:
        """Describe the solves that stopped above their tolerance.

        Parameters
        ----------
        before : int, optional
            Value of ``unfinished`` from which to count.

        Returns
        -------
        str or None
            A remark with advice, or None if all solves converged.
        """
        count = self.unfinished - before
        advice = "scale Phi, relax the projection (ProximalStep), or give frame_bound if Phi is a tight frame"
        return f"{count} conjugate-gradient solves stopped above their tolerance: {advice}" if count else None

    @abstractmethod
    def image(self, x: Array) -> Array:
        """Compute the image coordinates of every row of ``x``.

        Parameters
        ----------
        x : array, shape (..., n)
            Signals, one per row.

        Returns
        -------
        array, shape (..., k)
            Image coordinates; k is the rank of Phi, or m if no basis of the row space is known.
        """

    def image_of_sparse(self, x: Array, nonzeros: int) -> Array:
        """Compute the image coordinates of sparse rows, at a lower cost where possible.

        Parameters
        ----------
        x : array, shape (..., n)
            Signals, one per row.
        nonzeros : int
            Upper bound on the number of nonzeros in a row.

        Returns
        -------
        array, shape (..., k)
            Image coordinates, as computed by :meth:`image`.
        """
        return self.image(x)

    @abstractmethod
    def target(self, y: Array) -> Array:
        """Compute the image coordinates of the part of ``y`` in the range of Phi.

        Parameters
        ----------
        y : array, shape (..., m)
            Measurements.

        Returns
        -------
        array, shape (..., k)
            The target of a projection, in image coordinates.
        """

    @abstractmethod
    def defect(self, y: Array, target: Array) -> Array:
        """Compute the norm of the part of ``y`` outside the range of Phi.

        Parameters
        ----------
        y : array, shape (..., m)
            Measurements.
        target : array, shape (..., k)
            Their image coordinates, as computed by :meth:`target`.

        Returns
        -------
        array, shape (...)
            The norms.
        """

    @abstractmethod
    def residual(self, image: Array, target: Array) -> Array:
        """Compute Phi x - y within the range of Phi.

        Parameters
        ----------
        image : array, shape (..., k)
            Image coordinates of x.
        target : array, shape (..., k)
            Image coordinates of y.

        Returns
        -------
        array, shape (..., k)
            The residual.
        """

    @abstractmethod
    def correction(self, r: Array, alpha: Any) -> tuple[Array, Array]:
        """Compute Phi^H (K + alpha I)^-1 r and its image.

        Parameters
        ----------
        r : array, shape (..., k)
            Residual.
        alpha : float or array, shape (..., 1)
            Damping; infinity means no correction.

        Returns
        -------
        correction : array, shape (..., n)
            The correction of x.
        image : array, shape (..., k)
            The image coordinates of the correction.
        """

    @abstractmethod
    def spectrum(self, r: Array, settled: Callable[[Array, Array], bool]) -> tuple[Array, Array]:
        """Compute coordinates of ``r`` and eigenvalues of K with which norms of f(K) r can be evaluated.

        Parameters
        ----------
        r : array, shape (..., k)
            Residual.
        settled : callable
            Function of c and q (see below) that returns whether a stepwise approximation is accurate enough.

        Returns
        -------
        coordinates : array, shape (..., j)
            The coordinates c.
        squares : array, shape (..., j) or (j,), or float
            The eigenvalues q, which are squared singular values of Phi.

        Notes
        -----
        For smooth functions f, exactly or up to the accuracy of the approximation::

            ||f(K) r||^2 = sum |c f(q)|^2
        """


class Orthonormal(RowSpace):
    """Row space with image coordinates in an orthonormal basis: every solve is a division by singular values.

    Attributes
    ----------
    singular_values : array, shape (k,), or float
        The nonzero singular values of Phi; a number if they are all equal.
    """

    singular_values: Any

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


class SingularVectors(Orthonormal):
    """Row space of a dense Phi by a singular value decomposition, truncated at the numerical rank.

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

    def defect(self, y: Array, target: Array) -> Array:
        """Compute the norm of y - U U^H y for every row of ``y``."""
        return norm(y - _flat_product(target, conj(self._left).T))


class TightFrame(Orthonormal):
    """Row space of an operator with Phi Phi^H = c I: the rows of Phi / sqrt(c) are an orthonormal basis.

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

    def defect(self, y: Array, target: Array) -> Array:
        """Return zeros, since the range of Phi is the whole space."""
        return 0 * norm(y)


class ConjugateGradients(RowSpace):
    """Row space of an operator known only by its products: image coordinates are Phi x, solves are CGLS runs.

    A run ends when the norm of every row's gradient is below the tolerance (1e-10, or 1e-5 in single precision)
    times its initial value, or after ``max_iter`` steps. Runs that end at ``max_iter`` are counted in
    ``unfinished``.

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

    def defect(self, y: Array, target: Array) -> Array:
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
        coordinates, squares, due = size, xp.zeros_like(size), FIRST_LOOK
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
            self.unfinished += 1
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
            self.unfinished += 1
        return x, start - residual


def _decomposed(matrix: Array) -> tuple[Array, Array, Array]:
    """Thin singular value decomposition, by LAPACK also for GPU arrays: a GPU's own routine takes ten times as long."""
    if on_host(matrix):
        return tuple(namespace(matrix).linalg.svd(matrix, full_matrices=False))
    U, s, Vh = (from_numpy(part, matrix) for part in np.linalg.svd(to_numpy(matrix), full_matrices=False))
    return U, s, Vh


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


def _flat_product(rows: Array, matrix: Array) -> Array:
    """Product rows @ matrix with the leading axes flattened: ``matrix`` is read only once even for stacked batches."""
    xp = namespace(rows)
    flat = xp.reshape(rows, (math.prod(rows.shape[:-1]), rows.shape[-1])) @ matrix
    return xp.reshape(flat, (*rows.shape[:-1], matrix.shape[-1]))
