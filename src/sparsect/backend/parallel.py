"""Run a compiled kernel, or any function, over the rows of a batch, on all cores."""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache
from typing import Any, TypeVar

import numba
from threadpoolctl import ThreadpoolController

# Compiled once and kept on disk; without the interpreter's lock, so that plain threads run it side by side (which is
# safe in any program, unlike Numba's own thread pools after a fork). Sums may be reordered to use wide registers.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})

Answer = TypeVar("Answer")
# Rows below which a block is not worth splitting.
FEW_ROWS = 64
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


def over_rows(kernel: Callable[..., None], batch: int, *arguments: Any, work: float) -> None:
    """Call ``kernel(first, last, *arguments)`` for row ranges that together cover the batch.

    ``work`` is about how many multiplications one row takes; little work stays on the calling thread.
    """
    workers = min(cores(), batch)
    if workers <= 1 or batch * work < SMALL or getattr(_in_block, "value", False):
        kernel(0, batch, *arguments)
        return
    # Several ranges for each core even out rows that take longer than others.
    size = max(1, -(-batch // (8 * workers)))
    ranges = [(first, min(first + size, batch)) for first in range(0, batch, size)]
    _results([_pool().submit(kernel, first, last, *arguments) for first, last in ranges])


def over_blocks(function: Callable[[int, int], Answer], batch: int, size: int) -> list[Answer]:
    """What ``function(first, last)`` says of blocks of about ``size`` rows that together cover the batch, in order.

    Blocks run side by side, one on each core, with matrix products kept to the core that asks for them.
    """
    workers = cores()
    count = max(-(-batch // max(size, FEW_ROWS)), min(workers, batch // FEW_ROWS), 1)
    bounds = [batch * block // count for block in range(count + 1)]
    if count == 1 or workers == 1 or getattr(_in_block, "value", False):
        return [function(first, last) for first, last in itertools.pairwise(bounds)]
    with _one_thread_for_products():
        return _results([_submit_alone(function, first, last) for first, last in itertools.pairwise(bounds)])


def side_by_side(function: Callable[[int], Answer], count: int) -> Iterator[Answer]:
    """What ``function`` says of the numbers below ``count``, in their order; each core is at work on one of them.

    Few answers wait to be asked for at any time.
    """
    if min(cores(), count) == 1 or getattr(_in_block, "value", False):
        yield from map(function, range(count))
        return
    pending: deque[Future[Answer]] = deque()
    with _one_thread_for_products():
        try:
            for number in range(count):
                pending.append(_submit_alone(function, number))
                if len(pending) > cores():
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for task in pending:
                task.cancel()
            wait(pending)


def _submit_alone(function: Callable[..., Answer], *arguments: int) -> Future[Answer]:
    """Have a thread of the pool call ``function``, which then keeps to that thread."""

    def alone() -> Answer:
        _in_block.value = True
        try:
            return function(*arguments)
        finally:
            _in_block.value = False

    return _pool().submit(copy_context().run, alone)


def _results(tasks: list[Future[Answer]]) -> list[Answer]:
    """Wait for all; if the wait is interrupted, those that have not begun never will."""
    try:
        wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [task.result() for task in tasks]


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Keep the libraries behind matrix products to one thread each, until the last of those who ask for it is done."""
    with _lock:
        if not _limits:
            _limits.append(ThreadpoolController().limit(limits=1, user_api="blas"))
        _limits.append(None)
    try:
        yield
    finally:
        with _lock:
            _limits.pop()
            if len(_limits) == 1:
                _limits.pop().restore_original_limits()


# Whether this thread is at work on a block, all cores being in use already.
_in_block = threading.local()
# The limit in force, and one more entry for each of those who asked for it.
_limits: list[Any] = []
_lock = threading.Lock()


def _begin_again() -> None:
    """After a fork: threads do not survive it, and whoever asked for a limit is not there any more."""
    global _lock
    _pool.cache_clear()
    _lock = threading.Lock()
    if _limits:
        _limits[0].restore_original_limits()
        _limits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_again)
