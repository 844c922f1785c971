"""Many steps of ADMM with p-shrinkage at once: in place on a CPU, fused on a GPU."""

from __future__ import annotations

from ...backend.arrays import Array, has_fused_steps, is_complex, is_numpy, namespace
from ...backend.devices import product_precision

Basis = tuple[Array, Array, Array]


def shrink_steps(
    basis: Basis, target: Array, mu: float, lam: float, p: float, count: int, goal: Array, state: dict[str, Array]
) -> tuple[dict[str, Array], int] | None:
    """Up to ``count`` steps of rows that are real, or None where there are only single ones.

    Parameters
    ----------
    basis : tuple of arrays
        V (n, rank), V^T, and the singular values of Phi.
    target : array, (batch, rank)
        The data in image coordinates.
    mu, lam, p : float
        As in ``solvers.admm``.
    count : int
        Steps at the most. On a CPU they end where a row's gap comes down to ``goal``.
    goal : array, (batch,)
    state : dict of arrays
        ``z``, ``point``, ``gap`` and ``taken``; changed in place on a CPU.

    Returns
    -------
    tuple of dict and int, or None
        What the state then is, and how many steps were taken.
    """
    if is_numpy(namespace(target)) and not is_complex(target):
        from . import cpu

        return state, cpu.shrink(basis, target, mu, lam, p, count, goal, **state)
    if has_fused_steps(state["z"]):
        from . import gpu

        after = gpu.shrink(basis, target, mu, lam, p, count, product_precision(), state["z"], state["point"])
        return after | {"taken": state["taken"] + count}, count
    return None
