"""Parameter tuning by the paper's two-stage grid search (section 2.2) on random training problems.

Examples
--------
>>> import sparsect
>>> sorted(sparsect.tuning.tuned("admm").values)
['lam', 'mu']
"""

from __future__ import annotations

import itertools
import json
import os
import warnings
from collections.abc import Callable
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any, Protocol

import numpy as np

from .backend.arrays import FloatArray, to_numpy
from .backend.checks import ConvergenceWarning, InputError, choice, reject, whole_number
from .backend.cores import cores
from .backend.journal import Journal
from .backend.processes import processes
from .backend.writing import replacing
from .metrics import mse
from .problems import Problem, random_problem
from .run.loop import solve
from .solvers import METHODS

__all__ = ["LinearGrid", "LogarithmicGrid", "Problems", "Training", "Tuned", "tune", "tuned"]

Values = dict[str, float]
# The settings for which tuned values are shipped.
SETTINGS = ("random-measurements", "image-patches")


class Problems(Protocol):
    """The interface of a training set.

    It is a frozen dataclass of plain values that draws the same problems in any process.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import sparsect
    >>> @dataclass(frozen=True)
    ... class FewMeasurements:
    ...     seed: int = 1
    ...
    ...     def draw(self):
    ...         return [sparsect.random_problem(20, 100, 3, batch=10, rng=self.seed)]
    >>> FewMeasurements().draw()[0].batch
    10
    """

    def draw(self) -> list[Problem]:
        """Draw the problems.

        Returns
        -------
        list of Problem
            The problems. The error of x counts where x is known, otherwise the error of Phi x.
        """

    def __hash__(self) -> int:
        """Return a hash; equal training sets are drawn only once in a process."""


@dataclass(frozen=True)
class Training:
    """Random problems to tune on, with a different Phi for each sparsity.

    Parameters
    ----------
    m, n : int, optional
        The shape of Phi.
    sparsities : tuple of int, optional
        The numbers of nonzeros.
    snr_db : float or None, optional
        The signal-to-noise ratio in dB; None for no noise.
    problems : int, optional
        The number of signals for each sparsity.
    seed : int, optional
        The first random seed. It must differ from the seeds of all problems for which results are reported.

    Examples
    --------
    >>> from sparsect.tuning import Training
    >>> drawn = Training(m=20, n=40, sparsities=(2, 4), problems=3).draw()
    >>> [problem.y.shape for problem in drawn]
    [(3, 20), (3, 20)]
    """

    m: int = 400
    n: int = 1000
    sparsities: tuple[int, ...] = (50, 100, 150, 175, 200)
    snr_db: float | None = 20.0
    problems: int = 2
    seed: int = 10_000_000

    def __post_init__(self) -> None:
        if not self.sparsities:
            raise reject("sparsities", "none", "hold at least one number")
        for s in self.sparsities:
            whole_number("sparsities", s, 0, self.n)
        whole_number("problems", self.problems, 1)
        whole_number("seed", self.seed, 0)

    def draw(self) -> list[Problem]:
        """Draw the problems, without their noise levels.

        Returns
        -------
        list of Problem
            One problem for each sparsity.
        """
        drawn = [
            random_problem(self.m, self.n, s, self.snr_db, self.problems, rng=self.seed + s) for s in self.sparsities
        ]
        return [Problem(problem.Phi, problem.y, problem.sparsity, x=problem.x) for problem in drawn]


@dataclass(frozen=True)
class LinearGrid:
    """A grid of one parameter with constant spacing.

    The first stage goes from ``low`` to ``high`` in steps of 0.1, the second from 0.5 below to 0.5 above the best value
    in steps of 0.01. The value 0 is left out.

    Parameters
    ----------
    names : tuple of str
        The name of the parameter.
    low : float, optional
        The smallest value.
    high : float, optional
        The largest value.

    Examples
    --------
    >>> from sparsect.tuning import LinearGrid
    >>> len(LinearGrid(("beta",)).coarse())
    24
    """

    names: tuple[str, ...]
    low: float = -1.2
    high: float = 1.2

    def coarse(self) -> list[Values]:
        """Return the points of the first stage.

        Returns
        -------
        list of dict
            The points of the grid, each a mapping from names to values.
        """
        return self._points(np.arange(round(self.low * 10), round(self.high * 10) + 1) / 10)

    def fine(self, best: Values) -> list[Values]:
        """Return the points of the second stage.

        Parameters
        ----------
        best : dict of str to float
            The best point of the first stage.

        Returns
        -------
        list of dict
            The points of the grid, each a mapping from names to values.
        """
        return self._points(round(best[self.names[0]], 1) + np.arange(-50, 51) / 100)

    def _points(self, numbers: FloatArray) -> list[Values]:
        """Return the points of the given values, except 0."""
        return [{self.names[0]: round(float(number), 2)} for number in numbers if abs(number) > 1e-9]


