"""Nearest point in a set: sparsity (A) and agreement with the data (B) in three forms.

P_A keeps the s largest magnitudes. P_B is one of

    Affine()        nearest x with Phi x = y:            x - Phi^+ (Phi x - y)           (the paper's equation for P_B)
    Relaxed(alpha)  the same, damped:                    x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)
    Ball()          nearest x with ||Phi x - y|| <= noise_norm, exactly
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .arrays import (
    Array,
    check_magnitude,
    contiguous,
    epsilon,
    floating,
    has_kernels,
    namespace,
    norm,
    real_dtype,
    real_vecdot,
    worth_compiling,
)
from .checks import reject, settle_number, shown, warn, whole_number
from .kernels.selection import kth_largest
from .operators import as_operator
from .problems import Problem
from .row_space import RowSpace

# About how often the compiled kernels go over a row.
PASSES = 12
# Newton's iteration for the ball took at most 19 steps on anything tried; this only bounds it.
MAX_NEWTON = 60


def project_sparse(x: Any, sparsity: int) -> Array:
    """P_A: every row of ``x`` with all but its ``sparsity`` largest magnitudes set to zero.

    Exactly ``sparsity`` entries are kept; among equal magnitudes the first ones win.

    Parameters
    ----------
    x : (..., n), real or complex
    sparsity : from 0 to n
    """
    x = floating("x", x)
    if x.ndim == 0:
        raise reject("x", "a number", "an array with at least one dimension")
    return keep_largest(x, whole_number("sparsity", sparsity, 0, x.shape[-1]))


def keep_largest(x: Array, sparsity: int) -> Array:
    """:func:`project_sparse` for arrays already known to be sound; may return ``x`` itself."""
    xp, n = namespace(x), x.shape[-1]
    if sparsity == 0:
        return xp.zeros_like(x)
    if sparsity == n:
        return x
    if worth_compiling(x):
        from .kernels.rows import over_rows
        from .kernels.thresholding import keep as keep_in_rows

        rows = contiguous(x).reshape(-1, n)
        kept = np.empty_like(rows)
        over_rows(keep_in_rows, rows.shape[0], rows, sparsity, kept, work=PASSES * n)
        return kept.reshape(x.shape)
    if has_kernels(x):
        from .kernels.gpu.thresholding import keep as keep_on_gpu

        return keep_on_gpu(x, sparsity)
    magnitude = xp.abs(x)
    threshold = kth_largest(magnitude, sparsity)
    keep = magnitude >= threshold
    if int(xp.count_nonzero(keep)) > sparsity * math.prod(x.shape[:-1]):
        above = magnitude > threshold
        room = sparsity - xp.count_nonzero(above, axis=-1)[..., None]
        ties = keep & ~above
        keep = above | (ties & (xp.cumulative_sum(xp.astype(ties, room.dtype), axis=-1) <= room))
    return xp.where(keep, x, xp.zeros_like(x))


def advance(
    x: Array, w: Array, before: Array, sparsity: int, relaxation: float = 1.0
) -> tuple[Array, Array, Array, Array]:
    """A step of the Difference Map at beta = 1 for (batch, n) arrays, w being x - P_B(x).

    Returns u = P_A(x - 2 w), x + relaxation (u - P_B(x)), the norm of that change, and whether the support of u is
    another than that of ``before``.
    """
    if worth_compiling(x) and 0 < sparsity < x.shape[-1]:
        from .kernels import thresholding
        from .kernels.rows import over_rows

        (batch, n), moved, u = x.shape, x.copy(), before.copy()
        level, gap, changed = np.zeros(batch, x.dtype), np.empty(batch, x.dtype), np.empty(batch, bool)
        rest = (relaxation, moved, u, level, gap, changed)
        over_rows(thresholding.advance, batch, contiguous(w), sparsity, *rest, work=PASSES * n)
        return u, moved, gap, changed
    if has_kernels(x) and 0 < sparsity < x.shape[-1]:
        from .kernels.gpu.thresholding import advance as advance_on_gpu

        return advance_on_gpu(x, w, before, sparsity, relaxation)
    u = keep_largest(x - 2 * w, sparsity)
    change = relaxation * (u - x + w)
    return u, x + change, norm(change), namespace(x).any((u == 0) != (before == 0), axis=-1)


class DataSet:
    """A form of the set B, as configuration.

    ``alpha`` says how gently a residual is pulled to zero where that is the same for all rows; it is None otherwise.
    """

    alpha: float | None = None

    def radius(self, problem: Problem, target: Array) -> Array:
        """Residual norm each row is left within the range of Phi, the data being ``target`` in image coordinates."""
        return namespace(target).zeros(target.shape[:-1], dtype=real_dtype(target), device=target.device)

    def damping(self, space: RowSpace, residual: Array, radius: Array) -> Any:
        """alpha in P_B(x) = x - Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y): a number, or one for each row."""
        return self.alpha


@dataclass(frozen=True)
class Affine(DataSet):
    """B = {x : Phi x = y}, or the least-squares solutions where y is out of reach."""

    alpha = 0.0


@dataclass(frozen=True)
class Relaxed(DataSet):
    """B softened: a step towards {Phi x = y} that spares directions in which Phi is weak (sigma^2 below ``alpha``).

    Not a projection but the proximal map of ||Phi x - y||^2 / (2 alpha).
    """

    alpha: float

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "a number of at least 0", low=0.0)


@dataclass(frozen=True)
class Ball(DataSet):
    """B = {x : ||Phi x - y|| <= noise_norm}, projected onto exactly.

    The nearest point is the relaxed one for the alpha at which the residual has just the norm allowed; with
    nu = 1 / alpha, that is 1 / ||(I + nu K)^-1 r|| = 1 / radius, K = Phi Phi^H. The left side is concave and
    increasing in nu, so Newton's iteration from nu = 0 climbs to the root without ever passing it.
    """

    def radius(self, problem: Problem, target: Array) -> Array:
        if problem.noise_norm is None:
            raise reject("noise_norm", "None", "a number, or one for each row of y, when the data set is a Ball")
        defect = problem.operator.row_space.defect(problem.y, target)
        xp = namespace(defect)
        slack = problem.noise_norm - defect
        # The defect is known only to the accuracy of a solve.
        short = slack < -10 * problem.operator.row_space.tolerance(problem.y) * norm(problem.y)
        if bool(xp.any(short)):
            row = int(xp.argmax(xp.astype(short, xp.int8)))
            where = "" if problem.batch == 1 else f" in row {row}"
            least = f"at least {float(defect[row]):g}{where}: no x brings Phi x nearer to y"
            raise reject("noise_norm", f"{float(problem.noise_norm[row]):g}{where}", least)
        squared = (problem.noise_norm + defect) * xp.where(slack > 0, slack, 0 * slack)
        return xp.sqrt(squared)

    def damping(self, space: RowSpace, residual: Array, radius: Array) -> Array:
        xp, eps = namespace(residual), epsilon(residual)
        length = norm(residual)[..., None]
        # A radius of zero asks for nu = infinity; rounding level is as near as floating point comes.
        goal = xp.where(radius[..., None] > eps * length, radius[..., None] + 0 * length, eps * length)
        found = [xp.zeros_like(length)]

        def settled(coordinates: Array, squares: Array) -> bool:
            found.append(_secular_root(coordinates, squares, goal))
            change = xp.abs(found[-1] - found[-2])
            return bool(xp.all(change <= 100 * space.tolerance(residual) * found[-1]))

        nu = xp.astype(_secular_root(*space.spectrum(residual, settled), goal), length.dtype)
        active = (length > goal) & (nu > 0)
        return xp.where(active, 1 / xp.where(active, nu, xp.ones_like(nu)), xp.full_like(nu, xp.inf))


def check_data_set(data_set: Any) -> None:
    """Refuse what is no form of B."""
    if data_set is not None and not isinstance(data_set, DataSet):
        raise reject("data_set", shown(data_set), "Affine(), Relaxed(alpha), Ball() or None")


def _secular_root(coordinates: Array, squares: Array, goal: Array) -> Array:
    """nu of at least 0 at which the norm of coordinates / (1 + nu squares) has come down to ``goal``, (..., 1)."""
    xp, eps = namespace(coordinates), epsilon(coordinates)
    goal = xp.astype(goal, real_dtype(coordinates))
    nu = xp.zeros_like(goal)
    for _ in range(MAX_NEWTON):
        shrunk = coordinates / (1 + nu * squares)
        length = norm(shrunk)[..., None]
        going = length > goal * (1 + 8 * eps)
        if not bool(xp.any(going)):
            break
        safe = xp.where(going, length, xp.ones_like(length))
        # Squares of coordinates times those of Phi may leave the range of the dtype; those of a unit vector do not.
        unit = shrunk / safe
        slope = real_vecdot(unit, squares / (1 + nu * squares) * unit)[..., None]
        going = going & (slope > 0)
        rise = (safe / goal - 1) / xp.where(going, slope, xp.ones_like(slope))
        nu = xp.where(going, nu + rise, nu)
    return nu


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
    data_set : Affine, Relaxed or Ball. Default: Ball if ``noise_norm`` is given, otherwise Affine.
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
    warn([data.space.words_on_unfinished(before)])
    return moved[0, :] if x.ndim == 1 and problem.single else moved
