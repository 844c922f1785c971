"""The solvers that take part in an experiment: every method, tuned on other problems, and solvers of the user."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..backend.checks import InputError
from ..images.settings import tuned_for_images
from ..solvers import METHODS, DifferenceMap
from ..solvers.base import Solver
from ..solvers.imported import built, imported
from ..tuning import shipped, tuned

# First the solvers that the paper compares, in its order, then the others.
ORDER = (
    "difference-map",
    "alternating-map",
    "admm",
    "irls",
    "lars",
    "stomp",
    "aiht",
    "subspace-pursuit",
    "niht",
    "omp",
    "ormp",
    "vamp",
    "annealed-difference-map",
    "support-sampler",
    "auto",
)
PAPER_BETA = 0.14


@dataclass(frozen=True)
class Contender:
    """A solver that takes part in the experiments.

    Attributes
    ----------
    name : str
        Name in tables and figures.
    measurements : Solver
        The solver with its settings for random measurements.
    images : Solver
        The solver with its settings for image patches.
    """

    name: str
    measurements: Solver
    images: Solver


def contenders(extra: Iterable[str] = ()) -> list[Contender]:
    """List all solvers in a fixed order.

    Parameters
    ----------
    extra : iterable of str, optional
        Solvers of the user, each as ``package.module:Class``; they come last.

    Returns
    -------
    list of Contender
        The solvers.

    Raises
    ------
    InputError
        If a solver of the user cannot be imported or has the name of another one.
    """
    found = [Contender(name, _for_measurements(name), _for_images(name)) for name in ORDER]
    for where in extra:
        solver = built("--with", where, imported("--with", where))
        if solver.name in {contender.name for contender in found}:
            raise InputError(
                f"--with: {where!r} has the name of another solver, {solver.name!r}; give it a unique name"
            )
        found.append(Contender(solver.name, solver, solver))
    return found


def _for_measurements(name: str) -> Any:
    """Return a solver with its settings for random measurements."""
    values = tuned(name).values if name in shipped("random-measurements") else {}
    # The paper uses one beta everywhere; the beta that tuning finds here is different, but no better over all settings.
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else METHODS[name](**values)


def _for_images(name: str) -> Any:
    """Return a solver with its settings for image patches."""
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else tuned_for_images(name)
