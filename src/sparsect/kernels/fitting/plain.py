"""Least-squares fits on given supports for arrays of any library, by normal equations with one small solve per row."""

from __future__ import annotations

import math

from ...backend.arrays import Array, namespace

# Maximum size of the Gram matrices of a group of rows that are solved together, in bytes.
GROUP_BYTES = 2**27


def fit(gram: Array, correlation: Array, support: Array) -> Array:
    """Solve the normal equations Phi_S^H Phi_S z = (Phi^H y)_S on the support S of every row.

    Parameters
    ----------
    gram : array, shape (n, n)
        Gram matrix Phi^H Phi.
    correlation : array, shape (batch, n)
        Phi^H y.
    support : array of bool, shape (batch, n)
        True where x may be nonzero.

    Returns
    -------
    array, shape (batch, n)
        The solutions, zero outside the supports.
    """
    xp = namespace(correlation)
    batch = support.shape[0]
    size = int(xp.max(xp.count_nonzero(support, axis=-1)))
    if size == 0:
        return xp.zeros_like(correlation)
    group = max(1, GROUP_BYTES // (24 * size * size))
    parts = []
    for start in range(0, batch, group):
        rows = slice(start, min(start + group, batch))
        parts.append(_solve_group(gram, correlation[rows, :], support[rows, :], size))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _solve_group(gram: Array, correlation: Array, support: Array, size: int) -> Array:
    """Solve a group of rows, with supports padded to the size of the largest."""
    xp = namespace(gram)
    n = support.shape[-1]
    wide = xp.complex128 if xp.isdtype(gram.dtype, "complex floating") else xp.float64
    order = xp.argsort(xp.astype(~support, xp.int8), axis=-1, stable=True)[:, :size]
    inside = xp.take_along_axis(support, order, axis=-1)
    places = xp.reshape(order[:, :, None] * n + order[:, None, :], (math.prod(order.shape) * size,))
    gathered = xp.reshape(xp.take(xp.reshape(gram, (n * n,)), places, axis=0), (order.shape[0], size, size))
    identity = xp.eye(size, dtype=wide, device=gram.device)
    both = inside[:, :, None] & inside[:, None, :]
    # Columns are scaled to norm 1 first. Dependent columns make the equations singular; a ridge at rounding level
    # selects a small solution.
    lengths = xp.sqrt(xp.abs(xp.astype(xp.take(xp.reshape(gram, (n * n,)), xp.reshape(order * (n + 1), (-1,))), wide)))
    lengths = xp.reshape(lengths, order.shape)
    lengths = xp.where(inside & (lengths > 0), lengths, xp.ones_like(lengths))
    scaled = xp.astype(gathered, wide) / lengths[:, :, None] / lengths[:, None, :]
    ridge = 4 * size * float(xp.finfo(xp.float64).eps)
    matrices = xp.where(both, scaled, identity) + ridge * identity
    values = xp.where(inside, xp.take_along_axis(correlation, order, axis=-1), xp.zeros_like(correlation[:, :size]))
    solution = xp.linalg.solve(matrices, (xp.astype(values, wide) / lengths)[:, :, None])[:, :, 0] / lengths
    position = xp.cumulative_sum(xp.astype(support, order.dtype), axis=-1) - 1
    position = xp.where(support, position, xp.zeros_like(position))
    spread = xp.take_along_axis(xp.astype(solution, correlation.dtype), position, axis=-1)
    return xp.where(support, spread, xp.zeros_like(spread))
