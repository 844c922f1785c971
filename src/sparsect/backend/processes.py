"""Pools of worker processes, each of which uses one thread for matrix products.

This is the pool of the standard library with care for interrupts. loky, the pool of joblib, starts as fast, but its
workers print tracebacks at Ctrl-C, its waiting tasks still run after an interrupt, and its workers outlive a main
process that is killed.
"""

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
from .cores import cores
from .writing import uninterrupted

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """Start a pool of fresh interpreters that use one thread each for matrix products.

    Fresh interpreters are needed because the number of threads is fixed when NumPy is loaded. If the block ends
    early, also by Ctrl-C, tasks that have not started are dropped and running ones are waited for. If this process is
    killed, its workers end, too.

    Parameters
    ----------
    count : int, optional
        Number of processes. The default is one for each core.

    Yields
    ------
    concurrent.futures.ProcessPoolExecutor
        The pool.

    Raises
    ------
    InputError
        If the processes died, for example because the main script has no main guard.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = _Pool(count or cores(), mp_context=get_context("spawn"), initializer=begin_worker)
    try:
        yield pool
    except BrokenProcessPool:
        raise InputError(
            "workers: the processes died; a script that starts them needs the guard if __name__ == '__main__'"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


class _Pool(ProcessPoolExecutor):
    """Pool whose processes, which are started on demand, never receive Ctrl-C.

    A terminal sends Ctrl-C to all its processes; only the main process handles it.
    """

    def submit(self, *arguments: Any, **options: Any) -> Future[Any]:
        """Submit a task; an interrupt during this would leave processes without a manager, so it is deferred."""
        with uninterrupted():
            if not hasattr(signal, "pthread_sigmask"):
                return super().submit(*arguments, **options)
            # New processes inherit the blocked signal, which covers the time until they ignore it.
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                return super().submit(*arguments, **options)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """Initialize a worker process: it ignores Ctrl-C, and ends when the main process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End a worker when the main process dies, since workers otherwise wait for tasks forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
