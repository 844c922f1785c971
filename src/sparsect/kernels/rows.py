"""Run a compiled kernel over the rows of a batch, on all cores."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import numba

# Compiled once and kept on disk; without the interpreter's lock, so that plain threads run it side by side (which is
# safe in any program, unlike Numba's own thread pools after a fork). Sums may be reordered to use wide registers.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})

# Multiplications below which handing rows to other threads costs more than it saves.
SMALL = 3_000_000


def cores() -> int:
    """Cores this process may use; no more than OMP_NUM_THREADS says, as for other numerical libraries."""
    mine = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(mine, max(int(asked), 1)) if asked.isdigit() else mine


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="sparsect")


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; the child makes its own.
    os.register_at_fork(after_in_child=_pool.cache_clear)


def over_rows(kernel: Callable[..., None], batch: int, *arguments: Any, work: float) -> None:
    """Call ``kernel(first, last, *arguments)`` for row ranges that together cover the batch.

    ``work`` is about how many multiplications one row takes; little work stays on the calling thread.
    """
    workers = min(cores(), batch)
    if workers <= 1 or batch * work < SMALL:
        kernel(0, batch, *arguments)
        return
    # Several ranges for each core even out rows that take longer than others.
    size = max(1, -(-batch // (8 * workers)))
    ranges = [(first, min(first + size, batch)) for first in range(0, batch, size)]
    for done in [_pool().submit(kernel, first, last, *arguments) for first, last in ranges]:
        done.result()
