"""The set B = {x : ||Phi x - y|| <= noise_norm} and its exact projection."""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.arrays import Array, epsilon, namespace, real_dtype
from ..backend.checks import reject
from ..backend.norms import norm, real_vecdot
from ..operators.pseudo_inverse import PseudoInverse
from .base import DataSet, Measurements

# Bound on the Newton steps of a projection onto the ball; at most 19 were needed in all tests.
MAX_NEWTON = 60


@dataclass(frozen=True)
class Ball(DataSet):
    """The set B = {x : ||Phi x - y|| <= noise_norm}, with exact projection.

    Notes
    -----
    The projection is the proximal step for the alpha at which the norm of the residual equals the radius. With
    nu = 1 / alpha and K = Phi Phi^H, this condition is::

        1 / ||(I + nu K)^-1 r|| = 1 / radius

    The left side is concave and increasing in nu, so Newton's iteration from nu = 0 approaches the root
    monotonically from below.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> Phi, y = np.array([[1.0, 0.0]]), np.array([3.0])
    >>> sparsect.project_data([0.0, 5.0], Phi, y, data_set=sparsect.Ball(), noise_norm=1.0).round(6)
    array([2., 5.])
    """

    def radius(self, problem: Measurements, target: Array) -> Array:
        """Compute the residual norm allowed in each row within the range of Phi."""
        if problem.noise_norm is None:
            raise reject("noise_norm", "None", "a number, or one for each row of y, when the data set is a Ball")
        distance = problem.operator.pseudo_inverse.distance_to_range(problem.y, target)
        xp = namespace(distance)
        slack = problem.noise_norm - distance
        # The distance is known only up to the accuracy of a solve.
        short = slack < -10 * problem.operator.pseudo_inverse.tolerance(problem.y) * norm(problem.y)
        if bool(xp.any(short)):
            row = int(xp.argmax(xp.astype(short, xp.int8)))
            where = "" if problem.y.shape[0] == 1 else f" in row {row}"
            least = f"at least {float(distance[row]):g}{where}, because no Phi x is closer to y"
            raise reject("noise_norm", f"{float(problem.noise_norm[row]):g}{where}", least)
        squared = (problem.noise_norm + distance) * xp.where(slack > 0, slack, 0 * slack)
        return xp.sqrt(squared)

    def damping(self, inverse: PseudoInverse, residual: Array, radius: Array) -> Array:
        """Compute the damping alpha at which the residual of the projection has the norm ``radius``."""
        xp, eps = namespace(residual), epsilon(residual)
        length = norm(residual)[..., None]
        # A radius of zero would require nu = infinity; it is replaced by a radius at rounding level.
        goal = xp.where(radius[..., None] > eps * length, radius[..., None] + 0 * length, eps * length)
        found = [xp.zeros_like(length)]

        def settled(coordinates: Array, squares: Array) -> bool:
            found.append(_secular_root(coordinates, squares, goal))
            change = xp.abs(found[-1] - found[-2])
            return bool(xp.all(change <= 100 * inverse.tolerance(residual) * found[-1]))

        nu = xp.astype(_secular_root(*inverse.spectrum(residual, settled), goal), length.dtype)
        active = (length > goal) & (nu > 0)
        return xp.where(active, 1 / xp.where(active, nu, xp.ones_like(nu)), xp.full_like(nu, xp.inf))


def _secular_root(coordinates: Array, squares: Array, goal: Array) -> Array:
    """Find nu >= 0 at which the norm of coordinates / (1 + nu squares) equals ``goal``, shape (..., 1)."""
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
        # Squared coordinates times squared singular values may leave the range of the dtype; with a unit vector
        # they do not.
        unit = shrunk / safe
        slope = real_vecdot(unit, squares / (1 + nu * squares) * unit)[..., None]
        going = going & (slope > 0)
        rise = (safe / goal - 1) / xp.where(going, slope, xp.ones_like(slope))
        nu = xp.where(going, nu + rise, nu)
    return nu
