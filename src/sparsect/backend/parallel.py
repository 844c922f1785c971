"""Parallel execution of compiled kernels and other functions over the rows of a batch, on all cores."""

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

from .cores import cores

# Kernels are compiled once and cached on disk. They release the interpreter's lock, so that plain threads run them in
# parallel, which is safe in any program, unlike Numba's own thread pools after a fork. Sums may be reordered to use
# vector registers.
compiled = numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc", "nsz", "arcp"})

Answer = TypeVar("Answer")
# Approximate minimum number of rows in a block; smaller blocks are not worth another task.
FEW_ROWS = 64
# Number of multiplications below which distributing rows to other threads costs more than it saves.
SMALL = 3_000_000


def threads() -> int:
    """Determine how many threads compute at once.

    Returns
    -------
    int
        One for each core, but at most OMP_NUM_THREADS, as in other numerical libraries.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return min(cores(), max(int(asked), 1)) if asked.isdigit() else cores()


@lru_cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads(), thread_name_prefix="sparsect")


def over_rows(kernel: Callable[..., None], batch: int, *arguments: Any, work: float) -> None:
    """Call ``kernel(first, last, *arguments)`` for row ranges that together cover the batch.

    Parameters
    ----------
    kernel : callable
        Function that processes the rows from ``first`` to ``last`` (excluded) and releases the interpreter's lock.
    batch : int
        Number of rows.
    *arguments : object
        Further arguments of the kernel.
    work : float
        Approximate number of multiplications per row. Small batches are processed by the calling thread.
    """
    if batch <= 1 or batch * work < SMALL or getattr(_in_block, "value", False) or threads() == 1:
        kernel(0, batch, *arguments)
        return
    # Several ranges per core balance the load where some rows take longer than others.
    size = max(1, -(-batch // (8 * threads())))
    ranges = [(first, min(first + size, batch)) for first in range(0, batch, size)]
    _results([_pool().submit(kernel, first, last, *arguments) for first, last in ranges])


def over_blocks(function: Callable[[int, int], Answer], batch: int, size: int) -> list[Answer]:
    """Call ``function(first, last)`` for blocks of rows that together cover the batch.

    Blocks run in parallel, one on each core. Matrix products within a block use a single thread.

    Parameters
    ----------
    function : callable
        Function of the first and the last row (excluded) of a block.
    batch : int
        Number of rows.
    size : int
        Approximate number of rows in a block.

    Returns
    -------
    list
        The results, in the order of the blocks.
    """
    count = max(-(-batch // max(size, FEW_ROWS)), 1)
    if batch >= 2 * FEW_ROWS:
        count = max(count, min(threads(), batch // FEW_ROWS))
    bounds = [batch * block // count for block in range(count + 1)]
    if count == 1 or getattr(_in_block, "value", False) or threads() == 1:
        return [function(first, last) for first, last in itertools.pairwise(bounds)]
    with _one_thread_for_products():
        return _results([_submit_alone(function, first, last) for first, last in itertools.pairwise(bounds)])


def side_by_side(function: Callable[[int], Answer], count: int) -> Iterator[Answer]:
    """Call ``function`` for the numbers below ``count`` in parallel, one on each core.

    Parameters
    ----------
    function : callable
        Function of one number.
    count : int
        Number of calls.

    Yields
    ------
    object
        The results in order. Only a few results are computed in advance.
    """
    if count == 1 or getattr(_in_block, "value", False) or threads() == 1:
        yield from map(function, range(count))
        return
    pending: deque[Future[Answer]] = deque()
    with _one_thread_for_products():
        try:
            for number in range(count):
                pending.append(_submit_alone(function, number))
                if len(pending) > threads():
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        finally:
            for task in pending:
                task.cancel()
            wait(pending)


def _submit_alone(function: Callable[..., Answer], *arguments: int) -> Future[Answer]:
    """Submit ``function`` to the pool; it and everything it calls then run on one thread."""

    def alone() -> Answer:
        _in_block.value = True
        try:
            return function(*arguments)
        finally:
            _in_block.value = False

    return _pool().submit(copy_context().run, alone)


def _results(tasks: list[Future[Answer]]) -> list[Answer]:
    """Wait for all tasks; if the wait is interrupted, cancel those that have not started."""
    try:
        wait(tasks)
    finally:
        for task in tasks:
            task.cancel()
    return [task.result() for task in tasks]


@contextmanager
def _one_thread_for_products() -> Iterator[None]:
    """Limit the libraries behind matrix products to one thread, until the last context that requests it ends."""
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


# Whether this thread is processing a block; all cores are then in use already.
_in_block = threading.local()
# The limit in force, followed by one entry for each context that has requested it.
_limits: list[Any] = []
_lock = threading.Lock()


def _reset_after_fork() -> None:
    """Reset the pool and limits after a fork, which neither threads nor the contexts in them survive."""
    global _lock
    _pool.cache_clear()
    _lock = threading.Lock()
    if _limits:
        _limits[0].restore_original_limits()
        _limits.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_after_fork)
