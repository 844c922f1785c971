"""Alternating direction method of multipliers with p-shrinkage (Boyd et al. 2011; Chartrand and Wohlberg 2013)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ..backend.arrays import Array, FloatArray, namespace, on_host
from ..backend.checks import settle_number
from ..backend.norms import norm, squared_norm
from ..kernels.shrinkage import shrink_steps
from ..kernels.thresholding import Kind, Structure, project
from ..operators.pseudo_inverse import PseudoInverse, SingularVectors
from ..problems import Problem
from ..sets import Relaxed
from ..sets.data import DataProjection
from .base import Solver, State, in_blocks


def shrink(x: Array, threshold: float, p: float, structure: Structure | None = None) -> Array:
    """Apply p-shrinkage to each entry, or to the norm of each group.

    Parameters
    ----------
    x : array
        The values.
    threshold : float
        The magnitude below which values become zero.
    p : float
        The exponent: 1 gives soft thresholding, values well below 0 nearly hard thresholding.
    structure : Structure, optional
        The groups, whose norms replace magnitudes, and the bounds within which x is moved first.

    Returns
    -------
    array
        The shrunken values, ``max(0, |x| - threshold^(2-p) |x|^(p-1)) x / |x|``.
    """
    xp = namespace(x)
    magnitude = xp.abs(x)
    if structure is not None and not structure.plain:
        x = structure.clipped(x)
        magnitude = xp.sqrt(structure.unit_sums(xp.abs(x) ** 2))
    safe = xp.where(magnitude > 0, magnitude, xp.ones_like(magnitude))
    factor = 1 - (threshold / safe) ** (2 - p)
    keep = (factor > 0) & (magnitude > 0)
    return xp.where(keep, x * factor, xp.zeros_like(x))


@dataclass(frozen=True, kw_only=True)
class ADMMState(State):
    """The state of :class:`ADMM`.

    Attributes
    ----------
    z : array, shape (batch, n)
        The sparse iterate.
    point : array, shape (batch, n)
        The point z - u, where u is the scaled multiplier.
    target : array, shape (batch, rank)
        The part of y in the range of Phi, in image coordinates.
    radius : array, shape (batch,)
        The distance from the target that B allows.
    """

    z: Array
    point: Array
    target: Array
    radius: Array
    taken: Array


@dataclass(frozen=True)
class ADMM(Solver):
    """Alternating direction method of multipliers with p-shrinkage.

    It minimizes 1/2 ||Phi x - y||^2 + lam G_p(z) subject to x = z, where G_p is the penalty whose proximal step is
    p-shrinkage [1]_. At p = 1 the penalty is the l1 norm and the solution is that of the lasso. The stopping
    criterion is sqrt(||x - z||^2 + ||z - z_old||^2), the norm of the primal and the dual residual together.

    Parameters
    ----------
    mu : float, optional
        The weight of the constraint x = z. For p = 1 it determines how fast the iteration converges, but not the limit.
    lam : float, optional
        The weight of the penalty. It depends on the scale of y. The defaults are tuned for the paper's random
        measurements at 20 dB, where nonzeros of x are of size 1 (``sparsect.tuning.tuned("admm")``).
    p : float, optional
        The exponent of the penalty, at most 1. The default is 1/2, as in the paper.

    Notes
    -----
    One iteration is::

        x <- argmin 1/2 ||Phi x - y||^2 + mu/2 ||x - (z - u)||^2
        z <- shrink_p(x + u, lam / mu)
        u <- u + x - z

    The first line is the relaxed data projection of z - u with alpha = mu.

    References
    ----------
    .. [1] R. Chartrand and B. Wohlberg, "A nonconvex ADMM algorithm for group sparsity with sparse groups", ICASSP
       2013.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.ADMM(lam=0.01))
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "admm"
    takes: ClassVar[frozenset[Kind]] = frozenset({Kind.BOUNDS, Kind.GROUPS})
    criterion: ClassVar[str] = "primal_dual_residual"
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 100

    mu: float = 0.3162
    lam: float = 0.03981
    p: float = 0.5

    def __post_init__(self) -> None:
        settle_number(self, "mu", "a positive number", low=0.0, nonzero=True)
        settle_number(self, "lam", "a number of at least 0", low=0.0)
        settle_number(self, "p", "a number of at most 1", high=1.0)

    def init(self, problem: Problem) -> ADMMState:
        """Start from z = P_B(0) and u = 0."""
        data = DataProjection(problem, Relaxed(self.mu))
        target, radius = data.target(problem)
        z, steps = data.inverse.correction(target, self.mu)[0], 0 * radius
        unknown = namespace(radius).full_like(radius, float("inf"))
        return ADMMState(z=z, point=z, target=target, radius=radius, criterion=unknown, scale=norm(z), taken=steps)

    def step(self, problem: Problem, state: ADMMState) -> ADMMState:
        """Update x, z and u once."""
        data = DataProjection(problem, Relaxed(self.mu))
        # With w the correction of z - u, x + u is z - w.
        w = data.correction(data.image(state.point), state.target, state.radius)[0]
        moved = state.z - w
        z = shrink(moved, self.lam / self.mu, self.p, problem.structure)
        residual = namespace(z).sqrt(squared_norm(state.point - w - z) + squared_norm(z - state.z))
        return dataclasses.replace(state, z=z, point=2 * z - moved, criterion=residual, taken=state.taken + 1)

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> Any:
        """Take several steps: in blocks of rows, one on each core, or with fused kernels on a GPU."""
        inverse, count = problem.operator.pseudo_inverse, len(fractions)
        if not on_host(problem.y):
            after = self._many(inverse, state, count, goal) if problem.structure.plain else None
            return super().steps(problem, state, goal, fractions) if after is None else after[0]

        def some_steps(part: Problem, running: ADMMState, taken: int, goal: FloatArray) -> tuple[ADMMState, int]:
            many = self._many(inverse, running, count - taken, goal) if problem.structure.plain else None
            return many or (self.step(part, running), 1)

        return in_blocks(problem, state, state.z, count, goal, some_steps)

    def _many(
        self, inverse: PseudoInverse, state: ADMMState, count: int, goal: FloatArray
    ) -> tuple[ADMMState, int] | None:
        """Take up to ``count`` steps with compiled kernels and return their number; may change ``state`` in place."""
        if not isinstance(inverse, SingularVectors):
            return None
        changing = {name: getattr(state, name) for name in ("z", "point", "criterion", "taken")}
        found = shrink_steps(inverse.basis, state.target, self.mu, self.lam, self.p, count, goal, changing)
        return None if found is None else (dataclasses.replace(state, **found[0]), found[1])

    def estimate(self, problem: Problem, state: ADMMState) -> Array:
        """Return P_A(z), the s largest entries of z."""
        return project(state.z, problem.structure)
