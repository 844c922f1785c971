"""A race of solvers on one random problem: they take turns, and each has its own clock."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ...backend.arrays import Array, FloatArray
from ...backend.checks import InputError, choice
from ...metrics import snr_db, support_recall
from ...operators.base import Operator
from ...operators.convert import as_operator
from ...paper.contenders import contenders
from ...recover import recover
from ...run import Snapshot
from ...solvers.base import Solver
from . import Progress, Sender

# Seconds of a turn, and of the solver's own time between two measurements.
TURN, PERIOD = 0.1, 0.004
# Solvers whose kernels this process has compiled.
COMPILED: set[str] = set()
KINDS = {
    "gaussian": "Gaussian, as in the paper",
    "signs": "random signs",
    "cosines": "rows of a cosine transform",
    "coherent": "coherent: neighbouring columns resemble each other",
}


@dataclass(frozen=True)
class Drawn:
    """The problem of a race.

    Attributes
    ----------
    x : array, shape (n,)
        The true signal.
    """

    x: FloatArray


@dataclass(frozen=True)
class Turn:
    """What a solver has found at the end of a turn.

    Attributes
    ----------
    method : str
        The solver.
    points : list of tuple
        Measurements: iteration, seconds, SNR of x in dB, stopping criterion.
    x : array, shape (n,)
        The estimate.
    """

    method: str
    points: list[tuple[int, float, float, float]]
    x: FloatArray


@dataclass(frozen=True)
class Arrived:
    """The end of a solver's run.

    Attributes
    ----------
    method : str
        The solver.
    snr_db : float
        SNR of x.
    recall : float
        Share of the true support that was found.
    residual : float
        Norm of the residual relative to that of y.
    iterations : int
        Number of iterations.
    seconds : float
        Time, setting up included.
    converged : bool
        Whether the stopping criterion was met.
    failed : str
        Why the solver could not be used; empty if it could.
    """

    method: str
    snr_db: float = float("nan")
    recall: float = 0.0
    residual: float = float("nan")
    iterations: int = 0
    seconds: float = 0.0
    converged: bool = False
    failed: str = ""


def matrix(kind: str, m: int, n: int, rng: np.random.Generator) -> FloatArray:
    """Draw a measurement matrix whose columns have norm 1.

    Parameters
    ----------
    kind : str
        One of ``KINDS``.
    m, n : int
        Its shape.
    rng : numpy.random.Generator
        The generator.

    Returns
    -------
    array, shape (m, n)
        The matrix.
    """
    choice("kind", kind, KINDS)
    if kind == "cosines":
        from scipy.fft import dct

        Phi = dct(np.eye(max(m, n)), axis=0, norm="ortho")[rng.permutation(max(m, n))[:m], :n]
    elif kind == "signs":
        Phi = rng.choice([-1.0, 1.0], size=(m, n))
    else:
        Phi = rng.standard_normal((m, n))
        if kind == "coherent":
            Phi = Phi + np.roll(Phi, 1, axis=1) + np.roll(Phi, 2, axis=1)
        Phi -= Phi.mean(axis=0)
    columns: FloatArray = Phi / np.linalg.norm(Phi, axis=0)
    return columns


def race(
    send: Sender,
    m: int,
    n: int,
    sparsity: int,
    noise_db: float | None,
    kind: str,
    methods: Sequence[str],
    max_iter: int,
    max_seconds: float,
    seed: int,
) -> None:
    """Let solvers race on one problem.

    Parameters
    ----------
    send : callable
        Gets the messages.
    m, n : int
        Numbers of measurements and of unknowns.
    sparsity : int
        Number of nonzeros.
    noise_db : float or None
        Signal-to-noise ratio of y in dB; None for no noise.
    kind : str
        Kind of matrix, one of ``KINDS``.
    methods : sequence of str
        The solvers.
    max_iter : int
        Maximum number of iterations.
    max_seconds : float
        Time limit of each solver, on its own clock.
    seed : int
        Seed of the problem.
    """
    solvers = {one.name: one.measurements for one in contenders() if one.name in methods}
    with prepared(send, solvers):
        Phi, y, x = _problem(m, n, sparsity, noise_db, kind, seed)
        send(Drawn(x))
        baton = Baton(len(methods))
        limits: dict[str, Any] = {"max_iter": max_iter, "max_seconds": max_seconds, "check_fit": False}
        runners = [
            threading.Thread(
                target=_run, args=(send, baton, place, method, solvers[method], Phi, y, x, sparsity, limits)
            )
            for place, method in enumerate(methods)
        ]
        for runner in runners:
            runner.start()
        for done, runner in enumerate(runners):
            send(Progress(f"{len(runners)} solvers race", done / len(runners)))
            runner.join()


@contextlib.contextmanager
def prepared(send: Sender, solvers: Mapping[str, Solver]) -> Iterator[None]:
    """Prepare this process, so that in the ``with`` block the clocks of solvers measure only them.

    Matrix products use one core, because threads that wait for each other on a busy machine take seconds. Kernels are
    compiled: each solver runs on small problems, with and without coherent columns, as parts of some solvers are used
    on one of them only.

    Parameters
    ----------
    send : callable
        Gets the messages.
    solvers : mapping of str to Solver
        The solvers that are going to run; those that this process has run before are skipped.

    Yields
    ------
    None
        Nothing.
    """
    for name, solver in solvers.items():
        if name in COMPILED:
            continue
        send(Progress(f"compiling {name}", 0))
        for kind in ("gaussian", "coherent"):
            Phi, y, _ = _problem(40, 80, 20, 20.0, kind, seed=0)
            # A solver that cannot be used says so in its own run.
            with contextlib.suppress(InputError):
                recover(Phi, y, 20, solver, max_iter=200, check_fit=False)
        COMPILED.add(name)
    # By now all libraries are loaded; those that were loaded later would have all cores.
    with threadpool_limits(1, "blas"):
        yield


def _problem(
    m: int, n: int, sparsity: int, noise_db: float | None, kind: str, seed: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Draw Phi, y and x."""
    rng = np.random.default_rng(seed)
    Phi = matrix(kind, m, n, rng)
    x = np.zeros(n)
    x[rng.permutation(n)[:sparsity]] = rng.standard_normal(sparsity)
    y = Phi @ x
    if noise_db is not None:
        noise = rng.standard_normal(m)
        y = y + noise * np.linalg.norm(y) / np.linalg.norm(noise) * 10 ** (-noise_db / 20)
    return Phi, y, x


