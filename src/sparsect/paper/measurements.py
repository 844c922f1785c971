"""Experiments on random measurements: error of x against time (figures 1 to 3), and the claim about beta."""

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

# Where the seeds of problems start; tuning starts elsewhere.
SEED = 50_000_000


@dataclass(frozen=True)
class Setting:
    """Random problems of one kind: one panel of a figure."""

    m: int
    n: int
    sparsity: int
    snr_db: float

    @property
    def label(self) -> str:
        """What a reader sees above the panel."""
        return f"{self.m}x{self.n}, s = {self.sparsity}, {self.snr_db:g} dB"

    def problem(self, run: int) -> Problem:
        """Problem number ``run``, the same whoever asks."""
        seed = [SEED, self.m, self.n, self.sparsity, round(self.snr_db), run]
        return random_problem(self.m, self.n, self.sparsity, self.snr_db, rng=np.random.default_rng(seed))


@dataclass(frozen=True)
class ErrorAgainstTime:
    """Every solver on the same problems, one at a time; its error at chosen moments, pre-computation included."""

    name: str
    title: str
    settings: tuple[Setting, ...]
    runs: int = 10
    seconds: float = 2.0
    max_iter: int = 3000
    timed: bool = True

    def tasks(self, contenders: list[Contender]) -> Iterator[tuple[str, Any]]:
        """Key and arguments of every task."""
        for setting in self.settings:
            for run in range(self.runs):
                yield f"{setting.label}|{run:02d}|limits", (setting, run, None)
                for contender in contenders:
                    yield f"{setting.label}|{run:02d}|{contender.name}", (setting, run, contender)

    def compute(self, setting: Setting, run: int, contender: Contender | None) -> list[Row]:
        """Rows of one task: a run of one solver on one problem, or how far anyone could go on it."""
        drawn = setting.problem(run)
        about = {"setting": setting.label, "run": run}
        if contender is None:
            return [about | {"solver": name, "snr_db": value} for name, value in limits(setting, drawn).items()]
        # A new operator, so that factoring Phi counts; the noise level is told to nobody.
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
        rows.append(
            rows[-1]
            | {
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
    """The Difference Map with every beta of the paper's grid, on problems of several kinds."""

    name: str
    title: str
    settings: tuple[Setting, ...]
    betas: tuple[float, ...]
    runs: int = 10
    max_iter: int = 1000
    timed: bool = False

    def tasks(self, contenders: list[Contender]) -> Iterator[tuple[str, Any]]:
        """Key and arguments of every task; other solvers do not take part."""
        for setting in self.settings:
            for run in range(self.runs):
                for beta in self.betas:
                    yield f"{setting.label}|{run:02d}|{beta:+.2f}", (setting, run, beta)

    def compute(self, setting: Setting, run: int, beta: float) -> list[Row]:
        """One row: the error at the end of one run."""
        drawn = setting.problem(run)
        problem = Problem(drawn.Phi, drawn.y, drawn.sparsity, x=drawn.x)
        x = solve(problem, DifferenceMap(beta), max_iter=self.max_iter, record=()).x
        about = {"setting": setting.label, "run": run, "beta": beta}
        return [about | {"snr_db": _number(snr_db(problem.x, np.atleast_2d(x)))}]


def limits(setting: Setting, problem: Problem) -> dict[str, float]:
    """How far could anyone go? With the true prior, what theory says of that, and knowing the support (dB)."""
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
    """Iterations at which the error is measured: all at first, then ever fewer."""
    return sorted({round(1.2**power) for power in range(200) if 1.2**power <= last})


def _number(value: Any) -> float:
    """One plain float, which must be finite: anything else is no answer."""
    number = float(np.asarray(value).ravel()[0])
    if np.isnan(number):
        raise ArithmeticError("an estimate that is not a number")
    return number


def settings_of(experiment: Any) -> dict[str, Any]:
    """The fields of an experiment in plain values, for the record."""
    return {name: value for name, value in asdict(experiment).items() if name not in ("title", "folder")}
