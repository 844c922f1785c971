"""P_B: move x to the nearest point that agrees with the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.arrays import Array, check_magnitude, floating, namespace
from ..backend.checks import reject, warn
from ..operators import as_operator
from ..problems import Problem
from .affine import Affine
from .ball import Ball
from .base import DataSet, check_data_set


class DataProjection:
    """P_B for one problem, in the image coordinates of Phi's row space.

    Solvers that keep ``image(x)`` beside x need one product with the basis for a correction and one for an image.
    """

    def __init__(self, problem: Problem, data_set: DataSet | None = None) -> None:
        self.data_set = data_set or (Affine() if problem.noise_norm is None else Ball())
        self.space = problem.operator.row_space
        self.sparsity = problem.sparsity

    def target(self, problem: Problem) -> tuple[Array, Array]:
        """The problem's data in image coordinates and the radius each row is allowed."""
        target = self.space.target(problem.y)
        return target, self.data_set.radius(problem, target)

    def image(self, x: Array) -> Array:
        """Image coordinates of every row of ``x``."""
        return self.space.image(x)

    def image_of_sparse(self, x: Array, nonzeros: int | None = None) -> Array:
        """Image coordinates of rows that are in A, with as few ``nonzeros`` as is known."""
        return self.space.image_of_sparse(x, self.sparsity if nonzeros is None else nonzeros)

    def correction(self, image: Array, target: Array, radius: Array) -> tuple[Array, Array]:
        """x - P_B(x) and its image, from the image of x alone."""
        residual = self.space.residual(image, target)
        return self.space.correction(residual, self.data_set.damping(self.space, residual, radius))


def project_data(x: Any, Phi: Any, y: Any, data_set: DataSet | None = None, noise_norm: Any = None) -> Array:
    """P_B: every row of ``x`` moved to the nearest point that agrees with the data.

    Parameters
    ----------
    x : (n,) or (batch, n)
    Phi, y : as for :func:`sparsect.recover`
    data_set : Affine, ProximalStep or Ball. Default: Ball if ``noise_norm`` is given, otherwise Affine.
    noise_norm : radius of the ball, a number or one for each row.
    """
    check_data_set(data_set)
    problem = Problem(as_operator(Phi), y, sparsity=0, noise_norm=noise_norm)
    check_magnitude("y", problem.y)
    x = floating("x", x, dimensions=(1, 2))
    rows = x[None, :] if x.ndim == 1 else x
    n = problem.operator.shape[1]
    if rows.shape[-1] != n or rows.shape[0] not in (1, problem.batch):
        raise reject("x", f"shape {tuple(x.shape)}", f"({n},) or ({problem.batch}, {n})")
    xp = namespace(rows, problem.y)
    rows = xp.astype(rows, xp.result_type(rows.dtype, problem.y.dtype))
    data = DataProjection(problem, data_set)
    before = data.space.unfinished
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        moved = rows - data.correction(data.image(rows), *data.target(problem))[0]
    if not bool(xp.all(xp.isfinite(moved))):
        raise reject("x", f"sizes at which Phi x leaves the range of {rows.dtype}", "x scaled nearer to y")
    warn([data.space.unfinished_remark(before)])
    return moved[0, :] if x.ndim == 1 and problem.single else moved
