"""The state of a run: the rows that are still running, and the solutions of the finished ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..backend.arrays import Array, BoolArray, IntArray, namespace, take_rows, to_numpy
from ..problems import Problem
from ..solvers.base import State

# A support that has not changed during this fraction of a row's steps is stable.
STABLE = 0.01


@dataclass(frozen=True)
class FinishedRows:
    """Finished rows and their solutions.

    Attributes
    ----------
    rows : array of int, shape (count,)
        The indices of the rows in the batch.
    x : array, shape (count, n)
        The solutions, in the units of the run.
    criterion : array, shape (count,)
        The stopping criterion, in the units of the run.
    converged : array of bool, shape (count,)
        Whether each row has converged.
    n_iter : array of int, shape (count,)
        The number of steps.
    stable : array of bool, shape (count,)
        Whether the support is stable; False if the solver does not track it.
    diverged : array of bool, shape (count,)
        Whether the row diverged.
    details : dict of str to array
        What the solver knows about the solutions besides, in the units of the run.
    """

    rows: IntArray
    x: Array
    criterion: Array
    converged: BoolArray
    n_iter: IntArray
    stable: BoolArray
    diverged: BoolArray
    details: dict[str, Array]


@dataclass(frozen=True)
class RunState:
    """The state of a run: the rows that are still running, and the finished ones.

    It is replaced as a whole after every step, so that an interrupt never leaves a step half done.

    Attributes
    ----------
    iteration : int
        The number of iterations so far.
    rows : array of int, shape (running,)
        The indices in the batch of the rows that are still running.
    problem : Problem
        The problem restricted to these rows.
    state : State
        The solver's state for these rows.
    done : tuple of FinishedRows
        The finished rows.
    """

    iteration: int
    rows: IntArray
    problem: Problem
    state: State
    done: tuple[FinishedRows, ...]

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
    def _order(self) -> IntArray:
        """The index of each row of the batch in the concatenation of finished and running rows."""
        rows = np.concatenate([*(part.rows for part in self.done), self.rows])
        order = np.empty_like(rows)
        order[rows] = np.arange(rows.size)
        return order


def steps_taken(state: State, iteration: int) -> IntArray:
    """Return the number of steps of each row.

    Parameters
    ----------
    state : State
        The solver's state.
    iteration : int
        The number of iterations so far.

    Returns
    -------
    array of int, shape (batch,)
        The number of steps.
    """
    if state.taken is not None:
        return to_numpy(state.taken).astype(np.int64)
    return np.full(state.criterion.shape[0], iteration)


def is_stable(state: State, iteration: int) -> BoolArray:
    """Return whether the support of each row is stable.

    Parameters
    ----------
    state : State
        The solver's state.
    iteration : int
        The number of iterations so far.

    Returns
    -------
    array of bool, shape (batch,)
        True where the support is stable; False everywhere if the solver does not track it.
    """
    steps = steps_taken(state, iteration)
    if state.unchanged is None:
        return np.zeros(steps.shape, bool)
    return np.asarray(to_numpy(state.unchanged) >= np.maximum(1, STABLE * steps))
