"""How is a solver of the user's own called by name? As ``package.module:Class``, with settings as plain values."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from typing import Any

from ..backend.checks import InputError, reject
from .base import Solver, check_solver


def is_own(method: str) -> bool:
    """Whether a name stands for a solver that has to be imported."""
    return ":" in method


def imported(argument: str, where: str) -> Any:
    """The class, or the configured solver, that ``package.module:Class`` stands for."""
    module, _, name = where.partition(":")
    if not (module and name):
        raise reject(argument, repr(where), "package.module:Class")
    # A module in the folder that the command was given in counts, however the command was started; it stays on the
    # path, so that processes started later find it, too.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _unusable(argument, where, error) from None


def built(argument: str, where: str, found: Any, **settings: Any) -> Solver:
    """A solver from what :func:`imported` gave, with settings of its own."""
    try:
        solver = found(**settings) if isinstance(found, type) else found
        if settings and solver is found:
            solver = dataclasses.replace(found, **settings)
    except InputError:
        raise
    except Exception as error:
        raise _unusable(argument, where, error) from None
    return check_solver(argument, solver)


def _unusable(argument: str, where: str, error: Exception) -> InputError:
    return InputError(f"{argument}: {where!r} cannot be used ({type(error).__name__}: {error})")
