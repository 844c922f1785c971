"""Sparse coding of the rows of an array, block by block."""

from __future__ import annotations

from typing import Any

from ..backend.arrays import Array, namespace, on_host
from ..backend.checks import choice
from ..backend.csr import compressed, compressed_on_host, joined_rows
from ..backend.devices import place, rows_at_a_time
from ..recover import recover
from ..sets import SignalSet
from ..solvers import METHODS, AnnealedDifferenceMap, Automatic
from ..solvers.base import Solver, check_solver
from .store import Dictionary

# Signals coded at once on a CPU, so that the dense codes of only one block are in memory.
BLOCK = 2000


def for_coding(method: str | Solver) -> Solver:
    """Return the solver that codes signals with a dictionary.

    The goal is a small error of Phi x, not of x. The names 'auto' and 'annealed-difference-map' therefore stand for
    ``Automatic("approximation")`` and ``AnnealedDifferenceMap("approximation")`` here, unlike in
    :func:`sparsect.recover`.

    Parameters
    ----------
    method : str or Solver
        A name from ``sparsect.METHODS``, or a configured solver.

    Returns
    -------
    Solver
        The named method; a configured solver is returned unchanged.
    """
    if not isinstance(method, str):
        return check_solver("method", method)
    kind = METHODS[choice("method", method, METHODS)]
    return kind("approximation") if kind in (Automatic, AnnealedDifferenceMap) else kind()


def codes_of(
    X: Array,
    dictionary: Dictionary,
    solver: Solver,
    sparsity: int | SignalSet,
    max_iter: int,
    refit: bool,
    device: str | None,
    mask: Array | None = None,
) -> Any:
    """Compute sparse codes of the rows of an array, block by block.

    Parameters
    ----------
    X : array, shape (rows, m)
        The signals, one per row.
    dictionary : Dictionary
        The dictionary, with Phi of shape (m, n).
    solver : Solver
        The solver that codes.
    sparsity : int or SignalSet
        Maximum number of nonzeros per code, or the set that contains the codes.
    max_iter : int
        Maximum number of iterations.
    refit : bool
        Whether to refit the coefficients by least squares on the selected atoms.
    device : str or None
        Where to compute, see :func:`sparsect.backend.devices.place`.
    mask : array of bool, shape (rows, m), optional
        True where X was not measured.

    Returns
    -------
    CSR matrix, shape (rows, n)
        The codes, in the memory in which X is.
    """
    first = place(X[:1, :], device)
    dictionary = dictionary.placed_like(first)
    on_cpu, block = on_host(X), rows_at_a_time(first, dictionary.Phi.shape, BLOCK)
    codes = []
    for start in range(0, X.shape[0], block):
        rows = place(X[start : start + block, :], device)
        absent = None if mask is None else mask[start : start + block, :]
        options: dict[str, Any] = {"mask": absent, "max_iter": max_iter, "refit": refit}
        result = recover(dictionary.operator, rows, sparsity, solver, record=(), check_fit=False, **options)
        x = namespace(rows).astype(result.x, rows.dtype, copy=False)
        codes.append(compressed_on_host(x) if on_cpu else compressed(x))
    return joined_rows(codes)
