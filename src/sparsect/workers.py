"""Work side by side: processes with one thread each for products, none in another's way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context

from .checks import InputError

THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@contextmanager
def processes(count: int | None = None) -> Iterator[ProcessPoolExecutor]:
    """A pool of fresh interpreters, by default one for each core: threads are counted when NumPy is loaded.

    Whatever ends the block early, Ctrl-C included, drops the tasks that have not begun and waits for those that have.
    """
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, "1"))
    pool = ProcessPoolExecutor(count or os.cpu_count(), mp_context=get_context("spawn"), initializer=_ignore_interrupts)
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


def _ignore_interrupts() -> None:
    """Ctrl-C reaches every process of a terminal; the one that started the others deals with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
