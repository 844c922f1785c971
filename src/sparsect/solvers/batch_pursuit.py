"""Order-recursive matching pursuit for all rows at once, in operations of the array library, as GPUs need it.

The notation is that of ``kernels/pursuit.py``. Here V holds q_r^H Phi for the orthonormalized columns q_r, so that the
next one, v = (G[i, :] - sum_r conj(V[r, i]) V[r, :]) / sqrt(d_i), is a product of the rows of V: a selection reads k n
numbers. Everything is in the precision of Phi and only ranks columns; the fit at the end is in double precision.
"""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass

import array_api_compat as compat
import numpy as np

from ..backend.arrays import Array, FloatArray, epsilon, from_numpy, namespace, on_host, real_dtype
from ..backend.devices import tensor_cores
from ..backend.norms import conj, squared_norm
from ..operators.least_squares import on_support
from ..problems import Problem
from .base import State

# A column is linearly dependent if less than so many rounding errors are left of its squared norm.
DEPENDENT = 100.0


@dataclass(frozen=True, kw_only=True)
class BatchPursuitState(State):
    """The state of a pursuit in all rows at once.

    Attributes
    ----------
    correlation : array, shape (batch, n)
        The correlations of the columns with the residual.
    freedom : array, shape (batch, n)
        The squared norm of the part of each column that is orthogonal to the selected ones; -1 for those.
    V : array, shape (batch, s, n)
        The products of the orthonormalized columns with Phi, and space for further ones; it is written in place. Empty
        before the first selection.
    energy : array, shape (batch,)
        The squared norm of the residual.
    goal : array, shape (batch,)
        The squared norm of the residual at which a row stops.
    """

    growing = frozenset({"V"})

    correlation: Array
    freedom: Array
    V: Array
    energy: Array
    goal: Array
    settled: Array
    taken: Array


def start(problem: Problem) -> BatchPursuitState:
    """Start without columns.

    Parameters
    ----------
    problem : Problem
        The problem to solve.

    Returns
    -------
    BatchPursuitState
        The initial state.
    """
    y, operator = problem.y, problem.operator
    xp, real = namespace(y), real_dtype(y)
    with _exact_products(y):
        correlation = operator.adjoint(y)
        squares = xp.abs(xp.linalg.diagonal(operator.gram_matrix))
    energy = xp.astype(squared_norm(y), real)
    goal = xp.zeros_like(energy)
    if problem.noise_norm is not None:
        goal = goal + xp.astype(problem.noise_norm, real) ** 2
    return BatchPursuitState(
        correlation=correlation,
        freedom=squares[None, :] + xp.zeros_like(energy)[:, None],
        V=xp.zeros((problem.batch, 0, operator.shape[1]), dtype=y.dtype, device=y.device),
        energy=energy,
        goal=goal,
        criterion=xp.sqrt(energy),
        scale=xp.sqrt(energy),
        settled=(energy <= goal) | (problem.sparsity == 0),
        taken=xp.zeros_like(energy, dtype=xp.int64),
    )


def select(problem: Problem, state: BatchPursuitState, goal: FloatArray, count: int) -> BatchPursuitState:
    """Select up to ``count`` columns in every row.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : BatchPursuitState
        The current state.
    goal : array, shape (batch,)
        The norm of the residual at which a row stops.
    count : int
        The number of columns.

    Returns
    -------
    BatchPursuitState
        The state after the selections.
    """
    y, gram = problem.y, problem.operator.gram_matrix
    xp = namespace(y)
    correlation, freedom, energy, taken = state.correlation, state.freedom, state.energy, state.taken
    enough = xp.maximum(state.goal, xp.astype(from_numpy(np.maximum(goal, 0) ** 2, energy), energy.dtype))
    squares = xp.abs(xp.linalg.diagonal(gram))
    dependent = DEPENDENT * epsilon(gram) * squares
    # The remaining correlations of an exactly sparse signal are rounding errors, which must not select columns.
    quiet = (50 * epsilon(gram) * state.scale[:, None]) ** 2 * squares
    numbers, going = xp.arange(gram.shape[0], device=y.device), ~state.settled
    first = int(xp.max(taken)) if taken.shape[0] else 0
    V = state.V
    if V.shape[1] < problem.sparsity:
        V = xp.zeros((V.shape[0], problem.sparsity, V.shape[2]), dtype=V.dtype, device=V.device)
    with _exact_products(y):
        for k in range(first, min(first + count, problem.sparsity)):
            size, left = xp.abs(correlation) ** 2, xp.where(freedom > dependent, freedom, xp.ones_like(freedom))
            score = xp.where((freedom > dependent) & (size > quiet), size / left, xp.zeros_like(size))
            column = xp.argmax(score, axis=1, keepdims=True)
            going = going & (xp.take_along_axis(score, column, axis=1)[:, 0] > 0) & (energy > enough)
            pivot = xp.sqrt(xp.take_along_axis(left, column, axis=1))
            v = xp.take(gram, column[:, 0], axis=0)
            if k:
                before = V[:, :k, :]
                places = xp.broadcast_to(column[:, :, None], (column.shape[0], k, 1))
                parts = conj(xp.take_along_axis(before, places, axis=2))
                v = v - (xp.permute_dims(parts, (0, 2, 1)) @ before)[:, 0, :]
            v = xp.where(going[:, None], v / pivot, xp.zeros_like(v))
            amount = xp.take_along_axis(correlation, column, axis=1) / pivot
            amount = xp.where(going[:, None], amount, xp.zeros_like(amount))
            V[:, k, :] = v
            correlation = correlation - conj(v) * amount
            freedom = xp.where(freedom < 0, freedom, xp.clip(freedom - xp.abs(v) ** 2, min=0.0))
            freedom = xp.where(going[:, None] & (numbers == column), -xp.ones_like(freedom), freedom)
            energy = energy - xp.abs(amount[:, 0]) ** 2
            taken = taken + xp.astype(going, taken.dtype)
    return dataclasses.replace(
        state,
        correlation=correlation,
        freedom=freedom,
        V=V,
        energy=energy,
        taken=taken,
        criterion=xp.sqrt(xp.clip(energy, min=0.0)),
        settled=~going | (taken >= problem.sparsity) | (energy <= state.goal),
    )


def fitted(problem: Problem, state: BatchPursuitState) -> Array:
    """Return the least-squares fit on the selected columns.

    Parameters
    ----------
    problem : Problem
        The problem.
    state : BatchPursuitState
        The state.

    Returns
    -------
    array, shape (batch, n)
        The fit.
    """
    return on_support(problem.operator, problem.y, state.freedom < 0)


def _exact_products(like: Array) -> contextlib.AbstractContextManager[None]:
    """Return a context in which torch does not round factors on a GPU: products here are limited by memory anyway."""
    on_gpu = compat.is_torch_array(like) and not on_host(like)
    return tensor_cores(False) if on_gpu else contextlib.nullcontext()
