"""Keep the s largest magnitudes of every row, and take the step of the Difference Map that is built on it."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, contiguous, has_kernels, namespace, worth_compiling
from . import plain

# About how often the compiled kernels go over a row.
PASSES = 12


def keep_largest(x: Array, sparsity: int) -> Array:
    """Every row of x, (..., n), with all but its ``sparsity`` largest magnitudes set to zero; may be x itself.

    Among equal magnitudes the first ones win.
    """
    n = x.shape[-1]
    if sparsity == 0:
        return namespace(x).zeros_like(x)
    if sparsity == n:
        return x
    if worth_compiling(x):
        from ...backend.parallel import over_rows
        from . import cpu

        rows = contiguous(x).reshape(-1, n)
        kept = np.empty_like(rows)
        over_rows(cpu.keep, rows.shape[0], rows, sparsity, kept, work=PASSES * n)
        return kept.reshape(x.shape)
    if has_kernels(x):
        from . import gpu

        return gpu.keep(x, sparsity)
    return plain.keep(x, sparsity)


def advance(
    x: Array, w: Array, before: Array, sparsity: int, relaxation: float = 1.0
) -> tuple[Array, Array, Array, Array]:
    """A step of the Difference Map at beta = 1 for (batch, n) arrays, w being x - P_B(x).

    Returns u = P_A(x - 2 w), x + relaxation (u - P_B(x)), the norm of that change, and whether the support of u is
    another than that of ``before``.
    """
    batch, n = x.shape
    if worth_compiling(x) and 0 < sparsity < n:
        from ...backend.parallel import over_rows
        from . import cpu

        moved, u = x.copy(), before.copy()
        level, gap, changed = np.zeros(batch, x.dtype), np.empty(batch, x.dtype), np.empty(batch, bool)
        rest = (relaxation, moved, u, level, gap, changed)
        over_rows(cpu.advance, batch, contiguous(w), sparsity, *rest, work=PASSES * n)
        return u, moved, gap, changed
    if has_kernels(x) and 0 < sparsity < n:
        from . import gpu

        return gpu.advance(x, w, before, sparsity, relaxation)
    return plain.advance(x, w, keep_largest(x - 2 * w, sparsity), before, relaxation)
