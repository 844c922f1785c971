"""Many steps of the Difference Map and of its annealed form at once: in place on a CPU, fused on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...backend.arrays import Array, from_numpy, has_fused_steps, is_complex, is_numpy, namespace
from ...backend.devices import product_precision

Basis = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Schedule:
    """What each of some steps of the map does: one entry a step.

    Attributes
    ----------
    alphas : sequence of float
        Relaxation of the data set.
    kept : sequence of int
        Entries of a point of A.
    averaged : sequence of bool
        Whether the point of A is added to the running sums.
    """

    alphas: Sequence[float]
    kept: Sequence[int]
    averaged: Sequence[bool]


def search_steps(
    basis: Basis,
    target: Array,
    schedule: Schedule,
    relaxation: float,
    goal: Array,
    state: dict[str, Array],
    compared: bool = True,
) -> tuple[dict[str, Array], int] | None:
    """Steps of the map at beta = 1, over-relaxed by ``relaxation``, or None where there are only single ones.

    Parameters
    ----------
    basis : tuple of arrays
        V (n, rank), V^T, and the singular values of Phi.
    target : array, (batch, rank)
        The data in image coordinates.
    schedule : Schedule
        What to do in each step. On a CPU, steps end where a row's gap comes down to ``goal``.
    relaxation : float
    goal : array, (batch,)
    state : dict of arrays
        ``x, image, sparse, gap, taken, unchanged`` and the sums ``total, power, count``, or None for these; changed in
        place on a CPU.
    compared : bool
        Whether anybody wants to know how long supports have been unchanged.

    Returns
    -------
    tuple of dict and int, or None
        What the state then is, and how many steps were taken.
    """
    x = state["x"]
    if not 0 < min(schedule.kept) <= max(schedule.kept) < x.shape[-1]:
        return None
    steps = (schedule.alphas, schedule.kept, schedule.averaged, relaxation)
    if has_fused_steps(x):
        from . import gpu

        goal = namespace(x).astype(from_numpy(goal, x), state["gap"].dtype)
        return gpu.search(basis, target, *steps, goal, product_precision(), compared, **state), len(schedule.alphas)
    if is_numpy(namespace(x)) and not is_complex(x):
        from . import cpu

        return state, cpu.search(basis, target, *steps, goal, **state)
    return None


def difference_steps(
    basis: Basis, target: Array, alpha: float, sparsity: int, beta: float, count: int, state: dict[str, Array]
) -> dict[str, Array] | None:
    """``count`` fused steps of the map at any beta but 1 on a GPU, or None where there are none.

    ``state`` holds ``x, image, sparse`` and ``sparse_image``; what comes back also has the ``gap``.
    """
    if not has_fused_steps(state["x"]) or not 0 < sparsity < state["x"].shape[-1]:
        return None
    from . import gpu

    return gpu.differ(basis, target, alpha, sparsity, beta, count, product_precision(), **state)
