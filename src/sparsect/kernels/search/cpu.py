"""Several steps of the annealed map on a block of rows, in place: no step allocates memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...backend.arrays import Array, FloatArray, NumpyArray
from ...backend.parallel import compiled
from ..sparse_product import sparse_product
from ..thresholding import Structure
from ..thresholding.cpu import advance, advance_structured


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
    basis: tuple[Array, Array, Array],
    target: Array,
    alphas: Sequence[float],
    kept: Sequence[Structure],
    averaged: Sequence[bool],
    relaxation: float,
    goal: FloatArray,
    x: NumpyArray,
    image: NumpyArray,
    sparse: NumpyArray,
    criterion: NumpyArray,
    taken: NumpyArray,
    unchanged: NumpyArray,
    total: NumpyArray | None,
    power: NumpyArray | None,
    count: NumpyArray | None,
) -> int:
    """Take one step for each alpha, but stop when the criterion of a row reaches its goal; return the number of steps.

    Parameters
    ----------
    basis : V (n, rank), V^T, and the singular values of Phi
    target : (batch, rank), the data in image coordinates
    alphas, kept, averaged : for each step, the relaxation of the data set, what points of A look like, and whether the
        point is added to ``total`` and its squared norm to ``power``
    x to count : the state, as in ``solvers.annealed``, changed in place
    """
    analysis, synthesis, values = basis
    relax, (n, rank) = x.dtype.type(relaxation), analysis.shape
    # With several measurements at a time, a row has several parts, to each of which the basis applies.
    parts = x.shape[1] // n
    images, signals = (x.shape[0] * parts, rank), (x.shape[0] * parts, n)
    w, point, coordinates = np.empty_like(x), np.empty_like(image), np.empty_like(image)
    level, distance, changed = np.zeros_like(criterion), np.empty_like(criterion), np.empty(criterion.shape, dtype=bool)
    for step, alpha in enumerate(alphas):
        _correct(image, target, values, (values / (values * values + alpha)).astype(x.dtype), coordinates, distance)
        np.matmul(coordinates.reshape(images), synthesis, out=w.reshape(signals))
        rest = (relax, x, sparse, level, criterion, changed)
        if kept[step].plain:
            advance(0, x.shape[0], w, kept[step].size, *rest)
        else:
            arguments: tuple[Any, ...] = (w, *kept[step].arguments(x.dtype), *rest)
            advance_structured(0, x.shape[0], *arguments)
        sparse_product(sparse.reshape(signals), analysis, kept[step].size // parts, out=point.reshape(images))
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
