"""The one loop: start, step, stop, record, result. It knows no algorithm by name.

A solver is configuration plus three pure functions; its state holds everything needed to stop, save and resume,
one row for each signal, so the loop can drop rows that are done.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np

from .arrays import Array, from_numpy, is_single, namespace, norm, take_rows, to_numpy
from .checkpoint import Checkpoint
from .checks import ConvergenceWarning, real_number, whole_number
from .problems import Problem
from .result import Result
from .trace import Clock, Measure, Trace


@dataclass(frozen=True)
class State:
    """What a solver carries from step to step: arrays with one row per signal, or None where unused.

    Attributes
    ----------
    x : the iterate, (batch, n); not the answer, which is the solver's ``estimate``
    gap : (batch,), the distance that vanishes when a solution is found
    settled : (batch,) true where further steps change nothing; None if that cannot happen
    """

    x: Array
    gap: Array
    settled: Array | None

    def arrays(self) -> dict[str, Array]:
        """The fields in use, by name."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if value is not None}

    def take(self, rows: np.ndarray[Any, Any]) -> State:
        """The state of the given rows alone."""
        return dataclasses.replace(self, **{name: take_rows(value, rows) for name, value in self.arrays().items()})


class Solver(Protocol):
    """What the loop asks of an algorithm; a frozen dataclass whose fields are its settings."""

    name: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    def init(self, problem: Problem) -> Any:
        """The state before the first step."""

    def step(self, problem: Problem, state: Any) -> Any:
        """The state one step on; ``state`` itself is left as it was."""

    def estimate(self, problem: Problem, state: Any) -> Array:
        """The answer so far: (batch, n), at most ``problem.sparsity`` nonzeros a row."""


@dataclass(frozen=True)
class Answers:
    """Rows that are done."""

    rows: np.ndarray[Any, Any]
    x: Array
    gap: Array
    n_iter: np.ndarray[Any, Any]


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
        order = np.argsort(np.concatenate([*(part.rows for part in self.done), self.rows]))
        return take_rows(namespace(running).concat([*finished, running], axis=0), order)


class Snapshot:
    """A run as callbacks and measures see it: all rows, finished or not. Costly parts are computed when asked for."""

    def __init__(self, run: Run) -> None:
        self._run, self._progress = run, run.progress
        self.iteration = run.progress.iteration
        self.seconds = run.clock.seconds

    @property
    def gap(self) -> Array:
        """(batch,), see :class:`Result`."""
        return self._progress.joined([part.gap for part in self._progress.done], self._progress.state.gap)

    @property
    def converged(self) -> Array:
        """(batch,), see :class:`Result`."""
        return to_numpy(self.gap) <= self._run.goal

    @cached_property
    def x(self) -> Array:
        """(batch, n), the solver's estimate for every row."""
        running = self._progress.state.x
        if self._progress.rows.size:
            running = self._run.solver.estimate(self._progress.problem, self._progress.state)
        return self._progress.joined([part.x for part in self._progress.done], running)

    @property
    def support(self) -> Array:
        """(batch, n), true where x is not zero."""
        return self.x != 0

    @property
    def residual_norm(self) -> Array:
        """(batch,), ||Phi x - y||."""
        problem = self._run.problem
        return norm(problem.operator.forward(self.x) - problem.y)

    @property
    def n_iter(self) -> Array:
        """(batch,), steps each row has taken."""
        running = np.full(self._progress.rows.size, self.iteration)
        return self._progress.joined([part.n_iter for part in self._progress.done], running)


