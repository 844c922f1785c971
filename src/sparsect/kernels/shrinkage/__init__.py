"""Several steps of ADMM with p-shrinkage at a time: in place on a CPU, fused on a GPU."""

from __future__ import annotations

from ...backend.arrays import Array, has_fused_steps, is_complex, is_numpy, namespace
from ...backend.devices import product_precision

Basis = tuple[Array, Array, Array]


def shrink_steps(
    basis: Basis, target: Array, mu: float, lam: float, p: float, count: int, goal: Array, state: dict[str, Array]
) -> tuple[dict[str, Array], int] | None:
    """Take up to ``count`` steps of ADMM with p-shrinkage, for real rows.

    Parameters
    ----------
    basis : tuple of arrays
        V of shape (n, rank), V^T, and the singular values of Phi.
    target : array, shape (batch, rank)
        The data in image coordinates.
    mu, lam, p : float
        Parameters as in ``solvers.admm``.
    count : int
        Maximum number of steps. On a CPU, steps end when the criterion of a row has decreased to ``goal``.
    goal : array, shape (batch,)
        Criterion at which a row is finished.
    state : dict of str to array
        The arrays ``z``, ``point``, ``criterion`` and ``taken``; changed in place on a CPU.

    Returns
    -------
    tuple of dict and int, or None
        The new state and the number of steps taken; None where no such kernel is available and steps have to be taken
        one by one.
    """
    if is_numpy(namespace(target)) and not is_complex(target):
        from . import cpu

        return state, cpu.shrink(basis, target, mu, lam, p, count, goal, **state)
    if has_fused_steps(state["z"]):
        from . import gpu

        after = gpu.shrink(basis, target, mu, lam, p, count, product_precision(), state["z"], state["point"])
        return after | {"taken": state["taken"] + count}, count
    return None
