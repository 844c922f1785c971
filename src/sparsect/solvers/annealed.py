"""The annealed Difference Map: a relaxed data set that changes along the run, so that the search settles in the end."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

from ..algorithm import Need, State
from ..arrays import Array, namespace, norm
from ..checks import choice
from ..least_squares import refit
from ..problems import Problem
from ..projections import DataProjection, Relaxed, keep_largest, reflect_and_keep

FIRST = 0.03
LAST = {"recovery": 0.5, "approximation": 1.0}
# The part of the run, from its end, over which points of A are averaged for recovery.
AVERAGED = 0.5
# A row with a gap below this, relative to its start, has found a point of both sets, and averaging ends.
CLOSED = 1e-5


@dataclass(frozen=True, kw_only=True)
class AnnealedState(State):
    """The iterate x and its image, the last point of A, the sum of those to be averaged, and the data."""

    x: Array
    image: Array
    sparse: Array
    total: Array
    count: Array
    target: Array
    radius: Array


@dataclass(frozen=True)
class AnnealedDifferenceMap:
    """The Difference Map at beta = 1 with a relaxed data set whose alpha rises geometrically along the run.

        w <- Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)
        u <- P_A(x - 2 w)
        x <- u + w

    A fixed point has u = P_A(u - Phi^H (Phi u - y) / alpha): it is one of iterative hard thresholding with step
    1 / alpha. A small alpha asks for stability under large steps, and the map wanders; at alpha = 1 (unit columns) it
    settles. Nothing is to be tuned: alpha is relative to the mean squared norm of Phi's columns, and goes from 0.03 to
    the end that suits the goal over the iterations or seconds that the run is given. The *gap* is ||x_new - x||.

    Parameters
    ----------
    goal : "recovery" for the error of x: alpha ends at 0.5 and the answer is the average of u over the last half of the
        run, thresholded; "approximation" for the error of Phi x: alpha ends at 1, the answer is the last u, refitted.
    """

    name: ClassVar[str] = "annealed-difference-map"
    needs: ClassVar[frozenset[Need]] = frozenset()
    scheduled: ClassVar[bool] = True
    compiled: ClassVar[bool] = True

    goal: str = "recovery"

    def __post_init__(self) -> None:
        choice("goal", self.goal, LAST)

    @property
    def fitted(self) -> bool:
        """Whether the estimate is a least-squares fit already."""
        return self.goal == "approximation"

    def init(self, problem: Problem) -> AnnealedState:
        """Start from the relaxed projection of 0."""
        data = self._data(problem, 0.0)
        target, radius = data.target(problem)
        correction, image = data.correction(0 * target, target, radius)
        return AnnealedState(
            x=-correction,
            image=-image,
            sparse=keep_largest(-correction, problem.sparsity),
            total=0 * correction,
            count=0 * radius,
            target=target,
            radius=radius,
            gap=namespace(radius).full_like(radius, float("inf")),
            scale=norm(correction),
        )

    def step(self, problem: Problem, state: AnnealedState, fraction: float = 0.0) -> AnnealedState:
        """One step with the alpha that belongs to the ``fraction`` of the run that is over."""
        data = self._data(problem, fraction)
        w, w_image = data.correction(state.image, state.target, state.radius)
        u, x, gap = reflect_and_keep(state.x, w, problem.sparsity)
        moved: dict[str, Any] = {"x": x, "image": data.image_of_sparse(u) + w_image, "sparse": u}
        if self.goal == "recovery" and fraction >= 1 - AVERAGED:
            moved |= {"total": state.total + u, "count": state.count + 1}
        return dataclasses.replace(state, gap=gap, **moved)

    def estimate(self, problem: Problem, state: AnnealedState) -> Array:
        """The thresholded average, or the refitted point of A; where the gap has closed, the point itself."""
        if self.goal == "approximation":
            return refit(problem, state.sparse)
        xp = namespace(state.x)
        averaged = (state.count > 0) & (state.gap > CLOSED * state.scale)
        mean = state.total / xp.where(state.count > 0, state.count, xp.ones_like(state.count))[:, None]
        return xp.where(averaged[:, None], keep_largest(mean, problem.sparsity), state.sparse)

    def _data(self, problem: Problem, fraction: float) -> DataProjection:
        alpha = FIRST * (LAST[self.goal] / FIRST) ** fraction
        return DataProjection(problem, Relaxed(alpha * problem.operator.column_energy))
