"""Several steps of the Difference Map and of its annealed form at a time: in place on a CPU, fused on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...backend.arrays import Array, FloatArray, from_numpy, is_complex, is_numpy, namespace
from ...backend.devices import product_precision
from ...backend.engines import has_fused_steps
from ..thresholding import Structure

Basis = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Schedule:
    """Parameters of a sequence of steps, with one entry per step.

    Parameters
    ----------
    alphas : sequence of float
        Relaxation of the data set.
    kept : sequence of Structure
        What points of A look like.
    averaged : sequence of bool
        Whether the point of A is added to the running sums.
    """

    alphas: Sequence[float]
    kept: Sequence[Structure]
    averaged: Sequence[bool]


def search_steps(
    basis: Basis,
    target: Array,
    schedule: Schedule,
    relaxation: float,
    goal: FloatArray,
    state: dict[str, Any],
    compared: bool = True,
) -> tuple[dict[str, Array], int] | None:
    """Take several steps of the map at beta = 1, over-relaxed by ``relaxation``.

    Parameters
    ----------
    basis : tuple of arrays
        V of shape (n, rank), V^T, and the singular values of Phi.
    target : array, shape (batch, rank)
        The data in image coordinates.
    schedule : Schedule
        Parameters of each step. On a CPU, steps end when the criterion of a row has decreased to ``goal``.
    relaxation : float
        Factor of the change of x.
    goal : array, shape (batch,)
        Criterion at which a row is finished.
    state : dict of str to array
        The arrays ``x, image, sparse, criterion, taken, unchanged`` and the sums ``total, power, count``, which may be
        None. They are changed in place on a CPU.
    compared : bool, optional
        Whether to count for how many steps the supports have not changed.

    Returns
    -------
    tuple of dict and int, or None
        The new state and the number of steps taken; None where no such kernel is available and steps have to be taken
        one by one.
    """
    x = state["x"]
    first, sizes = schedule.kept[0], [structure.size for structure in schedule.kept]
    if first.nearest is not None or min(sizes) == 0 or (first.plain and max(sizes) == x.shape[-1]):
        return None
    if has_fused_steps(x) and all(structure.on_gpu for structure in schedule.kept):
        from . import gpu

        limit = namespace(x).astype(from_numpy(goal, x), state["criterion"].dtype)
        steps = (schedule.alphas, schedule.kept, schedule.averaged, relaxation)
        return gpu.search(basis, target, *steps, limit, product_precision(), compared, **state), len(schedule.alphas)
    if is_numpy(namespace(x)) and not is_complex(x):
        from . import cpu

        schedules = (schedule.alphas, schedule.kept, schedule.averaged)
        return state, cpu.search(basis, target, *schedules, relaxation, goal, **state)
    return None


def difference_steps(
    basis: Basis, target: Array, alpha: float, sparsity: int, beta: float, count: int, state: dict[str, Any]
) -> dict[str, Array] | None:
    """Take several fused steps of the map on a GPU, at any beta other than 1.

    Parameters
    ----------
    basis : tuple of arrays
        V of shape (n, rank), V^T, and the singular values of Phi.
    target : array, shape (batch, rank)
        The data in image coordinates.
    alpha : float
        Relaxation of the data set.
    sparsity : int
        Number of nonzeros of a point of A.
    beta : float
        Parameter of the map.
    count : int
        Number of steps.
    state : dict of str to array
        The arrays ``x, image, sparse`` and ``sparse_image``.

    Returns
    -------
    dict of str to array, or None
        The new state, which also holds the ``criterion``; None where no such kernel is available.
    """
    if not has_fused_steps(state["x"]) or not 0 < sparsity < state["x"].shape[-1]:
        return None
    from . import gpu

    return gpu.differ(basis, target, alpha, sparsity, beta, count, product_precision(), **state)
