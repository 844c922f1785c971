"""Recovery from incomplete data: each row is fitted to what was measured of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .backend.array_checks import refuse_masked
from .backend.arrays import Array, BoolArray, IntArray, from_numpy, namespace, take_rows, to_numpy
from .backend.checks import reject
from .run.result import Result, joined


def recover_measured(y: Array, mask: Any, recover_rows: Callable[[Array, IntArray, IntArray], Result]) -> Result:
    """Recover rows from incomplete data, those with the same measurements at a time.

    Parameters
    ----------
    y : array, shape (batch, m) or (batch, times, m)
        The data. Entries that were not measured may have any value.
    mask : array of bool, shape (m,) or (batch, m)
        True where y was not measured, at any time.
    recover_rows : callable
        Function of some data of shape (rows, ..., measurements), the numbers of these rows and of these measurements,
        which returns their result.

    Returns
    -------
    Result
        The result of all rows, with a batch axis.

    Raises
    ------
    InputError
        If the mask does not fit y, or if nothing was measured in a row.
    """
    measured = ~_checked(mask, (int(y.shape[0]), int(y.shape[-1])))
    nothing = np.flatnonzero(~measured.any(axis=1))
    if nothing.size:
        raise reject("mask", f"no measurement in row {nothing[0]}", "leave at least one measurement in each row")
    patterns, of_rows = np.unique(measured, axis=0, return_inverse=True)
    parts = []
    for number, pattern in enumerate(patterns):
        rows, kept = np.flatnonzero(of_rows.ravel() == number), np.flatnonzero(pattern)
        some = namespace(y).take(take_rows(y, rows), from_numpy(kept, y), axis=-1)
        parts.append((rows, recover_rows(some, rows, kept)))
    return joined(parts)


def _checked(mask: Any, shape: tuple[int, int]) -> BoolArray:
    """Return the mask with one row for each row of y."""
    refuse_masked("mask", mask)
    try:
        found = to_numpy(mask) if hasattr(mask, "shape") else np.asarray(mask)
    except ValueError:
        raise reject("mask", "rows of different lengths", f"booleans of shape {shape[1:]} or {shape}") from None
    if found.dtype != np.bool_ or found.shape not in (shape, shape[1:]):
        got = f"an array of shape {found.shape} and dtype {found.dtype}"
        raise reject("mask", got, f"booleans of shape {shape[1:]} or {shape}, True where y was not measured")
    return np.broadcast_to(found, shape)
