"""How is a row handed to a GPU? Whole, to one thread block that keeps it in registers."""

from __future__ import annotations

from typing import Any

import triton

from ..backend.arrays import Array

# Entries of a row that a warp holds: with fewer, and so more warps, sums over the row wait for each other.
ENTRIES_A_WARP = 512


def shape_of(x: Array) -> dict[str, Any]:
    """What every kernel is told of (batch, n) arrays: n, the block that holds a row, and its warps.

    n is known when a kernel is compiled, so that rows are read with wide loads even where n is no multiple of 16.
    """
    n = int(x.shape[-1])
    block = triton.next_power_of_2(n)
    return {"n": n, "BLOCK": block, "num_warps": max(1, block // ENTRIES_A_WARP)}


def launch(kernel: Any, x: Array, *arguments: Any, **flags: Any) -> None:
    """Run ``kernel`` on every row of ``x``, on the device that x is on."""
    import torch

    if x.shape[0]:
        with torch.cuda.device(x.device):
            kernel[(x.shape[0],)](x, *arguments, **shape_of(x), **flags)
