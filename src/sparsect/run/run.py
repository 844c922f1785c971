"""One run of a solver on a problem: start, advance by a few steps, return the result."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np

from ..backend.array_checks import check_magnitude
from ..backend.arrays import (
    Array,
    BoolArray,
    IntArray,
    NumpyArray,
    from_numpy,
    is_complex,
    is_numpy,
    namespace,
    to_numpy,
)
from ..backend.checks import reject
from ..backend.devices import too_many_rows, wait_for
from ..backend.engines import LARGE
from ..kernels.thresholding import Kind
from ..operators import least_squares, polishing
from ..operators.polishing import few_supports
from ..problems import Problem
from ..sets import GroupSparse, JointSparse, LevelSparse, SignalSet, Sparse
from ..solvers import METHODS
from ..solvers.base import Requirement, Solver, State
from .convergence import DIVERGED, converged, finished
from .result import Result
from .snapshot import Snapshot
from .state import FinishedRows, RunState, is_stable, steps_taken
from .trace import Clock

# The problems on which kernels are compiled, as rows and columns of Phi and nonzeros. The default method looks at all
# supports of the first, and does nothing else; of the second, there are too many for that.
TINY, SMALL = (8, 12, 3), (24, 64, 6)
# The steps taken on them, as fractions of a run: enough for each of its stages.
STEPS = tuple(np.linspace(0, 1, 21).tolist())


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
        The tolerance on the stopping criterion, relative to the scale of each row.
    refit : bool
        Whether to replace solutions by the least-squares fit on their support.
    polish : bool
        Whether to improve supports by exchanging single columns first.
    scale_columns : bool
        Whether the solver works on columns of one norm.
    """

    def __init__(
        self,
        problem: Problem,
        solver: Solver,
        tol: float,
        refit: bool = False,
        polish: bool = False,
        scale_columns: bool = True,
    ) -> None:
        _check_needs(problem, solver)
        if polish:
            _check_polish(problem)
        if solver.compiled and solver.scales_columns and is_numpy(namespace(problem.y)):
            large = problem.batch * problem.operator.shape[1] >= LARGE
            size = TINY if few_supports(*problem.operator.shape, problem.sparsity) else SMALL
            settings = (problem.structure.kinds, problem.times is not None, problem.noise_norm is not None)
            _compile(solver, to_numpy(problem.y).dtype, size, large, *settings)
        self.problem, self.solver = problem, solver
        self.refit, self.polish, self.scale_columns = refit, polish, scale_columns
        if not solver.scale_free:
            check_magnitude("y", problem.y)
        self.clock = Clock()
        self.setup_seconds = 0.0
        with self._clocked():
            self.scaled, self.units = problem.to_scale(scale_columns and solver.scales_columns, solver.scale_free)
            state = solver.init(self.scaled)
            scale = to_numpy(state.scale)
            # A row whose starting point overflows cannot converge; it is indistinguishable from one that diverges.
            self.goal = np.where(np.isfinite(scale), tol * scale, -1.0)
            if problem.sparsity == 0:
                # x = 0 is the only candidate, so every row is done at once.
                self.goal[:] = np.inf
            self.limit = DIVERGED * scale
            self.state = RunState(0, np.arange(problem.batch), self.scaled, state, ())
            if state.settled is not None and (solved := to_numpy(state.settled)).any():
                self.state = self._without(self.state, solved, np.zeros_like(solved), self.state)

    @contextlib.contextmanager
    def _clocked(self) -> Iterator[None]:
        """Count the time of the block: time spent on factoring Phi as set-up, the rest as iterating."""
        before = self.problem.operator.factor_seconds
        # Rows that overflow are detected by their criterion, so the warnings of NumPy are redundant.
        with (
            self.clock.running(),
            np.errstate(over="ignore", invalid="ignore", divide="ignore"),
            too_many_rows(),
        ):
            yield
        spent = self.problem.operator.factor_seconds - before
        self.setup_seconds += spent
        self.clock.seconds -= spent

    def answer(self, problem: Problem, state: Any) -> tuple[Array, dict[str, Array]]:
        """Return the solver's solution, polished or refitted if requested, and what is known about it.

        Parameters
        ----------
        problem : Problem
            The problem restricted to the rows of ``state``.
        state : State
            The solver's state.

        Returns
        -------
        x : array, shape (rows, n)
            The solutions.
        details : dict of str to array
            Attributes of :class:`Result` that describe them.
        """
        x, details = self.solver.answer(problem, state)
        if self.polish:
            learned = self.solver.finds_sparsity and not problem.structure.leveled
            polished = polishing.polish_each_size if learned else polishing.polish
            x, swaps, optimal = polished(problem.operator, problem.y, x, problem.structure)
            details = details | {"swaps": swaps, "swap_optimal": optimal}
            unknown = from_numpy(swaps > 0, x)[:, None]
            for name in {"inclusion_probability", "standard_deviation"} & details.keys():
                # They belong to the support before.
                xp = namespace(details[name])
                details[name] = xp.where(unknown, xp.full_like(details[name], float("nan")), details[name])
        elif self.refit and not self.solver.fitted:
            x = least_squares.refit(problem.operator, problem.y, x, problem.structure)
        return x, details

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
        before = self.state
        every = before.rows.size == self.goal.size
        goal, limit = (values if every else values[before.rows] for values in (self.goal, self.limit))
        with self._clocked():
            state = self.solver.steps(before.problem, before.state, goal, fractions)
            after = dataclasses.replace(before, iteration=before.iteration + len(fractions), state=state)
            done, diverged = finished(state, goal, limit)
            leaving = diverged.any() or (done.any() and not last)
            self.state = self._without(after, done, diverged, before) if leaving else after

    def _without(self, now: RunState, done: BoolArray, diverged: BoolArray, before: RunState) -> RunState:
        """Move finished rows out of ``now``; a row that diverged keeps its solution from before the last step."""
        finished = list(now.done)
        for rows, source, lost in ((done & ~diverged, now, False), (diverged, before, True)):
            if rows.any():
                finished.append(self._finished(source, np.flatnonzero(rows), lost))
        kept = np.flatnonzero(~done)
        return RunState(now.iteration, now.rows[kept], now.problem.take(kept), now.state.take(kept), tuple(finished))

    def _finished(self, now: RunState, rows: IntArray, diverged: bool) -> FinishedRows:
        """Return the current solutions of the given running rows."""
        state = now.state.take(rows)
        x, details = self.answer(now.problem.take(rows), state)
        return FinishedRows(
            rows=now.rows[rows],
            x=x,
            criterion=state.criterion,
            converged=converged(state, self.goal[now.rows[rows]]) & (not diverged),
            n_iter=steps_taken(state, now.iteration),
            stable=is_stable(state, now.iteration),
            diverged=np.full(rows.size, diverged),
            details=details,
        )

    def restore(self, iteration: int, rows: IntArray, state: State, done: list[dict[str, Any]]) -> None:
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
            The fields of :class:`FinishedRows` for each group of finished rows.
        """
        like = self.problem.y
        finished = []
        for part in done:
            placed = {name: from_numpy(part[name], like) for name in ("x", "criterion")}
            known = part["details"].items()
            placed["details"] = {
                name: from_numpy(value, like) if value.dtype.kind == "f" else value for name, value in known
            }
            finished.append(FinishedRows(**part | placed))
        self.state = RunState(iteration, rows, self.scaled.take(rows), state, tuple(finished))

    def result(self, history: dict[str, NumpyArray]) -> Result:
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
        gap = end.criterion if self.solver.criterion == "gap" else None
        fields = {
            "x": x,
            "support": end.support,
            "residual_norm": residual_norm,
            "gap": from_numpy(to_numpy(gap), x) if gap is not None and is_numpy(namespace(gap)) else gap,
            "converged": from_numpy(to_numpy(end.converged), x),
            "n_iter": from_numpy(to_numpy(end.n_iter), x),
            "stable": None if end.stable is None else from_numpy(to_numpy(end.stable), x),
            **end.details,
        }
        return Result(
            **fields,
            setup_seconds=self.setup_seconds,
            seconds=self.clock.seconds,
            history=history,
            method=repr(self.solver),
            sparsity=sum(self.problem.structure.counts),
        )


def _check_needs(problem: Problem, solver: Solver) -> None:
    """Reject a problem that the solver cannot handle before anything is computed."""
    operator = problem.operator.inner
    missing = {
        Requirement.DENSE: not operator.is_dense,
        Requirement.SPECTRUM: not operator.is_dense and operator.frame_bound is None,
        Requirement.REAL: is_complex(problem.y),
        Requirement.HOST: not is_numpy(namespace(problem.y)),
    }
    # The support of a single time is plain, but belongs to a set of joint supports all the same.
    joint = frozenset() if problem.times is None else frozenset({Kind.GROUPS})
    for kind in sorted((problem.structure.kinds | joint) - solver.takes, key=lambda kind: kind.value):
        able = ", ".join(name for name, other in METHODS.items() if kind in other.takes)
        raise reject("method", f"{solver.name!r}, which does not take {kind.value}", f"one of {able}")
    for need in solver.needs:
        if missing[need]:
            raise reject("method", f"{solver.name!r}, which needs {need.value}", "another one")


def _check_polish(problem: Problem) -> None:
    """Reject problems whose supports cannot be improved by exchanges of single columns."""
    if Kind.OWN in problem.structure.kinds:
        raise reject("polish", "True with a set of your own", "False for such a set")
    if not problem.operator.inner.is_dense:
        raise reject("polish", "True with a Phi that is not dense", "False for such a Phi")


@lru_cache
def _compile(
    solver: Solver,
    dtype: Any,
    size: tuple[int, int, int],
    large: bool,
    kinds: frozenset[Kind],
    joint: bool,
    noise: bool,
) -> None:
    """Run the solver on a small problem to compile its kernels, for large batches those that are used only there."""
    # Columns resemble each other, and y is noise, so that no part of the default method is left out.
    m, n, s = size
    batch = LARGE // n + 1 if large else 1
    Phi = np.cos(0.3 * np.outer(np.arange(1, m + 1), np.arange(1, n + 1)))
    y = np.tile(np.cos(np.arange(m) ** 2), (batch, 1))
    chosen: SignalSet = Sparse(s, nonnegative=Kind.BOUNDS in kinds)
    if joint:
        y, chosen = np.stack([y, 2 * y], axis=1), JointSparse(s)
    elif Kind.GROUPS in kinds:
        chosen = GroupSparse(s, np.arange(n) // 2)
    elif Kind.LEVELS in kinds:
        chosen = LevelSparse([1, 2], np.arange(n) % 2)
    problem = Problem(Phi.astype(dtype), y.astype(dtype), chosen, noise_norm=m if noise else None)
    with np.errstate(all="ignore"):
        problem, _ = problem.to_scale(True, solver.scale_free)
        state = solver.init(problem)
        state = solver.steps(problem, state, np.full_like(to_numpy(state.scale), -1.0), STEPS)
        solver.estimate(problem, state)
