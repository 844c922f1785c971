"""The annealed Difference Map: a relaxed data set that hardens along the run, so that the search settles in the end."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

from ..algorithm import Need, chosen, in_blocks, kept_where_done
from ..arrays import (
    Array,
    epsilon,
    from_numpy,
    has_fused_steps,
    is_complex,
    is_numpy,
    is_single,
    namespace,
    norm,
    on_host,
    squared_norm,
)
from ..checks import choice, reject, truth_value
from ..devices import product_precision
from ..least_squares import refit
from ..problems import Problem
from ..projections import DataProjection, Relaxed, advance, keep_largest
from ..row_space import Orthonormal, SingularVectors
from .vamp import MessageState, VectorAMP, exploded

# alpha at the beginning and at the end of the search, relative to the mean squared norm of Phi's columns.
ALPHA = {"recovery": (0.03, 0.5), "approximation": (0.15, 1.0)}
# A step goes this many times as far as the Difference Map's.
RELAXATION = 1.5
# For approximation, the fraction of s entries kept at first, and the part of the run until all are.
FEWER, GROWING = 0.5, 0.8
# For recovery, the part of the run that searches; its second half is averaged, and the rest passes messages.
SEARCHING, AVERAGED = 0.8, 0.5
# What is averaged has this part of s entries: fewer than there are, because the last ones fit noise.
CAUTIOUS = 0.8
# Started close to an answer, messages settle where full steps would make them swing.
MESSAGES = VectorAMP(damping=0.6)
# Where Phi is far from random, messages can lose their way: they may fit this many times worse than the average.
WORSE = 4.0
# A point of the search that fits this many times better than the average is no accident.
BETTER = 0.1
# A row with a gap below this, relative to its start, has found a point of both sets.
CLOSED = 1e-4
# Messages that disagree by more than this, relative to the start, have run away.
AWAY = 10.0
# Messages that disagree by less than this times the square root of rounding would only swing on.
SETTLED = 0.01
# Entries below this fraction of the largest are left out where the number of nonzeros is not known.
NEGLIGIBLE = {"single": 1e-3, "double": 1e-5}
# What the state of messages adds to that of the map.
PRIOR = ("r", "gamma", "density", "variance", "noise_variance", "defect")
# What a step of the map changes.
CHANGING = ("x", "image", "sparse", "gap", "taken", "unchanged", "total", "power", "count")


@dataclass(frozen=True, kw_only=True)
class AnnealedState(MessageState):
    """Where the map stands, what it has seen, and the messages: all None but x and target where there are none.

    ``x`` is the map's iterate, later the posterior mean; ``sparse`` the last point of A; ``total`` and ``power`` add up
    points of A and their squared norms over ``count`` steps. ``gamma`` is 0 until messages are passed.
    """

    image: Array
    sparse: Array
    total: Array
    power: Array
    count: Array
    radius: Array


@dataclass(frozen=True)
class AnnealedDifferenceMap:
    """The Difference Map at beta = 1, over-relaxed, with a data set that hardens along the run; nothing is to be tuned.

        w <- Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)
        u <- P_A(x - 2 w)
        x <- x + 1.5 (u - x + w)

    A fixed point has u = P_A(u - Phi^H (Phi u - y) / alpha): it is one of iterative hard thresholding with step
    1 / alpha. A small alpha asks for stability under large steps, and the map wanders; at alpha = 1 (unit columns) it
    settles. alpha is relative to the mean squared norm of Phi's columns and rises geometrically over the iterations or
    seconds that the run is given, so a smaller budget shortens the schedule instead of cutting it off.

    With noise, no single point of the search is the best estimate of x. For recovery, the points of A in the second
    half of the search, with 0.8 s entries, are averaged, and vector message passing (:class:`~sparsect.VectorAMP`),
    started from the average and its spread, turns it into a posterior mean in the last fifth of the run. Where the map
    has found a point of both sets, that is the answer. The *gap* is the norm of x_new - x and of w together, and while
    messages are passed how far they disagree: that it closes then says that nothing would change any more, not that
    Phi x = y.

    Parameters
    ----------
    goal : "recovery" for the error of x: alpha goes from 0.03 to 0.5, and the answer is the posterior mean,
        thresholded (the thresholded average where Phi's singular values are not known, or where it fits much better).
        "approximation" for the error of Phi x: alpha goes from 0.15 to 1, the number of entries kept grows from s/2 to
        s, and the answer is the last point of A, refitted.
    learn_sparsity : keep as many entries as messages expect to be nonzero, having learned the density of x and the
        noise from each row, instead of s. The search still starts from s, at which little depends on it; where it finds
        a point of both sets, entries that are next to nothing are dropped.
    """

    name: ClassVar[str] = "annealed-difference-map"
    needs: ClassVar[frozenset[Need]] = frozenset()
    scale_free: ClassVar[bool] = True
    scheduled: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    uses_noise_norm: ClassVar[bool] = True

    goal: str = "recovery"
    learn_sparsity: bool = False

    def __post_init__(self) -> None:
        choice("goal", self.goal, ALPHA)
        truth_value("learn_sparsity", self.learn_sparsity)
        if self.learn_sparsity and self.goal != "recovery":
            raise reject("learn_sparsity", f"True with goal={self.goal!r}", "it with goal='recovery'")

    @property
    def fitted(self) -> bool:
        """Whether the estimate is a least-squares fit already."""
        return self.goal == "approximation"

    @property
    def approximates(self) -> bool:
        """Whether the best fit with s nonzeros is asked for, not the x behind the data."""
        return self.goal == "approximation"

    def init(self, problem: Problem) -> AnnealedState:
        """Start from the relaxed projection of 0."""
        data = self._data(problem, 0.0)
        target, radius = data.target(problem)
        correction, image = data.correction(0 * target, target, radius)
        steps = 0 * radius
        averages, messages = dict.fromkeys(("total", "power", "count")), dict.fromkeys(PRIOR)
        if self.goal == "recovery":
            averages = {"total": 0 * correction, "power": steps, "count": steps}
            if isinstance(data.space, Orthonormal):
                start = MESSAGES.init(problem)
                messages = {name: getattr(start, name) for name in PRIOR} | {"gamma": steps}
        return AnnealedState(
            x=-correction,
            image=-image,
            sparse=keep_largest(-correction, self._kept(problem, 0.0, False)),
            target=target,
            radius=radius,
            gap=namespace(radius).full_like(radius, float("inf")),
            scale=norm(correction),
            taken=steps,
            unchanged=steps,
            settled=steps > 0,
            failed=steps > 0,
            **averages,
            **messages,
        )

    def step(self, problem: Problem, state: AnnealedState, fraction: float = 0.0, begun: bool = False) -> AnnealedState:
        """One step of the part of the schedule that belongs to the ``fraction`` of the run that is over.

        ``begun`` says that messages are known to be passed already, which is looked up otherwise.
        """
        xp, over = namespace(state.gap), self._over(state, fraction)
        if begun or (over > 1 and bool(xp.any(state.count > 0))):
            after, changed = self._message(problem, state, begun or bool(xp.any(state.gamma > 0)))
        else:
            after, changed = self._search(problem, state, min(over, 1.0))
        still = xp.where(changed, 0 * state.unchanged, state.unchanged + 1)
        return dataclasses.replace(after, taken=state.taken + 1, unchanged=still)

    def _search(self, problem: Problem, state: AnnealedState, over: float) -> tuple[AnnealedState, Array]:
        """One step of the map, and whether the support of its point of A changed."""
        data, kept = self._data(problem, over), self._kept(problem, over, state.gamma is not None)
        w, w_image = data.correction(state.image, state.target, state.radius)
        u, x, gap, changed = advance(state.x, w, state.sparse, kept, RELAXATION)
        image = (1 - RELAXATION) * state.image + RELAXATION * (data.image_of_sparse(u, kept) + w_image)
        seen: dict[str, Any] = {}
        if self._averages(over):
            seen = {"total": state.total + u, "power": state.power + squared_norm(u), "count": state.count + 1}
        # A fixed point of the relaxed map need not agree with the data; a solution does.
        gap = namespace(gap).sqrt(gap**2 + squared_norm(w))
        return dataclasses.replace(state, x=x, image=image, sparse=u, gap=gap, **seen), changed

    def _message(self, problem: Problem, state: AnnealedState, begun: bool) -> tuple[AnnealedState, Array]:
        """One exchange of messages, and whether the support of the thresholded posterior mean changed.

        Rows that have found a point of both sets keep it, and so do those where messages run away what they had.
        """
        xp, before = namespace(state.x), state
        found = (state.gamma == 0) & self._closed(state)
        if not begun:
            mean = self._mean(state)
            spread = (state.power / _at_least_one(state.count) - squared_norm(mean)) / mean.shape[-1]
            state = MESSAGES.start_from(problem, state, mean, spread)
        after = MESSAGES.exchange(problem, state)
        after = dataclasses.replace(after, sparse=self._nonzeros(problem, after))
        failed = ~found & (exploded(state, after) | ~(after.gap <= AWAY * state.scale))
        over = found | failed
        if not on_host(over) or bool(xp.any(over)):
            after = chosen(over, before, after)
        settled = found | (~failed & (after.gap <= SETTLED * epsilon(state.x) ** 0.5 * state.scale))
        changed = xp.any((after.sparse == 0) != (before.sparse == 0), axis=-1)
        return dataclasses.replace(after, settled=settled, failed=failed), changed

    def _nonzeros(self, problem: Problem, state: AnnealedState) -> Array:
        """The posterior mean with its s largest entries, or with as many as are expected to be nonzero."""
        if not self.learn_sparsity:
            return keep_largest(state.x, problem.sparsity)
        xp, n = namespace(state.x), state.x.shape[-1]
        ranks = xp.argsort(xp.argsort(-xp.abs(state.x), axis=-1, stable=True), axis=-1, stable=True)
        expected = xp.astype(ranks, state.density.dtype) < xp.round(n * state.density)[:, None]
        return xp.where(expected, state.x, xp.zeros_like(state.x))

    def _closed(self, state: AnnealedState) -> Array:
        return state.gap <= CLOSED * state.scale

    def leap(
        self, problem: Problem, state: AnnealedState, count: int, goal: Array, fractions: Sequence[float]
    ) -> AnnealedState:
        """``count`` steps, in blocks of rows that run side by side, one on each core."""

        def some_steps(part: Problem, running: AnnealedState, taken: int, goal: Array) -> tuple[AnnealedState, int]:
            return self._some_steps(part, running, fractions[taken:], goal)

        return cast(AnnealedState, in_blocks(problem, state, state.x, count, goal, some_steps))

    def _some_steps(
        self, problem: Problem, state: AnnealedState, fractions: Sequence[float], goal: Array
    ) -> tuple[AnnealedState, int]:
        """At least one step of those ahead, and how many: compiled ones until a row is done, or a single one.

        On a GPU, where looking costs, as many as belong to one part of the search. ``state`` may be changed in place.
        """
        space = problem.operator.row_space
        overs = list(itertools.takewhile(lambda over: over <= 1, (self._over(state, f) for f in fractions)))
        kept = [self._kept(problem, over, state.gamma is not None) for over in overs]
        fused = has_fused_steps(state.x)
        fast = fused or (is_numpy(namespace(state.x)) and not is_complex(state.x))
        if not (
            fast and overs and isinstance(space, SingularVectors) and 0 < min(kept) <= max(kept) < state.x.shape[-1]
        ):
            return self._plain_steps(problem, state, fractions[: len(overs) or None], goal, not overs)
        averaged = [self._averages(over) for over in overs]
        alphas = [self._alpha(problem, over) for over in overs]
        schedule = (alphas, kept, averaged, RELAXATION)
        changing = {name: getattr(state, name) for name in CHANGING}
        if fused:
            from ..kernels.gpu.search import search as search_on_gpu

            how = (namespace(state.gap).astype(from_numpy(goal, state.gap), state.gap.dtype), product_precision(), True)
            after = search_on_gpu(space.basis, state.target, *schedule, *how, **changing)
            return dataclasses.replace(state, **after), len(overs)
        from ..kernels.search import search

        return state, search(space.basis, state.target, *schedule, goal, **changing)

    def _plain_steps(
        self, problem: Problem, state: AnnealedState, fractions: Sequence[float], goal: Array, messages: bool
    ) -> tuple[AnnealedState, int]:
        """One step for the first of the fractions, on a GPU one for each, and how many these are.

        They all belong to the search, or all pass messages.
        """
        if on_host(state.x):
            return self.step(problem, state, fractions[0]), 1
        for number, fraction in enumerate(fractions):
            # The first to pass messages may still have to search, the second to start.
            after = self.step(problem, state, fraction, begun=messages and number > 1)
            state = cast(AnnealedState, kept_where_done(goal, state, after))
        return state, len(fractions)

    def estimate(self, problem: Problem, state: AnnealedState) -> Array:
        """The refitted point of A; or the thresholded posterior mean or average, or a point of A that is in B."""
        if self.goal == "approximation":
            return refit(problem, state.sparse)
        xp = namespace(state.x)
        average = keep_largest(self._mean(state), problem.sparsity)
        misfit, least = (norm(problem.operator.forward(x) - problem.y) for x in (state.sparse, average))
        sound = self._closed(state) | (misfit <= BETTER * least)
        if state.gamma is not None:
            sound = xp.where(state.gamma > 0, (misfit <= WORSE * least) & (misfit <= norm(problem.y)), sound)
        answer = xp.where((sound | (state.count == 0))[:, None], state.sparse, average)
        return self._significant(state, answer) if self.learn_sparsity else answer

    def _significant(self, state: AnnealedState, answer: Array) -> Array:
        """``answer`` without entries that are next to nothing where the search has found a point of both sets."""
        xp, size = namespace(answer), namespace(answer).abs(answer)
        least = NEGLIGIBLE["single" if is_single(answer) else "double"]
        kept = (size > least * xp.max(size, axis=-1)[:, None]) | (state.gamma > 0)[:, None]
        return xp.where(kept, answer, xp.zeros_like(answer))

    def _mean(self, state: AnnealedState) -> Array:
        return state.total / _at_least_one(state.count)[:, None]

    def _kept(self, problem: Problem, over: float, messages: bool) -> int:
        """Entries of a point of A at this part of the search; ``messages`` says whether any will follow it."""
        share = 1.0
        if self.goal == "approximation":
            share = FEWER + (1 - FEWER) * min(1.0, over / GROWING)
        elif messages and self._averages(over):
            share = CAUTIOUS
        return math.ceil(share * problem.sparsity)

    def _over(self, state: AnnealedState, fraction: float) -> float:
        """The part of the search that is over; above 1 it is time for messages."""
        return fraction / SEARCHING if state.gamma is not None else fraction

    def _averages(self, over: float) -> bool:
        return self.goal == "recovery" and over >= 1 - AVERAGED

    def _alpha(self, problem: Problem, over: float) -> float:
        first, last = ALPHA[self.goal]
        return float(first * (last / first) ** over * problem.operator.column_energy)

    def _data(self, problem: Problem, over: float) -> DataProjection:
        return DataProjection(problem, Relaxed(self._alpha(problem, over)))


def _at_least_one(count: Array) -> Array:
    xp = namespace(count)
    return xp.where(count > 0, count, xp.ones_like(count))
