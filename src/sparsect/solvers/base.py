"""What is a solver? Its state, what it needs of a problem, and its three functions.

A solver is configuration plus pure functions; its state holds everything needed to stop, save and resume, one row for
each signal, so the loop can drop rows that are done.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import numpy as np

from ..backend.arrays import Array, from_numpy, namespace, take_rows, to_numpy, worth_compiling
from ..backend.checks import reject, shown
from ..problems import Problem

# Bytes of one array of a block of rows that a core works on at a time: smaller ones pack the matrix too often.
BLOCK_BYTES = 2**22


@dataclass(frozen=True, kw_only=True)
class State:
    """What a solver carries from step to step: arrays with one row per signal, or None where unused.

    Attributes
    ----------
    gap : (batch,), a distance that vanishes when a solution is found
    scale : (batch,), what ``tol`` is relative to: a row has converged when gap <= tol * scale
    settled : (batch,), true where further steps change nothing; None if that cannot happen
    failed : (batch,), true where the iteration broke down and the row keeps what it had; None if that cannot happen
    taken : (batch,), steps taken, for solvers whose rows may stop within a leap; None if all rows step together
    unchanged : (batch,), steps since the support last changed, for solvers that look; None for others
    """

    # Fields whose rows become longer along the run.
    growing: ClassVar[frozenset[str]] = frozenset()

    gap: Array
    scale: Array
    settled: Any = None
    failed: Any = None
    taken: Any = None
    unchanged: Any = None

    def arrays(self) -> dict[str, Array]:
        """The fields in use, by name."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: value for name, value in fields.items() if value is not None}

    def check(self, problem: Problem) -> None:
        """Raise a ValueError if a state that comes from a file would lead the solver's kernels out of bounds.

        Dtypes, shapes but for fields that grow, and finiteness have been checked by then.
        """

    def take(self, rows: np.ndarray[Any, Any]) -> State:
        """The state of the given rows alone."""
        return dataclasses.replace(self, **{name: take_rows(value, rows) for name, value in self.arrays().items()})


def joined(rows: Sequence[np.ndarray[Any, Any]] | None, parts: Sequence[Any]) -> Any:
    """States of several groups of rows as one: in the order of ``rows``, the places of each, or one after the other."""
    names = parts[0].arrays()
    xp = namespace(parts[0].gap)
    whole = {name: xp.concat([getattr(part, name) for part in parts], axis=0) for name in names}
    state = dataclasses.replace(parts[0], **whole)
    return state if rows is None else state.take(np.argsort(np.concatenate(rows)))


def chosen(rows: Array, first: Any, second: Any) -> Any:
    """A state with the given rows of ``first``, a true or false for each, and the others of ``second``."""
    xp, others = namespace(rows), second.arrays()
    picked = {
        name: xp.where(xp.reshape(rows, (-1,) + (1,) * (value.ndim - 1)), value, others[name])
        for name, value in first.arrays().items()
        if value is not others[name]
    }
    return dataclasses.replace(second, **picked)


def kept_where_done(goal: np.ndarray[Any, Any], before: Any, after: Any) -> Any:
    """``after``, but ``before`` in rows whose gap had come down to the goal, or that had settled or failed, by then.

    For arrays on a GPU, of which several steps are taken before anybody looks.
    """
    xp = namespace(before.gap)
    done = before.gap <= xp.astype(from_numpy(goal, before.gap), before.gap.dtype)
    for ended in (before.settled, before.failed):
        done = done if ended is None else done | ended
    return chosen(done, before, after)


