"""The projection P_B onto the points that agree with the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.array_checks import check_magnitude, floating
from ..backend.arrays import Array, namespace
from ..backend.checks import reject, warn
from ..operators import as_operator
from ..problems import Problem
from .affine import Affine
from .ball import Ball
from .base import DataSet, check_data_set


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

    def __init__(self, problem: Problem, data_set: DataSet | None = None) -> None:
        self.data_set = data_set or (Affine() if problem.noise_norm is None else Ball())
        self.inverse = problem.operator.pseudo_inverse
        self.sparsity = problem.sparsity

    def target(self, problem: Problem) -> tuple[Array, Array]:
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


def project_data(x: Any, Phi: Any, y: Any, data_set: DataSet | None = None, noise_norm: Any = None) -> Array:
    """Project every row of ``x`` onto the set of points that agree with the data.

    Parameters
    ----------
    x : array, shape (n,) or (batch, n)
        Points to project, one per row. A single point is projected for every row of ``y``.
    Phi : array, SciPy sparse matrix, LinearOperator or Operator, shape (m, n)
        Linear map, as in :func:`sparsect.recover`.
    y : array, shape (m,) or (batch, m)
        Measurements, as in :func:`sparsect.recover`.
    data_set : DataSet, optional
        Affine, ProximalStep or Ball. The default is Ball if ``noise_norm`` is given, otherwise Affine.
    noise_norm : float or array, shape (batch,), optional
        Radius of the ball, one number for all rows or one for each row.

    Returns
    -------
    array, shape (n,) or (batch, n)
        The projections P_B(x); a vector if both ``x`` and ``y`` are vectors.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=20, n=50, sparsity=3, rng=0)
    >>> projected = sparsect.project_data(np.zeros(50), problem.Phi, problem.y)
    >>> projected.shape
    (1, 50)
    >>> np.allclose(projected @ problem.Phi.T, problem.y)
    True
    """
    check_data_set(data_set)
    problem = Problem(as_operator(Phi), y, sparsity=0, noise_norm=noise_norm)
    check_magnitude("y", problem.y)
    x = floating("x", x, dimensions=(1, 2))
    rows = x[None, :] if x.ndim == 1 else x
    n = problem.operator.shape[1]
    if rows.shape[-1] != n or rows.shape[0] not in (1, problem.batch):
        raise reject("x", f"shape {tuple(x.shape)}", f"have shape ({n},) or ({problem.batch}, {n})")
    xp = namespace(rows, problem.y)
    rows = xp.astype(rows, xp.result_type(rows.dtype, problem.y.dtype))
    data = DataProjection(problem, data_set)
    before = data.inverse.unconverged
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved = rows - data.correction(data.image(rows), *data.target(problem))[0]
    if not bool(xp.all(xp.isfinite(moved))):
        raise reject(
            "x", f"entries for which Phi x leaves the range of {rows.dtype}", "have a scale closer to that of y"
        )
    warn([data.inverse.convergence_warning(before)])
    return moved[0, :] if x.ndim == 1 and problem.single else moved
