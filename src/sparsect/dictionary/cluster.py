"""Many processes, many machines: learning on Dask. Signals are read where they are coded; only sums travel."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import operator
import os
import pickle
import signal
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from uuid import uuid4

import numpy as np

from ..backend.arrays import Array, from_numpy, on_host, to_numpy
from ..backend.checks import InputError, reject, whole_number
from ..backend.devices import gpu_options, options_in_force, place
from ..solvers.base import Solver
from . import DaskSource, Dictionary, Source
from .learning import Statistics, gather_all

# Shares of a round for every thread of a cluster: more even out slow workers, fewer send less about.
SHARES = 4
# Settings of the GNU C library's malloc.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Statistics that are added up by one task: a tree of sums is this wide.
FAN = 8
# Topic under which workers tell which batches are done.
TOPIC = "sparsect-batches"
# Seconds after which a worker tells again.
TELL_EVERY = 1.0
# A source is sent to the workers, by way of the scheduler, once in a round: what it holds must be small.
SOURCE_BYTES = 2**23


class Cluster:
    """A Dask cluster to learn on: one that runs already, or processes on this machine.

    Use it as a context manager; what it started ends with the block.

    Parameters
    ----------
    scheduler : address such as ``tcp://10.0.0.1:8786``, a file that a scheduler wrote (``--scheduler-file``), a
        ``distributed.Client``, or None for processes on this machine that listen on 127.0.0.1 alone
    workers : processes to start where there is no scheduler; default one for each core
    tls : names of the files with the certificate authority, the certificate and its key, for ``tls://`` addresses
    device : where workers code, see :func:`sparsect.backend.devices.place`; default on their CPU
    """

    def __init__(
        self,
        scheduler: Any = None,
        *,
        workers: int | None = None,
        tls: Sequence[str] | None = None,
        device: str | None = None,
    ) -> None:
        if tls is not None and len(tls) != 3:
            raise reject("tls", f"{len(tls)} names", "three: certificate authority, certificate and key")
        self._scheduler, self._tls, self._device = scheduler, tls, device
        self._workers = _cores() if workers is None else whole_number("workers", workers, 1)
        self._open = contextlib.ExitStack()
        self._client: Any = None

    @classmethod
    def at_hand(cls, device: str | None = None) -> Cluster:
        """The cluster of the ``distributed.Client`` that this process has, or one of processes on this machine."""
        client = None
        if "distributed" in sys.modules:
            from distributed import get_client

            with contextlib.suppress(ValueError):
                client = get_client()
        return cls(client, device=device)

    def __enter__(self) -> Cluster:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise InputError("scheduler: Dask is not installed; pip install 'sparsect[cluster]'") from None
        if isinstance(self._scheduler, Client):
            self._client = self._scheduler
        elif self._scheduler is None:
            with contextlib.ExitStack() as started:
                local = LocalCluster(
                    n_workers=self._workers,
                    threads_per_worker=1,
                    host="127.0.0.1",
                    dashboard_address="127.0.0.1:0",
                    silence_logs="CRITICAL",
                )
                self._client = started.enter_context(Client(started.enter_context(local)))
                self._client.register_plugin(_deaf_to_interrupts())
                self._open = started.pop_all()
        else:
            self._client = self._open.enter_context(self._connected(str(self._scheduler)))
        return self

    def _connected(self, scheduler: str) -> Any:
        from distributed import Client, Security

        security = None
        if self._tls is not None:
            for name in self._tls:
                if not os.path.isfile(name):
                    raise InputError(f"tls: {name}: no such file")
            names = dict(zip(("tls_ca_file", "tls_client_cert", "tls_client_key"), self._tls, strict=True))
            security = Security(require_encryption=True, **names)
        where = {"scheduler_file" if os.path.isfile(scheduler) else "address": scheduler}
        try:
            return Client(**where, security=security, timeout=20)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, AssertionError) as error:
            accepted = (
                "the address or file of a Dask scheduler that runs, such as tcp://10.0.0.1:8786; with tls for tls://"
            )
            raise reject("scheduler", f"{scheduler!r} ({error or type(error).__name__})", accepted) from None

    def __exit__(self, *problem: object) -> None:
        # A scheduler that is gone cannot be left in order.
        with contextlib.suppress(OSError, TimeoutError):
            self._open.close()
        self._client = None

    @property
    def client(self) -> Any:
        """The ``distributed.Client`` by which it is reached."""
        if self._client is None or self._client.status == "closed":
            raise InputError("cluster: not open, use it as in 'with Cluster(...) as cluster:'")
        return self._client

    @property
    def threads(self) -> int:
        """How many threads all workers have together now."""
        return sum(self.client.nthreads().values())

    @property
    def dashboard(self) -> str:
        """Where Dask shows what its workers do."""
        return str(self.client.dashboard_link)

    def gather(
        self,
        dictionary: Dictionary,
        source: Source,
        coder: Solver,
        limit: int,
        code_iter: int,
        seen: Callable[[int], None],
    ) -> Statistics:
        """Statistics of all batches: each is coded by a worker that is free, and they are summed in a tree.

        The numbers of the batches make the tree, so that the sum is the same whatever the order they come in.
        """
        from dask.delayed import delayed

        with self._explained():
            self.client.wait_for_workers(1)
        run, atoms = uuid4().hex, delayed(Dictionary)(to_numpy(dictionary.Phi))
        code, add = delayed(_coded, pure=False), delayed(_summed, pure=False)
        told = {"run": run, "coder": coder, "limit": limit, "code_iter": code_iter, "device": self._device}
        told["gpu"] = options_in_force()
        parts: list[Any] = []
        for share in self._shares(source):
            parts.append(None)
            for work, numbers in share:
                parts[-1] = code(atoms, work, numbers, told, parts[-1])
        while len(parts) > 1:
            parts = [add(parts[start : start + FAN]) for start in range(0, len(parts), FAN)]
        total: Statistics = self._computed(parts[0], run, seen)
        like = dictionary.Phi
        return total if on_host(like) else total.moved(lambda array: from_numpy(array, like))

    def each(
        self,
        function: Callable[..., Any],
        dictionary: Dictionary,
        items: Sequence[Any],
        told: Sequence[Any],
        seen: Callable[[Any, Any], None],
    ) -> None:
        """``function(dictionary, item, *told)`` for every item, by the workers; ``seen`` is given item and answer."""
        from dask.delayed import delayed
        from distributed import as_completed

        atoms, work = delayed(Dictionary)(to_numpy(dictionary.Phi)), delayed(_worked, pure=False)
        with self._explained():
            tasks = [work(options_in_force(), function, atoms, item, *told) for item in items]
            waiting = dict(zip(self.client.compute(tasks), items, strict=True))
            try:
                for future in as_completed(list(waiting)):
                    seen(waiting.pop(future), _result(future))
            finally:
                with contextlib.suppress(Exception):
                    self.client.cancel(list(waiting))

    def _shares(self, source: Source) -> list[list[tuple[Any, list[int]]]]:
        """For every share of a round, tasks to be done in turn: what each works on, and the numbers of its batches.

        There are a few shares for each thread of the cluster, however many batches there are, so that what travels in a
        round does not grow with them. Chunks of a Dask array, in memory as long as a task needs them, come one by one;
        a task adds to the sums of the one before, which Dask has it do where they are.
        """
        from dask.delayed import delayed

        count = min(source.batches, SHARES * max(1, self.threads))
        bounds = [source.batches * share // count for share in range(count + 1)]
        shares = [range(*ends) for ends in itertools.pairwise(bounds)]
        if isinstance(source, DaskSource):
            return [[(source.delayed(index), [index]) for index in share] for share in shares]
        # Names of files are much alike.
        packed = zlib.compress(pickle.dumps(source), 1)
        if len(packed) > SOURCE_BYTES:
            accepted = "photographs in files that workers can read, or a Dask array"
            raise reject("source", "signals or images in the memory of this process", accepted)
        everywhere = delayed(packed)
        return [[(everywhere, list(share))] for share in shares]

    def _computed(self, value: Any, run: str, seen: Callable[[int], None]) -> Any:
        """The value of a delayed computation whose tasks tell of the batches they have done."""
        done: set[int] = set()

        def hear(event: Any) -> None:
            message = event[1]
            for number in message["batches"] if message["run"] == run else ():
                if number not in done:
                    done.add(number)
                    seen(len(done))

        with self._explained():
            self.client.subscribe_topic(TOPIC, hear)
            future = self.client.compute(value)
            try:
                return _result(future)
            finally:
                with contextlib.suppress(Exception):
                    future.cancel()
                    self.client.unsubscribe_topic(TOPIC)

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Turn what happens to a cluster into an error that says what is kept."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except KilledWorker as error:
            reason = f"workers died again and again while they had the same task ({error.task})"
            raise InputError(f"scheduler: {reason}; too little memory for a batch?") from None
        except (CancelledError, TimeoutError, OSError):
            where = self.client.scheduler.address if self.client.scheduler else "it"
            raise InputError(f"scheduler: the connection to {where} was lost; what was whole is kept") from None


def _result(future: Any) -> Any:
    """What a task has come to; an error of its own, as when a file cannot be read, is told from one of the cluster."""
    try:
        return future.result()
    except OSError as error:
        if future.status != "error":
            raise
        raise InputError(f"a worker failed: {type(error).__name__}: {error}") from None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _deaf_to_interrupts() -> Any:
    """Has workers on a terminal not hear of Ctrl-C, which is for the process that started them to deal with."""
    from distributed import WorkerPlugin

    class Deaf(WorkerPlugin):  # type: ignore[misc]
        name = "sparsect-interrupts"

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return Deaf()


def coded_chunks(coder: Any, X: Any, n_atoms: int) -> Any:
    """A Dask array of the sparse codes of X, chunk by chunk, by an estimator that is sent to every worker once."""
    import dask.array as da
    from dask.delayed import delayed
    from scipy.sparse import csr_array

    X = DaskSource(X).signals
    shared, code = delayed(coder), delayed(_transformed)
    meta = csr_array((0, 0), dtype=X.dtype)
    chunks = [
        da.from_delayed(code(shared, chunk), (rows, n_atoms), meta=meta)
        for chunk, rows in zip(X.to_delayed().ravel(), X.chunks[0], strict=True)
    ]
    return da.concatenate(chunks)


def _transformed(coder: Any, X: Any) -> Any:
    return coder.transform(X)


class _Share:
    """The batches of a source that a worker has to code, read or drawn where it is, on its device."""

    def __init__(self, work: Any, numbers: Sequence[int], device: str | None) -> None:
        self._source = _unpacked(work, device) if isinstance(work, bytes) else None
        self._chunk = None if self._source is not None else place(DaskSource.checked(work, numbers[0]), device)
        self._numbers, self._device = numbers, device
        self.batches = len(numbers)

    @property
    def like(self) -> Array:
        """An array where the batches will be."""
        return place(np.empty(0), self._device) if self._chunk is None else self._chunk

    def batch(self, index: int) -> Array:
        if self._source is None:
            return self._chunk
        return place(self._source.batch(self._numbers[index]), self._device)


@functools.lru_cache(maxsize=2)
def _unpacked(source: bytes, device: str | None) -> Source:
    """A source as the client sent it, the same object in every round, with the photographs it has decoded."""
    unpacked: Source = pickle.loads(zlib.decompress(source))
    return unpacked.on_device(device)


@functools.lru_cache(maxsize=1)
def _keep_memory() -> None:
    """Have this process keep memory that it frees: Dask's workers give it back at once, and then ask for it again.

    Arrays that come and go with every step of a solver would cost a third of the time.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_TRIM_THRESHOLD, 2**30)
        # Older libraries refuse more than the second.
        libc.mallopt(M_MMAP_THRESHOLD, 2**30) or libc.mallopt(M_MMAP_THRESHOLD, 2**25)


