"""Gibbs sampling of supports: a few annealed Markov chains that move one nonzero at a time, and now and then two."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np

from ..backend.arrays import Array, contiguous, is_complex, is_single, namespace, placed, real_dtype, to_numpy
from ..backend.checks import whole_number, within
from ..backend.norms import squared_norm
from ..kernels.supports import Chains, sample, sample_pairs, separate, wide
from ..kernels.supports.limits import LARGEST_SLAB
from ..kernels.thresholding import Kind, project
from ..operators.least_squares import refit
from ..operators.polishing import correlations, gram_in_memory, marked
from ..problems import Problem
from .base import Requirement, Solver, State

# The part of each chain in which its temperature falls; means are taken over the rest.
COOLING = 0.65
# A chain starts with the noise at which a typical nonzero is this many times below the level that pins it to a column.
HOT = 2.0
# The smallest variance of the noise, relative to the mean square of y: the level of rounding errors. And the
# smallest positive number, so that no variance is zero.
FLOOR = 1e-12
TINY = float(np.finfo(np.float64).tiny)
# Two chains agree if the squared distance of their means is at most this part of the posterior variance.
AGREEMENT = 0.5
# A row settles if they also leave little doubt: the posterior variance is at most this part of the squared mean.
LITTLE_DOUBT = 1e-2
# Means of short chains are averaged up to a larger distance, if their squared residuals differ by no more than those of
# m measurements do by chance, which is this times m^-1/2.
AVERAGED, BY_CHANCE = 1.0, 1.0
# Probabilities are averaged over all chains, weighted by a power of their mean squared residuals: so much for each
# measurement, and at most. Chains that differ have not reached all good supports, and their likelihoods, powers of m/2,
# would trust the best of them too much.
TEMPERED, MOST_POWER = 0.1, 8.0
# Multiplications of an iteration of the Difference Map per entry of Phi, and of a visit per column: one iteration of
# the sampler makes as many visits as cost the same.
ITERATION, VISIT = 4.0, (2.5, 10.0)
# The smallest and the largest number of sweeps for each iteration.
SWEEPS = 0.3, 2.0


@dataclass(frozen=True, kw_only=True)
class SamplerState(State):
    """The state of :class:`SupportSampler`, in double precision: on a GPU that has kernels, otherwise in main memory.

    The fields of the running chain are those of ``kernels.supports.Chains``.

    Attributes
    ----------
    b : array, shape (batch, n)
        Phi^H y.
    energy : array, shape (batch,)
        The squared norm of y.
    sweeps : array of int, shape (batch,)
        The number of sweeps recorded in the sums.
    visited, support, variance, slab, least, best, mean, square, inclusion, misfit, H, x, c, d, ridge, moves : array
        The running chain.
    chain : array of int, shape (batch,)
        The number of chains completed.
    answer, answer_square, answer_inclusion : array, shape (batch, n)
        The posterior means of x, of ``|x|^2`` and of being nonzero of the best chain, or of several that are as good.
    answer_misfit : array, shape (batch,)
        Its mean squared residual; infinite before the first chain ends.
    agreeing : array of int, shape (batch,)
        The number of chains that were averaged.
    weight : array, shape (batch,)
        The sum of the weights of all chains; the best one has weight 1.
    weighted_inclusion : array, shape (batch, n)
        The weighted sum of their probabilities of being nonzero.
    """

    b: Array
    energy: Array
    sweeps: Array
    visited: Array
    support: Array
    variance: Array
    slab: Array
    least: Array
    best: Array
    mean: Array
    square: Array
    inclusion: Array
    misfit: Array
    H: Array
    x: Array
    c: Array
    d: Array
    ridge: Array
    moves: Array
    chain: Array
    answer: Array
    answer_square: Array
    answer_inclusion: Array
    answer_misfit: Array
    agreeing: Array
    weight: Array
    weighted_inclusion: Array

    def check(self, problem: Problem) -> None:
        """Check that the columns of the supports exist."""
        within("support", self.support, 0, problem.operator.shape[1] - 1)
        within("best", self.best, 0, problem.operator.shape[1] - 1)
        within("visited", self.visited, 0, np.iinfo(np.int64).max // 2)
        if any(np.unique(row).size < row.size for row in self.support):
            raise ValueError("support has a column twice")


@dataclass(frozen=True)
class SupportSampler(Solver):
    """Gibbs sampling of the support, with annealing and restarts.

    The entries of x are zero or normal, and so is the noise; the variances of both are learned. A Markov chain moves
    one nonzero at a time: it goes to column k with the conditional probability given the columns of all others, where
    the values of all nonzeros are integrated out. A chain starts hot, with most of y taken for noise, and cools down,
    so that it finds its way to the probable supports; then pairs of nonzeros whose values depend on each other move
    together, and x is averaged. The solution is the posterior mean with its s largest entries.

    It needs no singular values, and unlike message passing it holds for any Phi, with coherent columns as well.

    Parameters
    ----------
    chains : int, optional
        The largest number of chains, run one after the other. A row settles when two chains agree and leave little
        doubt. Otherwise the chain with the smallest residual gives the answer.

    Notes
    -----
    With H = (G_SS + l I)^-1 for the Gram matrix G and l = noise variance / variance of the nonzeros, and with
    x = H Phi_S^H y, a move of the nonzero at position p to column k changes the squared residual by numbers that are
    known from H, x and one combination of the rows of G; ``kernels/supports`` has the formulas. A move costs about
    2 s n multiplications. An iteration makes as many moves as cost no more than an iteration of the Difference Map.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, snr_db=20, rng=0)
    >>> result = sparsect.recover(problem.Phi, problem.y, sparsity=6, method=sparsect.SupportSampler())
    >>> bool(sparsect.snr_db(problem.x, result.x).min() > 20)
    True
    """

    name: ClassVar[str] = "support-sampler"
    takes: ClassVar[frozenset[Kind]] = frozenset()
    needs: ClassVar[frozenset[Requirement]] = frozenset({Requirement.DENSE})
    criterion: ClassVar[str] = "disagreement"
    uses_noise_norm: ClassVar[bool] = True
    compiled: ClassVar[bool] = True
    steps_at_once: ClassVar[int] = 100
    scale_free = True

    chains: int = 4

    def __post_init__(self) -> None:
        whole_number("chains", self.chains, 1)

    def init(self, problem: Problem) -> SamplerState:
        """Start with the columns that correlate most with y."""
        A = problem.structure
        b, energy = correlations(problem.operator, problem.y, in_main_memory(problem))
        xp, batch = namespace(b), b.shape[0]
        squares = gram_in_memory(problem.operator, in_main_memory(problem))[1]
        times = b.shape[1] // squares.shape[0]
        lengths = xp.tile(xp.sqrt(squares), (times,))
        relative = b / xp.where(lengths > 0, lengths, 1.0)
        score = A.unit_scores(relative, A.clipped(relative))
        usable = A.unit_scores(lengths[None, :], lengths[None, :]) > 0
        support = _highest(problem, xp.where(usable, score, -1.0))
        s = support.shape[1]
        size = xp.astype(xp.sqrt(energy), xp.float32 if is_single(problem.y) else xp.float64)
        counts = ("moves", "agreeing", "visited", "sweeps", "taken", "chain")
        rows = ("square", "inclusion", "answer_square", "answer_inclusion", "weighted_inclusion")
        return SamplerState(
            b=b,
            energy=energy,
            mean=xp.zeros_like(b),
            H=xp.zeros((batch, s, s), dtype=b.dtype, device=b.device),
            x=xp.zeros((batch, times * s), dtype=b.dtype, device=b.device),
            d=xp.zeros((batch, squares.shape[0]), dtype=xp.float64, device=b.device),
            c=xp.zeros_like(b),
            answer=xp.zeros_like(b),
            ridge=xp.zeros_like(energy),
            misfit=xp.zeros_like(energy),
            answer_misfit=xp.full_like(energy, float("inf")),
            least=energy,
            weight=xp.zeros_like(energy),
            best=support,
            support=support,
            criterion=size,
            scale=size,
            settled=energy == 0,
            **_variances(problem, energy),
            **{name: xp.zeros_like(energy, dtype=xp.int64) for name in counts},
            **{name: xp.zeros_like(b, dtype=xp.float64) for name in rows},
        )

    def step(self, problem: Problem, state: SamplerState) -> SamplerState:
        """Make the visits of one iteration, at the temperature of the posterior distribution."""
        return advance(problem, state, [1.0])

    def steps(self, problem: Problem, state: Any, goal: Array, fractions: Sequence[float]) -> SamplerState:
        """Make the visits of several iterations; the temperature follows the fraction of the run."""
        numbers = [min(int(fraction * self.chains), self.chains - 1) for fraction in fractions]
        parts = [fraction * self.chains - number for fraction, number in zip(fractions, numbers, strict=True)]
        for number in sorted(set(numbers)):
            if number > to_numpy(state.chain).max(initial=0):
                state = concluded(problem, state, number)
            state = advance(problem, state, [part for part, at in zip(parts, numbers, strict=True) if at == number])
        return cast(SamplerState, state)

    def estimate(self, problem: Problem, state: SamplerState) -> Array:
        """Return the posterior mean of the best chain, with its s largest entries."""
        return narrow(project(concluded(problem, state, 0).answer, problem.structure), problem.y)


def sweeps(problem: Problem, work: float, least: float, most: float) -> float:
    """Return the number of sweeps over the support for each iteration.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    work : float
        The number of multiplications of an iteration for each column of Phi.
    least, most : float
        The limits of what is returned.

    Returns
    -------
    float
        As many sweeps as take so many multiplications.
    """
    A, size = problem.structure, max(problem.structure.size // problem.operator.times, 1)
    visits, cost = max(sum(A.counts), 1), VISIT[0] * size + VISIT[1]
    if A.layout.levels is not None or size > visits:
        # A move of a group or within a level computes the whole fit anew.
        cost = size * size + VISIT[1]
    return min(max(work / (visits * cost), least), most)


def advance(
    problem: Problem, state: SamplerState, parts: Sequence[float], rate: float | None = None, known: bool = False
) -> SamplerState:
    """Continue the running chain of every row.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : SamplerState
        The current state.
    parts : sequence of float
        For each iteration, the part of the chain that has passed, from 0 to 1.
    rate : float, optional
        The number of sweeps for each iteration, possibly below 1. The default is as many as cost no more than an
        iteration of the Difference Map.
    known : bool, optional
        Whether the variance of the noise is kept, as it is if the problem has a noise norm.

    Returns
    -------
    SamplerState
        The state after the iterations.
    """
    m, s = problem.operator.shape[0], sum(problem.structure.counts)
    if s == 0 or not len(parts):
        return state
    rate = sweeps(problem, ITERATION * m, *SWEEPS) if rate is None else rate
    before = int(to_numpy(state.taken)[0]) + np.arange(len(parts))
    counts = np.floor((before + 1) * rate).astype(np.int64) - np.floor(before * rate).astype(np.int64)
    heat = np.repeat(np.maximum(0.0, 1 - np.asarray(parts) / COOLING), counts)
    recorded = heat == 0
    xp = namespace(state.b)
    changing = {field.name: xp.asarray(getattr(state, field.name), copy=True) for field in dataclasses.fields(Chains)}
    gram, squares = gram_in_memory(problem.operator, in_main_memory(problem))
    hot = HOT * state.energy / (2 * s * float(np.log(max(gram.shape[0], 2))))
    known = known or problem.noise_norm is not None
    floor = noise_floor(state.energy, m)
    data, A = (gram, squares, state.b, state.energy), problem.structure
    cooling, count = int(np.count_nonzero(~recorded)), state.sweeps + int(np.count_nonzero(recorded))
    for part in (slice(0, cooling), slice(cooling, None)):
        if recorded[part].any() and not to_numpy(state.sweeps).any() and _moves_pairs(problem):
            pairs = sample_pairs(*data, Chains(**changing), A)
            changing |= dict(zip(("support", "visited", "ridge"), pairs, strict=True))
        if heat[part].size:
            sample(*data, m, known, heat[part], recorded[part], hot, floor, Chains(**changing), A)
    return dataclasses.replace(state, sweeps=count, taken=xp.asarray(state.taken) + len(parts), **changing)


def _moves_pairs(problem: Problem) -> bool:
    """Whether nonzeros may move in pairs: unless they move in groups or within levels."""
    A = problem.structure
    return problem.operator.times > 1 or not (A.grouped or A.layout.levels is not None)


def concluded(problem: Problem, state: SamplerState, chain: int) -> SamplerState:
    """End the running chain of every row: compare it with the best one, and prepare the next one.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : SamplerState
        The current state.
    chain : int
        The number of the next chain.

    Returns
    -------
    SamplerState
        The state at the beginning of the next chain.
    """
    xp = namespace(state.b)
    ended, count = state.sweeps > 0, xp.clip(state.sweeps, 1, None)
    mean, square, inclusion = (value / count[:, None] for value in (state.mean, state.square, state.inclusion))
    misfit = xp.where(ended, state.misfit / count, float("inf"))
    before = xp.isfinite(state.answer_misfit)
    # The likelihood of the data at the mean residual of a chain decides between chains that differ.
    better = ended & (misfit < state.answer_misfit)
    variance = xp.sum(xp.clip(square - xp.abs(mean) ** 2, 0.0, None), axis=-1)
    distance = squared_norm(mean - state.answer)
    rounding = 1e-12 * squared_norm(mean)
    agree = ended & before & (distance <= AGREEMENT * variance + rounding)
    residuals = xp.minimum(misfit, state.answer_misfit), xp.maximum(misfit, state.answer_misfit)
    level = residuals[1] <= (1 + BY_CHANCE * problem.operator.shape[0] ** -0.5) * residuals[0]
    averaged = agree | (ended & before & level & (distance <= AVERAGED * variance))
    agreeing = xp.where(averaged, state.agreeing + 1, xp.where(better, 1, state.agreeing))
    times = xp.astype(xp.clip(agreeing, 1, None), xp.float64)
    share = xp.where(averaged, 1 / times, xp.astype(better, xp.float64))[:, None]
    answers = {
        name: old + share * (new - old)
        for name, old, new in (
            ("answer", state.answer, mean),
            ("answer_square", state.answer_square, square),
            ("answer_inclusion", state.answer_inclusion, inclusion),
        )
    }
    zeros = {
        name: xp.zeros_like(getattr(state, name))
        for name in ("mean", "square", "inclusion", "misfit", "sweeps", "ridge")
    }
    criterion = xp.astype(xp.where(ended & before, xp.sqrt(distance), state.criterion), state.criterion.dtype)
    least = xp.minimum(misfit, state.answer_misfit)
    fading, weight = (_weight(problem, each, least) for each in (state.answer_misfit, misfit))
    return dataclasses.replace(
        state,
        answer_misfit=least,
        agreeing=agreeing,
        weight=fading * state.weight + weight,
        weighted_inclusion=fading[:, None] * state.weighted_inclusion + weight[:, None] * inclusion,
        chain=xp.full_like(state.chain, chain),
        criterion=criterion,
        settled=state.settled | (agree & (variance <= LITTLE_DOUBT * squared_norm(mean))),
        **_variances(problem, state.energy),
        **answers,
        **zeros,
    )


def _weight(problem: Problem, misfit: Array, least: Array) -> Array:
    """Return the likelihoods of chains relative to those of the best ones, tempered; 0 for infinite residuals."""
    xp, power = namespace(misfit), min(TEMPERED * problem.operator.shape[0], MOST_POWER)
    there = xp.isfinite(misfit)
    ratio = xp.clip(xp.where(there, least, 1.0), TINY, None) / xp.clip(xp.where(there, misfit, 1.0), TINY, None)
    return xp.where(there, ratio**power, xp.zeros_like(misfit))


def restarted(problem: Problem, state: SamplerState, x: Array) -> SamplerState:
    """Let the running chain of every row start from the support of a given solution.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : SamplerState
        The state at the beginning of a chain.
    x : array, shape (batch, n)
        Solutions with at most s nonzeros. Supports with fewer are filled up with columns that correlate most with y.

    Returns
    -------
    SamplerState
        The state with other supports, and with the noise variance of their fits.
    """
    m, s, xp = problem.operator.shape[0], problem.sparsity, namespace(state.b)
    A = problem.structure
    wider = (widened(problem, values) for values in (x, state.b))
    size, scores = (A.unit_scores(values, A.clipped(values)) for values in wider)
    largest, highest = (xp.clip(xp.max(values, axis=1, keepdims=True), 1e-300, None) for values in (size, 2 * scores))
    order = xp.where(size > 0, 1.0 + size / largest, scores / highest)
    support = _highest(problem, order)
    fitted = refit(problem.operator, problem.y, A.of_entries(marked(support, A.layout.count, problem.y)), A)
    residual = problem.operator.forward(fitted) - problem.y
    left, power = (widened(problem, squared_norm(values)) for values in (residual, fitted))
    variance = xp.maximum(left / max(m - s, 1), noise_floor(state.energy, m))
    if problem.noise_norm is not None:
        variance = state.variance
    # A fit on columns that are almost the same may be far too large; such a chain would be recorded from its start.
    slab = xp.clip(xp.minimum(power / s, LARGEST_SLAB * state.slab), TINY, None)
    return dataclasses.replace(state, support=support, variance=variance, slab=slab, ridge=xp.zeros_like(variance))


def _highest(problem: Problem, scores: Array) -> Array:
    """Return the units with the highest scores, as many as there may be in each level."""
    xp, A = namespace(scores), problem.structure
    if len(A.counts) > 1:
        level = A.layout.levels
        each = [
            np.argsort(np.where(level == number, -scores, np.inf), axis=1, kind="stable")
            for number in range(len(A.counts))
        ]
        return np.concatenate([order[:, :count] for order, count in zip(each, A.counts, strict=True)], axis=1)
    found = contiguous(xp.argsort(-scores, axis=1, stable=True)[:, : A.counts[0]])
    if A.grouped and problem.operator.times == 1:
        return found
    return separate(*gram_in_memory(problem.operator, in_main_memory(problem)), found)


def in_main_memory(problem: Problem) -> bool:
    """Whether chains run in main memory wherever y is: the GPU kernels know no other sets than the plain one.

    Parameters
    ----------
    problem : Problem
        The problem to solve.

    Returns
    -------
    bool
        True unless x may be any vector with s nonzeros.
    """
    return not problem.structure.plain


def widened(problem: Problem, array: Array) -> Array:
    """Convert an array to double precision, where the chains run.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    array : array
        An array of any library and precision.

    Returns
    -------
    array
        The converted array.
    """
    return wide(array, None if in_main_memory(problem) else problem.operator.Phi)


def narrow(x: Array, like: Array) -> Array:
    """Convert an array to the library, device and dtype of another one.

    Parameters
    ----------
    x : array
        An array of NumPy, or on the device of the other array.
    like : array
        The other array.

    Returns
    -------
    array
        The converted array.
    """
    return namespace(like).astype(placed(x, like), like.dtype if is_complex(x) else real_dtype(like))


def noise_floor(energy: Array, m: int) -> Array:
    """Return the smallest variances of the noise.

    Parameters
    ----------
    energy : array, shape (batch,)
        The squared norms of y.
    m : int
        The number of measurements.

    Returns
    -------
    array, shape (batch,)
        The level of rounding errors.
    """
    return namespace(energy).clip(FLOOR * energy / m, TINY, None)


def _variances(problem: Problem, energy: Array) -> dict[str, Array]:
    """Return the variances of noise and nonzeros at the start of a chain."""
    xp, m, s = namespace(energy), problem.operator.shape[0], max(problem.sparsity, 1)
    noise = 0.01 * energy / m
    if problem.noise_norm is not None:
        noise = widened(problem, problem.noise_norm) ** 2 / m
    slab = energy / (s * (float(problem.operator.column_norms.max()) ** 2 or 1.0))
    return {"variance": xp.maximum(noise, noise_floor(energy, m)), "slab": xp.clip(slab, TINY, None)}
