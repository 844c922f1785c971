"""The set A = {x : nonzeros in at most s groups}; its projection keeps the groups of largest norm."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.array_checks import refuse_masked
from ..backend.arrays import IntArray, to_numpy
from ..backend.checks import reject
from ..kernels.thresholding import Layout, Structure
from .base import SignalSet
from .sparse import check_size, structure_size


@dataclass(frozen=True, eq=False)
class GroupSparse(SignalSet):
    """The set of vectors whose nonzeros are in at most ``size`` groups.

    Parameters
    ----------
    size : int or {'auto'}
        The largest number of groups. ``'auto'`` stands for an unknown number, see :func:`sparsect.recover`.
    groups : array of int, shape (n,)
        The group of each entry. Groups are numbered from 0 without gaps, and may have any sizes.

    Notes
    -----
    The projection keeps the groups g for which ``sum_{j in g} |x_j|^2`` is largest.

    Examples
    --------
    >>> from sparsect import sets
    >>> sets.GroupSparse(1, groups=[0, 0, 1, 1]).project([1.0, 1.0, 0.0, -2.0])
    array([ 0.,  0.,  0., -2.])
    """

    size: int | str
    groups: Any

    def __post_init__(self) -> None:
        check_size("size", self.size)
        object.__setattr__(self, "groups", check_labels("groups", self.groups))

    @cached_property
    def _layout(self) -> Layout:
        # Groups of one entry each are entries.
        alone = self.groups.max() + 1 == self.groups.size
        return Layout(self.groups.size, None if alone else self.groups)

    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use."""
        check_length("groups", self.groups, n)
        return Structure(self._layout, (structure_size(self.size, self._layout.count),))


def check_labels(name: str, labels: Any) -> IntArray:
    """Check labels of entries: whole numbers from 0 without gaps.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    labels : array_like
        The labels.

    Returns
    -------
    array of int, shape (n,)
        The labels.

    Raises
    ------
    InputError
        If the labels are of another kind.
    """
    rule = "a vector of whole numbers from 0 on, one for each entry of x"
    hint = "np.unique(labels, return_inverse=True)[1] numbers labels of any kind."
    refuse_masked(name, labels)
    try:
        found = to_numpy(labels) if hasattr(labels, "shape") else np.asarray(labels)
    except (TypeError, ValueError):
        raise reject(name, f"an object of type {type(labels).__name__}", rule) from None
    if found.ndim != 1 or found.size == 0 or found.dtype.kind not in "iu":
        got = f"an array of shape {found.shape} and dtype {found.dtype}"
        raise reject(name, got, rule, hint if found.ndim == 1 else "")
    if found.min() < 0:
        raise reject(name, f"{found.min()}", rule)
    # A label of at least the number of entries leaves out a smaller one.
    missing = np.setdiff1d(np.arange(min(int(found.max()) + 1, found.size)), found)
    if missing.size:
        rule = "have all numbers from 0 on, so that none is empty"
        raise reject(name, f"no entry with the number {missing[0]}", rule, hint)
    copied: IntArray = np.array(found, dtype=np.int64)
    copied.flags.writeable = False
    return copied


def check_length(name: str, labels: IntArray, n: int) -> None:
    """Check that there is a label for each entry.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    labels : array of int
        The labels.
    n : int
        The number of entries.

    Raises
    ------
    InputError
        If there are more or fewer.
    """
    if labels.size != n:
        raise reject(name, f"{labels.size} labels", f"have one label for each of the {n} entries of x")
