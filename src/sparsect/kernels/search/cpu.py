"""Several steps of the annealed map on a block of rows, in place: no step allocates memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend.parallel import compiled
from ..sparse_product import sparse_product
from ..thresholding.cpu import advance

Matrix = np.ndarray[Any, Any]


@compiled
def _correct(image, target, values, gains, coordinates, distance):
    """Compute the coordinates of the correction of x from its image, and the norm of the correction."""
    for row in range(image.shape[0]):
        total = image.dtype.type(0)
        for j in range(image.shape[1]):
            coordinates[row, j] = (values[j] * image[row, j] - target[row, j]) * gains[j]
            total += coordinates[row, j] * coordinates[row, j]
        distance[row] = np.sqrt(total)


@compiled
def _follow(point, coordinates, relaxation, image):
    """Update the image of x, given the image of the new point of A."""
    for row in range(image.shape[0]):
        for j in range(image.shape[1]):
            image[row, j] += relaxation * (point[row, j] - image[row, j] + coordinates[row, j])


@compiled
def _add(u, total, power):
    for row in range(u.shape[0]):
        energy = u.dtype.type(0)
        for j in range(u.shape[1]):
            total[row, j] += u[row, j]
            energy += u[row, j] * u[row, j]
        power[row] += energy


def search(
    basis: tuple[Matrix, Matrix, Matrix],
    target: Matrix,
    alphas: Sequence[float],
    kept: Sequence[int],
    averaged: Sequence[bool],
    relaxation: float,
    goal: Matrix,
    x: Matrix,
    image: Matrix,
    sparse: Matrix,
    criterion: Matrix,
    taken: Matrix,
    unchanged: Matrix,
    total: Matrix | None,
    power: Matrix | None,
    count: Matrix | None,
) -> int:
    """Take one step for each alpha, but stop when the criterion of a row reaches its goal; return the number of steps.

    Parameters
    ----------
    basis : V (n, rank), V^T, and the singular values of Phi
    target : (batch, rank), the data in image coordinates
    alphas, kept, averaged : for each step, the relaxation of the data set, the number of entries of a point of A, and
        whether the point is added to ``total`` and its squared norm to ``power``
    x to count : the state, as in ``solvers.annealed``, changed in place
    """
    analysis, synthesis, values = basis
    relax = x.dtype.type(relaxation)
    w, point, coordinates = np.empty_like(x), np.empty_like(image), np.empty_like(image)
    level, distance, changed = np.zeros_like(criterion), np.empty_like(criterion), np.empty(criterion.shape, dtype=bool)
    for step, alpha in enumerate(alphas):
        _correct(image, target, values, (values / (values * values + alpha)).astype(x.dtype), coordinates, distance)
        np.matmul(coordinates, synthesis, out=w)
        advance(0, x.shape[0], w, kept[step], relax, x, sparse, level, criterion, changed)
        sparse_product(sparse, analysis, kept[step], out=point)
        _follow(point, coordinates, relax, image)
        np.hypot(criterion, distance, out=criterion)
        taken += 1
        unchanged += 1
        unchanged[changed] = 0
        if averaged[step] and count is not None:
            _add(sparse, total, power)
            count += 1
        if (criterion <= goal).any():
            return step + 1
    return len(alphas)
