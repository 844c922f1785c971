"""When a row of a run is finished: it has converged, its iteration broke down, or it diverged."""

from __future__ import annotations

from ..backend.arrays import BoolArray, FloatArray, to_numpy
from ..solvers.base import State

# A row whose criterion exceeds this multiple of its scale has diverged.
DIVERGED = 1e8


def finished(state: State, goal: FloatArray, limit: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Return which rows need no further steps.

    Parameters
    ----------
    state : State
        The solver's state.
    goal : array, shape (rows,)
        The value of the stopping criterion at which a row has converged.
    limit : array, shape (rows,)
        The value beyond which it has diverged.

    Returns
    -------
    done : array of bool, shape (rows,)
        The rows that are finished for any reason.
    diverged : array of bool, shape (rows,)
        Those of them that have diverged.
    """
    # The comparison is negated so that NaN counts as divergence.
    diverged = ~(to_numpy(state.criterion) <= limit)
    done = diverged | converged(state, goal)
    return (done if state.failed is None else done | to_numpy(state.failed)), diverged


def converged(state: State, goal: FloatArray) -> BoolArray:
    """Return which rows have converged: their criterion is small enough, or the solver has settled.

    Parameters
    ----------
    state : State
        The solver's state.
    goal : array, shape (rows,)
        The value of the stopping criterion at which a row has converged.

    Returns
    -------
    array of bool, shape (rows,)
        One value for each row; False where the iteration broke down.
    """
    reached: BoolArray = to_numpy(state.criterion) <= goal
    if state.settled is not None:
        reached = reached | to_numpy(state.settled)
    return reached if state.failed is None else reached & ~to_numpy(state.failed)
