"""Work in other processes: a few workers that can be killed, and a queue in front of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from ..backend.checks import ConvergenceWarning, InputError
from ..backend.cores import cores
from ..backend.processes import begin_worker

# Called in a worker with a function that sends a message to the page, and arguments by name.
Work = Callable[..., None]
# Workers give way to the server, so that pages react while all cores are busy.
NICENESS = 10
FEWEST, MOST = 2, 8


@dataclass(frozen=True)
class Waiting:
    """A message to a page whose job is in the queue.

    Attributes
    ----------
    ahead : int
        Number of jobs that are started before.
    """

    ahead: int


@dataclass(frozen=True)
class Started:
    """A message to a page whose job has a worker now."""


class Job:
    """Work that waits, runs or has ended.

    Attributes
    ----------
    ended : str or None
        "done", "stopped" or "failed"; None before that.
    error : str
        Why the job has failed.
    """

    def __init__(self, jobs: Jobs, work: Work, arguments: dict[str, Any]) -> None:
        self._jobs, self.task = jobs, (work, arguments)
        self._received: asyncio.Queue[Any] = asyncio.Queue()
        self.ended: str | None = None
        self.error = ""

    async def messages(self) -> AsyncIterator[Any]:
        """Iterate over the messages of the work, and of the queue before it starts.

        Yields
        ------
        object
            Each message.
        """
        while (message := await self._received.get()) is not None:
            yield message

    def stop(self) -> None:
        """Take the job out of the queue, or kill the process that works on it."""
        self._jobs.stop(self)

    def tell(self, message: Any) -> None:
        """Add a message.

        Parameters
        ----------
        message : object
            The message.
        """
        self._received.put_nowait(message)

    def end(self, how: str, error: str = "") -> None:
        """End the stream of messages.

        Parameters
        ----------
        how : str
            "done", "stopped" or "failed".
        error : str, optional
            Why it has failed.
        """
        self.ended, self.error = how, error
        self._received.put_nowait(None)


class Jobs:
    """The queue and its workers, processes that wait for work with the library loaded.

    Everything here runs in the thread of the event loop; each worker has a thread that reads what it sends.

    Parameters
    ----------
    count : int, optional
        Number of workers. The default is half the number of cores, at least 2 and at most 8.
    """

    def __init__(self, count: int | None = None) -> None:
        self.count = count or min(max(FEWEST, cores() // 2), MOST)
        self._workers: list[_Worker] = []
        self._waiting: list[Job] = []
        self._closed = False

    def start(self) -> None:
        """Start the workers; called in the event loop."""
        self._workers = [_Worker(self._received) for _ in range(self.count)]

    def submit(self, work: Work, **arguments: Any) -> Job:
        """Add work to the queue.

        Parameters
        ----------
        work : callable
            A function of a module, called in a worker as ``work(send, **arguments)``.
        **arguments : Any
            Its arguments.

        Returns
        -------
        Job
            The job.
        """
        job = Job(self, work, arguments)
        self._waiting.append(job)
        self._assign()
        return job

    def stop(self, job: Job) -> None:
        """End a job, see :meth:`Job.stop`.

        Parameters
        ----------
        job : Job
            The job; one that has ended is left alone.
        """
        if job.ended is not None:
            return
        if job in self._waiting:
            self._waiting.remove(job)
        for worker in self._workers:
            if worker.job is job:
                # Its thread then reports the end, and a new process takes its place.
                worker.job, worker.ready = None, False
                worker.kill()
        job.end("stopped")
        self._assign()

    def close(self) -> None:
        """End all workers."""
        self._closed = True
        for worker in self._workers:
            worker.kill()

    @property
    def running(self) -> int:
        """Number of jobs that run now."""
        return sum(worker.job is not None for worker in self._workers)

    @property
    def waiting(self) -> int:
        """Number of jobs in the queue."""
        return len(self._waiting)

    def _assign(self) -> None:
        """Give work to idle workers, and tell the others how many are ahead of them."""
        for worker in self._workers:
            if self._waiting and worker.ready and worker.job is None:
                job = self._waiting.pop(0)
                worker.job = job
                job.tell(Started())
                worker.give(job.task)
        for place, job in enumerate(self._waiting):
            job.tell(Waiting(place))

    def _received(self, worker: _Worker, kind: str, content: Any) -> None:
        """Handle what a worker has sent."""
        job = worker.job
        if kind == "message":
            if job is not None:
                job.tell(content)
            return
        if kind == "died":
            if self._closed:
                return
            if job is not None:
                job.end("failed", "The process that did the work died; there may be too little memory.")
            self._workers[self._workers.index(worker)] = _Worker(self._received)
        elif kind == "ready":
            worker.ready = True
        elif job is not None:
            job.end(kind, content)
        worker.job = None
        self._assign()


class _Worker:
    """A process, the pipe to it, and the thread that reads from it."""

    def __init__(self, received: Callable[[_Worker, str, Any], None]) -> None:
        context = get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, tempfile.gettempdir()), daemon=True)
        self._process.start()
        theirs.close()
        self.ready = False
        self.job: Job | None = None
        loop = asyncio.get_running_loop()

        def read() -> None:
            kind, content = "", None
            while kind != "died":
                try:
                    kind, content = self._pipe.recv()
                except (EOFError, OSError):
                    kind, content = "died", None
                # The loop is closed when the server ends before its workers.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(received, self, kind, content)

        threading.Thread(target=read, daemon=True).start()

    def give(self, task: tuple[Work, dict[str, Any]]) -> None:
        """Send work; a process that has just been killed does not get it."""

        def send() -> None:
            with contextlib.suppress(OSError):
                self._pipe.send(task)

        # A picture may be larger than the buffer of the pipe.
        threading.Thread(target=send, daemon=True).start()

    def kill(self) -> None:
        self._process.kill()


def _serve(pipe: Any, folder: str) -> None:
    """Work in a process of its own until the server ends; temporary files go where those of the server go."""
    begin_worker()
    tempfile.tempdir = folder
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    warnings.simplefilter("ignore", ConvergenceWarning)
    from .work import dictionary, paper, photograph, signal  # noqa: F401, loaded before there is work

    pipe.send(("ready", None))
    while True:
        try:
            work, arguments = pipe.recv()
        except EOFError:
            return
        try:
            work(lambda message: pipe.send(("message", message)), **arguments)
            outcome = ("done", "")
        except InputError as error:
            outcome = ("failed", str(error))
        except MemoryError:
            outcome = ("failed", "There is too little memory for this.")
        except BrokenPipeError:
            return
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            outcome = ("failed", f"{type(error).__name__}: {error}")
        pipe.send(outcome)