class Baton:
    """Threads take turns: only the one that has the baton computes, so that clocks are not disturbed.

    Parameters
    ----------
    count : int
        Number of threads.
    """

    def __init__(self, count: int) -> None:
        self._waiting, self._changed = list(range(count)), threading.Condition()

    def take(self, place: int) -> float:
        """Wait for the baton.

        Parameters
        ----------
        place : int
            Number of the thread.

        Returns
        -------
        float
            When the turn began.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._waiting[0] == place)
        return time.monotonic()

    def give(self, place: int, again: bool) -> None:
        """Pass the baton on.

        Parameters
        ----------
        place : int
            Number of the thread.
        again : bool
            Whether it needs another turn.
        """
        with self._changed:
            self._waiting.remove(place)
            if again:
                self._waiting.append(place)
            self._changed.notify_all()


def _run(
    send: Callable[[Any], None],
    baton: Baton,
    place: int,
    method: str,
    solver: Any,
    Phi: FloatArray,
    y: FloatArray,
    x: FloatArray,
    sparsity: int,
    limits: dict[str, Any],
) -> None:
    """Run one solver, turn by turn."""
    # Each has its own operator, so that every clock includes factoring the matrix.
    operator: Operator = as_operator(Phi)
    points: list[tuple[int, float, float, float]] = []
    measured, begun = -1.0, baton.take(place)

    def watch(now: Snapshot) -> None:
        nonlocal measured, begun
        if now.seconds - measured < PERIOD and now.iteration > 1:
            return
        estimate = _row(now.x)
        seconds, measured = now.seconds + operator.factor_seconds, now.seconds
        points.append((now.iteration, seconds, float(snr_db(x, estimate)), float(np.max(now.criterion))))
        if time.monotonic() - begun > TURN:
            send(Turn(method, points.copy(), estimate))
            points.clear()
            baton.give(place, again=True)
            begun = baton.take(place)

    try:
        result = recover(operator, y, sparsity, solver, callback=watch, record=(), **limits)
        estimate = _row(result.x)
        ratio = float(snr_db(x, estimate))
        seconds, steps = result.seconds + result.setup_seconds, int(np.max(result.n_iter))
        last = points[-1][3] if points else float("nan")
        send(Turn(method, [*points, (steps, seconds, ratio, last)], estimate))
        left = float(np.linalg.norm(Phi @ estimate - y) / np.linalg.norm(y))
        recall, converged = float(support_recall(x, estimate)), bool(np.all(result.converged))
        send(Arrived(method, ratio, recall, left, steps, seconds, converged))
    except InputError as error:
        send(Arrived(method, failed=str(error)))
    finally:
        baton.give(place, again=False)


def _row(x: Array) -> FloatArray:
    return np.asarray(x, dtype=np.float64).reshape(-1)
