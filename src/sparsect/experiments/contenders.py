"""Who takes part in an experiment: every solver, tuned on other problems, and those the user brings along."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ..algorithm import Solver
from ..checks import InputError
from ..images.settings import tuned_for_images
from ..solvers import METHODS, DifferenceMap
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
        solver = _imported(where)
        name = str(getattr(solver, "name", where))
        if name in {contender.name for contender in found}:
            raise InputError(f"--with: {where!r} is called {name!r}, as another one is; give it a name of its own")
        found.append(Contender(name, solver, solver))
    return found


def _for_measurements(name: str) -> Any:
    values = tuned(name).values if name in shipped("random-measurements") else {}
    # The paper uses one beta everywhere; tuning here finds another one no better than it across the board.
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else METHODS[name](**values)


def _for_images(name: str) -> Any:
    return DifferenceMap(PAPER_BETA) if name == "difference-map" else tuned_for_images(name)


def _imported(where: str) -> Any:
    """A solver of the user's own."""
    module, colon, name = where.partition(":")
    if not (module and colon and name):
        raise InputError(f"--with: got {where!r}, accepted is package.module:Class")
    # A module in the folder that the command was given in counts, however the command was started.
    sys.path.insert(0, os.getcwd())
    try:
        kind = getattr(importlib.import_module(module), name)
        solver = kind() if isinstance(kind, type) else kind
    except Exception as error:
        raise InputError(f"--with: {where!r} cannot be used ({type(error).__name__}: {error})") from None
    finally:
        sys.path.pop(0)
    missing = [part for part in ("init", "step", "estimate") if not callable(getattr(solver, part, None))]
    if missing:
        raise InputError(f"--with: {where!r} has no {', '.join(missing)}; CONTRIBUTING.md says what a solver is")
    return solver
