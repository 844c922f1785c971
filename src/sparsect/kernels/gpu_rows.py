"""Launching GPU kernels on rows: each row is processed by one thread block, which keeps it in registers."""

from __future__ import annotations

from typing import Any

import triton

from ..backend.arrays import Array

# Entries of a row per warp. With fewer entries there are more warps, which wait for each other in sums over the row.
ENTRIES_A_WARP = 512


def shape_of(x: Array) -> dict[str, Any]:
    """Return the launch parameters for (batch, n) arrays: n, the size of a thread block, and its number of warps.

    n is a compile-time constant, so rows are read with wide loads even if n is not a multiple of 16.
    """
    n = int(x.shape[-1])
    block = triton.next_power_of_2(n)
    return {"n": n, "BLOCK": block, "num_warps": max(1, block // ENTRIES_A_WARP)}


def launch(kernel: Any, x: Array, *arguments: Any, **flags: Any) -> None:
    """Run ``kernel`` on every row of ``x``, on the device of ``x``."""
    import torch

    if x.shape[0]:
        with torch.cuda.device(x.device):
            kernel[(x.shape[0],)](x, *arguments, **shape_of(x), **flags)
