"""Accelerated iterative hard thresholding (Blumensath 2012)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ..backend.arrays import Array, epsilon, namespace
from ..backend.norms import norm, real_vecdot, squared_norm
from ..kernels.thresholding import Kind, project
from ..problems import Problem
from .base import Solver, State


@dataclass(frozen=True, kw_only=True)
class HardThresholdingState(State):
    """The state of :class:`NormalizedIHT` and :class:`AcceleratedIHT`.

    All arrays are in double precision, whatever the dtype of the data.

    Attributes
    ----------
    x : array, shape (batch, n)
        The iterate, a point of A.
    residual : array, shape (batch, m)
        Its residual y - Phi x.
    previous : array, shape (batch, n)
        The previous iterate, used by accelerated steps.
    previous_residual : array, shape (batch, m)
        The residual of the previous iterate.
    """

    x: Array
    residual: Array
    previous: Array
    previous_residual: Array


@dataclass(frozen=True)
class NormalizedIHT(Solver):
    """Normalized iterative hard thresholding.

    One step is x <- P_A(x + mu Phi^H (y - Phi x)) [1]_. The step size mu is optimal for the current support. If the
    support would change, mu is reduced until mu <= 0.99 ||d||^2 / ||Phi d||^2, where d is the change of x, so that the
    cost ||y - Phi x|| never increases. The stopping criterion is this cost.

    Notes
    -----
    If two entries are nearly equal, the choice of the one to keep decides where the iteration goes from there, and
    products are rounded differently depending on the CPU and the number of threads. All computations are therefore in
    double precision, whatever the dtype of the data: ties within rounding are then as rare as possible.

    References
    ----------
    .. [1] T. Blumensath and M. Davies, "Normalized iterative hard thresholding: guaranteed stability and performance",
       IEEE Journal of Selected Topics in Signal Processing 4 (2010).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.NormalizedIHT())
    >>> int(result.support.sum())
    6
    """

    name: ClassVar[str] = "niht"
    takes: ClassVar[frozenset[Kind]] = frozenset({Kind.BOUNDS, Kind.GROUPS, Kind.LEVELS})
    scale_free = True
    criterion: ClassVar[str] = "iterate_residual"
    compiled: ClassVar[bool] = True

    def init(self, problem: Problem) -> HardThresholdingState:
        """Start from x = 0."""
        wide, size = problem.in_double(), norm(problem.y)
        x = namespace(wide.y).zeros_like(wide.operator.adjoint(wide.y))
        return HardThresholdingState(
            x=x, residual=wide.y, previous=x, previous_residual=wide.y, criterion=size, scale=size, settled=size == 0
        )

    def step(self, problem: Problem, state: HardThresholdingState) -> HardThresholdingState:
        """Take a thresholded gradient step, which subclasses improve further."""
        wide = problem.in_double()
        x, residual = self._improve(wide, state, *_descend(wide, state))
        change = norm(x - state.x)
        return dataclasses.replace(
            state,
            x=x,
            residual=residual,
            previous=state.x,
            previous_residual=state.residual,
            criterion=namespace(x).astype(norm(residual), state.criterion.dtype),
            settled=change <= epsilon(x) ** 0.7 * norm(x),
        )

    def _improve(
        self, problem: Problem, state: HardThresholdingState, x: Array, residual: Array
    ) -> tuple[Array, Array]:
        """Improve a step and its residual; subclasses override this method."""
        return x, residual

    def estimate(self, problem: Problem, state: HardThresholdingState) -> Array:
        """Return x."""
        return namespace(state.x).astype(state.x, problem.y.dtype)


@dataclass(frozen=True)
class AcceleratedIHT(NormalizedIHT):
    """Normalized iterative hard thresholding with double over-relaxation.

    After each step, the line through the new and the previous iterate is searched for the smallest residual, then the
    line through that point and the iterate before the previous one [1]_. The result is thresholded, and accepted where
    its cost is less than that of the plain step. The cost never increases.

    Notes
    -----
    Over-relaxation amplifies rounding errors, about twofold in each step on hard problems (400x1000, s = 150, 20 dB).
    After fifty or more steps the support can therefore depend on the CPU and on the number of threads, even in double
    precision; all these solutions are equally good. :class:`NormalizedIHT` does not have this property.

    References
    ----------
    .. [1] T. Blumensath, "Accelerated iterative hard thresholding",
       Signal Processing 92 (2012).

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.AcceleratedIHT())
    >>> int(result.support.sum())
    6
    """

    name: ClassVar[str] = "aiht"

    def _improve(
        self, problem: Problem, state: HardThresholdingState, x: Array, residual: Array
    ) -> tuple[Array, Array]:
        """Search two lines for the smallest residual; keep the step where that does not help."""
        xp = namespace(x)
        point, left = _line_minimum(x, residual, state.x, state.residual)
        point, left = _line_minimum(point, left, state.previous, state.previous_residual)
        relaxed = project(point, problem.structure)
        relaxed_residual = problem.y - problem.operator.forward(relaxed)
        better = (squared_norm(relaxed_residual) < squared_norm(residual))[:, None]
        return xp.where(better, relaxed, x), xp.where(better, relaxed_residual, residual)


def _descend(problem: Problem, state: HardThresholdingState) -> tuple[Array, Array]:
    """Return the thresholded gradient step and its residual."""
    xp, operator, A = namespace(state.x), problem.operator, problem.structure
    gradient = operator.adjoint(state.residual)
    started = xp.any(state.x != 0, axis=-1)[:, None]
    support = xp.where(started, state.x != 0, project(gradient, A) != 0)
    on_support = xp.where(support, gradient, xp.zeros_like(gradient))
    mu = _ratio(squared_norm(on_support), squared_norm(operator.forward(on_support)))
    x = project(state.x + mu[:, None] * gradient, A)
    residual = problem.y - operator.forward(x)
    for _ in range(60):
        change = squared_norm(x - state.x)
        limit = 0.99 * _ratio(change, squared_norm(residual - state.residual))
        moved = xp.any((x != 0) != support, axis=-1) & (change > 0)
        too_far = moved & (mu > limit)
        if not bool(xp.any(too_far)):
            break
        mu = xp.where(too_far, xp.where(limit < mu / 1.5, limit, mu / 1.5), mu)
        x = xp.where(too_far[:, None], project(state.x + mu[:, None] * gradient, A), x)
        residual = xp.where(too_far[:, None], problem.y - operator.forward(x), residual)
    worse = (squared_norm(residual) > squared_norm(state.residual))[:, None]
    return xp.where(worse, state.x, x), xp.where(worse, state.residual, residual)


def _line_minimum(x: Array, residual: Array, base: Array, base_residual: Array) -> tuple[Array, Array]:
    """Return the point with the smallest residual on the line from ``base`` through ``x``, and that residual."""
    change = residual - base_residual
    step = -_ratio(real_vecdot(change, residual), squared_norm(change))[:, None]
    return x + step * (x - base), residual + step * change


def _ratio(above: Array, below: Array) -> Array:
    """Return above / below, or zero where ``below`` is zero."""
    xp = namespace(below)
    return xp.where(below > 0, above / xp.where(below > 0, below, xp.ones_like(below)), xp.zeros_like(below))
