"""Probabilities and standard deviations of nonzeros whose columns are multiples of each other."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, to_numpy
from ...problems import Problem
from ..support_sampler import narrow


def among_copies(problem: Problem, x: Array, inclusion: Array, deviation: Array) -> tuple[Array, Array]:
    """Share the probability of a nonzero equally among the columns that are multiples of its own.

    The data cannot tell such columns apart; chains or messages treat them differently only by chance.

    Parameters
    ----------
    problem : Problem
        The problem.
    x : array, shape (batch, n)
        The answer.
    inclusion, deviation : array, shape (batch, n)
        The probability of each entry of being nonzero, and its standard deviation.

    Returns
    -------
    inclusion, deviation : array, shape (batch, n)
        The shared probabilities and deviations.
    """
    operator = problem.operator
    if not (problem.structure.plain and operator.is_dense):
        return inclusion, deviation
    first = operator.copies
    copied = np.bincount(first, minlength=first.size)[first]
    if copied.max(initial=1) == 1:
        return inclusion, deviation
    values, shares, spread = (to_numpy(array).copy() for array in (x, inclusion, deviation))
    lengths = operator.column_norms
    for column in np.unique(first[(copied > 1) & (lengths > 0)]):
        alike = np.flatnonzero(first == column)
        certain = ((shares[:, alike] == 1) & (spread[:, alike] == 0)).any(axis=1, keepdims=True)
        size = np.sum(np.abs(values[:, alike]) * lengths[alike], axis=1, keepdims=True)
        share = 1 / alike.size
        mean_square = np.mean((spread[:, alike] * lengths[alike]) ** 2, axis=1, keepdims=True)
        width = np.where(certain, (share * (1 - share)) ** 0.5 * size, np.sqrt(mean_square))
        shares[:, alike] = np.mean(shares[:, alike], axis=1, keepdims=True)
        spread[:, alike] = width / lengths[alike]
    return narrow(shares, x), narrow(spread, x)
