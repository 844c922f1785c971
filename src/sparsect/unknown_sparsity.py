"""Recovery with an unknown number of nonzeros, with or without a known noise level."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from scipy.special import gammaln

from .backend.arrays import BoolArray, FloatArray, IntArray, epsilon, is_complex, on_host, to_numpy
from .backend.checks import real_number, reject, warn
from .backend.norms import row_norms
from .kernels.supports import posterior_of_all, sample_sizes
from .kernels.supports.limits import LARGEST_RIDGE, LARGEST_SLAB, SMALLEST_RIDGE
from .operators import Operator
from .operators.polishing import correlations, few_supports, gram_in_memory
from .operators.pseudo_inverse import OrthonormalBasis
from .problems import Problem
from .run.diagnosis import poor_fits
from .run.loop import solve
from .run.result import Result, check_joinable, joined
from .run.trace import Clock
from .sets import SignalSet
from .solvers import AnnealedDifferenceMap, Automatic
from .solvers.annealed.solver import by_chance
from .solvers.automatic.easy import EXACT
from .solvers.automatic.plan import SAMPLED, STAGES, stages_for
from .solvers.base import Solver
from .solvers.support_sampler import FLOOR, noise_floor

# Nonzeros per measurement at the start of a search; the learned number depends little on it.
START = 0.25
# Iterations of each trial of the smallest s, and of the messages from which chains start.
TRIAL, MESSAGES = 150, 300
# Sweeps of a chain of supports while it cools down, and afterwards; the second half of the latter counts.
COOLING, COUNTED = 100, 100
# Two columns with a larger cosine are almost equal.
ALMOST_EQUAL = 0.99
# Rounds in which the variance of the nonzeros of a support is estimated.
RIDGES = 10
# A chain that fills this part of its slots would take more if it had them.
CROWDED = 0.9
# Groups are added until their likelihood has not risen for so many of them. With two, many small groups were missed
# beside large ones.
PATIENCE = 4
# Another number of nonzeros is taken if its log-likelihood is higher by this, or if the log-probability of one of its
# supports is higher than the average of a chain by the second number. On sums of decays, x is 1.0 dB worse than with a
# known number of nonzeros, and 5.8 dB worse if 10 is the second number.
SURELY, PROBABLY = 10.0, 5.0
# With more nonzeros for each measurement, a chain may have explained noise.
MANY = 0.25
# What is added to squared residuals at the beginning, relative to ||y||^2.
HOT = 0.1


def recover_unknown(
    operator: Operator, y: Any, unsized: SignalSet, solver: Any, noise_norm: Any, **options: Any
) -> Result:
    """Recover signals without a given sparsity, by the default method or an :class:`~sparsect.AnnealedDifferenceMap`.

    With ``noise_norm``, the smallest s with which a search for the best fit comes that close to y is found for each
    row by bisection. Without it, and if columns of Phi resemble each other, s is sampled from its posterior
    distribution, and the median is taken; of groups, also if they have several sizes, the most likely number is
    taken. In all of these cases x is then recovered with this s.

    If Phi is like a random matrix, or if the method is the annealed map, the solution has as many nonzeros as message
    passing expects after it has learned the density of x and the noise level from the row, which maximizes their
    likelihood; the search before starts with m/4 nonzeros.

    Parameters
    ----------
    operator : Operator
        The operator Phi.
    y : array, shape (m,) or (batch, m)
        The data.
    unsized : Sparse, GroupSparse or JointSparse
        The set that contains x, with ``size='auto'``.
    solver : Automatic or AnnealedDifferenceMap
        The method; others are rejected.
    noise_norm : float, array of shape (batch,) or None
        The norm of the noise.
    **options : Any
        The options of :func:`sparsect.solve`.

    Returns
    -------
    Result
        The result, with ``sparsity='auto'``.

    Raises
    ------
    InputError
        If the method, the goal, Phi or an option does not allow an unknown sparsity.
    """
    if not isinstance(solver, Automatic | AnnealedDifferenceMap):
        raise reject("sparsity", f"'auto' with {solver.name!r}", "a number, or 'auto' with the default method")
    sized: Any = unsized
    problem = Problem(operator, y, dataclasses.replace(sized, size=1), noise_norm)
    problem = problem.take(np.arange(problem.batch), max(1, round(START * _most(problem))), single=problem.single)
    if noise_norm is None and solver.goal != "recovery":
        raise reject("sparsity", "'auto' for an approximation", "a number, or 'auto' with noise_norm")
    if noise_norm is None and not (isinstance(solver, Automatic) and _is_sampled(problem)):
        if not isinstance(problem.operator.to_scale.pseudo_inverse, OrthonormalBasis):
            what = "'auto' with a Phi whose singular values are unknown"
            raise reject("sparsity", what, "a number, or 'auto' with noise_norm")
        result = solve(problem, AnnealedDifferenceMap(learn_sparsity=True), **options)
        return dataclasses.replace(result, sparsity="auto")
    given = "noise_norm" if noise_norm is not None else "a Phi with columns that resemble each other"
    check_joinable(options, f"sparsity='auto' and {given}")
    budget, check_fit = options.pop("max_seconds", None), options.pop("check_fit", True)
    if budget is not None:
        budget = real_number("max_seconds", budget, "a number of at least 0", low=0.0)
    clock = Clock()
    with clock.running():
        if noise_norm is not None:
            chosen = smallest_within(problem, type(solver)("approximation"))
        else:
            chosen = most_likely_groups(problem) if _has_groups(problem) else most_likely(problem)
    every, seconds = np.arange(problem.batch), 0.0
    if noise_norm is not None or _has_groups(problem):
        parts = _runs(problem, solver, every, chosen, budget, options)
    else:
        fitted = options["refit"] or options["polish"]
        share = budget / 2 if budget is not None and fitted else budget
        parts = _runs(problem, solver, every, chosen, share, options)
        noise = _explained_by_chance(problem, parts, chosen if fitted else np.ones_like(chosen))
        if fitted and noise.size:
            # Fits explain more of noise than the posterior mean, which shows whether there is anything else.
            means = _runs(problem, solver, noise, chosen, share, options | {"refit": False, "polish": False})
            noise = _explained_by_chance(problem, means, np.ones_like(chosen))
            seconds = sum(part.seconds for _, part in means)
        chosen[noise] = 0
        parts += _runs(problem, solver, noise, chosen, None, options)
    whole = dataclasses.replace(joined(parts, clock.seconds + seconds), sparsity="auto")
    warn((), poor_fits(problem, solver, whole) if check_fit else ())
    return whole.first() if problem.single else whole


def _runs(
    problem: Problem,
    solver: Automatic | AnnealedDifferenceMap,
    waiting: IntArray,
    chosen: IntArray,
    budget: float | None,
    options: dict[str, Any],
) -> list[tuple[IntArray, Result]]:
    """Recover the waiting rows with the chosen numbers of nonzeros, which are raised where they are too small."""
    parts = []
    while waiting.size:
        missed = np.zeros(problem.batch, dtype=bool)
        for s, rows in _groups(waiting, chosen[waiting]):
            share = None if budget is None else budget * rows.size / problem.batch
            part = solve(problem.take(rows, int(s)), solver, max_seconds=share, check_fit=False, **options)
            parts.append((rows, part))
            # A trial may have been luckier than the run itself.
            if problem.noise_norm is not None and solver.goal == "approximation" and s < _most(problem):
                missed[rows] = ~_within(problem, rows, to_numpy(part.residual_norm))
        waiting = np.flatnonzero(missed)
        chosen[waiting] += 1
    return parts


def _explained_by_chance(problem: Problem, parts: list[tuple[IntArray, Result]], places: IntArray) -> IntArray:
    """Return the rows whose answers explain no more of y than as many times the best column explains of noise."""
    size, residual = row_norms(problem.y), np.full(problem.batch, -1.0)
    for rows, part in parts:
        residual[rows] = to_numpy(part.residual_norm)
    times = problem.times or 1
    m, n = (length // times for length in problem.operator.shape)
    chance = np.minimum(places * by_chance(m, n, is_complex(problem.y), times), 1.0)
    return np.flatnonzero((size > 0) & (residual >= np.sqrt(1 - chance) * size))


def _most(problem: Problem) -> int:
    """Return how many nonzeros, or groups of them, determine a y of their own."""
    (m, n), count = problem.operator.shape, problem.structure.layout.count
    return min(count, max(1, m * count // n))


def _is_sampled(problem: Problem) -> bool:
    """Whether the default method samples supports of a few nonzeros; those of groups only in main memory.

    Groups of several sizes count as sampled, because messages, which learn the number of nonzeros, may take a large
    group for several small ones.
    """
    if _has_groups(problem):
        if not on_host(problem.y):
            return False
        if np.ptp(problem.structure.layout.sizes) > 0:
            return True
    return stages_for(problem.take(np.arange(problem.batch), 1), "recovery") is STAGES["recovery"]


def _has_groups(problem: Problem) -> bool:
    """Whether nonzeros come in groups of different columns."""
    return problem.structure.grouped and problem.times is None


def most_likely(problem: Problem) -> IntArray:
    """Sample the number of nonzeros of each row (of places, for joint supports), and return its median.

    One chain of supports starts hot and without nonzeros, another one from what message passing finds. The one with
    the more probable supports decides. If columns are almost equal, single moves may not lead from one combination of
    them to another: then sizes for which all supports can be looked at count as well, if one of their supports is far
    more probable. If even the chains have about as many nonzeros as they may have, the number that message passing
    expects is returned.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi.

    Returns
    -------
    array of int, shape (batch,)
        The number of nonzeros.
    """
    scaled = problem.take(np.arange(problem.batch)).to_scale()[0]
    A = scaled.structure
    gram, squares = map(to_numpy, gram_in_memory(scaled.operator))
    b, energy = map(to_numpy, correlations(scaled.operator, scaled.y))
    method = AnnealedDifferenceMap(learn_sparsity=True)
    messages = solve(scaled, method, max_iter=MESSAGES, record=(), check_fit=False)
    found = to_numpy(messages.x).reshape(problem.batch, -1)
    strength = A.unit_scores(found, found)
    expected = np.count_nonzero(strength, axis=1)
    # For joint supports, the number of measurements at one time counts.
    measured, n = problem.operator.shape[0], squares.size
    m = measured * n // scaled.operator.shape[1]
    largest = min(m - 1, n, math.isqrt(int(SAMPLED["recovery"] * m)))
    order = np.argsort(-strength, axis=1, kind="stable")[:, :largest]
    cold = np.full(COUNTED, FLOOR)
    cooling = HOT * (FLOOR / HOT) ** np.linspace(0, 1, COOLING, endpoint=False)
    sizes, scores = [], []
    for counts, floor in ((0 * expected, np.append(cooling, cold)), (np.minimum(expected, largest), cold)):
        size, score = sample_sizes(gram, squares, b, energy, measured, floor, order.copy(), counts)
        sizes.append(np.median(size[:, -COUNTED // 2 :], axis=1))
        scores.append(np.mean(score[:, -COUNTED // 2 :], axis=1))
    likely: IntArray = np.where(scores[1] > scores[0], sizes[1], sizes[0]).astype(np.int64)
    if A.plain and scaled.operator.coherence > ALMOST_EQUAL:
        rows = np.flatnonzero(energy > 0)
        reached = np.maximum(*scores)[rows] + PROBABLY
        for count in range(1, largest + 1):
            if few_supports(measured, n, count):
                score = _of_best_support(gram, squares, b[rows], energy[rows], count, measured)
                likely[rows[score > reached]] = count
                reached = np.maximum(reached, score)
    crowded = likely >= CROWDED * largest
    likely[crowded] = expected[crowded]
    if problem.times not in (None, 1):
        return _without_excess(problem, likely)
    many = np.flatnonzero(likely > MANY * m)
    if many.size:
        likely[many[_is_noise(scaled.take(many), likely[many])]] = 0
    return likely


def _of_best_support(
    gram: FloatArray, squares: FloatArray, b: Any, energy: FloatArray, count: int, measured: int
) -> FloatArray:
    """Return the log-probability of the most probable of all supports of a size, as :func:`sample_sizes` defines it."""
    half, n = 1.0 if np.iscomplexobj(b) else 0.5, squares.size
    found = posterior_of_all(gram, squares, b, energy, count, measured, noise_floor(energy, measured), None)
    pairs = found.support[:, :, None], found.support[:, None, :]
    own, right = gram[pairs], np.take_along_axis(b, found.support, axis=1)
    values, vectors = np.linalg.eigh(own)
    # The fit in the principal axes of the columns.
    parts = np.abs(np.einsum("rij,ri->rj", vectors.conj(), right)) ** 2
    ridge = np.full(energy.size, LARGEST_RIDGE)
    for _ in range(RIDGES):
        shifted = values + ridge[:, None]
        left = np.maximum(energy - np.sum(parts / shifted, axis=1), FLOOR * energy) / measured
        size = np.sum(parts / shifted**2 + left[:, None] / shifted, axis=1)
        ridge = np.clip(left * count / np.minimum(size, LARGEST_SLAB * energy), SMALLEST_RIDGE, LARGEST_RIDGE)
    ways = gammaln(n + 1) - gammaln(count + 1) - gammaln(n - count + 1)
    volume = np.sum(np.log(values + ridge[:, None]), axis=1)
    left = np.maximum(energy - np.sum(parts / (values + ridge[:, None]), axis=1), FLOOR * energy) / measured
    return np.asarray(half * (count * np.log(ridge) - volume) - half * measured * np.log(left) - ways)


def _is_noise(problem: Problem, likely: IntArray) -> BoolArray:
    """Whether nothing is at least as likely as one or two nonzeros, and far more likely than ``likely`` ones.

    A chain with almost as many nonzeros as there are measurements explains all of y, and may stay there.
    """
    nothing, one, two = (_evidence(problem.take(np.arange(likely.size), count)) for count in range(3))
    many = np.empty(likely.size)
    for count, rows in _groups(np.arange(likely.size), likely):
        many[rows] = _evidence(problem.take(rows, int(count)))
    return np.asarray((nothing >= np.maximum(one, two)) & (nothing > many + SURELY))


def _without_excess(problem: Problem, likely: IntArray) -> IntArray:
    """Return fewer places for joint supports where that is far more likely.

    The more times there are, the deeper are local optima, and a chain that represents one source by several may not
    find back to it.
    """
    fewer, chosen = most_likely_groups(problem), likely.copy()
    for row in np.flatnonzero(fewer < likely):
        scores = [float(_evidence(problem.take(np.array([row]), int(count[row])))[0]) for count in (fewer, likely)]
        chosen[row] = fewer[row] if scores[0] > scores[1] + SURELY else likely[row]
    return chosen


def most_likely_groups(problem: Problem) -> IntArray:
    """Choose the number of groups (of places, for joint supports) that is most likely, judged by the best fit of each.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi, as NumPy arrays.

    Returns
    -------
    array of int, shape (batch,)
        The number of groups, at most as many as may have m / 2 entries.
    """
    problem = problem.to_scale()[0]
    size, m = row_norms(problem.y) ** 2, (2 if is_complex(problem.y) else 1) * problem.operator.shape[0]
    highest = -m / 2 * np.log(np.maximum(size, np.finfo(np.float64).tiny)) + math.lgamma(m / 2)
    likely, since = np.zeros(problem.batch, dtype=np.int64), np.zeros(problem.batch, dtype=np.int64)
    entries = np.cumsum(np.sort(problem.structure.layout.sizes))
    most = int(np.count_nonzero(2 * entries <= problem.operator.shape[0]))
    for count in range(1, max(1, most) + 1):
        rows = np.flatnonzero((since < PATIENCE) & (size > 0))
        if not rows.size:
            break
        score = _evidence(problem.take(rows, count))
        better = score > highest[rows]
        highest[rows[better]], likely[rows[better]] = score[better], count
        since[rows] = np.where(better, 0, since[rows] + 1)
    return likely


def _evidence(problem: Problem) -> FloatArray:
    """Return the log-likelihood of each row of y, up to a constant, for supports of the size of the set.

    With the variance of the noise and the p values integrated out (the latter normal with the mean square E of those of
    the fit), the likelihood is ||r||^-(m - p) Gamma((m - p) / 2) (2 e E)^(-p / 2); the determinant of the Gram
    matrix is left out. All supports are equally likely. For complex data, m and p count twice.
    """
    count, groups, parts = (
        problem.structure.counts[0],
        problem.structure.layout.count,
        2 if is_complex(problem.y) else 1,
    )
    m, least = parts * problem.operator.shape[0], FLOOR * row_norms(problem.y) ** 2
    # The best fit of all would take a large group for what is noise.
    best = solve(problem, Automatic(), max_iter=TRIAL, refit=True, check_fit=False)
    x = to_numpy(best.x).reshape(problem.batch, -1) * problem.operator.column_norms
    left = np.maximum(to_numpy(best.residual_norm).reshape(-1) ** 2, least)
    p = parts * np.count_nonzero(x, axis=1)
    power = np.maximum(np.sum(np.abs(x) ** 2, axis=1) / np.maximum(p, 1), least)
    supports = math.lgamma(groups + 1) - math.lgamma(count + 1) - math.lgamma(groups - count + 1)
    free = np.maximum(m - p, 1)
    evidence = gammaln(free / 2) - free / 2 * np.log(left) - p / 2 * np.log(2 * math.e * power) - supports
    # As many values as measurements fit any y.
    return np.where(p < m, evidence, -np.inf)


def smallest_within(problem: Problem, solver: Solver) -> IntArray:
    """Find the smallest s for each row whose best fit is within the noise norm of y.

    The size of the problem's set is tried first; it is doubled until it is sufficient, and then bisected. The best fit
    is computed approximately, so a smaller s may exist.

    Parameters
    ----------
    problem : Problem
        The problem, with a noise norm.
    solver : Solver
        The method that computes the fits.

    Returns
    -------
    array of int, shape (batch,)
        The smallest s found.

    Raises
    ------
    InputError
        If no x is within the noise norm of y.
    """
    batch, limit, noise_norm = problem.batch, _most(problem), to_numpy(problem.noise_norm)
    low, high = np.full(batch, -1), np.full(batch, min(problem.structure.counts[0], limit))
    growing = np.ones(batch, dtype=bool)
    while (trying := np.flatnonzero(growing | (high - low > 1))).size:
        trial = np.where(growing, high, (low + high) // 2)
        for s, rows in _groups(trying, trial[trying]):
            misfit = _misfit(problem, solver, rows, int(s))
            reached = _within(problem, rows, misfit)
            high[rows[reached]], low[rows[~reached]] = s, s
            growing[rows[reached]] = False
            more = ~reached & growing[rows]
            if s >= limit and more.any():
                row, least = rows[more][0], misfit[more][0]
                got = f"{noise_norm[row]:g} in row {row}"
                raise reject("noise_norm", got, f"at least {least:g} there: no x comes nearer to y")
            high[rows[more]] = min(2 * s, limit)
    return high


def _misfit(problem: Problem, solver: Solver, rows: IntArray, s: int) -> FloatArray:
    """Return ||Phi x - y|| of the best fit with s nonzeros for each of the rows."""
    result = solve(problem.take(rows, s), solver, max_iter=TRIAL, record=(), check_fit=False)
    return to_numpy(result.residual_norm)


def _within(problem: Problem, rows: IntArray, misfit: FloatArray) -> BoolArray:
    """Whether a misfit of each of the rows is within the noise norm, up to rounding errors."""
    rounding = EXACT * epsilon(problem.y) ** 0.5 * row_norms(problem.y)[rows]
    return np.asarray(misfit <= to_numpy(problem.noise_norm)[rows] * (1 + 1e-6) + rounding)


def _groups(rows: IntArray, values: IntArray) -> list[tuple[Any, IntArray]]:
    """Return the distinct values, each with the rows that have it."""
    return [(value, rows[values == value]) for value in np.unique(values)]
