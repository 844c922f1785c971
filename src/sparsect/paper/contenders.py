"""Who takes part in an experiment: every solver, tuned on other problems, and those the user brings along."""

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

# Solvers of the paper first, in its order, then those it left out.
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
)
PAPER_BETA = 0.14


@dataclass(frozen=True)
class Contender:
    """A solver under a name, ready for random measurements and for images."""

    name: str
    measurements: Solver
    images: Solver


def contenders(brought: Iterable[str] = ()) -> list[Contender]:
    """Everybody, in a fixed order; ``brought`` are solvers as ``package.module:Class``."""
    found = [Contender(name, _for_measurements(name), _for_images(name)) for name in ORDER]
    for where in brought:
        solver = built("--with", where, imported("--with", where))
        if solver.name in {contender.name for contender in found}:
            raise InputError(
                f"--with: {where!r} is called {solver.name!r}, as another one is; give it a name of its own"
            )
        found.append(Contender(solver.name, solver, solver))
    return found


def _for_measurements(name: str) -> Any:
    values = tuned(name).values if name in shipped("random-measurements") else {}
    # The paper uses one beta everywhere; tuning here finds another one no better than it across the board.
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else METHODS[name](**values)


def _for_images(name: str) -> Any:
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else tuned_for_images(name)
