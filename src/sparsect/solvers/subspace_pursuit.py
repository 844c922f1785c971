"""Subspace Pursuit (Dai and Milenkovic 2009)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from ..backend.arrays import Array, namespace, norm
from ..kernels.thresholding import keep_largest
from ..operators.least_squares import on_support
from ..problems import Problem
from .base import Solver, State


@dataclass(frozen=True, kw_only=True)
class SubspacePursuitState(State):
    """The least-squares fit x on the current support, and its residual y - Phi x."""

    x: Array
    residual: Array


@dataclass(frozen=True)
class SubspacePursuit(Solver):
    """Keep s columns; each step adds the s best correlated with the residual, fits, and keeps the s largest.

        T' <- T and the s largest |Phi^H r|
        T  <- the s largest entries of the least-squares fit on T'
        x  <- the least-squares fit on T,   r <- y - Phi x

    A row settles when its residual no longer shrinks, as in the reference. The *gap* is ||r||.

    References
    ----------
    W. Dai and O. Milenkovic, "Subspace pursuit for compressive sensing signal reconstruction", IEEE Trans. IT 2009.
    """

    name: ClassVar[str] = "subspace-pursuit"
    scale_free = True
    gap_is_residual: ClassVar[bool] = True

    def init(self, problem: Problem) -> SubspacePursuitState:
        """The fit on the s columns best correlated with y."""
        support = keep_largest(problem.operator.adjoint(problem.y), problem.sparsity) != 0
        x, residual = _fit(problem, support)
        scale = norm(problem.y)
        return SubspacePursuitState(x=x, residual=residual, gap=norm(residual), scale=scale, settled=scale == 0)

    def step(self, problem: Problem, state: SubspacePursuitState) -> SubspacePursuitState:
        """Widen the support, fit, prune, fit again; keep the old where that does not help."""
        xp, s = namespace(state.x), problem.sparsity
        # No more columns than the data can tell apart, where 2s would be too many.
        more = max(1, min(s, problem.operator.shape[0] - 1 - s))
        added = keep_largest(problem.operator.adjoint(state.residual), more if s else 0) != 0
        wide = on_support(problem.operator, problem.y, (state.x != 0) | added)
        x, residual = _fit(problem, keep_largest(wide, s) != 0)
        gap = norm(residual)
        worse = gap >= state.gap
        return dataclasses.replace(
            state,
            x=xp.where(worse[:, None], state.x, x),
            residual=xp.where(worse[:, None], state.residual, residual),
            gap=xp.where(worse, state.gap, gap),
            settled=worse,
        )

    def estimate(self, problem: Problem, state: SubspacePursuitState) -> Array:
        """x itself."""
        return state.x


def _fit(problem: Problem, support: Array) -> tuple[Array, Array]:
    x = on_support(problem.operator, problem.y, support)
    return x, problem.y - problem.operator.forward(x)