def in_blocks(
    problem: Problem,
    state: Any,
    like: Array,
    count: int,
    goal: np.ndarray[Any, Any],
    some_steps: Callable[[Problem, Any, int, np.ndarray[Any, Any]], tuple[Any, int]],
) -> Any:
    """``count`` steps, fewer in rows whose gap comes down to ``goal``, in blocks of rows that run one on each core.

    ``some_steps(problem, state, taken, goal)`` takes at least one step when so many have been taken, all up to where a
    row is done at the most, and returns the state, which it may change in place, and how many. ``like`` is as large as
    the largest array of the state.
    """

    def run(first: int, last: int) -> Any:
        rows = np.arange(first, last)
        part, running = problem.take(rows), state.take(rows)
        places: list[Any] = []
        parts: list[Any] = []
        taken = 0
        while taken < count:
            running, steps = some_steps(part, running, taken, goal[rows])
            taken += steps
            done = to_numpy(running.gap) <= goal[rows]
            if taken < count and done.any():
                places, parts = [*places, rows[done]], [*parts, running.take(np.flatnonzero(done))]
                going = np.flatnonzero(~done)
                rows, part, running = rows[going], part.take(going), running.take(going)
                if not going.size:
                    break
        return joined([*places, rows], [*parts, running]) if parts else running

    if not worth_compiling(like):
        return run(0, problem.batch)
    from ..backend.parallel import over_blocks

    blocks = over_blocks(run, problem.batch, BLOCK_BYTES // (like.shape[-1] * like.itemsize))
    return blocks[0] if len(blocks) == 1 else joined(None, blocks)


def device_for(solver: Any, device: str | None) -> str | None:
    """``device``, but None (where the data are) if it is "auto" and the solver runs on a CPU only."""
    return None if device == "auto" and Requirement.HOST in solver.needs else device


class Requirement(Enum):
    """What a solver may need of a problem, with the words for when it is not there."""

    DENSE = "a dense Phi, not a sparse or matrix-free one"
    SPECTRUM = "the singular values of Phi: a dense Phi or a tight frame"
    REAL = "real data and Phi, not complex ones"
    HOST = "NumPy arrays (device 'cpu'), not ones of another array library"


class Solver(ABC):
    """An algorithm: settings, and three pure functions that the loop calls.

    A solver is a frozen dataclass whose fields are its settings. It overrides ``init``, ``step`` and ``estimate``; all
    else has a default that works.

    Attributes
    ----------
    name : str
        What ``recover(method=...)`` and the command line call it.
    needs : frozenset of Requirement
        What it cannot do without; a problem that does not have it is refused before anything is computed.
    uses_noise_norm : bool
        Whether it takes the problem's noise level into account.
    gap_is_residual : bool
        Whether its gap is ||Phi x - y||, in the units of y instead of those of x.
    compiled : bool
        Whether it has compiled kernels: it is then run on a tiny problem before the clock starts.
    leaps : bool
        Whether several ``steps`` at once are faster in main memory than one after the other.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Requirement]] = frozenset()
    uses_noise_norm: ClassVar[bool] = False
    gap_is_residual: ClassVar[bool] = False
    compiled: ClassVar[bool] = False
    leaps: ClassVar[bool] = False

    @abstractmethod
    def init(self, problem: Problem) -> Any:
        """The state before the first step."""

    @abstractmethod
    def step(self, problem: Problem, state: Any) -> Any:
        """The state one step on; ``state`` itself is left as it was."""

    @abstractmethod
    def estimate(self, problem: Problem, state: Any) -> Array:
        """The answer so far: (batch, n), at most ``problem.sparsity`` nonzeros a row."""

    def steps(self, problem: Problem, state: Any, goal: np.ndarray[Any, Any], fractions: Sequence[float]) -> Any:
        """One step for each of ``fractions``, fewer in rows whose gap comes down to ``goal``.

        A fraction is the part of the run's iterations or seconds that is over before its step, from 0 to 1, so that a
        schedule can follow the budget.
        """
        if len(fractions) == 1:
            return self.step(problem, state)
        for _ in fractions:
            state = kept_where_done(goal, state, self.step(problem, state))
        return state

    @property
    def scale_free(self) -> bool:
        """Whether no setting depends on the units of Phi and y, so that the loop may bring both to scale."""
        return False

    @property
    def fitted(self) -> bool:
        """Whether the estimate is the least-squares fit on its support, so that a refit would change nothing."""
        return False

    @property
    def approximates(self) -> bool:
        """Whether the best fit with s nonzeros is promised, however much of y that leaves."""
        return False

    @property
    def finds_sparsity(self) -> bool:
        """Whether estimates may have more than s nonzeros, because their number is found out."""
        return False


def check_solver(name: str, solver: Any) -> Solver:
    """``solver`` if it is one; a class, or anything else, is refused."""
    if not isinstance(solver, Solver):
        raise reject(name, shown(solver), "a name, or a configured solver such as DifferenceMap(beta=0.5)")
    return solver
