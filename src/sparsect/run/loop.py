"""The one loop: start, step, stop, record, result. It knows no algorithm by name."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from ..backend import files
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
from ..operators import least_squares
from ..problems import Problem, Units
from ..solvers.base import Requirement, Solver, check_solver
from .checkpoint import Checkpoint
from .diagnosis import poor_fits, ran_away
from .result import Result
from .trace import Clock, Measure, Trace

# A row whose gap exceeds this many times its scale has run away.
RUNAWAY = 1e8
# Part of the seconds allowed that may pass between two looks at the clock.
LOOK_AT_CLOCK = 0.01
# Steps between two looks at rows on a GPU, each of which waits for all that it has been asked to do.
LOOK_AT_GPU = 25
# A support that has not changed in this part of a row's steps is stable.
STABLE = 0.01


@dataclass(frozen=True)
class Answers:
    """Rows that are done."""

    rows: np.ndarray[Any, Any]
    x: Array
    gap: Array
    converged: np.ndarray[Any, Any]
    n_iter: np.ndarray[Any, Any]
    stable: np.ndarray[Any, Any]
    lost: np.ndarray[Any, Any]


@dataclass(frozen=True)
class Progress:
    """Where a run stands, replaced as a whole after every step so that an interrupt never sees half of one."""

    iteration: int
    rows: np.ndarray[Any, Any]
    problem: Problem
    state: Any
    done: tuple[Answers, ...]

    def joined(self, finished: list[Array], running: Array) -> Array:
        """Values of finished and of running rows, in the order in which the rows came in."""
        if not self.done:
            return running
        return take_rows(namespace(running).concat([*finished, running], axis=0), self._order)

    @cached_property
    def _order(self) -> np.ndarray[Any, Any]:
        """Where each row of the batch is among the finished and the running ones."""
        rows = np.concatenate([*(part.rows for part in self.done), self.rows])
        order = np.empty_like(rows)
        order[rows] = np.arange(rows.size)
        return order


class Snapshot:
    """A run as callbacks and measures see it: all rows, finished or not. Costly parts are computed when asked for."""

    def __init__(self, run: Run) -> None:
        self._run, self._progress = run, run.progress
        self.iteration = run.progress.iteration
        self.seconds = run.clock.seconds

    @property
    def gap(self) -> Array:
        """(batch,), see :class:`Result`."""
        gap = self._progress.joined([part.gap for part in self._progress.done], self._progress.state.gap)
        unit = self._run.units.y if self._run.solver.gap_is_residual else self._run.units.x
        return gap if unit is None else gap * unit

    @property
    def converged(self) -> Array:
        """(batch,), see :class:`Result`; a NumPy array."""
        running = self._run.at_rest(self._progress.rows, self._progress.state)
        return self._progress.joined([part.converged for part in self._progress.done], running)

    @cached_property
    def _estimate(self) -> Array:
        """The solver's estimate for every row, in the units of the run."""
        finished = [part.x for part in self._progress.done]
        if self._progress.rows.size:
            running = self._run.estimate(self._progress.problem, self._progress.state)
        else:
            running = finished[0][:0, ...]
        return self._progress.joined(finished, running)

    @cached_property
    def x(self) -> Array:
        """(batch, n), the solver's estimate for every row."""
        unit = self._run.units.x
        return self._estimate if unit is None else self._estimate * unit[:, None]

    @property
    def support(self) -> Array:
        """(batch, n), true where x is not zero."""
        return self.x != 0

    @property
    def residual_norm(self) -> Array:
        """(batch,), ||Phi x - y||."""
        problem, unit = self._run.scaled, self._run.units.y
        left = norm(problem.operator.forward(self._estimate) - problem.y)
        return left if unit is None else left * unit

    @property
    def n_iter(self) -> Array:
        """(batch,), steps each row has taken; a NumPy array."""
        running = _steps_taken(self._progress.state, self.iteration)
        return self._progress.joined([part.n_iter for part in self._progress.done], running)

    @property
    def stable(self) -> Array | None:
        """(batch,), see :class:`Result`; a NumPy array, or None if the solver does not look."""
        if self._progress.state.unchanged is None:
            return None
        running = _stable(self._progress.state, self.iteration)
        return self._progress.joined([part.stable for part in self._progress.done], running)


