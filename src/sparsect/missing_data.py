"""Recovery from incomplete data: each row is fitted to what was measured of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .backend.array_checks import floating, refuse_masked
from .backend.arrays import Array, BoolArray, IntArray, from_numpy, namespace, take_rows, to_numpy
from .backend.checks import reject
from .run.result import Result, joined


def recover_measured(y: Any, m: int, mask: Any, recover_rows: Callable[[Array, IntArray, IntArray], Result]) -> Result:
    """Recover rows from incomplete data, those with the same measurements at a time.

    Parameters
    ----------
    y : array, shape (m,) or (batch, m)
        The data. Entries that were not measured may have any value.
    m : int
        The number of measurements.
    mask : array of bool, shape (m,) or (batch, m)
        True where y was not measured.
    recover_rows : callable
        Function of some data of shape (rows, measurements), the numbers of these rows and of these measurements, which
        returns their result.

    Returns
    -------
    Result
        The result of all rows, with a batch axis.

    Raises
    ------
    InputError
        If the mask does not fit y, or if nothing was measured in a row.
    """
    data = floating("y", y, dimensions=(1, 2), finite=False)
    if data.shape[-1] != m or 0 in data.shape:
        raise reject("y", f"shape {tuple(data.shape)}", f"have shape ({m},) or (batch, {m})")
    data = data[None, :] if data.ndim == 1 else data
    measured = ~_checked(mask, (int(data.shape[0]), m))
    nothing = np.flatnonzero(~measured.any(axis=1))
    if nothing.size:
        raise reject("mask", f"no measurement in row {nothing[0]}", "leave at least one measurement in each row")
    patterns, of_rows = np.unique(measured, axis=0, return_inverse=True)
    parts = []
    for number, pattern in enumerate(patterns):
        rows, kept = np.flatnonzero(of_rows.ravel() == number), np.flatnonzero(pattern)
        some = namespace(data).take(take_rows(data, rows), from_numpy(kept, data), axis=-1)
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
