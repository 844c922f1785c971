"""Work side by side: processes with one thread each for products, none in another's way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any

from .checks import InputError
from .files import uninterrupted

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh interpreters, by default one for each core: threads are counted when NumPy is loaded.

    Whatever ends the block early, Ctrl-C included, drops the tasks that have not begun and waits for those that have.
    If this process is killed, its workers end, too.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = _Pool(count or os.cpu_count(), mp_context=get_context("spawn"), initializer=_begin)
    try:
        yield pool
    except BrokenProcessPool:
        raise InputError("workers: the processes died; a script that starts them needs a main guard") from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Pool(ProcessPoolExecutor):
    """A pool whose processes, which are started when there is work for them, never hear of Ctrl-C.

    It reaches every process of a terminal; the first one deals with it.
    """

    def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
        """Hand a task to the pool; an interrupt half-way would leave processes that nobody manages."""
        with uninterrupted():
            if not hasattr(signal, "pthread_sigmask"):
                return super().submit(*arguments, **options)
            # What is blocked here is blocked in new processes, too, until they have come to ignore it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return super().submit(*arguments, **options)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    """What a worker does first."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker waits for tasks as long as any worker lives, so that nobody would end them if the first process dies."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
