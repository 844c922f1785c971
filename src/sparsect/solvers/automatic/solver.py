"""The default method: a direct solution if that is certain, otherwise search, messages and samples of supports."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ...backend.arrays import Array, FloatArray, epsilon, from_numpy, namespace, on_host, placed, to_numpy
from ...backend.checks import choice
from ...backend.norms import norm, squared_norm
from ...kernels.thresholding import Kind, keep_largest, project
from ...operators.least_squares import refit
from ...operators.polishing import can_polish, few_supports, marked, polish, small_enough
from ...problems import Problem
from ..annealed import AnnealedDifferenceMap
from ..annealed.certainty import expects_few, of_messages
from ..annealed.schedule import ALPHA
from ..annealed.state import AnnealedState
from ..base import Solver, State, chosen
from ..support_sampler import (
    COOLING,
    ITERATION,
    TINY,
    VISIT,
    SamplerState,
    SupportSampler,
    advance,
    concluded,
    narrow,
    restarted,
    sweeps,
    widened,
)
from .copies import among_copies
from .easy import EXACT, Easy, solve_easy
from .exhaustive import solve_exactly
from .most_probable import FEW_IN_DOUBT, WORSE, WORSE_IF_FEW, mean_given_support
from .plan import SEARCH_ONLY, STAGES, Stage, Task, stages_for
from .rank_aware import rank_aware

# What gave the answer of a row: the values of ``Result.source``.
DIRECT, SEARCH, MESSAGES, SAMPLES, SWAPS = "direct", "search", "messages", "samples", "swaps"
NAMES = np.dtype("<U8")
# Chains for an approximation end with a noise of this part of the smallest residual, so that they settle in good fits.
COLD = 0.3
# Multiplications per column that chains for an approximation may spend in an iteration (for each row of Phi, and
# besides), and the smallest and the largest number of sweeps. They get less than for recovery, since the map is fast on
# the many signals that are usually approximated.
WORK, SWEEPS = (1.0, 100.0), (0.1, 0.5)
# An approximation is polished if that takes at most this part of the time of its iterations.
POLISHING = 0.3


@dataclass(frozen=True, kw_only=True)
class AutomaticState(State):
    """The state of :class:`Automatic`.

    Attributes
    ----------
    x : array, shape (batch, n)
        The solutions of rows that were solved directly; zero in the others.
    deviation : array, shape (batch, n)
        The standard deviations of their entries.
    inclusion : array, shape (batch, n)
        The probabilities of their entries of being nonzero.
    solved : array of bool, shape (batch,)
        The rows that were solved directly.
    stage : array of int, shape (batch,)
        The number of the stage that was begun last.
    search : AnnealedState or None
        The state of the search; None if all rows were solved directly.
    sampler : SamplerState or None
        The state of the chains of supports; None if there are none.
    """

    x: Array
    deviation: Array
    inclusion: Array
    solved: Array
    stage: Array
    search: AnnealedState | None
    sampler: SamplerState | None

    def check(self, problem: Problem) -> None:
        """Check the states of the parts."""
        for part in (self.search, self.sampler):
            if part is not None:
                part.check(problem)


@dataclass(frozen=True)
class Automatic(Solver):
    """The default method, which chooses and combines methods to suit Phi and y.

    A row that a few columns explain almost beyond doubt is solved directly, without a factorization of Phi, and so is
    every row if there are so few supports that all of them can be compared. For the other rows:

    * If Phi is like a random matrix, the annealed Difference Map (:class:`AnnealedDifferenceMap`) searches, and message
      passing turns its result into a posterior mean, which is then the best possible estimate. With up to 128
      measurements, rows in which messages expect far more than s nonzeros are sampled as below.
    * If columns of Phi resemble each other, or if there are at most 48 measurements, supports are sampled
      (:class:`SupportSampler`): by a chain that starts hot, by one that starts from the result of the map (or, if that
      fits better, from a rank-aware pursuit of a joint support), and, unless these two agree and leave little doubt, by
      two more. The answer is the posterior mean of the chain with the smallest residual, averaged with chains that are
      equally good. If its s largest entries do not explain y, because columns are almost the same, the answer is the
      mean given the most probable of the supports that were found.

    Parameters
    ----------
    goal : {'recovery', 'approximation'}, optional
        ``'recovery'`` minimizes the error of x: the answer is a posterior mean, which is the best fit where the noise
        is small. ``'approximation'`` minimizes the error of Phi x: the answer is the best fit found by the map and, if
        s^2 <= 16 m, by four chains that cool down further than for recovery, improved by exchanges of single columns.

    Notes
    -----
    ``result.source`` tells which part gave the answer of each row: "direct", "search" (a point of both sets,
    the average of the search, or for an approximation its last point), "messages", "samples" or "swaps" (an
    approximation found by the chains). The stopping criterion is that of the map.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.Automatic())
    >>> result.source.tolist()
    ['direct']
    """

    name: ClassVar[str] = "auto"
    takes: ClassVar[frozenset[Kind]] = frozenset(Kind)
    criterion: ClassVar[str] = "disagreement"
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 100
    scale_free = True

    goal: str = "recovery"

    def __post_init__(self) -> None:
        choice("goal", self.goal, ALPHA)

    @property
    def fitted(self) -> bool:
        """Whether the estimate is a least-squares fit already."""
        return self.goal == "approximation"

    @property
    def approximates(self) -> bool:
        """Whether the goal is the best fit with s nonzeros instead of the x behind the data."""
        return self.goal == "approximation"

    @property
    def _map(self) -> AnnealedDifferenceMap:
        return AnnealedDifferenceMap(goal=self.goal)

    def init(self, problem: Problem) -> AutomaticState:
        """Solve the easy rows, and start the parts that the others need."""
        y = problem.y
        none = np.zeros((problem.batch, problem.operator.shape[1]))
        nothing = not sum(problem.structure.counts)
        easy = Easy(none.astype(to_numpy(y).dtype), none, none, np.full(problem.batch, nothing))
        if problem.structure.plain and self.goal == "recovery" and problem.operator.is_dense and not nothing:
            easy = solve_easy(problem)
            if not easy.solved.all() and few_supports(*problem.operator.shape, problem.sparsity):
                rows = ~easy.solved
                for all_rows, found in zip(easy, solve_exactly(problem.take(np.flatnonzero(rows))), strict=True):
                    all_rows[rows] = found
        elif problem.structure.plain and small_enough(problem.operator, problem.sparsity):
            start = keep_largest(problem.operator.adjoint(y), problem.sparsity)
            best = to_numpy(polish(problem.operator, y, start, problem.structure)[0])
            easy = Easy(best, none, none, np.ones(problem.batch, dtype=bool))
        solved = easy.solved
        search = sampler = None
        size = norm(y)
        if not solved.all():
            search = self._map.init(problem)
            if any(stage.task is Task.CHAIN for stage in stages_for(problem, self.goal)):
                sampler = SupportSampler().init(problem)
        return AutomaticState(
            x=narrow(easy.x, y),
            deviation=narrow(easy.deviation, y),
            inclusion=narrow(easy.inclusion, y),
            solved=from_numpy(solved, y),
            settled=from_numpy(solved, y),
            failed=from_numpy(np.zeros(problem.batch, dtype=bool), y),
            stage=np.zeros(problem.batch, dtype=np.int64),
            taken=np.zeros(problem.batch, dtype=np.int64),
            criterion=size,
            scale=size if search is None else search.scale,
            unchanged=narrow(solved.astype(np.float64), y),
            search=search,
            sampler=sampler,
        )

    def step(self, problem: Problem, state: AutomaticState) -> AutomaticState:
        """Take one step of the first stage."""
        return self.steps(problem, state, np.zeros(problem.batch), [0.0])

    def steps(self, problem: Problem, state: Any, goal: FloatArray, fractions: Sequence[float]) -> AutomaticState:
        """Take several steps, each in the stage to which its fraction of the run belongs."""
        if state.search is None:
            return cast(AutomaticState, state)
        stages = stages_for(problem, self.goal)
        numbers = [sum(stage.begin <= fraction for stage in stages) - 1 for fraction in fractions]
        for number, group in itertools.groupby(zip(numbers, fractions, strict=True), key=lambda pair: pair[0]):
            stage = stages[number]
            parts = [stage.part(fraction) for _, fraction in group]
            if number > int(state.stage[0]):
                state = self._begun(problem, state, stage, number)
            if stage.task is Task.SEARCH:
                after = self._searched(problem, state, goal, parts, stages)
            else:
                after = self._sampled(problem, state, stage, parts)
            # Rows that have settled stay as they are, however many steps are taken at once.
            settled = to_numpy(state.settled)
            taken = state.taken + np.where(settled, 0, self._steps_of(stage, state, after, len(parts)))
            state = chosen(state.settled, state, after) if on_host(problem.y) and settled.any() else after
            state = dataclasses.replace(state, taken=taken)
        return cast(AutomaticState, state)

    def _steps_of(self, stage: Stage, before: AutomaticState, after: AutomaticState, steps: int) -> Any:
        """Return the steps that rows have taken in a stage; those of a search stop by themselves."""
        if stage.task is not Task.SEARCH:
            return steps
        searches = (cast(AnnealedState, state.search) for state in (after, before))
        return np.subtract(*(to_numpy(search.taken).astype(np.int64) for search in searches))

    def _begun(self, problem: Problem, state: AutomaticState, stage: Stage, number: int) -> AutomaticState:
        """Begin a stage: the running chain ends, and rows settle whose chains agree."""
        settled, unchanged, sampler = state.settled, state.unchanged, state.sampler
        if sampler is not None:
            sampler = concluded(self._cold(problem, state), sampler, number)
            if self.goal == "recovery":
                xp = namespace(problem.y)
                settled = cast(Array, settled) | placed(sampler.settled, problem.y)
                unchanged = xp.where(settled, xp.full_like(unchanged, float("inf")), unchanged)
            if stage.task is Task.CHECK:
                sampler = restarted(problem, sampler, self._start(problem, cast(AnnealedState, state.search)))
        begun = np.full_like(state.stage, number)
        return dataclasses.replace(state, stage=begun, settled=settled, unchanged=unchanged, sampler=sampler)

    def _start(self, problem: Problem, search: AnnealedState) -> Array:
        """Return the result of the search or, for a joint support, the better fit of this and a rank-aware pursuit."""
        found, A = self._map.estimate(problem, search), problem.structure
        if problem.operator.times == 1:
            return found
        fits = [refit(problem.operator, problem.y, x, A) for x in (found, rank_aware(problem))]
        misfits = [norm(problem.operator.forward(x) - problem.y) for x in fits]
        return namespace(found).where((misfits[1] < misfits[0])[:, None], fits[1], fits[0])

    def _cold(self, problem: Problem, state: AutomaticState) -> Problem:
        """Return the problem that chains solve; for an approximation, it has less noise than the best fit leaves."""
        if self.goal == "recovery":
            return problem
        search, sampler = cast(AnnealedState, state.search), cast(SamplerState, state.sampler)
        x = refit(problem.operator, problem.y, search.sparse, problem.structure)
        least = narrow(namespace(sampler.least).sqrt(sampler.least), problem.y)
        misfit = namespace(x).minimum(norm(problem.operator.forward(x) - problem.y), least)
        return problem.with_noise_norm(COLD * misfit)

    def _searched(
        self,
        problem: Problem,
        state: AutomaticState,
        goal: FloatArray,
        parts: Sequence[float],
        stages: tuple[Stage, ...],
    ) -> AutomaticState:
        """Take steps of the map; rows whose messages settle are finished unless chains are to check them."""
        search = self._map.steps(problem, state.search, goal, parts)
        found: dict[str, Any] = {"criterion": search.criterion, "unchanged": search.unchanged}
        if stages is SEARCH_ONLY:
            found |= {"settled": search.settled, "failed": search.failed}
        elif stages is STAGES["check"]:
            sound = cast(Array, search.settled) & expects_few(search, problem.structure)
            found["settled"] = cast(Array, state.settled) | sound
        else:
            xp = namespace(search.criterion)
            found["criterion"] = xp.where(search.passes_messages, search.scale, search.criterion)
        return dataclasses.replace(state, search=search, **found)

    def _sampled(self, problem: Problem, state: AutomaticState, stage: Stage, parts: Sequence[float]) -> AutomaticState:
        """Continue the chain of a stage."""
        if stage.task is Task.CHECK:
            parts = [COOLING + (1 - COOLING) * part for part in parts]
        sampler = cast(SamplerState, state.sampler)
        if self.goal == "approximation":
            rate = sweeps(problem, WORK[0] * problem.operator.shape[0] + WORK[1], *SWEEPS)
            return dataclasses.replace(state, sampler=advance(problem, sampler, parts, rate, known=True))
        return dataclasses.replace(state, sampler=advance(problem, sampler, parts))

    def estimate(self, problem: Problem, state: AutomaticState) -> Array:
        """Return the answer of the most reliable part."""
        return self.answer(problem, state)[0]

    def answer(self, problem: Problem, state: AutomaticState) -> tuple[Array, dict[str, Array]]:
        """Return the answer, its source, and the probabilities of nonzeros or the exchanges of columns."""
        return self._fit(problem, state) if self.goal == "approximation" else self._posterior(problem, state)

    def _fit(self, problem: Problem, state: AutomaticState) -> tuple[Array, dict[str, Array]]:
        """Return the better fit of search and chains, polished if that is cheap enough."""
        xp, s, m = namespace(problem.y), problem.sparsity, problem.operator.shape[0]
        direct = state.search is None
        source = np.full(problem.batch, DIRECT if direct else SEARCH, dtype=NAMES)
        swaps: Array = np.zeros(problem.batch, dtype=np.int64)
        optimal: Array = np.full(problem.batch, direct)
        if state.search is None:
            return state.x, {"source": source, "swaps": swaps, "swap_optimal": optimal}
        x = refit(problem.operator, problem.y, state.search.sparse, problem.structure)
        if state.sampler is not None:
            A = problem.structure
            best = A.of_entries(marked(state.sampler.best, A.layout.count, problem.y))
            other = refit(problem.operator, problem.y, best, A)
            misfits = [norm(problem.operator.forward(each) - problem.y) for each in (x, other)]
            better = misfits[1] < misfits[0]
            x = xp.where(better[:, None], other, x)
            source[to_numpy(better)] = SWAPS
        steps = float(np.max(to_numpy(state.search.taken), initial=0.0))
        cheap = s * s <= POLISHING * ITERATION / VISIT[0] * m * steps
        if cheap and can_polish(problem.operator, problem.structure):
            x, swaps, optimal = polish(problem.operator, problem.y, x, problem.structure)
        return x, {"source": source, "swaps": swaps, "swap_optimal": optimal}

    def _posterior(self, problem: Problem, state: AutomaticState) -> tuple[Array, dict[str, Array]]:
        """Return the posterior mean with s nonzeros: of the chains, of the messages, or the direct solution."""
        xp, y = namespace(problem.y), problem.y
        source = np.full(problem.batch, DIRECT, dtype=NAMES)
        x, deviation, inclusion = state.x, state.deviation, state.inclusion
        solved = to_numpy(state.solved)
        if state.search is not None:
            search, open_rows = state.search, ~solved
            found = self._map.estimate(problem, search)
            passes = to_numpy(search.passes_messages)
            source[open_rows] = np.where(passes, MESSAGES, SEARCH)[open_rows]
            found, probability, spread = of_messages(search, found, problem.structure)
            x = xp.where(state.solved[:, None], x, found)
            inclusion = xp.where(state.solved[:, None], inclusion, probability)
            deviation = xp.where(state.solved[:, None], deviation, spread)
        if state.sampler is not None:
            ended = concluded(problem, state.sampler, 0)
            search = cast(AnnealedState, state.search)
            met = to_numpy(search.closed & ~search.passes_messages)
            taken = np.isfinite(to_numpy(ended.answer_misfit)) & ~solved & ~met
            source[taken] = SAMPLES
            mean = _explaining(problem, ended, found)
            of_chains = namespace(mean)
            variance = of_chains.clip(ended.answer_square - of_chains.abs(ended.answer) ** 2, 0.0, None)
            probability = ended.weighted_inclusion / of_chains.clip(ended.weight, TINY, None)[:, None]
            probability = of_chains.clip(probability, 0.0, 1.0)
            rows = from_numpy(taken, y)[:, None]
            x = xp.where(rows, narrow(mean, y), x)
            inclusion = xp.where(rows, narrow(probability, y), inclusion)
            deviation = xp.where(rows, narrow(of_chains.sqrt(variance), y), deviation)
        if state.search is not None and problem.sparsity < problem.operator.shape[0]:
            # Without noise, the fit on the right support is exact, and the mean may not be.
            fitted = refit(problem.operator, y, x, problem.structure)
            exact = (norm(problem.operator.forward(fitted) - y) <= EXACT * epsilon(y) ** 0.5 * norm(y))[:, None]
            x = xp.where(exact, fitted, x)
            inclusion = xp.where(exact, xp.astype(x != 0, inclusion.dtype), inclusion)
            deviation = xp.where(exact, xp.zeros_like(deviation), deviation)
        # A pursuit is averaged over places, and then has a deviation, only if its columns have no copies.
        pursued = state.search is None and not few_supports(*problem.operator.shape, problem.sparsity)
        if not pursued or not to_numpy(xp.any(deviation > 0, axis=1)).all():
            inclusion, deviation = among_copies(problem, x, inclusion, deviation)
        return x, {"source": source, "inclusion_probability": inclusion, "standard_deviation": deviation}


def _explaining(problem: Problem, ended: SamplerState, found: Array) -> Array:
    """Return the mean of the chains with s nonzeros, or the mean of one support if the former fits y far worse.

    If columns are almost the same, the mean is spread over them, and its s largest entries miss the others. Then the
    answer is the mean given one support. If few nonzeros are in doubt, a smaller excess of the residual suffices.

    There are four candidates: the support with the smallest residual, the columns with the highest probabilities, the
    last sample, and the support of ``found``, the answer of the map. The most probable one is chosen. With bounds, the
    answer is the better fit on the first and the last of them.
    """
    xp, operator, y, A = namespace(ended.answer), problem.operator, problem.y, problem.structure

    def misfit(x: Array) -> Array:
        return widened(problem, squared_norm(operator.forward(narrow(x, y)) - y))

    mean = project(ended.answer, A)
    there = mean != 0
    probability = xp.sum(xp.where(there, ended.answer_inclusion, 0.0), axis=1)
    count = xp.sum(xp.astype(there, xp.float64), axis=1)
    few_in_doubt = count - probability <= xp.clip(FEW_IN_DOUBT[0] * count, 0.0, FEW_IN_DOUBT[1])
    ratio = misfit(mean) / xp.clip(ended.answer_misfit, TINY, None)
    poor = (ratio > WORSE**2) | (few_in_doubt & (ratio > WORSE_IF_FEW**2))
    if not to_numpy(poor).any():
        return mean
    best = A.of_entries(marked(ended.best, A.layout.count, y))
    if A.bounded:
        fits = [refit(operator, y, x, A) for x in (best, found)]
        closer = misfit(fits[1]) < misfit(fits[0])
        chosen = xp.where(closer[:, None], *(widened(problem, fit) for fit in reversed(fits)))
    else:
        last = A.of_entries(marked(ended.support, A.layout.count, y))
        highest = project(ended.answer_inclusion, A)
        supports = np.stack([to_numpy(x) != 0 for x in (best, last, highest, found)])
        b, square, left = (to_numpy(part) for part in (ended.b, ended.answer_square, ended.answer_misfit))
        chosen = placed(mean_given_support(problem, b, square, left, supports), mean)
    return xp.where(poor[:, None], chosen, mean)
