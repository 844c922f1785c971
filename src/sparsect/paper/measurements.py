"""Experiments on random measurements: the error of x against time (figures 1 to 3), and against beta."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..metrics import mse, snr_db
from ..operators import as_operator
from ..operators.least_squares import on_support
from ..problems import Problem, random_problem
from ..run.loop import solve
from ..solvers import DifferenceMap, VectorAMP
from ..solvers.vamp import state_evolution
from .contenders import Contender
from .rows import Row

# First number of every seed; tuning uses other seeds, so it never sees these problems.
SEED = 50_000_000


@dataclass(frozen=True)
class Setting:
    """Random problems of one kind, shown in one panel of a figure.

    Parameters
    ----------
    m : int
        Number of measurements.
    n : int
        Length of the signals.
    sparsity : int
        Number of nonzeros.
    snr_db : float
        Signal-to-noise ratio of y, in dB.
    """

    m: int
    n: int
    sparsity: int
    snr_db: float

    @property
    def label(self) -> str:
        """Title of the panel."""
        return f"{self.m}x{self.n}, s = {self.sparsity}, {self.snr_db:g} dB"

    def problem(self, run: int) -> Problem:
        """Draw a problem; the same number always gives the same problem.

        Parameters
        ----------
        run : int
            Number of the problem.

        Returns
        -------
        Problem
            The problem, with its true x.
        """
        seed = [SEED, self.m, self.n, self.sparsity, round(self.snr_db), run]
        return random_problem(self.m, self.n, self.sparsity, self.snr_db, rng=np.random.default_rng(seed))


@dataclass(frozen=True)
class ErrorAgainstTime:
    """The error of every solver on the same problems at given times, which include pre-computation.

    Problems are solved one at a time.

    Parameters
    ----------
    name : str
        Name of the experiment.
    title : str
        Title in the report.
    settings : tuple of Setting
        The kinds of problems.
    runs : int, optional
        Number of problems for each setting.
    seconds : float, optional
        Limit of the iteration time for each run.
    max_iter : int, optional
        Limit of the iterations for each run.
    timed : bool, optional
        Whether time is measured, so that tasks must run one after the other.
    """

    name: str
    title: str
    settings: tuple[Setting, ...]
    runs: int = 10
    seconds: float = 2.0
    max_iter: int = 3000
    timed: bool = True

    def tasks(self, contenders: list[Contender]) -> Iterator[tuple[str, Any]]:
        """List the tasks.

        Parameters
        ----------
        contenders : list of Contender
            The solvers that take part.

        Yields
        ------
        key : str
            Name of the task.
        arguments : tuple
            Arguments of :meth:`compute`.
        """
        for setting in self.settings:
            for run in range(self.runs):
                yield f"{setting.label}|{run:02d}|limits", (setting, run, None)
                for contender in contenders:
                    yield f"{setting.label}|{run:02d}|{contender.name}", (setting, run, contender)

    def compute(self, setting: Setting, run: int, contender: Contender | None) -> list[Row]:
        """Run one solver on one problem, or compute the limits of what any solver can reach on it.

        Parameters
        ----------
        setting : Setting
            The kind of problem.
        run : int
            Number of the problem.
        contender : Contender or None
            The solver; None for the limits.

        Returns
        -------
        list of Row
            A row for each moment at which the error was measured, or for each limit.
        """
        drawn = setting.problem(run)
        about = {"setting": setting.label, "run": run}
        if contender is None:
            return [about | {"solver": name, "snr_db": value} for name, value in limits(setting, drawn).items()]
        # The operator is new, so that factoring Phi counts; no solver gets the noise level.
        problem = Problem(as_operator(drawn.Phi), drawn.y, drawn.sparsity, x=drawn.x)
        result = solve(
            problem,
            contender.measurements,
            max_iter=self.max_iter,
            max_seconds=self.seconds,
            record={"snr_db": lambda now: snr_db(problem.x, now.x), "mse": lambda now: mse(problem.x, now.x)},
            record_at=moments(self.max_iter),
        )
        history = result.history
        rows = [
            about
            | {
                "solver": contender.name,
                "iteration": int(iteration),
                "seconds": float(seconds) + result.setup_seconds,
                "setup_seconds": result.setup_seconds,
                "snr_db": _number(snr),
                "mse": _number(error),
            }
            for iteration, seconds, snr, error in zip(
                history["iteration"], history["seconds"], history["snr_db"], history["mse"], strict=True
            )
        ]
        # A solver that is done before its first step has no other row.
        rows.append(
            about
            | {
                "solver": contender.name,
                "setup_seconds": result.setup_seconds,
                "iteration": int(np.max(result.n_iter)),
                "seconds": result.seconds + result.setup_seconds,
                "snr_db": _number(snr_db(problem.x, np.atleast_2d(result.x))),
                "mse": _number(mse(problem.x, np.atleast_2d(result.x))),
                "end": 1,
            }
        )
        return rows


@dataclass(frozen=True)
class RangeOfBeta:
    """The error of the Difference Map for every beta of the paper's grid, on problems of several kinds.

    Parameters
    ----------
    name : str
        Name of the experiment.
    title : str
        Title in the report.
    settings : tuple of Setting
        The kinds of problems.
    betas : tuple of float
        The values of beta.
    runs : int, optional
        Number of problems for each setting.
    max_iter : int, optional
        Number of iterations.
    timed : bool, optional
        Whether time is measured, so that tasks must run one after the other.
    """

    name: str
    title: str
    settings: tuple[Setting, ...]
    betas: tuple[float, ...]
    runs: int = 10
    max_iter: int = 1000
    timed: bool = False

    def tasks(self, contenders: list[Contender]) -> Iterator[tuple[str, Any]]:
        """List the tasks.

        Parameters
        ----------
        contenders : list of Contender
            Not used: only the Difference Map has beta.

        Yields
        ------
        key : str
            Name of the task.
        arguments : tuple
            Arguments of :meth:`compute`.
        """
        for setting in self.settings:
            for run in range(self.runs):
                for beta in self.betas:
                    yield f"{setting.label}|{run:02d}|{beta:+.2f}", (setting, run, beta)

    def compute(self, setting: Setting, run: int, beta: float) -> list[Row]:
        """Run the Difference Map on one problem with one beta.

        Parameters
        ----------
        setting : Setting
            The kind of problem.
        run : int
            Number of the problem.
        beta : float
            The parameter of the Difference Map.

        Returns
        -------
        list of Row
            One row with the SNR of x after the last iteration.
        """
        drawn = setting.problem(run)
        problem = Problem(drawn.Phi, drawn.y, drawn.sparsity, x=drawn.x)
        x = solve(problem, DifferenceMap(beta), max_iter=self.max_iter, record=()).x
        about = {"setting": setting.label, "run": run, "beta": beta}
        return [about | {"snr_db": _number(snr_db(problem.x, np.atleast_2d(x)))}]


def limits(setting: Setting, problem: Problem) -> dict[str, float]:
    """Compute the highest SNR that can be reached.

    Parameters
    ----------
    setting : Setting
        The kind of problem.
    problem : Problem
        The problem, with its true x and noise norm.

    Returns
    -------
    dict of str to float
        SNR of x in dB: "Bayes-optimal" for message passing with the true prior, "state evolution" for its prediction by
        theory, and "support known" for least squares on the true support.
    """
    density, (m, n) = setting.sparsity / setting.n, problem.operator.shape
    assert problem.noise_norm is not None
    noise = float(np.mean(problem.noise_norm**2)) / m
    prior = VectorAMP(density=density, variance=1.0, noise_variance=noise)
    bayes = solve(Problem(problem.operator, problem.y, problem.sparsity), prior, max_iter=300, record=()).x
    spectrum = np.linalg.svd(problem.Phi, compute_uv=False)
    predicted = float(state_evolution(spectrum, (m, n), density, 1.0, noise, 100)[-1])
    support = on_support(problem.operator, problem.y, problem.x != 0)
    return {
        "Bayes-optimal": _number(snr_db(problem.x, np.atleast_2d(bayes))),
        "state evolution": float(10 * np.log10(density / predicted)),
        "support known": _number(snr_db(problem.x, support)),
    }


def moments(last: int) -> list[int]:
    """Choose the iterations at which the error is measured: all at first, then at growing distances.

    Parameters
    ----------
    last : int
        The last iteration.

    Returns
    -------
    list of int
        The iterations, in increasing order.
    """
    return sorted({round(1.2**power) for power in range(200) if 1.2**power <= last})


def _number(value: Any) -> float:
    """Convert to one float, which must not be NaN: an estimate that is not a number counts as a failure."""
    number = float(np.asarray(value).ravel()[0])
    if np.isnan(number):
        raise ArithmeticError("an estimate that is not a number")
    return number


def settings_of(experiment: Any) -> dict[str, Any]:
    """Return the fields of an experiment as plain values, to be stored with its rows.

    Parameters
    ----------
    experiment : dataclass instance
        The experiment.

    Returns
    -------
    dict
        All fields but the title and the folder, which do not affect the rows.
    """
    return {name: value for name, value in asdict(experiment).items() if name not in ("title", "folder")}
