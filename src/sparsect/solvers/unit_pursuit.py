"""Orthogonal matching pursuit for groups, joint supports and bounds: one unit of columns is selected at a time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..backend.arrays import Array, is_numpy, namespace
from ..backend.checks import reject
from ..backend.norms import norm
from ..kernels.supports import gains
from ..kernels.thresholding import project
from ..operators.least_squares import refit
from ..operators.polishing import gram_in_memory
from ..problems import Problem
from .base import State


@dataclass(frozen=True, kw_only=True)
class UnitPursuitState(State):
    """The state of a pursuit of units.

    Attributes
    ----------
    x : array, shape (batch, n)
        The least-squares fit on the selected units, within the bounds.
    selected : array of bool, shape (batch, n)
        The entries of the selected units.
    residual : array, shape (batch, m)
        The residual y - Phi x.
    """

    x: Array
    selected: Array
    residual: Array
    taken: Array


def start(problem: Problem) -> UnitPursuitState:
    """Start without units.

    Parameters
    ----------
    problem : Problem
        The problem to solve.

    Returns
    -------
    UnitPursuitState
        The initial state.

    Raises
    ------
    InputError
        If the data are not in a NumPy array.
    """
    if not is_numpy(namespace(problem.y)):
        raise reject("y", "a device array with a set", "a NumPy array for matching pursuits with sets")
    x, size = np.zeros((problem.batch, problem.operator.shape[1]), dtype=problem.y.dtype), norm(problem.y)
    return UnitPursuitState(
        x=x,
        selected=np.zeros(x.shape, dtype=bool),
        residual=problem.y,
        criterion=size,
        scale=size,
        settled=(size == 0) | (problem.sparsity == 0),
        taken=np.zeros(problem.batch, dtype=np.int64),
    )


def select_unit(problem: Problem, state: UnitPursuitState, follow_freedom: bool) -> UnitPursuitState:
    """Select one more unit, and fit y on all that are selected.

    If the unit with the largest correlation is selected, this is group OMP (Swirszcz, Abe and Lozano 2009) for groups,
    simultaneous OMP (Tropp, Gilbert and Strauss 2006) for joint supports, and nonnegative OMP (Bruckstein, Elad and
    Zibulevsky 2008) for nonnegative x. Columns of groups are not orthonormalized.

    If it is the one that leaves the smallest residual after the fit, this is block orthogonal least squares for groups,
    simultaneous orthogonal least squares for joint supports (Chen and Huo 2006), and for nonnegative x the fast
    selection of Yaghoobi, Wu and Davies (2015), which lets the other nonzeros leave their bounds.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : UnitPursuitState
        The current state.
    follow_freedom : bool
        Whether to select the unit that leaves the smallest residual.

    Returns
    -------
    UnitPursuitState
        The state after the selection.
    """
    structure = problem.structure
    correlation = problem.operator.adjoint(state.residual)
    if follow_freedom:
        scores = _gains(problem, state, correlation)
        units = np.arange(scores.shape[1]) == np.argmax(scores, axis=1)[:, None]
        best = structure.of_entries(units & (scores > 0))
    else:
        best = project(np.where(state.selected, 0, correlation), structure.resized(1)) != 0
    selected = state.selected | (structure.unit_sums(best.astype(np.float64)) > 0)
    # All selected entries start inside the bounds, those at zero, too, so that the fit may use them.
    inside = np.where(state.x != 0, state.x, structure.inside(selected.astype(state.x.dtype)))
    x = refit(problem.operator, problem.y, inside, structure)
    residual = problem.y - problem.operator.forward(x)
    criterion, taken = norm(residual), state.taken + 1
    noise = 0 if problem.noise_norm is None else problem.noise_norm
    finished = ~best.any(axis=1) | (taken >= structure.counts[0]) | (criterion <= noise)
    return dataclasses.replace(
        state, x=x, selected=selected, residual=residual, criterion=criterion, settled=finished, taken=taken
    )


def _gains(problem: Problem, state: UnitPursuitState, correlation: Array) -> Array:
    """Return by how much each unit lowers the squared residual."""
    gram, squares = gram_in_memory(problem.operator, host=True)
    taken = np.take(state.selected, problem.structure.layout.first, axis=1)
    arrays = (values.astype(gram.dtype, copy=False) for values in (correlation, state.x))
    return gains(gram, squares, next(arrays), problem.structure, next(arrays), taken)
