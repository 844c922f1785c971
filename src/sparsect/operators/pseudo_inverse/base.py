"""Base class of pseudo-inverses: the operations that data projections need."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from ...backend.arrays import Array, epsilon


class PseudoInverse(ABC):
    """The pseudo-inverse of Phi, damped or not, and what else data projections need.

    The symbols are those of :mod:`sparsect.operators.pseudo_inverse`.

    Attributes
    ----------
    unconverged : int
        Number of solves that stopped above their tolerance.
    """

    unconverged: int = 0

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

    def convergence_warning(self, before: int = 0) -> str | None:
        """Describe the solves that stopped above their tolerance.

        Parameters
        ----------
        before : int, optional
            Value of ``unconverged`` from which to count.

        Returns
        -------
        str or None
            The text of a warning with advice, or None if all solves converged.
        """
        count = self.unconverged - before
        advice = "scale Phi, relax the projection (Relaxed), or give frame_bound if Phi is a tight frame"
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
    def distance_to_range(self, y: Array, target: Array) -> Array:
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
            Function of c and q (see below) that returns whether an iterative approximation is accurate enough.

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
