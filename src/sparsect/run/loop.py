"""The loop shared by all solvers: start, step, stop, record, result. Nothing in it depends on the algorithm."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..backend.arrays import (
    LARGE,
    Array,
    check_magnitude,
    from_numpy,
    is_complex,
    is_numpy,
    is_single,
    namespace,
    norm,
    on_host,
    take_rows,
    to_numpy,
)
from ..backend.checks import InputError, real_number, reject, shown, truth_value, warn, whole_number
from ..backend.devices import too_many_rows, wait_for
from ..backend.locks import reserved
from ..operators import least_squares
from ..problems import Problem, Units
from ..solvers.base import Requirement, Solver, check_solver
from .checkpoint import Checkpoint
from .diagnosis import poor_fits, ran_away
from .result import Result
from .trace import Clock, Measure, Trace

# A row whose gap exceeds this multiple of its scale has diverged.
RUNAWAY = 1e8
# The fraction of ``max_seconds`` that may pass between two checks of the clock.
LOOK_AT_CLOCK = 0.01
# Steps between two convergence checks on a GPU: each check waits for all queued kernels.
LOOK_AT_GPU = 25
# A support that has not changed during this fraction of a row's steps is stable.
STABLE = 0.01


@dataclass(frozen=True)
class Answers:
    """Finished rows and their solutions.

    Attributes
    ----------
    rows : array of int, shape (count,)
        The places of the rows in the batch.
    x : array, shape (count, n)
        The solutions, in the units of the run.
    gap : array, shape (count,)
        The gap, in the units of the run.
    converged : array of bool, shape (count,)
        Whether each row has converged.
    n_iter : array of int, shape (count,)
        The number of steps.
    stable : array of bool, shape (count,)
        Whether the support is stable; False if the solver does not track it.
    lost : array of bool, shape (count,)
        Whether the row diverged.
    """

    rows: np.ndarray[Any, Any]
    x: Array
    gap: Array
    converged: np.ndarray[Any, Any]
    n_iter: np.ndarray[Any, Any]
    stable: np.ndarray[Any, Any]
    lost: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Progress:
    """The current state of a run.

    It is replaced as a whole after every step, so that an interrupt never sees a step half done.

    Attributes
    ----------
    iteration : int
        The number of iterations so far.
    rows : array of int, shape (running,)
        The places in the batch of the rows that are still running.
    problem : Problem
        The problem restricted to these rows.
    state : State
        The solver's state for these rows.
    done : tuple of Answers
        The finished rows.
    """

    iteration: int
    rows: np.ndarray[Any, Any]
    problem: Problem
    state: Any
    done: tuple[Answers, ...]

    def joined(self, finished: list[Array], running: Array) -> Array:
        """Combine values of finished and of running rows in the order of the batch.

        Parameters
        ----------
        finished : list of array
            The values of each group of finished rows.
        running : array, shape (running, ...)
            The values of the running rows.

        Returns
        -------
        array, shape (batch, ...)
            The values of all rows.
        """
        if not self.done:
            return running
        return take_rows(namespace(running).concat([*finished, running], axis=0), self._order)

    @cached_property
    def _order(self) -> np.ndarray[Any, Any]:
        """The place of each row of the batch in the concatenation of finished and running rows."""
        rows = np.concatenate([*(part.rows for part in self.done), self.rows])
        order = np.empty_like(rows)
        order[rows] = np.arange(rows.size)
        return order


class Snapshot:
    """The state of a run as seen by callbacks and measures.

    A snapshot covers all rows, finished or not. Properties that are expensive are computed on access.

    Parameters
    ----------
    run : Run
        The run, which creates its snapshots itself.

    Attributes
    ----------
    iteration : int
        The number of iterations so far.
    seconds : float
        The time spent on iterating so far.

    Examples
    --------
    Stop as soon as the residual of every signal is small:

    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=6, batch=2, rng=0)
    >>> def small_residual(snapshot):
    ...     return bool((snapshot.residual_norm < 1e-2).all())
    >>> result = sparsect.recover(
    ...     problem.Phi, problem.y, sparsity=6, method="difference-map", callback=small_residual
    ... )
    >>> bool((result.residual_norm < 1e-2).all())
    True
    """

    def __init__(self, run: Run) -> None:
        self._run, self._progress = run, run.progress
        self.iteration = run.progress.iteration
        self.seconds = run.clock.seconds

    @property
    def gap(self) -> Array:
        """The gap of each row, shape (batch,); see :class:`Result`."""
        gap = self._progress.joined([part.gap for part in self._progress.done], self._progress.state.gap)
        unit = self._run.units.y if self._run.solver.gap_is_residual else self._run.units.x
        return gap if unit is None else gap * unit

    @property
    def converged(self) -> Array:
        """Whether each row has converged, a NumPy array of shape (batch,); see :class:`Result`."""
        running = self._run.at_rest(self._progress.rows, self._progress.state)
        return self._progress.joined([part.converged for part in self._progress.done], running)

    @cached_property
    def _estimate(self) -> Array:
        """The solver's estimate of each row, in the units of the run."""
        finished = [part.x for part in self._progress.done]
        if self._progress.rows.size:
            running = self._run.estimate(self._progress.problem, self._progress.state)
        else:
            running = finished[0][:0, ...]
        return self._progress.joined(finished, running)

    @cached_property
    def x(self) -> Array:
        """The solver's estimate of each row, shape (batch, n)."""
        unit = self._run.units.x
        return self._estimate if unit is None else self._estimate * unit[:, None]

    @property
    def support(self) -> Array:
        """The support, shape (batch, n): True where x is not zero."""
        return self.x != 0

    @property
    def residual_norm(self) -> Array:
        """The norm of the residual of each row, ||Phi x - y||, shape (batch,)."""
        problem, unit = self._run.scaled, self._run.units.y
        left = norm(problem.operator.forward(self._estimate) - problem.y)
        return left if unit is None else left * unit

    @property
    def n_iter(self) -> Array:
        """The number of steps of each row, a NumPy array of shape (batch,)."""
        running = _steps_taken(self._progress.state, self.iteration)
        return self._progress.joined([part.n_iter for part in self._progress.done], running)

    @property
    def stable(self) -> Array | None:
        """Whether each support is stable, a NumPy array of shape (batch,), or None if the solver does not track it."""
        if self._progress.state.unchanged is None:
            return None
        running = _stable(self._progress.state, self.iteration)
        return self._progress.joined([part.stable for part in self._progress.done], running)


