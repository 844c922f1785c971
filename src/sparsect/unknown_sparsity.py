"""How many nonzeros, if nobody knows? Two answers, one with the noise level and one without."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from .arrays import namespace, take_rows, to_numpy
from .checks import reject
from .operators import Operator
from .problems import Problem
from .result import Result
from .solve import solve
from .solvers import AnnealedDifferenceMap

# Nonzeros for each measurement that a search starts with; what is learned in the end hardly depends on it.
START = 0.25
# Iterations of each trial of the smallest s.
TRIAL = 150


def recover_unknown(operator: Operator, y: Any, solver: Any, noise_norm: Any, **options: Any) -> Result:
    """``sparsect.recover`` without a sparsity, by an :class:`~sparsect.AnnealedDifferenceMap`.

    With ``noise_norm``: for each row the smallest s at which Phi x comes that close to y, found by bisection. Without:
    as many nonzeros as message passing expects when it has learned from the row how dense x is and how strong the
    noise, which maximises their likelihood; the search before it starts with m/4 of them.
    """
    if not isinstance(solver, AnnealedDifferenceMap):
        raise reject("sparsity", f"'auto' with {solver.name!r}", "a number, or 'auto' with annealed-difference-map")
    m, n = operator.shape
    start = min(n, max(1, round(START * m)))
    if noise_norm is None:
        if solver.goal != "recovery":
            raise reject("sparsity", "'auto' for an approximation", "a number, or 'auto' with noise_norm")
        result = solve(Problem(operator, y, start), dataclasses.replace(solver, learn_sparsity=True), **options)
        return dataclasses.replace(result, sparsity="auto")
    for name in ("checkpoint", "callback"):
        if options.get(name) is not None:
            raise reject(name, "a value with sparsity='auto' and noise_norm", "None: several runs are made")
    problem = Problem(operator, y, start, noise_norm)
    chosen = smallest_within(problem)
    parts = [
        (rows, solve(problem.take(rows, int(s)), solver, **options))
        for s, rows in _groups(np.arange(problem.batch), chosen)
    ]
    whole = _whole(parts)
    return whole.first() if problem.single else whole


def smallest_within(problem: Problem) -> np.ndarray[Any, Any]:
    """For each row the smallest s, as far as can be told, whose best fit is within the problem's noise norm of y.

    ``problem.sparsity`` is tried first.
    """
    batch, limit = problem.batch, min(problem.operator.shape)
    low, high = np.full(batch, -1), np.full(batch, min(problem.sparsity, limit))
    open_ended = np.ones(batch, dtype=bool)
    while (trying := np.flatnonzero(high - low > 1)).size:
        trial = np.where(open_ended, high, (low + high) // 2)
        for s, rows in _groups(trying, trial[trying]):
            reached = _reached(problem, rows, int(s))
            high[rows[reached]] = s
            low[rows[~reached]] = s
            ends = reached | (s >= limit)
            open_ended[rows[ends]] = False
            more = rows[~ends & open_ended[rows]]
            high[more] = min(2 * s, limit)
    return high


def _reached(problem: Problem, rows: np.ndarray[Any, Any], s: int) -> np.ndarray[Any, Any]:
    """Whether the best fit with s nonzeros is within the noise norm, for each of the rows."""
    part = problem.take(rows, s)
    result = solve(part, AnnealedDifferenceMap("approximation"), max_iter=TRIAL, record=())
    return to_numpy(result.residual_norm) <= to_numpy(part.noise_norm) * (1 + 1e-6)


def _groups(rows: np.ndarray[Any, Any], values: np.ndarray[Any, Any]) -> list[tuple[Any, np.ndarray[Any, Any]]]:
    """The distinct values, and the rows that have each."""
    return [(value, rows[values == value]) for value in np.unique(values)]


def _whole(parts: list[tuple[np.ndarray[Any, Any], Result]]) -> Result:
    """Results of groups of rows as one, in the order of the rows; measures along the way are left out."""
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    results = [result for _, result in parts]
    xp = namespace(results[0].x)
    values = {
        name: take_rows(xp.concat([getattr(result, name) for result in results], axis=0), order)
        for name in Result.PER_ROW
    }
    seconds = {name: sum(getattr(result, name) for result in results) for name in ("setup_seconds", "seconds")}
    return dataclasses.replace(results[0], **values, **seconds, sparsity="auto", history={})
