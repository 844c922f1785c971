"""The set A = {x : at most s_l nonzeros in level l}; its projection keeps the largest magnitudes of each level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.checks import reject, shown, whole_number
from ..kernels.thresholding import Layout, Structure
from .base import SignalSet
from .groups import check_labels, check_length


@dataclass(frozen=True, eq=False)
class LevelSparse(SignalSet):
    """The set of vectors with a limited number of nonzeros in each level, for example in each scale of wavelets.

    Parameters
    ----------
    sizes : sequence of int
        The largest number of nonzeros in each level.
    levels : array of int, shape (n,)
        The level of each entry, numbered from 0 without gaps.

    Notes
    -----
    The projection keeps the sizes[l] largest magnitudes among the entries of level l.

    Examples
    --------
    >>> from sparsect import sets
    >>> sets.LevelSparse([1, 1], levels=[0, 0, 1, 1]).project([1.0, 3.0, 5.0, 7.0])
    array([0., 3., 0., 7.])
    """

    sizes: Sequence[int]
    levels: Any

    def __post_init__(self) -> None:
        levels = check_labels("levels", self.levels)
        counts = np.bincount(levels)
        if isinstance(self.sizes, dict) or not hasattr(self.sizes, "__len__") or len(self.sizes) != counts.size:
            raise reject("sizes", shown(self.sizes), f"{counts.size} numbers, one for each level")
        sizes = tuple(
            whole_number(f"sizes[{level}]", size, 0, int(most))
            for level, (size, most) in enumerate(zip(self.sizes, counts, strict=True))
        )
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "sizes", sizes)

    @cached_property
    def _layout(self) -> Layout:
        return Layout(self.levels.size, levels=self.levels)

    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use."""
        check_length("levels", self.levels, n)
        return Structure(self._layout, tuple(self.sizes))