class Run:
    """A solver applied to a problem.

    The solver works on ``scaled``, the problem with Phi and y normalized; ``units`` convert its values back.

    Parameters
    ----------
    problem : Problem
        The problem to solve.
    solver : Solver
        The method.
    tol : float
        The tolerance on the gap, relative to the scale of each row.
    refit : bool
        Whether to replace solutions by the least-squares fit on their support.
    """

    def __init__(self, problem: Problem, solver: Solver, tol: float, refit: bool) -> None:
        _check_needs(problem, solver)
        if solver.compiled and is_numpy(namespace(problem.y)):
            _compile(solver, to_numpy(problem.y).dtype, problem.batch * problem.operator.shape[1] >= LARGE)
        self.problem, self.solver, self.refit = problem, solver, refit
        if solver.scale_free:
            self.scaled, self.units = problem.to_scale()
        else:
            check_magnitude("y", problem.y)
            self.scaled, self.units = problem, Units(None, None)
        self.clock = Clock()
        self.setup_seconds = 0.0
        with self._clocked():
            state = solver.init(self.scaled)
            scale = to_numpy(state.scale)
            # A row whose starting point overflows cannot converge; it is indistinguishable from one that diverges.
            self.goal = np.where(np.isfinite(scale), tol * scale, -1.0)
            if problem.sparsity == 0:
                # x = 0 is the only candidate, so every row is done at once.
                self.goal[:] = np.inf
            self.limit = RUNAWAY * scale
        self.progress = Progress(0, np.arange(problem.batch), self.scaled, state, ())

    @contextlib.contextmanager
    def _clocked(self) -> Iterator[None]:
        """Count the time of the block: time spent on factoring Phi as set-up, the rest as iterating."""
        before = self.scaled.operator.factor_seconds
        # Rows that overflow are detected by their gap, so the warnings of NumPy are redundant.
        with (
            self.clock.running(),
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
            too_many_rows(),
        ):
            yield
        spent = self.scaled.operator.factor_seconds - before
        self.setup_seconds += spent
        self.clock.seconds -= spent

    def estimate(self, problem: Problem, state: Any) -> Array:
        """Return the solver's estimate, refitted if requested and if it is not a least-squares fit already.

        Parameters
        ----------
        problem : Problem
            The problem restricted to the rows of ``state``.
        state : State
            The solver's state.

        Returns
        -------
        array, shape (rows, n)
            The estimates.
        """
        x = self.solver.estimate(problem, state)
        return least_squares.refit(problem.operator, problem.y, x) if self.refit and not self.solver.fitted else x

    def advance(self, fractions: list[float], last: bool) -> None:
        """Advance every running row by up to one step for each of ``fractions``.

        Parameters
        ----------
        fractions : list of float
            The fraction of the run that has passed before each step, from 0 to 1.
        last : bool
            Whether these are the last steps of the run. Finished rows are then not removed from the batch, because
            no further step would benefit.
        """
        before = self.progress
        every = before.rows.size == self.goal.size
        goal, limit = (values if every else values[before.rows] for values in (self.goal, self.limit))
        with self._clocked():
            state = self.solver.steps(before.problem, before.state, goal, fractions)
            after = dataclasses.replace(before, iteration=before.iteration + len(fractions), state=state)
            gap = to_numpy(state.gap)
            lost = ~(gap <= limit)
            done = lost | (gap <= goal)
            for ended in (state.settled, state.failed):
                if ended is not None:
                    done |= to_numpy(ended)
            leaving = lost.any() or (done.any() and not last)
            self.progress = self._without(after, done, lost, before) if leaving else after

    def at_rest(self, rows: np.ndarray[Any, Any], state: Any) -> np.ndarray[Any, Any]:
        """Return whether rows have converged, because the gap has closed or the solver has settled.

        Parameters
        ----------
        rows : array of int
            The places of the rows in the batch.
        state : State
            The solver's state for these rows.

        Returns
        -------
        array of bool
            One value for each row.
        """
        converged: np.ndarray[Any, Any] = to_numpy(state.gap) <= self.goal[rows]
        if state.settled is not None:
            converged |= to_numpy(state.settled)
        if state.failed is not None:
            converged &= ~to_numpy(state.failed)
        return converged

    def _without(self, now: Progress, done: Any, lost: Any, before: Progress) -> Progress:
        """Move finished rows out of ``now``; a row that diverged keeps its solution from before the last step."""
        finished = list(now.done)
        for rows, source in ((done & ~lost, now), (lost, before)):
            if rows.any():
                finished.append(self._answers_of(source, np.flatnonzero(rows), source is before))
        kept = np.flatnonzero(~done)
        return Progress(now.iteration, now.rows[kept], now.problem.take(kept), now.state.take(kept), tuple(finished))

    def _answers_of(self, progress: Progress, rows: np.ndarray[Any, Any], lost: bool) -> Answers:
        """Return the current solutions of the given running rows."""
        state = progress.state.take(rows)
        x = self.estimate(progress.problem.take(rows), state)
        n_iter, stable = _steps_taken(state, progress.iteration), _stable(state, progress.iteration)
        converged = self.at_rest(progress.rows[rows], state) & (not lost)
        return Answers(progress.rows[rows], x, state.gap, converged, n_iter, stable, np.full(rows.size, lost))

    def restore(self, iteration: int, rows: Any, state: Any, done: list[dict[str, Any]]) -> None:
        """Continue from the state saved in a checkpoint.

        Parameters
        ----------
        iteration : int
            The number of iterations so far.
        rows : array of int
            The rows that are still running.
        state : State
            The solver's state for these rows.
        done : list of dict
            The fields of :class:`Answers` for each group of finished rows.
        """
        like = self.problem.y
        finished = tuple(
            Answers(**part | {name: from_numpy(part[name], like) for name in ("x", "gap")}) for part in done
        )
        self.progress = Progress(iteration, rows, self.scaled.take(rows), state, finished)

    def result(self, history: dict[str, np.ndarray[Any, Any]]) -> Result:
        """Return the result, with a batch axis.

        The time of the final estimate counts as iterating; the time of computing its residual does not.

        Parameters
        ----------
        history : dict of str to array
            The recorded measures.

        Returns
        -------
        Result
            The result of all rows.
        """
        end = Snapshot(self)
        with self._clocked():
            x = wait_for(end.x)
        with np.errstate(over="ignore", invalid="ignore"), too_many_rows():
            residual_norm = end.residual_norm
        fields = {
            "x": x,
            "support": end.support,
            "residual_norm": residual_norm,
            "gap": from_numpy(to_numpy(end.gap), x) if is_numpy(namespace(end.gap)) else end.gap,
            "converged": from_numpy(end.converged, end.x),
            "n_iter": from_numpy(end.n_iter, end.x),
            "stable": None if end.stable is None else from_numpy(end.stable, end.x),
        }
        return Result(
            **fields,
            setup_seconds=self.setup_seconds,
            seconds=self.clock.seconds,
            history=history,
            method=repr(self.solver),
            sparsity=self.problem.sparsity,
        )


