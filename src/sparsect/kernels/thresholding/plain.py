"""Thresholding of rows of any array library."""

from __future__ import annotations

import math

import array_api_compat as compat
import numpy as np

from ...backend.arrays import Array, is_numpy, namespace, norm


def keep(x: Array, sparsity: int) -> Array:
    """The largest magnitudes of every row of x, (..., n), zero elsewhere; 0 < sparsity < n."""
    xp = namespace(x)
    magnitude = xp.abs(x)
    threshold = kth_largest(magnitude, sparsity)
    kept = magnitude >= threshold
    if int(xp.count_nonzero(kept)) > sparsity * math.prod(x.shape[:-1]):
        above = magnitude > threshold
        room = sparsity - xp.count_nonzero(above, axis=-1)[..., None]
        ties = kept & ~above
        kept = above | (ties & (xp.cumulative_sum(xp.astype(ties, room.dtype), axis=-1) <= room))
    return xp.where(kept, x, xp.zeros_like(x))


def advance(x: Array, w: Array, u: Array, before: Array, relaxation: float) -> tuple[Array, Array, Array, Array]:
    """A step of the Difference Map at beta = 1, u being the thresholded x - 2 w."""
    change = relaxation * (u - x + w)
    return u, x + change, norm(change), namespace(x).any((u == 0) != (before == 0), axis=-1)


def kth_largest(values: Array, k: int) -> Array:
    """The k-th largest value (1 <= k <= n) along the last axis of real ``values``, shape (..., 1)."""
    xp = namespace(values)
    n = values.shape[-1]
    if is_numpy(xp):
        return np.partition(values, n - k, axis=-1)[..., n - k : n - k + 1]
    if compat.is_torch_namespace(xp):
        return values.kthvalue(n - k + 1, dim=-1, keepdim=True).values
    return xp.sort(values, axis=-1)[..., n - k : n - k + 1]
