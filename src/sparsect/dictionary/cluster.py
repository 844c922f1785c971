"""Learning and coding on a Dask cluster. Workers read the signals they code, and only sums are transferred."""

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

from ..backend.arrays import Array, NumpyArray, from_numpy, on_host, to_numpy
from ..backend.checks import InputError, reject, whole_number
from ..backend.cores import cores
from ..backend.devices import gpu_options, options_in_force, place
from ..solvers.base import Solver
from . import DaskSource, Dictionary, Source
from .statistics import Limit, Statistics, gather_all

# Shares of a round per thread of the cluster: more balance slow workers better, fewer transfer less data.
SHARES = 4
# Parameters of mallopt in the GNU C library.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
# Number of statistics added by one task, the fan-in of the tree of sums.
FAN = 8
# Topic under which workers announce completed batches.
TOPIC = "sparsect-batches"
# Seconds between the announcements of a worker.
REPORT_SECONDS = 1.0
# Seconds to wait for a scheduler to answer.
CONNECT_SECONDS = 20
# Upper bound on the size of a source, because it is sent through the scheduler to the workers once per round.
SOURCE_BYTES = 2**23


class Cluster:
    """A Dask cluster for learning and coding: a running one, or processes on this machine.

    Use it as a context manager; the processes and connections it started are closed at the end of the block.

    Parameters
    ----------
    scheduler : str or distributed.Client, optional
        Address of a scheduler such as ``tcp://10.0.0.1:8786``, the name of a file that a scheduler wrote
        (``--scheduler-file``), or a client. By default, processes on this machine are started, which listen on
        127.0.0.1 only.
    workers : int, optional
        Number of processes to start if no scheduler is given. The default is one per core.
    tls : sequence of str, optional
        Names of three files, for ``tls://`` addresses: certificate authority, certificate, and key.
    device : str, optional
        Where workers code, see :func:`sparsect.backend.devices.place`. The default is their CPU.

    Examples
    --------
    >>> from sparsect.dictionary import learn
    >>> from sparsect.dictionary.cluster import Cluster
    >>> from sparsect.images import ImageFolder, PatchSource
    >>> with Cluster(workers=4) as cluster:  # doctest: +SKIP
    ...     source = PatchSource(ImageFolder("photographs"), patch=20, size=1_000_000)
    ...     dictionary = learn(source, n_atoms=1000, cluster=cluster)
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
            raise reject("tls", f"{len(tls)} names", "three names: certificate authority, certificate and key")
        self._scheduler, self._tls, self._device = scheduler, tls, device
        self._workers = cores() if workers is None else whole_number("workers", workers, 1)
        self._open = contextlib.ExitStack()
        self._client: Any = None

    @classmethod
    def default(cls, device: str | None = None) -> Cluster:
        """Return a cluster for the ``distributed.Client`` of this process or, if there is none, for local processes.

        Parameters
        ----------
        device : str, optional
            Where workers code, see :func:`sparsect.backend.devices.place`. The default is their CPU.

        Returns
        -------
        Cluster
            The cluster, to be used as a context manager.
        """
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
                self._client.register_plugin(_ignore_interrupts())
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
            return Client(**where, security=security, timeout=CONNECT_SECONDS)
        except (OSError, ValueError, TypeError, KeyError, RuntimeError, AssertionError) as error:
            accepted = (
                "the address or file of a Dask scheduler that runs, such as tcp://10.0.0.1:8786; with tls for tls://"
            )
            raise reject("scheduler", f"{scheduler!r} ({error or type(error).__name__})", accepted) from None

    def __exit__(self, *problem: object) -> None:
        # The scheduler may have stopped already, and closing the connection then fails.
        with contextlib.suppress(OSError, TimeoutError):
            self._open.close()
        self._client = None

    @property
    def client(self) -> Any:
        """The ``distributed.Client`` connected to the cluster."""
        if self._client is None or self._client.status == "closed":
            raise InputError("cluster: not open; use 'with Cluster(...) as cluster:'")
        return self._client

    @property
    def device(self) -> str | None:
        """Device on which workers code; None for their CPU."""
        return self._device

    @property
    def threads(self) -> int:
        """Current number of threads of all workers."""
        return sum(self.client.nthreads().values())

    @property
    def dashboard(self) -> str:
        """Address of the Dask dashboard."""
        return str(self.client.dashboard_link)

    def gather(
        self,
        dictionary: Dictionary,
        source: Source,
        coder: Solver,
        limit: Limit,
        code_iter: int,
        means: NumpyArray,
        report: Callable[[int], None],
    ) -> Statistics:
        """Code all batches on the workers and compute their statistics.

        The statistics are added in a tree over the numbers of the batches, so that the sum does not depend on the order
        in which they are completed.

        Parameters
        ----------
        dictionary : Dictionary
            The current dictionary.
        source : Source
            The signals: files that the workers can read, or a Dask array.
        coder : Solver
            The solver that codes.
        limit : int or SignalSet
            Maximum number of nonzeros per code, or the set that contains the codes.
        code_iter : int
            Number of iterations of the coder for each signal.
        means : numpy.ndarray, shape (m,)
            The first values of entries that were not measured.
        report : callable
            Called with the number of batches done so far.

        Returns
        -------
        Statistics
            The sums over all batches.
        """
        from dask.delayed import delayed

        with self._converted_errors():
            self.client.wait_for_workers(1)
        run, atoms = uuid4().hex, delayed(Dictionary)(to_numpy(dictionary.Phi))
        code, add = delayed(_coded, pure=False), delayed(_summed, pure=False)
        settings: dict[str, Any] = {"run": run, "device": self._device, "gpu": options_in_force()}
        settings["coding"] = coder, limit, code_iter, means
        settings["missing"] = source.missing if isinstance(source, DaskSource) else None
        parts: list[Any] = []
        for share in self._shares(source):
            parts.append(None)
            for work, numbers in share:
                parts[-1] = code(atoms, work, numbers, settings, parts[-1])
        while len(parts) > 1:
            parts = [add(parts[start : start + FAN]) for start in range(0, len(parts), FAN)]
        total: Statistics = self._computed(parts[0], run, report)
        like = dictionary.Phi
        return total if on_host(like) else total.moved(lambda array: from_numpy(to_numpy(array), like))

    def each(
        self,
        function: Callable[..., Any],
        dictionary: Dictionary,
        items: Sequence[Any],
        arguments: Sequence[Any],
        report: Callable[[Any, Any], None],
    ) -> None:
        """Evaluate ``function(dictionary, item, *arguments)`` for every item on the workers.

        Parameters
        ----------
        function : callable
            The function to evaluate.
        dictionary : Dictionary
            Its first argument.
        items : sequence
            Values of its second argument.
        arguments : sequence
            Its further arguments.
        report : callable
            Called as ``report(item, value)`` in this process as soon as the value of an item is available.
        """
        from dask.delayed import delayed
        from distributed import as_completed

        atoms, work = delayed(Dictionary)(to_numpy(dictionary.Phi)), delayed(_with_gpu_options, pure=False)
        with self._converted_errors():
            tasks = [work(options_in_force(), function, atoms, item, *arguments) for item in items]
            waiting = dict(zip(self.client.compute(tasks), items, strict=True))
            try:
                for future in as_completed(list(waiting)):
                    report(waiting.pop(future), _result(future))
            finally:
                with contextlib.suppress(Exception):
                    self.client.cancel(list(waiting))

    def _shares(self, source: Source) -> list[list[tuple[Any, list[int]]]]:
        """Divide a round into shares, each a list of successive tasks: their input and the numbers of their batches.

        The number of shares depends on the number of threads, not on the number of batches, so that the amount of data
        transferred in a round does not grow with the number of batches. The chunks of a Dask array become separate
        tasks, because a chunk stays in memory for as long as its task runs. Each task adds to the sums of the previous
        one, and Dask runs it where those sums are.
        """
        from dask.delayed import delayed

        count = min(source.batches, SHARES * max(1, self.threads))
        bounds = [source.batches * share // count for share in range(count + 1)]
        shares = [range(*ends) for ends in itertools.pairwise(bounds)]
        if isinstance(source, DaskSource):
            return [[(source.delayed(index), [index]) for index in share] for share in shares]
        # Compression pays, because file names are similar to each other.
        packed = zlib.compress(pickle.dumps(source), 1)
        if len(packed) > SOURCE_BYTES:
            accepted = "photographs in files that workers can read, or a Dask array"
            raise reject("source", "signals or images in the memory of this process", accepted)
        everywhere = delayed(packed)
        return [[(everywhere, list(share))] for share in shares]

    def _computed(self, value: Any, run: str, report: Callable[[int], None]) -> Any:
        """Compute a delayed value, and report the batches that its tasks announce as done."""
        done: set[int] = set()

        def on_event(event: Any) -> None:
            message = event[1]
            for number in message["batches"] if message["run"] == run else ():
                if number not in done:
                    done.add(number)
                    report(len(done))

        with self._converted_errors():
            self.client.subscribe_topic(TOPIC, on_event)
            future = self.client.compute(value)
            try:
                return _result(future)
            finally:
                with contextlib.suppress(Exception):
                    future.cancel()
                    self.client.unsubscribe_topic(TOPIC)

    @contextlib.contextmanager
    def _converted_errors(self) -> Iterator[None]:
        """Convert failures of the cluster to InputError."""
        from distributed import CancelledError, KilledWorker

        try:
            yield
        except KilledWorker as error:
            reason = f"several workers died while running the same task ({error.task})"
            raise InputError(f"scheduler: {reason}; a batch may need more memory than they have") from None
        except (CancelledError, TimeoutError, OSError):
            where = self.client.scheduler.address if self.client.scheduler else "it"
            raise InputError(f"scheduler: the connection to {where} was lost; completed results are kept") from None


def _result(future: Any) -> Any:
    """Return the result of a task; an OSError of the task itself is distinguished from one of the connection."""
    try:
        return future.result()
    except OSError as error:
        if future.status != "error":
            raise
        raise InputError(f"a worker failed: {type(error).__name__}: {error}") from None


def _ignore_interrupts() -> Any:
    """Return a plugin with which workers ignore Ctrl-C, because the process that started them handles it."""
    from distributed import WorkerPlugin

    class IgnoreInterrupts(WorkerPlugin):  # type: ignore[misc]
        name = "sparsect-interrupts"

        def setup(self, worker: Any) -> None:
            signal.signal(signal.SIGINT, signal.SIG_IGN)

    return IgnoreInterrupts()


def coded_chunks(coder: Any, X: Any, n_atoms: int) -> Any:
    """Code a Dask array chunk by chunk with an estimator, which is sent to every worker once.

    Parameters
    ----------
    coder : estimator
        A fitted estimator with a ``transform`` method.
    X : dask.array.Array, shape (rows, m)
        The signals, one per row.
    n_atoms : int
        Number of columns of the codes.

    Returns
    -------
    dask.array.Array, shape (rows, n_atoms)
        The codes; its chunks are SciPy CSR arrays.
    """
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
    """The batches of a source that one worker codes, read or drawn by the worker on its device."""

    def __init__(self, work: Any, numbers: Sequence[int], device: str | None, missing: str | None) -> None:
        self._source = _unpacked(work, device) if isinstance(work, bytes) else None
        self._chunk = None
        if self._source is None:
            self._chunk = place(DaskSource.checked(work, numbers[0], missing), device)
        self._numbers, self._device = numbers, device
        self.batches = len(numbers)

    @property
    def like(self) -> Array:
        """An array on the device on which the batches are placed."""
        return place(np.empty(0), self._device) if self._chunk is None else self._chunk

    def batch(self, index: int) -> Array:
        if self._source is None:
            return self._chunk
        return place(self._source.batch(self._numbers[index]), self._device)


@functools.lru_cache(maxsize=2)
def _unpacked(source: bytes, device: str | None) -> Source:
    """Unpack a source sent by the client; cached, so that all rounds use one object and its decoded images."""
    unpacked: Source = pickle.loads(zlib.decompress(source))
    return unpacked.on_device(device)


@functools.lru_cache(maxsize=1)
def _keep_memory() -> None:
    """Make this process keep the memory it frees.

    Dask workers return freed memory to the system at once. Solvers allocate arrays in every iteration, and requesting
    their memory again would take a third of the time.
    """
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        libc.mallopt(M_TRIM_THRESHOLD, 2**30)
        # Older versions of the library reject more than 2**25.
        libc.mallopt(M_MMAP_THRESHOLD, 2**30) or libc.mallopt(M_MMAP_THRESHOLD, 2**25)


def _with_gpu_options(gpu: dict[str, Any], function: Callable[..., Any], *arguments: Any) -> Any:
    _keep_memory()
    with gpu_options(**gpu):
        return function(*arguments)


def _coded(
    dictionary: Dictionary, work: Any, numbers: Sequence[int], settings: dict[str, Any], before: Statistics | None
) -> Statistics:
    """Run the task of a worker: read and code the batches of a share one by one, and add up their statistics."""
    from distributed import get_worker

    _keep_memory()
    share = _Share(work, numbers, settings["device"], settings["missing"])
    unreported, last = list(numbers), time.monotonic()

    def report(done: int) -> None:
        # Announced at intervals, because one message per batch from a thousand workers would overload the scheduler.
        nonlocal last
        if done == len(numbers) or time.monotonic() > last + REPORT_SECONDS:
            count = done - len(numbers) + len(unreported)
            get_worker().log_event(TOPIC, {"run": settings["run"], "batches": unreported[:count]})
            del unreported[:count]
            last = time.monotonic()

    placed = dictionary.placed_like(share.like)
    with gpu_options(**settings["gpu"]):
        coder, limit, code_iter, means = settings["coding"]
        total = gather_all(placed, share, coder, limit, code_iter, means, report).moved(to_numpy)
    return total if before is None else before + total


def _summed(parts: Sequence[Statistics]) -> Statistics:
    return functools.reduce(operator.add, parts)
