"""The loop shared by all solvers: step, stop, record, save. Nothing in it depends on the algorithm."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..backend.arrays import is_single, on_host
from ..backend.checks import InputError, real_number, reject, shown, truth_value, warn, whole_number
from ..backend.locks import reserved
from ..problems import Problem
from ..solvers.base import Solver, check_solver
from .checkpoint import Checkpoint
from .diagnosis import diverged_rows, poor_fits
from .result import Result
from .run import Run
from .snapshot import Snapshot
from .trace import Measure, Trace

# The fraction of ``max_seconds`` that may pass between two checks of the clock.
CLOCK_SHARE = 0.01
# Steps between two convergence checks on a GPU: each check waits for all queued kernels.
GPU_STEPS = 25


def solve(
    problem: Problem,
    solver: Solver,
    *,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    tol: float | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    record: Iterable[str] | Mapping[str, Measure] | None = None,
    record_at: int | Iterable[int] = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    refit: bool = False,
    polish: bool = False,
    scale_columns: bool = True,
    check_fit: bool = True,
) -> Result:
    """Apply a solver to a problem.

    This is :func:`sparsect.recover` for a :class:`~sparsect.Problem` and a configured solver. Parameters that both have
    in common are described there in more detail.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    solver : Solver
        The method, such as ``DifferenceMap(beta=0.5)``.
    max_iter : int, optional
        The maximum number of iterations.
    max_seconds : float, optional
        The maximum time spent on iterating, in seconds. By default there is no limit.
    tol : float, optional
        The tolerance on the solver's stopping criterion, relative to the norm of the starting point. The default is
        1e-6, or 1e-4 in single precision.
    callback : callable, optional
        Called with a :class:`~sparsect.Snapshot`. If it returns True, the run stops.
    record : iterable of str or mapping of str to callable, optional
        The measures stored in ``result.history``. The default is the solver's stopping criterion.
    record_at : int or iterable of int, optional
        The interval between recorded iterations, or the list of iterations to record.
    checkpoint : str or path-like, optional
        An ``.npz`` file in which the run is saved, and from which it resumes.
    checkpoint_every : int, optional
        The number of iterations between two saves.
    refit : bool, optional
        Whether to replace the nonzeros of each solution by the least-squares fit on their support.
    polish : bool, optional
        Whether to exchange single columns of each support as long as that lowers the residual, and then to refit.
    scale_columns : bool, optional
        Whether the solver works on columns of norm 1.
    check_fit : bool, optional
        Whether to warn about solutions that do not explain the data. False suits callers that want the best
        approximation with few nonzeros, however large its residual.

    Returns
    -------
    Result
        The solutions, how well they fit, and the history of the run.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, rng=0)
    >>> result = sparsect.solve(problem, sparsect.SubspacePursuit())
    >>> bool(sparsect.support_recall(problem.x, result.x).min() == 1)
    True
    """
    check_solver("method", solver)
    if callback is not None and not callable(callback):
        raise reject("callback", shown(callback), "a function of a snapshot, or None")
    max_iter = whole_number("max_iter", max_iter, 1)
    checkpoint_every = whole_number("checkpoint_every", checkpoint_every, 1)
    if max_seconds is not None:
        max_seconds = real_number("max_seconds", max_seconds, "a number of at least 0", low=0.0)
    default = 1e-4 if is_single(problem.y) else 1e-6
    tol = real_number("tol", default if tol is None else tol, "a number of at least 0", low=0.0)
    trace = Trace(solver.criterion, record, record_at)
    flags = {"refit": refit, "polish": polish, "scale_columns": scale_columns}
    run = Run(problem, solver, tol, **{name: truth_value(name, flag) for name, flag in flags.items()})
    unconverged = _unconverged(run.scaled)

    def ahead() -> list[float]:
        """Return the fraction of the run that has passed before each step up to the next check, record or save."""
        now, seconds = run.state.iteration, run.clock.seconds
        block = solver.steps_at_once if callback is None else 1
        blocks = [block if on_host(problem.y) else GPU_STEPS, *([] if saved is None else [checkpoint_every])]
        count, each = min(max_iter, trace.next_moment(now), *(now - now % size + size for size in blocks)) - now, 0.0
        if max_seconds is not None and count > 1:
            # As many steps as take a hundredth of the allowed time at the speed measured so far.
            each = seconds / max(now, 1) / max(max_seconds, 1e-9)
            count = min(count, max(1, int(CLOCK_SHARE / each))) if now and each else 1
        spent = seconds / max_seconds if max_seconds else 0.0
        return [min(1.0, max((now + i) / max(max_iter - 1, 1), spent + i * each)) for i in range(count)]

    if checkpoint is not None and (problem.structure.nearest is not None or not solver.scales_columns):
        raise reject("checkpoint", "a file with a set of your own", "None, because such a set cannot be compared")
    with reserved(checkpoint):
        saved = None if checkpoint is None else Checkpoint(checkpoint, run, trace, tol)
        try:
            while run.state.rows.size and run.state.iteration < max_iter:
                if max_seconds is not None and run.clock.seconds >= max_seconds:
                    break
                steps = ahead()
                ending = saved is None and run.state.iteration + len(steps) == max_iter
                run.advance(steps, last=ending)
                snapshot = Snapshot(run)
                trace.observe(snapshot)
                if callback is not None and callback(snapshot):
                    break
                if saved is not None and run.state.iteration % checkpoint_every == 0:
                    saved.write()
        except BaseException:
            # Saving lets the same call resume after Ctrl-C. A full disk must not hide the original exception.
            if saved is not None:
                with contextlib.suppress(InputError):
                    saved.write()
            raise
        if saved is not None:
            saved.write()
    result = run.result(trace.history())
    diverged = sum(int(np.count_nonzero(part.diverged)) for part in run.state.done)
    remarks = [diverged_rows(diverged, problem.batch)]
    if "pseudo_inverse" in vars(run.scaled.operator):
        remarks.append(run.scaled.operator.pseudo_inverse.convergence_warning(unconverged))
    warn(remarks, poor_fits(problem, solver, result, run.scale_columns) if check_fit else ())
    return result.first() if problem.single else result


def _unconverged(problem: Problem) -> int:
    """Count the inner solves that have stopped above their tolerance so far; 0 if Phi needs none."""
    return problem.operator.pseudo_inverse.unconverged if "pseudo_inverse" in vars(problem.operator) else 0
