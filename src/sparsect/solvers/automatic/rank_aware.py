"""Rank-aware order-recursive matching pursuit, for a joint support (Davies and Eldar 2012)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays import Array, BoolArray, epsilon, from_numpy
from ...kernels.supports import wide
from ...kernels.supports.limits import DEPENDENT
from ...problems import Problem


def rank_aware(problem: Problem) -> Array:
    """Select the columns of a joint support by the directions of the residual, whatever their strength.

    The residuals of all times span a space. The selected columns are projected out of the space and of the other
    columns; the next one is the column with the largest part in this space. Only the strongest directions of the
    residuals are used, as many as columns are still to be selected. With as many times as nonzeros and without noise,
    the true columns lie in this space, so that they are found even if others resemble them or are stronger.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi and measurements at several times.

    Returns
    -------
    array, shape (batch, times n)
        1 at the selected entries, 0 elsewhere.
    """
    Phi, A, smallest = wide(problem.operator.inner.Phi, None), problem.structure, epsilon(problem.y) ** 0.5
    selected = np.zeros((problem.batch, A.layout.count), dtype=bool)
    for row, y in enumerate(wide(problem.y, None)):
        selected[row] = _select(Phi, y.reshape(problem.operator.times, -1).T, A.counts[0], smallest)
    return A.of_entries(from_numpy(selected.astype(np.float64), problem.y))


def _select(Phi: Any, rest: Any, size: int, smallest: float) -> BoolArray:
    """Select the columns of one row; ``rest`` holds the measurements of each time in a column.

    Directions are rounding errors below a fraction of the residual, ``smallest``.
    """
    squares = np.sum(np.abs(Phi) ** 2, axis=0)
    left, selected = squares.copy(), np.zeros(squares.size, dtype=bool)
    chosen = np.zeros((Phi.shape[0], 0), dtype=np.result_type(Phi, rest))
    rounding = smallest * np.linalg.norm(rest)
    for count in range(size, 0, -1):
        directions, lengths, _ = np.linalg.svd(rest, full_matrices=False)
        directions = directions[:, :count][:, lengths[:count] > rounding]
        usable = left > DEPENDENT * squares
        if not directions.size or not usable.any():
            break
        share = np.sum(np.abs(directions.conj().T @ Phi) ** 2, axis=0) / np.where(usable, left, np.inf)
        column = int(np.argmax(share))
        selected[column] = True
        new = Phi[:, column]
        for _ in range(2):
            new = new - chosen @ (chosen.conj().T @ new)
        new = new / np.linalg.norm(new)
        chosen = np.column_stack([chosen, new])
        left = left - np.abs(new.conj() @ Phi) ** 2
        left[column] = 0
        rest = rest - np.outer(new, new.conj() @ rest)
    return selected
