"""Several steps of ADMM on a block of rows, in place: two products for each step, and one pass over the entries."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.parallel import compiled

Matrix = np.ndarray[Any, Any]


@compiled
def _move(j, w, moved, after, z, point):
    """Store a shrunken entry and update the point; return the entry's part of the squared criterion."""
    apart, change = point[j] - w[j] - after, after - z[j]
    z[j] = after
    point[j] = after + after - moved
    return apart * apart + change * change


@compiled
def _simple_power(w, threshold, twice, z, point):
    """Take a step of one row where the exponent ``twice / 2`` is 1, 3/2 or 2; return the criterion."""
    number = z.dtype.type
    total, one, zero, tiny = number(0), number(1), number(0), number(1e-30)
    for j in range(z.size):
        moved = z[j] - w[j]
        ratio = threshold / max(abs(moved), tiny)
        after = max(one - ratio * (one if twice == 2 else (np.sqrt(ratio) if twice == 3 else ratio)), zero) * moved
        total += _move(j, w, moved, after, z, point)
    return np.sqrt(total)


@compiled
def _any_power(w, threshold, exponent, z, point):
    """Take a step of one row for any exponent; powers are slow, and computed only for entries that stay nonzero."""
    number = z.dtype.type
    total = number(0)
    for j in range(z.size):
        moved, after = z[j] - w[j], number(0)
        if abs(moved) > threshold:
            after = moved * (number(1) - (threshold / abs(moved)) ** exponent)
        total += _move(j, w, moved, after, z, point)
    return np.sqrt(total)


@compiled
def _shrink(w, threshold, exponent, z, point, criterion):
    number, twice = z.dtype.type, round(2 * exponent)
    for row in range(z.shape[0]):
        if twice == 2 * exponent and 2 <= twice <= 4:
            criterion[row] = _simple_power(w[row], number(threshold), twice, z[row], point[row])
        else:
            criterion[row] = _any_power(w[row], number(threshold), number(exponent), z[row], point[row])


def shrink(
    basis: tuple[Matrix, Matrix, Matrix],
    target: Matrix,
    mu: float,
    lam: float,
    p: float,
    count: int,
    goal: Matrix,
    z: Matrix,
    point: Matrix,
    criterion: Matrix,
    taken: Matrix,
) -> int:
    """Take ``count`` steps, but stop when the criterion of a row reaches its goal; return the number of steps.

    Parameters
    ----------
    basis : V (n, rank), V^T, and the singular values of Phi
    target : (batch, rank), the data in image coordinates
    mu, lam, p : as in ``solvers.admm``
    z to taken : the state, changed in place
    """
    analysis, synthesis, values = basis
    gains = values / (values * values + z.dtype.type(mu))
    start, weights = target * gains, values * gains
    w, coordinates = np.empty_like(z), np.empty_like(target)
    steps = 0
    while steps < count:
        np.matmul(point, analysis, out=coordinates)
        coordinates *= weights
        coordinates -= start
        np.matmul(coordinates, synthesis, out=w)
        _shrink(w, lam / mu, 2 - p, z, point, criterion)
        steps += 1
        if (criterion <= goal).any():
            break
    taken += steps
    return steps
