"""Solvers of the user's own, given by name as ``package.module:Class``, with settings as plain values."""

from __future__ import annotations

import dataclasses
import importlib
import os
import sys
from typing import Any

from ..backend.checks import InputError, reject
from .base import Solver, check_solver


def is_own(method: str) -> bool:
    """Return whether a name refers to a solver that has to be imported.

    Parameters
    ----------
    method : str
        The name of a method.

    Returns
    -------
    bool
        True for ``package.module:Class``.
    """
    return ":" in method


def imported(argument: str, where: str) -> Any:
    """Import a solver.

    Parameters
    ----------
    argument : str
        The name of the argument, for the error message.
    where : str
        The place of the solver, ``package.module:Class``.

    Returns
    -------
    type or Solver
        The class, or the configured solver.
    """
    module, _, name = where.partition(":")
    if not (module and name):
        raise reject(argument, repr(where), "package.module:Class")
    # Modules in the current folder are found however the command was started. The folder stays on the path, so that
    # processes started later find them, too.
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:
        raise _unusable(argument, where, error) from None


def built(argument: str, where: str, found: Any, **settings: Any) -> Solver:
    """Configure an imported solver.

    Parameters
    ----------
    argument : str
        The name of the argument, for the error message.
    where : str
        The place of the solver, for the error message.
    found : type or Solver
        What :func:`imported` returned.
    **settings : Any
        The settings of the solver.

    Returns
    -------
    Solver
        The configured solver.
    """
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
    """Return the error for a solver that cannot be imported or configured."""
    return InputError(f"{argument}: {where!r} cannot be used ({type(error).__name__}: {error})")