class Run:
    """One problem on its way through one solver.

    What the solver sees is ``scaled``, the problem with Phi and y brought to scale; ``units`` lead back.
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
            # A row that starts out of range can neither converge nor be told from one that runs away.
            self.goal = np.where(np.isfinite(scale), tol * scale, -1.0)
            if problem.sparsity == 0:
                # x = 0 is all there is.
                self.goal[:] = np.inf
            self.limit = RUNAWAY * scale
        self.progress = Progress(0, np.arange(problem.batch), self.scaled, state, ())

    @contextlib.contextmanager
    def _clocked(self) -> Iterator[None]:
        """Count the time of the block: as set-up what is spent on Phi alone, as iterating the rest."""
        before = self.scaled.operator.factor_seconds
        # Rows that overflow are caught by their gap, so NumPy need not say it too.
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
        """The solver's answer for the given rows, refitted if that was asked for and it is not a fit already."""
        x = self.solver.estimate(problem, state)
        return least_squares.refit(problem.operator, problem.y, x) if self.refit and not self.solver.fitted else x

    def advance(self, fractions: list[float], last: bool) -> None:
        """Up to as many steps of every running row as ``fractions`` of the run are given.

        Rows that are done leave, unless these are the ``last`` steps anyway.
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
        """Whether each of the rows that ``state`` is of has converged: its gap is closed, or it has settled."""
        converged: np.ndarray[Any, Any] = to_numpy(state.gap) <= self.goal[rows]
        if state.settled is not None:
            converged |= to_numpy(state.settled)
        if state.failed is not None:
            converged &= ~to_numpy(state.failed)
        return converged

    def _without(self, now: Progress, done: Any, lost: Any, before: Progress) -> Progress:
        """``now`` less the rows that are done; a row that ran away keeps the answer it had before the last step."""
        finished = list(now.done)
        for rows, source in ((done & ~lost, now), (lost, before)):
            if rows.any():
                finished.append(self._answers_of(source, np.flatnonzero(rows), source is before))
        kept = np.flatnonzero(~done)
        return Progress(now.iteration, now.rows[kept], now.problem.take(kept), now.state.take(kept), tuple(finished))

    def _answers_of(self, progress: Progress, rows: np.ndarray[Any, Any], lost: bool) -> Answers:
        """What the solver has to say now about the given running rows."""
        state = progress.state.take(rows)
        x = self.estimate(progress.problem.take(rows), state)
        n_iter, stable = _steps_taken(state, progress.iteration), _stable(state, progress.iteration)
        converged = self.at_rest(progress.rows[rows], state) & (not lost)
        return Answers(progress.rows[rows], x, state.gap, converged, n_iter, stable, np.full(rows.size, lost))

    def restore(self, iteration: int, rows: Any, state: Any, done: list[dict[str, Any]]) -> None:
        """Stand where a checkpoint left off."""
        like = self.problem.y
        finished = tuple(
            Answers(**part | {name: from_numpy(part[name], like) for name in ("x", "gap")}) for part in done
        )
        self.progress = Progress(iteration, rows, self.scaled.take(rows), state, finished)

    def result(self, history: dict[str, np.ndarray[Any, Any]]) -> Result:
        """The outcome with a batch axis; the time of the final estimate counts, that of measuring it does not."""
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
    """Run ``solver`` on ``problem``; the parameters are those of :func:`sparsect.recover`.

    ``check_fit=False`` leaves out the warning about answers that do not explain the data, for callers that ask for the
    best approximation with few nonzeros, whatever it may be.
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
        """What fraction of the run will be over before each of the steps up to the next moment somebody looks."""
        now, seconds = run.progress.iteration, run.clock.seconds
        looks = [max_iter, trace.next_moment(now), now - now % checkpoint_every + checkpoint_every]
        count, each = min(looks) - now, 0.0
        if not on_host(problem.y):
            count = min(count, LOOK_AT_GPU)
        elif callback is not None or not solver.leaps:
            count = 1
        if max_seconds is not None and count > 1:
            # As many steps as have so far taken a hundredth of the time there is.
            each = seconds / max(now, 1) / max(max_seconds, 1e-9)
            count = min(count, max(1, int(LOOK_AT_CLOCK / each))) if now and each else 1
        spent = seconds / max_seconds if max_seconds else 0.0
        return [min(1.0, max((now + i) / max(max_iter - 1, 1), spent + i * each)) for i in range(count)]

    with files.reserved(checkpoint):
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
            # On Ctrl-C the same call again then goes on from here; a disk that is full must not hide what happened.
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
    """Inner solves that have stopped above their tolerance so far, if Phi needs any."""
    return problem.operator.row_space.unfinished if "row_space" in vars(problem.operator) else 0


def _steps_taken(state: Any, iteration: int) -> np.ndarray[Any, Any]:
    if state.taken is not None:
        return to_numpy(state.taken).astype(np.int64)
    return np.full(state.gap.shape[0], iteration)


def _stable(state: Any, iteration: int) -> np.ndarray[Any, Any]:
    """Rows whose support has not changed for a while; false where nobody looked."""
    steps = _steps_taken(state, iteration)
    if state.unchanged is None:
        return np.zeros(steps.shape, bool)
    return to_numpy(state.unchanged) >= np.maximum(1, STABLE * steps)


def _check_needs(problem: Problem, solver: Solver) -> None:
    """Refuse, before anything is computed, a problem that the solver cannot take."""
    operator = problem.operator
    missing = {
        Requirement.DENSE: not operator.is_dense,
        Requirement.SPECTRUM: not operator.is_dense and operator.frame_bound is None,
        Requirement.REAL: is_complex(problem.y),
        Requirement.HOST: not is_numpy(namespace(problem.y)),
    }
    for need in solver.needs:
        if missing[need]:
            raise InputError(f"method: got {solver.name!r}, which needs {need.value}; choose another method")


@lru_cache
def _compile(solver: Solver, dtype: Any, large: bool) -> None:
    """Run the solver on a small problem, so that its kernels are compiled, or those for large ones."""
    batch = LARGE // 5 + 1 if large else 1
    tiny = Problem(np.eye(3, 5).astype(dtype) + 0.1, np.ones((batch, 3)).astype(dtype), 2)
    with np.errstate(all="ignore"):
        state = solver.steps(tiny, solver.init(tiny), np.full(batch, -1.0), [0.0, 0.5, 0.7, 1.0])
        solver.estimate(tiny, state)