def _worked(gpu: dict[str, Any], function: Callable[..., Any], *arguments: Any) -> Any:
    _keep_memory()
    with gpu_options(**gpu):
        return function(*arguments)


def _coded(
    dictionary: Dictionary, work: Any, numbers: Sequence[int], told: dict[str, Any], before: Statistics | None
) -> Statistics:
    """What a worker does for its share: read a batch, code it, add up the sums, and so on with the next."""
    from distributed import get_worker

    _keep_memory()
    share, untold, last = _Share(work, numbers, told["device"]), list(numbers), time.monotonic()

    def seen(done: int) -> None:
        # The scheduler would have much to do if it heard of every batch of a thousand workers.
        nonlocal last
        if done == len(numbers) or time.monotonic() > last + TELL_EVERY:
            count = done - len(numbers) + len(untold)
            get_worker().log_event(TOPIC, {"run": told["run"], "batches": untold[:count]})
            del untold[:count]
            last = time.monotonic()

    placed = dictionary.placed_like(share.like)
    with gpu_options(**told["gpu"]):
        total = gather_all(placed, share, told["coder"], told["limit"], told["code_iter"], seen).moved(to_numpy)
    return total if before is None else before + total


def _summed(parts: Sequence[Statistics]) -> Statistics:
    return functools.reduce(operator.add, parts)