@dataclass(frozen=True)
class LogarithmicGrid:
    """A grid of one or more parameters with logarithmic spacing.

    The first stage consists of the powers of ten from 1e-5 to 1e5 in every parameter, the second of tenths of a power
    within half a power of the best point.

    Parameters
    ----------
    names : tuple of str
        The names of the parameters.

    Examples
    --------
    >>> from sparsect.tuning import LogarithmicGrid
    >>> len(LogarithmicGrid(("mu", "lam")).coarse())
    121
    """

    names: tuple[str, ...]

    def coarse(self) -> list[Values]:
        """Return the points of the first stage.

        Returns
        -------
        list of dict
            The points of the grid, each a mapping from names to values.
        """
        return self._points([np.arange(-5.0, 6.0)] * len(self.names))

    def fine(self, best: Values) -> list[Values]:
        """Return the points of the second stage.

        Parameters
        ----------
        best : dict of str to float
            The best point of the first stage.

        Returns
        -------
        list of dict
            The points of the grid, each a mapping from names to values.
        """
        return self._points([round(np.log10(best[name])) + np.arange(-5, 6) / 10 for name in self.names])

    def _points(self, exponents: list[FloatArray]) -> list[Values]:
        """Return the product grid of the given exponents of ten."""
        return [
            {name: float(f"{10.0**exponent:.4g}") for name, exponent in zip(self.names, point, strict=True)}
            for point in itertools.product(*exponents)
        ]


GRIDS: dict[str, LinearGrid | LogarithmicGrid] = {
    "difference-map": LinearGrid(("beta",)),
    "admm": LogarithmicGrid(("mu", "lam")),
    "irls": LogarithmicGrid(("alpha", "beta")),
}


