"""The s-th largest entry of every row."""

from __future__ import annotations

import array_api_compat as compat
import numpy as np

from ...backend.arrays import Array, is_numpy, namespace


def kth_largest(values: Array, k: int) -> Array:
    """The k-th largest value (1 <= k <= n) along the last axis of real ``values``, shape (..., 1)."""
    xp = namespace(values)
    n = values.shape[-1]
    if is_numpy(xp):
        return np.partition(values, n - k, axis=-1)[..., n - k : n - k + 1]
    if compat.is_torch_namespace(xp):
        return values.kthvalue(n - k + 1, dim=-1, keepdim=True).values
    return xp.sort(values, axis=-1)[..., n - k : n - k + 1]