def solve(
    problem: Problem,
    solver: Solver,
    *,
    max_iter: int = 1000,
    max_seconds: float | None = None,
    tol: float | None = None,
    callback: Callable[[Snapshot], Any] | None = None,
    record: Iterable[str] | Mapping[str, Measure] = ("gap",),
    record_at: int | Iterable[int] = 10,
    checkpoint: str | os.PathLike[str] | None = None,
    checkpoint_every: int = 100,
    refit: bool = False,
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
        The tolerance on the gap, relative to the norm of the starting point. The default is 1e-6, or 1e-4 in single
        precision.
    callback : callable, optional
        Called with a :class:`~sparsect.Snapshot`. If it returns True, the run stops.
    record : iterable of str or mapping of str to callable, optional
        The measures stored in ``result.history``.
    record_at : int or iterable of int, optional
        The interval between recorded iterations, or the list of iterations to record.
    checkpoint : str or path-like, optional
        An ``.npz`` file in which the run is saved, and from which it resumes.
    checkpoint_every : int, optional
        The number of iterations between two saves.
    refit : bool, optional
        Whether to replace the nonzeros of each solution by the least-squares fit on their support.
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
    trace = Trace(record, record_at)
    run = Run(problem, solver, tol, truth_value("refit", refit))
    unfinished = _unfinished(run.scaled)

    def ahead() -> list[float]:
        """Return the fraction of the run that has passed before each step up to the next check, record or save."""
        now, seconds = run.progress.iteration, run.clock.seconds
        looks = [max_iter, trace.next_moment(now), now - now % checkpoint_every + checkpoint_every]
        count, each = min(looks) - now, 0.0
        if not on_host(problem.y):
            count = min(count, LOOK_AT_GPU)
        elif callback is not None or not solver.leaps:
            count = 1
        if max_seconds is not None and count > 1:
            # As many steps as take a hundredth of the allowed time at the speed measured so far.
            each = seconds / max(now, 1) / max(max_seconds, 1e-9)
            count = min(count, max(1, int(LOOK_AT_CLOCK / each))) if now and each else 1
        spent = seconds / max_seconds if max_seconds else 0.0
        return [min(1.0, max((now + i) / max(max_iter - 1, 1), spent + i * each)) for i in range(count)]

    with reserved(checkpoint):
        saved = None if checkpoint is None else Checkpoint(checkpoint, run, trace, tol)
        try:
            while run.progress.rows.size and run.progress.iteration < max_iter:
                if max_seconds is not None and run.clock.seconds >= max_seconds:
                    break
                steps = ahead()
                ending = saved is None and run.progress.iteration + len(steps) == max_iter
                run.advance(steps, last=ending)
                snapshot = Snapshot(run)
                trace.observe(snapshot)
                if callback is not None and callback(snapshot):
                    break
                if saved is not None and run.progress.iteration % checkpoint_every == 0:
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
    lost = sum(int(np.count_nonzero(part.lost)) for part in run.progress.done)
    remarks = [ran_away(lost, problem.batch)]
    if "row_space" in vars(run.scaled.operator):
        remarks.append(run.scaled.operator.row_space.unfinished_remark(unfinished))
    warn(remarks, poor_fits(problem, solver, result) if check_fit else ())
    return result.first() if problem.single else result


def _unfinished(problem: Problem) -> int:
    """Count the inner solves that have stopped above their tolerance so far; 0 if Phi needs none."""
    return problem.operator.row_space.unfinished if "row_space" in vars(problem.operator) else 0


def _steps_taken(state: Any, iteration: int) -> np.ndarray[Any, Any]:
    """Return the number of steps of each row."""
    if state.taken is not None:
        return to_numpy(state.taken).astype(np.int64)
    return np.full(state.gap.shape[0], iteration)


def _stable(state: Any, iteration: int) -> np.ndarray[Any, Any]:
    """Return whether the support of each row is stable; False if the solver does not track it."""
    steps = _steps_taken(state, iteration)
    if state.unchanged is None:
        return np.zeros(steps.shape, bool)
    return to_numpy(state.unchanged) >= np.maximum(1, STABLE * steps)


def _check_needs(problem: Problem, solver: Solver) -> None:
    """Reject a problem that the solver cannot handle before anything is computed."""
    operator = problem.operator
    missing = {
        Requirement.DENSE: not operator.is_dense,
        Requirement.SPECTRUM: not operator.is_dense and operator.frame_bound is None,
        Requirement.REAL: is_complex(problem.y),
        Requirement.HOST: not is_numpy(namespace(problem.y)),
    }
    for need in solver.needs:
        if missing[need]:
            raise reject("method", f"{solver.name!r}, which needs {need.value}", "another one")


@lru_cache
def _compile(solver: Solver, dtype: Any, large: bool) -> None:
    """Run the solver on a tiny problem to compile its kernels, for large batches those that are used only there."""
    batch = LARGE // 5 + 1 if large else 1
    tiny = Problem(np.eye(3, 5).astype(dtype) + 0.1, np.ones((batch, 3)).astype(dtype), 2)
    with np.errstate(all="ignore"):
        state = solver.steps(tiny, solver.init(tiny), np.full(batch, -1.0), [0.0, 0.5, 0.7, 1.0])
        solver.estimate(tiny, state)
