"""The annealed Difference Map: a relaxed data set hardens during the run, so that the search settles at its end."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, cast

import numpy as np
from scipy.special import chdtrc, chdtri

from ...backend.arrays import Array, FloatArray, is_complex, is_single, namespace, on_host, to_numpy
from ...backend.checks import choice, reject, truth_value
from ...backend.norms import norm, squared_norm
from ...kernels.search import search_steps
from ...kernels.thresholding import Kind, project
from ...operators.least_squares import refit
from ...operators.pseudo_inverse import SingularVectors
from ...problems import Problem
from ...sets import Relaxed
from ...sets.data import DataProjection
from ..base import Solver, in_blocks, kept_where_done
from ..vamp import expected_share
from .certainty import of_messages
from .messages import MESSAGES, PRIOR, message_step
from .schedule import ALPHA, Plan
from .search import CHANGING, RELAXATION, search_step
from .state import AnnealedState, Phase

# If Phi is far from random, messages can go astray: a posterior mean whose residual exceeds this multiple of that of
# the average is rejected.
WORSE = 4.0
# A point of the search whose residual is below this fraction of that of the average is taken as the solution.
BETTER = 0.1
# If the number of nonzeros is not known, entries below this fraction of the largest one are dropped.
NEGLIGIBLE = {"single": 1e-3, "double": 1e-5}
# Then, posterior means must also explain more of ||y||^2 than a column does by chance, but not more than this part.
MOST_BY_CHANCE = 0.9
# And one of their nonzeros must have a larger probability than this. With 0.9, pure noise would have nonzeros even less
# often, but signals with many nonzeros (100x300, s = 30) lose 0.4 dB.
STANDS_OUT = 0.75


@dataclass(frozen=True)
class AnnealedDifferenceMap(Solver):
    """The annealed Difference Map, the part of the default method that searches.

    It is the Difference Map at beta = 1, over-relaxed, with a relaxed data set that hardens during the run. It has no
    parameters to tune. One step is::

        w <- Phi^H (Phi Phi^H + alpha I)^-1 (Phi x - y)
        u <- P_A(x - 2 w)
        x <- x + 1.5 (u - x + w)

    The relaxation alpha rises during the search. For recovery, points of the search are then averaged, and message
    passing turns the average into a posterior mean; see the notes.

    Parameters
    ----------
    goal : {'recovery', 'approximation'}, optional
        ``'recovery'`` minimizes the error of x: alpha goes from 0.03 to 0.5, and the solution is the thresholded
        posterior mean, or the thresholded average if the singular values of Phi are not known or if the average fits
        much better. ``'approximation'`` minimizes the error of Phi x: alpha goes from 0.15 to 1 in 1,000
        iterations (a shorter run starts with a larger alpha), the number of entries kept grows from 0.3 s to s, and the
        solution is the last point of A, refitted.
    learn_sparsity : bool, optional
        Whether to keep the number of nonzeros that message passing expects, after learning the density of x and the
        noise level from each row, instead of s. The search still starts from s, but the solution depends little on it.
        If the search finds a point of both sets, its negligible entries are dropped.

    Notes
    -----
    A fixed point satisfies u = P_A(u - Phi^H (Phi u - y) / alpha), so it is a fixed point of iterative hard
    thresholding with step 1 / alpha. If alpha is small, a fixed point must be stable under large steps, and the map
    wanders; at alpha = 1 (for unit columns) it settles. alpha is relative to the mean squared norm of Phi's columns and
    rises geometrically over the iterations or seconds of the run, so a smaller budget shortens the schedule instead of
    cutting it off.

    With noise, no single point of the search is the best estimate of x. For recovery, the points of A in the second
    half of the search, with 0.8 s entries, are averaged. In the last fifth of the run, vector message passing
    (:class:`~sparsect.VectorAMP`), started from the average and its spread, turns it into a posterior mean. If the map
    has found a point of both sets, this point is the solution.

    The stopping criterion is the disagreement between the sparse point and the data. During the search, it is the gap
    between the two sets: sqrt(||x_new - x||^2 + ||w||^2). During message passing, it is ||x1 - x2|| of
    :class:`~sparsect.VectorAMP`: when it vanishes, the solution no longer changes, but Phi x = y need not hold.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.AnnealedDifferenceMap())
    >>> float(sparsect.support_recall(problem.x, result.x).min())
    1.0
    """

    name: ClassVar[str] = "annealed-difference-map"
    takes: ClassVar[frozenset[Kind]] = frozenset(Kind)
    uses_noise_norm: ClassVar[bool] = True
    criterion: ClassVar[str] = "disagreement"
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 100
    scale_free = True

    goal: str = "recovery"
    learn_sparsity: bool = False

    def __post_init__(self) -> None:
        choice("goal", self.goal, ALPHA)
        truth_value("learn_sparsity", self.learn_sparsity)
        if self.learn_sparsity and self.goal != "recovery":
            raise reject("learn_sparsity", f"True with goal={self.goal!r}", "used with goal='recovery'")

    @property
    def fitted(self) -> bool:
        """Whether the estimate is a least-squares fit already."""
        return self.goal == "approximation"

    @property
    def approximates(self) -> bool:
        """Whether the goal is the best fit with s nonzeros instead of the x behind the data."""
        return self.goal == "approximation"

    @property
    def finds_sparsity(self) -> bool:
        """Whether the number of nonzeros is learned."""
        return self.learn_sparsity

    def init(self, problem: Problem) -> AnnealedState:
        """Start from the relaxed projection of 0."""
        plan = Plan.of(problem, self.goal)
        data = DataProjection(problem, Relaxed(plan.alpha(0.0)))
        target, radius = data.target(problem)
        correction, image = data.correction(0 * target, target, radius)
        xp, steps = namespace(radius), 0 * radius
        averages, messages = dict.fromkeys(("total", "power", "count")), dict.fromkeys(PRIOR)
        if self.goal == "recovery":
            averages = {"total": 0 * correction, "power": steps, "count": steps}
        if plan.messages:
            start = MESSAGES.init(problem)
            messages = {name: getattr(start, name) for name in PRIOR}
        return AnnealedState(
            phase=xp.full_like(steps, int(Phase.SEARCH), dtype=xp.int8),
            x=-correction,
            image=-image,
            sparse=project(-correction, plan.kept(0.0)),
            target=target,
            radius=radius,
            criterion=xp.full_like(radius, float("inf")),
            scale=norm(correction),
            taken=steps,
            unchanged=steps,
            settled=steps > 0,
            failed=steps > 0,
            **averages,
            **messages,
        )

    def step(
        self,
        problem: Problem,
        state: AnnealedState,
        fraction: float = 0.0,
        begun: bool = False,
        taken: float | None = None,
    ) -> AnnealedState:
        """Take one step of the search or of message passing, as the schedule demands."""
        xp, plan = namespace(state.criterion), Plan.of(problem, self.goal)
        searched = plan.searched(fraction)
        if begun or (searched > 1 and bool(xp.any(state.averaged))):
            begun = begun or bool(xp.any(state.passes_messages))
            after, changed = message_step(problem, state, begun, partial(self._nonzeros, problem))
        else:
            taken = _taken(state) if taken is None else taken
            after, changed = search_step(problem, state, plan, min(searched, 1.0), taken)
        still = xp.where(changed, 0 * state.unchanged, state.unchanged + 1)
        return _open(plan, dataclasses.replace(after, taken=state.taken + 1, unchanged=still))

    def _nonzeros(self, problem: Problem, state: AnnealedState) -> Array:
        """Return the posterior mean with its s largest entries, or with the expected number of nonzeros."""
        if not self.learn_sparsity:
            return project(state.x, problem.structure)
        xp, A = namespace(state.x), problem.structure
        x = A.clipped(state.x)
        scores = A.unit_scores(state.x, x)
        order = xp.argsort(-scores, axis=-1, stable=True)
        # With strong noise the learned density can exceed the number of measurements, which is the limit.
        share = expected_share(A, state.density)
        limited = xp.minimum(share, 0 * share + min(problem.operator.shape) / x.shape[-1])
        # A unit is kept if that brings the number of nonzeros nearer to the expected one.
        every = xp.broadcast_to(xp.astype(A.layout.like("sizes", x), share.dtype)[None, :], scores.shape)
        sizes = xp.take_along_axis(every, order, axis=-1)
        nonzeros = xp.cumulative_sum(sizes, axis=-1) - sizes / 2
        expected = xp.take_along_axis(nonzeros < x.shape[-1] * limited[:, None], xp.argsort(order, axis=-1), axis=-1)
        kept = A.of_entries(expected)
        return xp.where(kept, x, xp.zeros_like(x))

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> AnnealedState:
        """Take several steps in blocks of rows that run in parallel, one on each core."""

        def some_steps(
            part: Problem, running: AnnealedState, taken: int, goal: FloatArray
        ) -> tuple[AnnealedState, int]:
            return self._some_steps(part, running, fractions[taken:], goal)

        plan = Plan.of(problem, self.goal)
        if not plan.evident:
            goal = np.where(to_numpy(state.passes_messages), goal, -1.0)
        return _open(plan, cast(AnnealedState, in_blocks(problem, state, state.x, len(fractions), goal, some_steps)))

    def _some_steps(
        self, problem: Problem, state: AnnealedState, fractions: Sequence[float], goal: FloatArray
    ) -> tuple[AnnealedState, int]:
        """Take at least one of the given steps, and return the state and the number of steps taken.

        Compiled kernels step until a row is finished. Without them, a single step is taken, or on a GPU, where checking
        rows is expensive, all steps of one phase. ``state`` may be changed in place.
        """
        plan, inverse = Plan.of(problem, self.goal), problem.operator.pseudo_inverse
        searching = list(itertools.takewhile(lambda part: part <= 1, map(plan.searched, fractions)))
        if searching and isinstance(inverse, SingularVectors):
            changing = {name: getattr(state, name) for name in CHANGING}
            schedule = plan.schedule(searching, _taken(state))
            found = search_steps(inverse.basis, state.target, schedule, RELAXATION, goal, changing)
            if found is not None:
                return dataclasses.replace(state, **found[0]), found[1]
        if on_host(state.x):
            return self.step(problem, state, fractions[0]), 1
        ahead, taken = fractions[: len(searching) or None], _taken(state)
        for number, fraction in enumerate(ahead):
            # The first of these steps may still belong to the search, and the second may start the messages.
            after = self.step(problem, state, fraction, begun=not searching and number > 1, taken=taken + number)
            state = cast(AnnealedState, kept_where_done(goal, state, after))
        return state, len(ahead)

    def estimate(self, problem: Problem, state: AnnealedState) -> Array:
        """Return the refitted point of A, or for recovery the posterior mean, the average or a point of both sets.

        The posterior mean and the average are thresholded.
        """
        if self.goal == "approximation":
            return refit(problem.operator, problem.y, state.sparse, problem.structure)
        xp = namespace(state.x)
        average = project(state.mean, problem.structure)
        misfit, least = (norm(problem.operator.forward(x) - problem.y) for x in (state.sparse, average))
        after_search = state.closed | (misfit <= BETTER * least)
        after_messages = misfit <= norm(problem.y)
        if Plan.of(problem, self.goal).evident:
            after_messages = after_messages & (misfit <= WORSE * least)
        sound = xp.where(state.passes_messages, after_messages, after_search)
        answer = xp.where((sound | ~state.averaged)[:, None], state.sparse, average)
        return self._significant(problem, state, answer) if self.learn_sparsity else answer

    def _significant(self, problem: Problem, state: AnnealedState, answer: Array) -> Array:
        """Drop negligible entries of points of both sets, and posterior means that noise alone explains.

        Noise has no nonzeros, but messages may settle at a density above zero: many nonzeros, none of which is sure.
        """
        xp, size = namespace(answer), namespace(answer).abs(answer)
        least = NEGLIGIBLE["single" if is_single(answer) else "double"]
        large = size > least * xp.max(size, axis=-1)[:, None]
        left = squared_norm(problem.operator.forward(answer) - problem.y)
        m = problem.operator.shape[0]
        # Of noise, random columns explain their share of the measurements, and the best of n columns a bit more.
        share = xp.astype(xp.count_nonzero(answer, axis=-1), left.dtype) / m
        by_noise = xp.clip(share, by_chance(*problem.operator.shape, is_complex(answer)), MOST_BY_CHANCE)
        explains = (left < (1 - by_noise) * squared_norm(problem.y))[:, None]
        inclusion = of_messages(state, answer, problem.structure, sized=False)[1]
        stands_out = xp.max(inclusion, axis=-1, keepdims=True) > STANDS_OUT
        kept = xp.where(state.passes_messages[:, None], explains & stands_out, large)
        return xp.where(kept, answer, xp.zeros_like(answer))

    def answer(self, problem: Problem, state: AnnealedState) -> tuple[Array, dict[str, Array]]:
        """Return the estimate and, for recovery, the probabilities of nonzeros and their standard deviations."""
        x = self.estimate(problem, state)
        if self.goal == "approximation":
            return x, {}
        xp = namespace(x)
        _, inclusion, deviation = of_messages(state, x, problem.structure, sized=not self.learn_sparsity)
        # Messages that explain noise give many entries small probabilities, and nearly all of these are too high.
        inclusion = xp.where(xp.any(x != 0, axis=-1)[:, None], inclusion, xp.zeros_like(inclusion))
        source = np.where(to_numpy(state.passes_messages), "messages", "search")
        return x, {"source": source, "inclusion_probability": inclusion, "standard_deviation": deviation}


def by_chance(m: int, n: int, complex_data: bool, times: int = 1) -> float:
    """Return which part of ||y||^2 the best of n columns explains if y is noise.

    Parameters
    ----------
    m, n : int
        The shape of Phi.
    complex_data : bool
        Whether y is complex.
    times : int, optional
        The number of times of a signal with a joint support.

    Returns
    -------
    float
        2 log(n) / m at one time, or half of it for complex data; at several times, what is as improbable. Less than 1.
    """
    parts = 2 if complex_data else 1
    explained = chdtri(parts * times, chdtrc(parts, 2 * math.log(n)))
    return min(float(explained) / (parts * times * m), MOST_BY_CHANCE)


def _open(plan: Plan, state: AnnealedState) -> AnnealedState:
    """Keep rows in the search open if a point of both sets says nothing."""
    if plan.evident:
        return state
    xp = namespace(state.criterion)
    kept = xp.where(state.passes_messages, state.criterion, xp.maximum(state.criterion, state.scale))
    return dataclasses.replace(state, criterion=kept)


def _taken(state: AnnealedState) -> float:
    """Return the number of steps that rows have taken; those that were finished earlier do not count."""
    return float(to_numpy(state.taken).max(initial=0.0))
