"""Thresholding of rows for arrays of any library."""

from __future__ import annotations

import math

import array_api_compat as compat
import numpy as np

from ...backend.arrays import Array, is_numpy, namespace
from ...backend.norms import norm
from .structure import Structure


def keep(x: Array, sparsity: int) -> Array:
    """Keep the largest magnitudes of every row and set the other entries to zero.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.
    sparsity : int
        Number of entries to keep, greater than 0 and less than n.

    Returns
    -------
    array, shape (..., n)
        The thresholded rows.
    """
    xp = namespace(x)
    magnitude = xp.abs(x)
    threshold = kth_largest(magnitude, sparsity)
    kept = magnitude >= threshold
    if int(xp.count_nonzero(kept)) > sparsity * math.prod(x.shape[:-1]):
        above = magnitude > threshold
        room = sparsity - xp.count_nonzero(above, axis=-1)[..., None]
        ties = kept & ~above
        kept = above | (ties & (xp.cumulative_sum(xp.astype(ties, room.dtype), axis=-1) <= room))
    return xp.where(kept, x, xp.zeros_like(x))


def project(x: Array, structure: Structure) -> Array:
    """Find the nearest point with a given structure for every row.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.
    structure : Structure
        What the point may look like.

    Returns
    -------
    array, shape (..., n)
        The projections.
    """
    xp, layout = namespace(x), structure.layout
    point = structure.clipped(x)
    scores = structure.unit_scores(x, point)
    sorted_scores = xp.take(scores, layout.like("order", x), axis=-1) if len(structure.counts) > 1 else scores
    parts = []
    for level, count in enumerate(structure.counts):
        part = sorted_scores[..., int(layout.starts[level]) : int(layout.starts[level + 1])]
        whole = count == part.shape[-1]
        parts.append(part if whole else xp.zeros_like(part) if count == 0 else keep(part, count))
    kept = xp.concat(parts, axis=-1) if len(parts) > 1 else parts[0]
    if len(parts) > 1:
        kept = xp.take(kept, layout.like("places", x), axis=-1)
    if layout.units is not None:
        kept = xp.take(kept, layout.like("units", x), axis=-1)
    return xp.where(kept > 0, point, xp.zeros_like(point))


def advance(x: Array, w: Array, u: Array, before: Array, relaxation: float) -> tuple[Array, Array, Array, Array]:
    """Take a step of the Difference Map at beta = 1.

    Parameters
    ----------
    x : array, shape (batch, n)
        Current points.
    w : array, shape (batch, n)
        The corrections x - P_B(x).
    u : array, shape (batch, n)
        The points P_A(x - 2 w) of A.
    before : array, shape (batch, n)
        Points of A of the previous step.
    relaxation : float
        Factor of the change of x.

    Returns
    -------
    u : array, shape (batch, n)
        The points of A, as given.
    moved : array, shape (batch, n)
        The next points.
    change : array, shape (batch,)
        Norm of the change of x.
    changed : array of bool, shape (batch,)
        Whether the supports of u and ``before`` differ.
    """
    change = relaxation * (u - x + w)
    return u, x + change, norm(change), namespace(x).any((u == 0) != (before == 0), axis=-1)


def kth_largest(values: Array, k: int) -> Array:
    """Find the k-th largest value along the last axis.

    Parameters
    ----------
    values : array, shape (..., n)
        Real numbers.
    k : int
        Rank of the value, from 1 to n.

    Returns
    -------
    array, shape (..., 1)
        The k-th largest values.
    """
    xp = namespace(values)
    n = values.shape[-1]
    if is_numpy(xp):
        return np.partition(values, n - k, axis=-1)[..., n - k : n - k + 1]
    if compat.is_torch_namespace(xp):
        return values.kthvalue(n - k + 1, dim=-1, keepdim=True).values
    return xp.sort(values, axis=-1)[..., n - k : n - k + 1]