@dataclass(frozen=True)
class Tuned:
    """The result of tuning.

    Attributes
    ----------
    method : str
        The name of the method.
    values : dict of str to float
        The best parameters.
    error : float
        Their mean squared error.
    training : dict
        The fields of the training set.
    max_iter : int
        The number of iterations for each problem.
    stages : list of list of dict
        All points of each stage, with their errors.

    Examples
    --------
    >>> import sparsect
    >>> shipped = sparsect.tuning.tuned("admm")
    >>> solver = sparsect.ADMM(**shipped.values)
    >>> solver.p
    0.5
    """

    method: str
    values: Values
    error: float
    training: dict[str, Any]
    max_iter: int
    stages: list[list[dict[str, Any]]] = field(repr=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the result as JSON; the file is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The name of the file.
        """
        with replacing(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=1) + "\n")


def tune(
    method: str,
    training: Problems | None = None,
    *,
    max_iter: int = 300,
    workers: int | None = None,
    rows: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int, float], None] | None = None,
) -> Tuned:
    """Find the parameters with the smallest mean squared error of x, averaged over all training problems.

    If the true x is not known, as for patches of images, the error of Phi x counts instead.

    Parameters
    ----------
    method : {'difference-map', 'admm', 'irls'}
        The method: difference-map (beta), admm (mu, lam) or irls (alpha, beta).
    training : Problems, optional
        The training set. The default is :class:`Training`: 400x1000, 20 dB, s = 50 to 200.
    max_iter : int, optional
        The number of iterations for each problem.
    workers : int, optional
        The number of processes, each of which uses one thread for products. The default is one for each core.
    rows : str or path-like, optional
        A file to which each result is appended. If it exists, the results that it holds are not computed again.
    progress : callable, optional
        Called with the number of points done, the number of points in total and the smallest error so far.

    Returns
    -------
    Tuned
        The best parameters and all points of the grid.

    Raises
    ------
    InputError
        If an argument is invalid, or if the method diverges at every point of the grid.

    Examples
    --------
    Every point of the grid is tried in a process of its own, so a script needs the first line:

    >>> if __name__ == "__main__":  # doctest: +SKIP
    ...     training = sparsect.tuning.Training(m=50, n=100, sparsities=(5, 10), problems=4)
    ...     print(sparsect.tuning.tune("difference-map", training, max_iter=50).values)
    {'beta': 0.02}
    """
    grid = GRIDS[choice("method", method, GRIDS)]
    training = Training() if training is None else training
    max_iter = whole_number("max_iter", max_iter, 1)
    workers = whole_number("workers", cores() if workers is None else workers, 1)
    coarse = grid.coarse()
    stages: list[list[dict[str, Any]]] = []
    journal = Journal(rows, {"method": method, "training": _values(training), "max_iter": max_iter}, _known_error)
    with journal.writing(), processes(workers) as pool:
        points, done = coarse, 0
        for stage in range(2):
            errors = [journal.results.get(_key(point)) for point in points]
            waiting = {
                pool.submit(_error, method, point, training, max_iter): index
                for index, point in enumerate(points)
                if errors[index] is None
            }
            total = len(coarse) + len(points) if stage else len(coarse) + len(grid.fine(coarse[-1]))
            for future in as_completed(waiting):
                index = waiting[future]
                errors[index] = error = future.result()
                journal.add(_key(points[index]), error)
                if progress is not None:
                    known = [each for each in errors if each is not None]
                    progress(done + len(known), total, min(known))
            done += len(points)
            stages.append([{"values": point, "error": error} for point, error in zip(points, errors, strict=True)])
            best = min((row for rows_ in stages for row in rows_), key=lambda row: float(row["error"]))
            if not np.isfinite(best["error"]):
                raise InputError(f"training: {method} diverged at every point of the grid")
            points = grid.fine(best["values"])
    return Tuned(method, best["values"], best["error"], _values(training), max_iter, stages)


def _values(training: Any) -> dict[str, Any]:
    """Return the fields of a training set, for the record."""
    return asdict(training)


def tuned(method: str, setting: str = "random-measurements") -> Tuned:
    """Return the tuned values that are shipped with the package.

    Parameters
    ----------
    method : {'difference-map', 'admm', 'irls'}
        The name of the method.
    setting : {'random-measurements', 'image-patches'}, optional
        The kind of problem for which the values were tuned.

    Returns
    -------
    Tuned
        The values and the training set; ``stages`` is empty.

    Examples
    --------
    >>> import sparsect
    >>> sorted(sparsect.tuning.tuned("irls").values)
    ['alpha', 'beta']
    """
    known = shipped(choice("setting", setting, SETTINGS))
    return Tuned(**known[choice("method", method, known)], stages=[])


@lru_cache
def shipped(setting: str) -> dict[str, dict[str, Any]]:
    """Return the tuned values of all methods for a setting.

    Parameters
    ----------
    setting : {'random-measurements', 'image-patches'}
        The kind of problem.

    Returns
    -------
    dict of str to dict
        The fields of :class:`Tuned` for each method.
    """
    path = resources.files("sparsect") / "data" / f"tuned-{setting}.json"
    known: dict[str, dict[str, Any]] = json.loads(path.read_text())
    return known


def _error(method: str, values: Values, training: Problems, max_iter: int) -> float:
    """Return the mean squared error with the given values; infinite if an iteration diverges."""
    solver, errors = METHODS[method](**values), []
    for problem in _problems(training):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            try:
                x = solve(problem, solver, max_iter=max_iter, record=(), check_fit=False).x
            except ConvergenceWarning:
                return float("inf")
        known = problem.x is not None
        errors.append(to_numpy(mse(problem.x, x) if known else mse(problem.y, problem.operator.forward(x))))
    mean = float(np.mean(np.concatenate(errors)))
    return mean if np.isfinite(mean) else float("inf")


def _key(values: Values) -> str:
    """Return the key of a point in the journal of a search."""
    return ", ".join(f"{name} = {value!r}" for name, value in values.items())


def _known_error(value: Any) -> float:
    """Check an error from the journal; it is infinite after divergence, and never NaN, which cannot be compared."""
    if not isinstance(value, float) or not value >= 0:
        raise TypeError("an error is a float of at least 0")
    return value


@lru_cache(maxsize=1)
def _problems(training: Problems) -> list[Problem]:
    """Draw the problems of a training set, once in each process, so that Phi is also factored once."""
    return training.draw()