class Run:
    """One problem on its way through one solver."""

    def __init__(self, problem: Problem, solver: Solver, tol: float) -> None:
        self.problem, self.solver = problem, solver
        self.clock = Clock()
        factored = problem.operator.factor_seconds
        with self.clock.running():
            state = solver.init(problem)
            self.goal = tol * to_numpy(norm(state.x))
        self.setup_seconds = problem.operator.factor_seconds - factored
        self.clock.seconds -= self.setup_seconds
        self.progress = Progress(0, np.arange(problem.batch), problem, state, ())

    def advance(self) -> None:
        """One step of every running row; rows that are done leave the batch."""
        before = self.progress
        # Rows that overflow are caught by their gap below, so NumPy need not say it too.
        with self.clock.running(), np.errstate(over="ignore", invalid="ignore"):
            state = self.solver.step(before.problem, before.state)
            after = dataclasses.replace(before, iteration=before.iteration + 1, state=state)
            gap = to_numpy(state.gap)
            lost = ~np.isfinite(gap)
            done = lost | (gap <= self.goal[before.rows])
            if state.settled is not None:
                done |= to_numpy(state.settled)
            self.progress = self._without(after, done, lost, before) if done.any() else after

    def _without(self, now: Progress, done: Any, lost: Any, before: Progress) -> Progress:
        """``now`` less the rows that are done; a row that left the floating-point range keeps its last answer."""
        finished = list(now.done)
        for rows, source in ((done & ~lost, now), (lost, before)):
            if rows.any():
                finished.append(self._answers_of(source, np.flatnonzero(rows)))
        kept = np.flatnonzero(~done)
        return Progress(now.iteration, now.rows[kept], now.problem.take(kept), now.state.take(kept), tuple(finished))

    def _answers_of(self, progress: Progress, rows: np.ndarray[Any, Any]) -> Answers:
        """What the solver has to say now about the given running rows."""
        state = progress.state.take(rows)
        x = self.solver.estimate(progress.problem.take(rows), state)
        return Answers(progress.rows[rows], x, state.gap, np.full(rows.size, progress.iteration))

    def restore(self, iteration: int, rows: Any, state: dict[str, Array], done: list[dict[str, Any]]) -> None:
        """Stand where a checkpoint left off."""
        like = self.problem.y
        finished = tuple(
            Answers(part["rows"], from_numpy(part["x"], like), from_numpy(part["gap"], like), part["n_iter"])
            for part in done
        )
        template = self.progress.state
        self.progress = Progress(
            iteration, rows, self.problem.take(rows), dataclasses.replace(template, **state), finished
        )

    def result(self, history: dict[str, np.ndarray[Any, Any]]) -> Result:
        """The outcome as the user sees it."""
        end = Snapshot(self)
        fields = {
            "x": end.x,
            "support": end.support,
            "residual_norm": end.residual_norm,
            "gap": end.gap,
            "converged": from_numpy(end.converged, end.x),
            "n_iter": from_numpy(end.n_iter, end.x),
        }
        if self.problem.single:
            fields = {
                name: value[0, ...] if value.ndim > 1 else to_numpy(value).item() for name, value in fields.items()
            }
            history = {name: column[:, 0] if column.ndim > 1 else column for name, column in history.items()}
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
) -> Result:
    """Run ``solver`` on ``problem``; the parameters are those of :func:`sparsect.recover`."""
    max_iter = whole_number("max_iter", max_iter, 1)
    checkpoint_every = whole_number("checkpoint_every", checkpoint_every, 1)
    if max_seconds is not None:
        max_seconds = real_number("max_seconds", max_seconds, "a number of at least 0", low=0.0)
    tol = (
        (1e-4 if is_single(problem.y) else 1e-6)
        if tol is None
        else real_number("tol", tol, "a number of at least 0", low=0.0)
    )
    trace = Trace(record, record_at)
    run = Run(problem, solver, tol)
    saved = None if checkpoint is None else Checkpoint(checkpoint, run, trace, tol)
    try:
        while run.progress.rows.size and run.progress.iteration < max_iter:
            if max_seconds is not None and run.clock.seconds >= max_seconds:
                break
            run.advance()
            snapshot = Snapshot(run)
            trace.observe(snapshot)
            if callback is not None and callback(snapshot):
                break
            if saved is not None and run.progress.iteration % checkpoint_every == 0:
                saved.write()
    finally:
        # Also on Ctrl-C: the same call again then goes on from here.
        if saved is not None:
            saved.write()
    _warn_of_lost_rows(run)
    return run.result(trace.history())


def _warn_of_lost_rows(run: Run) -> None:
    lost = int(np.count_nonzero(~np.isfinite(to_numpy(Snapshot(run).gap))))
    if lost and run.progress.iteration:
        warnings.warn(
            f"{lost} of {run.problem.batch} rows left the floating-point range and keep the answer they had before; "
            "settings nearer to the defaults (a smaller |beta|) or a wider dtype avoid that",
            ConvergenceWarning,
            stacklevel=3,
        )
