"""Several steps of the Difference Map and of its annealed form at a time: in place on a CPU, fused on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...backend.arrays import Array, from_numpy, has_fused_steps, is_complex, is_numpy, namespace
from ...backend.devices import product_precision

Basis = tuple[Array, Array, Array]


@dataclass(frozen=True)
class Schedule:
    """Parameters of a sequence of steps, with one entry per step.

    Parameters
    ----------
    alphas : sequence of float
        Relaxation of the data set.
    kept : sequence of int
        Number of nonzeros of a point of A.
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
    if not 0 < min(schedule.kept) <= max(schedule.kept) < x.shape[-1]:
        return None
    steps = (schedule.alphas, schedule.kept, schedule.averaged, relaxation)
    if has_fused_steps(x):
        from . import gpu

        goal = namespace(x).astype(from_numpy(goal, x), state["criterion"].dtype)
        return gpu.search(basis, target, *steps, goal, product_precision(), compared, **state), len(schedule.alphas)
    if is_numpy(namespace(x)) and not is_complex(x):
        from . import cpu

        return state, cpu.search(basis, target, *steps, goal, **state)
    return None


def difference_steps(
    basis: Basis, target: Array, alpha: float, sparsity: int, beta: float, count: int, state: dict[str, Array]
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
