"""Warnings about solutions that do not explain the data: one for each call, with a count and a suggestion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..backend.arrays import BoolArray, FloatArray, epsilon, is_single, to_numpy
from ..backend.norms import row_norms
from ..problems import Problem
from .result import Result

# A solution whose residual exceeds this fraction of ||y|| does not explain y.
UNEXPLAINED = 0.6
# Rows of y smaller than this multiple of machine epsilon, relative to the largest row, are rounding errors.
ROUNDING = 100
# If the noise norm is known, a residual of up to this multiple of it is accepted.
NOISE = 2.0
# A solution is hardly determined by y if the standard deviations of all entries are together this many times as large.
UNDETERMINED = 2.0
# If column norms of Phi differ by more than this factor, the warning names them as the likely reason.
UNEQUAL = 10.0


def diverged_rows(count: int, batch: int) -> str | None:
    """Describe the rows that diverged.

    Parameters
    ----------
    count : int
        The number of rows that diverged.
    batch : int
        The number of rows in total.

    Returns
    -------
    str or None
        The text of the warning, or None if no row diverged.
    """
    advice = "settings closer to the defaults or a wider dtype avoid that"
    return f"{count} of {batch} rows diverged and keep their solution from before: {advice}" if count else None


def poor_fits(problem: Problem, solver: Any, result: Result, scaled: bool = True) -> Iterator[str]:
    """Describe the solutions that are zero, whose residual is too large, or that y hardly determines.

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solver : Solver
        The method.
    result : Result
        The result, with a batch axis.
    scaled : bool, optional
        Whether the columns of Phi were brought to one norm.

    Yields
    ------
    str
        The text of a warning.
    """
    if problem.sparsity == 0 or solver.approximates:
        return
    if problem.vanishing == problem.batch:
        yield f"y is zero as far as {problem.y.dtype} can tell: scale it up"
    elif problem.vanishing and not is_single(problem.y):  # in single precision, these may be rounding errors
        rows = f"{problem.vanishing} of {problem.batch} rows of y count as zero"
        yield f"{rows}, because their squares leave the range of {problem.y.dtype}: scale them up"
    size, left = row_norms(problem.y), to_numpy(result.residual_norm).astype(np.float64)
    allowed = UNEXPLAINED * size
    if problem.noise_norm is not None:
        noise = to_numpy(problem.noise_norm).astype(np.float64)
        rounding = (1e-2 if is_single(problem.y) else 1e-3) * size
        allowed = np.maximum(NOISE * noise, rounding)
    # Comparisons are negated so that a NaN residual counts as a poor fit.
    judged = (size > ROUNDING * epsilon(problem.y) * size.max()) | ~(left <= size)
    poor = judged & ~(left <= allowed)
    loose = judged & ~poor & (_uncertainty(problem, result) > UNDETERMINED)
    if loose.any():
        more = "more measurements, or fewer columns that resemble each other, would help"
        yield f"{_count(loose)} hardly determined by y (the standard deviation is over twice as large): {more}"
    if not poor.any():
        return
    zero = poor & ~to_numpy(result.support).reshape(problem.batch, -1).any(axis=1)
    poor &= ~zero
    learned = solver.finds_sparsity or result.sparsity == "auto"
    advice = "give the number of nonzeros" if learned else _advice(problem, solver, result, scaled)
    if zero.any() and learned:
        yield f"{_count(zero)} zero, because no nonzeros stand out from the noise: {advice}"
    elif zero.any():
        yield f"{_count(zero)} zero although y is not: {advice}"
    if poor.any():
        with np.errstate(divide="ignore"):
            worst = f"{100 * float(np.max(left[poor] / size[poor])):.3g}% of ||y||"
            if problem.noise_norm is not None and (noise[poor] > 0).all():
                worst = f"{float(np.max(left[poor] / noise[poor])):.3g} times noise_norm"
        what = "far from explaining y" if problem.noise_norm is None else "farther from y than noise_norm allows"
        yield f"{_count(poor)} {what} (||Phi x - y|| is up to {worst}): {advice}"


def _uncertainty(problem: Problem, result: Result) -> FloatArray:
    """Return the norm of the standard deviations relative to that of the solution, in units of columns of norm 1.

    It is computed for samples of supports only: messages are too unsure where Phi is not like a random matrix.
    """
    sampled = np.reshape("" if result.source is None else result.source, -1) == "samples"
    if result.standard_deviation is None or not sampled.any():
        return np.zeros(problem.batch)
    lengths = problem.operator.column_norms if problem.operator.is_dense else 1.0
    deviation, size = (
        row_norms(lengths * np.abs(to_numpy(part)).reshape(problem.batch, -1))
        for part in (result.standard_deviation, result.x)
    )
    return np.divide(deviation, size, out=np.zeros_like(deviation), where=sampled & (size > 0))


def _count(rows: BoolArray) -> str:
    if rows.size == 1:
        return "the answer is"
    count = int(np.count_nonzero(rows))
    return f"{count} of {rows.size} answers {'is' if count == 1 else 'are'}"


def _advice(problem: Problem, solver: Any, result: Result, scaled: bool) -> str:
    """Suggest the change that is most likely to help."""
    operator = problem.operator
    if operator.is_dense and not scaled:
        lengths = operator.column_norms[operator.column_norms > 0]
        if lengths.size and lengths.max() > UNEQUAL * lengths.min():
            return "bring the columns of Phi to one norm (scale_columns=True)"
    more = ["more nonzeros"] if _more_could_help(problem) else []
    if not to_numpy(result.converged).all():
        more.insert(0, "more iterations (max_iter)")
    if problem.structure.bounded:
        more.append("wider bounds")
    if problem.noise_norm is not None:
        more.append("more noise (noise_norm)")
    others = "another method" if solver.name == "auto" else "another method, such as 'auto'"
    settings = "" if solver.scale_free else "settings in the units of Phi and y, or "
    if not more:
        return f"perhaps no x that is allowed explains y; if one does, try {settings}{others}"
    return f"allow {' or '.join(more)}, or try {settings}{others}"


def _more_could_help(problem: Problem) -> bool:
    """Whether x may have more nonzeros, and they could explain more of y."""
    operator, bounds = problem.operator, (problem.structure.low, problem.structure.high)
    only_zero = all(bound is not None and not bound.any() for bound in bounds)
    if only_zero or problem.sparsity >= min(operator.shape):
        return False
    return bool(to_numpy(operator.adjoint(problem.y)).any())
