"""The projection P_B onto the points that agree with the data, as solvers use it."""

from __future__ import annotations

from ..backend.arrays import Array, namespace, real_dtype
from ..operators.pseudo_inverse import PseudoInverse
from .affine import Affine
from .ball import Ball
from .base import DataSet, Measurements
from .own import OwnData


class DataProjection:
    """Projection P_B for one problem, in the image coordinates of Phi's row space.

    Solvers that store ``image(x)`` along with x need one product with the basis for a correction and one for an
    image.

    Parameters
    ----------
    problem : Problem
        Problem that provides Phi and the sparsity.
    data_set : DataSet, optional
        The set B. The default is Ball if the problem has a ``noise_norm``, otherwise Affine.
    """

    def __init__(self, problem: Measurements, data_set: DataSet | None = None) -> None:
        self.data_set = data_set or (Affine() if problem.noise_norm is None else Ball())
        self.length, self.sparsity = problem.operator.shape[1], problem.sparsity
        self._operator = problem.operator

    @property
    def inverse(self) -> PseudoInverse:
        """The pseudo-inverse of Phi."""
        return self._operator.pseudo_inverse

    def start(self, target: Array) -> Array:
        """Return the image coordinates of x = 0.

        Parameters
        ----------
        target : array, shape (batch, k)
            The data in image coordinates.

        Returns
        -------
        array, shape (batch, k)
            Zeros.
        """
        return 0 * target

    def target(self, problem: Measurements) -> tuple[Array, Array]:
        """Compute the data of a problem in image coordinates and the radius allowed in each row.

        Parameters
        ----------
        problem : Problem
            Problem that provides y and the noise norm.

        Returns
        -------
        target : array, shape (batch, k)
            The data in image coordinates.
        radius : array, shape (batch,)
            Residual norm allowed in each row.
        """
        target = self.inverse.target(problem.y)
        return target, self.data_set.radius(problem, target)

    def image(self, x: Array) -> Array:
        """Compute the image coordinates of every row of ``x``.

        Parameters
        ----------
        x : array, shape (..., n)
            Signals, one per row.

        Returns
        -------
        array, shape (..., k)
            Their image coordinates.
        """
        return self.inverse.image(x)

    def image_of_sparse(self, x: Array, nonzeros: int | None = None) -> Array:
        """Compute the image coordinates of sparse rows.

        Parameters
        ----------
        x : array, shape (..., n)
            Signals, one per row.
        nonzeros : int, optional
            Upper bound on the number of nonzeros in a row. The default is the sparsity of the problem.

        Returns
        -------
        array, shape (..., k)
            Their image coordinates.
        """
        return self.inverse.image_of_sparse(x, self.sparsity if nonzeros is None else nonzeros)

    def correction(self, image: Array, target: Array, radius: Array) -> tuple[Array, Array]:
        """Compute x - P_B(x) and its image from the image of x alone.

        Parameters
        ----------
        image : array, shape (batch, k)
            Image coordinates of x.
        target : array, shape (batch, k)
            The data in image coordinates.
        radius : array, shape (batch,)
            Residual norm allowed in each row.

        Returns
        -------
        correction : array, shape (batch, n)
            The difference x - P_B(x).
        image : array, shape (batch, k)
            Its image coordinates.
        """
        residual = self.inverse.residual(image, target)
        return self.inverse.correction(residual, self.data_set.damping(self.inverse, residual, radius))


class OwnProjection(DataProjection):
    """Projection P_B onto a set of the user's own, whose points are their own image coordinates.

    Parameters
    ----------
    data_set : OwnData
        The set B.
    """

    def __init__(self, problem: Measurements, data_set: OwnData) -> None:
        super().__init__(problem, data_set)
        self._nearest, self._times = data_set.nearest, problem.times

    def start(self, target: Array) -> Array:
        """Return zeros of the length of x."""
        xp, n = namespace(target), self.length
        return xp.zeros((*target.shape[:-1], n), dtype=target.dtype, device=target.device)

    def target(self, problem: Measurements) -> tuple[Array, Array]:
        """Return the data, and radii of zero."""
        y = problem.y
        return y, namespace(y).zeros(y.shape[:-1], dtype=real_dtype(y), device=y.device)

    def image(self, x: Array) -> Array:
        """Return ``x``."""
        return x

    def image_of_sparse(self, x: Array, nonzeros: int | None = None) -> Array:
        """Return ``x``."""
        return x

    def correction(self, image: Array, target: Array, radius: Array) -> tuple[Array, Array]:
        """Return x - P_B(x), twice, for one batch of points or several."""
        xp = namespace(image)
        if image.ndim == 2:
            change = image - self._nearest(image, target, self._times)
        else:
            change = xp.stack(
                [part - self._nearest(part, target, self._times) for part in (image[0, ...], image[1, ...])]
            )
        return change, change


def data_projection(problem: Measurements, data_set: DataSet | None = None) -> DataProjection:
    """Return the projection onto the points that agree with the data of a problem.

    Parameters
    ----------
    problem : Problem
        The problem.
    data_set : DataSet, optional
        The set B. The default is Ball if the problem has a ``noise_norm``, otherwise Affine.

    Returns
    -------
    DataProjection
        The projection.
    """
    if isinstance(data_set, OwnData):
        return OwnProjection(problem, data_set)
    return DataProjection(problem, data_set)
