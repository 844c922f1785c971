"""Orthogonal matching pursuit for groups, joint supports and bounds: one unit of columns is selected at a time."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from ..backend.arrays import Array
from ..backend.norms import norm
from ..kernels.thresholding import project
from ..operators.least_squares import refit
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
    """
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


def select_unit(problem: Problem, state: UnitPursuitState) -> UnitPursuitState:
    """Select the unit whose correlation with the residual is largest, and fit y on all that are selected.

    For groups this is group OMP (Swirszcz, Abe and Lozano 2009), for joint supports simultaneous OMP (Tropp, Gilbert
    and Strauss 2006), for nonnegative x nonnegative OMP (Bruckstein, Elad and Zibulevsky 2008). Columns of groups are
    not orthonormalized.

    Parameters
    ----------
    problem : Problem
        The problem, restricted to the rows of ``state``.
    state : UnitPursuitState
        The current state.

    Returns
    -------
    UnitPursuitState
        The state after the selection.
    """
    structure = problem.structure
    correlation = np.where(state.selected, 0, problem.operator.adjoint(state.residual))
    best = project(correlation, structure.resized(1)) != 0
    selected = state.selected | (structure.unit_sums(best.astype(np.float64)) > 0)
    # All selected entries start inside the bounds, those at zero, too, so that the fit may use them.
    ones = structure.clipped(np.ones_like(state.x))
    away = np.where(ones != 0, ones, structure.clipped(-np.ones_like(state.x)))
    inside = np.where(selected, np.where(state.x != 0, state.x, away), 0)
    x = refit(problem.operator, problem.y, inside.astype(state.x.dtype), structure)
    residual = problem.y - problem.operator.forward(x)
    criterion, taken = norm(residual), state.taken + 1
    noise = 0 if problem.noise_norm is None else problem.noise_norm
    finished = ~best.any(axis=1) | (taken >= structure.counts[0]) | (criterion <= noise)
    return dataclasses.replace(
        state, x=x, selected=selected, residual=residual, criterion=criterion, settled=finished, taken=taken
    )
