"""Thresholding of rows to their s largest magnitudes, and the step of the Difference Map based on it."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, contiguous, namespace
from ...backend.engines import has_kernels, worth_compiling
from . import plain
from .structure import Kind, Layout, Structure

__all__ = ["Kind", "Layout", "Structure", "advance", "keep_largest", "project"]

# Approximate number of times that the compiled kernels read a row.
PASSES = 12


def keep_largest(x: Array, sparsity: int) -> Array:
    """Set all but the largest magnitudes of every row to zero.

    Among equal magnitudes, those with the lowest indices are kept.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.
    sparsity : int
        Number of entries to keep, from 0 to n.

    Returns
    -------
    array, shape (..., n)
        The thresholded rows; ``x`` itself if ``sparsity`` is n.
    """
    n = x.shape[-1]
    if sparsity == 0:
        return namespace(x).zeros_like(x)
    if sparsity == n:
        return x
    if worth_compiling(x):
        from ...backend.parallel import over_rows
        from . import cpu

        rows = contiguous(x).reshape(-1, n)
        kept = np.empty_like(rows)
        over_rows(cpu.keep, rows.shape[0], rows, sparsity, kept, work=PASSES * n)
        return kept.reshape(x.shape)
    if has_kernels(x):
        from . import gpu

        return gpu.project(x, Structure(Layout(n), (sparsity,)))
    return plain.keep(x, sparsity)


def project(x: Array, structure: Structure) -> Array:
    """Find the nearest point with a given structure for every row.

    Among units that are equally good, those with the lowest numbers are kept.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.
    structure : Structure
        What the points may look like.

    Returns
    -------
    array, shape (..., n)
        The nearest points.
    """
    if structure.nearest is not None:
        return structure.nearest(x)
    if structure.plain:
        return keep_largest(x, structure.size)
    if worth_compiling(x):
        from ...backend.parallel import over_rows
        from . import cpu

        rows = contiguous(x).reshape(-1, x.shape[-1])
        found = np.empty_like(rows)
        arguments = structure.arguments(x.dtype)
        over_rows(cpu.project, rows.shape[0], rows, *arguments, found, work=PASSES * x.shape[-1])
        return found.reshape(x.shape)
    if has_kernels(x) and structure.on_gpu:
        from . import gpu

        return gpu.project(x, structure)
    return plain.project(x, structure)


def advance(
    x: Array, w: Array, before: Array, structure: Structure, relaxation: float = 1.0
) -> tuple[Array, Array, Array, Array]:
    """Take a step of the Difference Map at beta = 1.

    Parameters
    ----------
    x : array, shape (batch, n)
        Current points.
    w : array, shape (batch, n)
        The corrections x - P_B(x).
    before : array, shape (batch, n)
        Points of A of the previous step.
    structure : Structure
        What points of A look like.
    relaxation : float, optional
        Factor of the change of x.

    Returns
    -------
    u : array, shape (batch, n)
        The points P_A(x - 2 w) of A.
    moved : array, shape (batch, n)
        The next points x + relaxation (u - P_B(x)).
    change : array, shape (batch,)
        Norm of the change of x.
    changed : array of bool, shape (batch,)
        Whether the supports of u and ``before`` differ.
    """
    batch, n = x.shape
    sparsity = structure.size
    if worth_compiling(x) and sparsity > 0 and (sparsity < n or not structure.plain) and structure.nearest is None:
        from ...backend.parallel import over_rows
        from . import cpu

        moved, u = x.copy(), before.copy()
        level, change, changed = np.zeros(batch, x.dtype), np.empty(batch, x.dtype), np.empty(batch, bool)
        rest = (relaxation, moved, u, level, change, changed)
        if structure.plain:
            over_rows(cpu.advance, batch, contiguous(w), sparsity, *rest, work=PASSES * n)
        else:
            arguments = structure.arguments(x.dtype)
            over_rows(cpu.advance_structured, batch, contiguous(w), *arguments, *rest, work=PASSES * n)
        return u, moved, change, changed
    if has_kernels(x) and structure.on_gpu:
        from . import gpu

        return gpu.advance(x, w, before, structure, relaxation)
    return plain.advance(x, w, project(x - 2 * w, structure), before, relaxation)
