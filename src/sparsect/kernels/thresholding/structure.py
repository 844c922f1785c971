"""What a point of A may look like, in the form in which the kernels use it: bounds of entries, units and levels.

Entries belong to units, which are kept or set to zero as a whole: single entries, or the groups of a partition. Units
belong to levels, and in each level a certain number of units is kept.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from ...backend.arrays import Array, FloatArray, IntArray, NumpyArray, from_numpy, namespace, real_dtype


class Kind(Enum):
    """Kinds of structure; the values are the words used in error messages.

    Attributes
    ----------
    BOUNDS
        Entries have bounds.
    GROUPS
        Entries are zero or nonzero in groups, or at all times.
    LEVELS
        The number of nonzeros of each level is limited.
    OWN
        The user's own projection.
    """

    BOUNDS = "bounds on x"
    GROUPS = "groups or joint supports"
    LEVELS = "levels"
    OWN = "sets of your own"


class Layout:
    """How entries form units, and units form levels.

    Parameters
    ----------
    n : int
        Number of entries.
    units : array of int, shape (n,), optional
        The unit of each entry, numbered from 0. By default each entry is a unit.
    levels : array of int, shape (number of units,), optional
        The level of each unit, numbered from 0. By default there is one level.
    """

    def __init__(self, n: int, units: IntArray | None = None, levels: IntArray | None = None) -> None:
        # Copies, which the compiled kernels may use whether or not the originals can be written.
        self.n, (self.units, self.levels) = n, (None if each is None else np.array(each) for each in (units, levels))
        self._placed: dict[str, Array] = {}

    @property
    def count(self) -> int:
        """Number of units."""
        return self.n if self.units is None else int(self.units.max()) + 1

    @cached_property
    def sizes(self) -> IntArray:
        """Number of entries of each unit."""
        return np.ones(self.n, dtype=np.int64) if self.units is None else np.bincount(self.units)

    @cached_property
    def members(self) -> IntArray:
        """The entries of each unit, shape (number of units, size of the largest), filled up with n."""
        if self.units is None:
            return np.arange(self.n)[:, None]
        order = np.argsort(self.units, kind="stable")
        starts = np.cumsum(self.sizes) - self.sizes
        members = np.full((self.count, int(self.sizes.max())), self.n)
        members[self.units[order], np.arange(self.n) - starts[self.units[order]]] = order
        return members

    @cached_property
    def first(self) -> IntArray:
        """The first entry of each unit."""
        return self.members[:, 0]

    @cached_property
    def order(self) -> IntArray:
        """The units, sorted by level."""
        return np.arange(self.count) if self.levels is None else np.argsort(self.levels, kind="stable")

    @cached_property
    def places(self) -> IntArray:
        """The place of each unit in ``order``."""
        return np.argsort(self.order)

    @cached_property
    def starts(self) -> IntArray:
        """Where each level begins in ``order``, and its length at the end."""
        each = np.array([self.count]) if self.levels is None else np.bincount(self.levels)
        return np.concatenate([[0], np.cumsum(each)])

    def like(self, name: str, x: Array) -> Array:
        """Return an array of indices in the library and on the device of ``x``.

        Parameters
        ----------
        name : str
            The name of the attribute.
        x : array
            An array.

        Returns
        -------
        array of int
            The indices, copied to the device once.
        """
        key = f"{name} {type(x).__module__} {x.device}"
        if key not in self._placed:
            self._placed[key] = from_numpy(np.ravel(getattr(self, name)), x)
        return self._placed[key]


@dataclass(frozen=True, eq=False)
class Structure:
    """What a point of A may look like.

    Attributes
    ----------
    layout : Layout
        The units and levels.
    counts : tuple of int
        The number of units that may be nonzero in each level.
    low, high : array, shape (n,), or None
        Bounds of the entries, with low <= 0 <= high; None for none.
    nearest : callable or None
        A projection of the user's own, which is used instead of all the rest.
    """

    layout: Layout
    counts: tuple[int, ...]
    low: FloatArray | None = None
    high: FloatArray | None = None
    nearest: Callable[[Array], Array] | None = None

    @property
    def plain(self) -> bool:
        """Whether only the number of nonzeros is limited."""
        return not self.kinds

    @property
    def kinds(self) -> frozenset[Kind]:
        """What else than the number of nonzeros is limited."""
        found = {
            Kind.BOUNDS: self.bounded,
            Kind.GROUPS: self.grouped,
            Kind.LEVELS: self.layout.levels is not None,
            Kind.OWN: self.nearest is not None,
        }
        return frozenset(kind for kind, there in found.items() if there)

    @property
    def bounded(self) -> bool:
        """Whether entries have bounds."""
        return self.low is not None

    @property
    def grouped(self) -> bool:
        """Whether units have more than one entry."""
        return self.layout.units is not None

    @property
    def leveled(self) -> bool:
        """Whether single entries belong to several levels."""
        return len(self.counts) > 1 and not self.grouped

    @property
    def on_gpu(self) -> bool:
        """Whether the GPU kernels can find points of A: some units are kept, but not all, and groups have no levels."""
        nested = self.grouped and len(self.counts) > 1
        return self.nearest is None and not nested and 0 < sum(self.counts) < self.layout.count

    @property
    def nonnegative(self) -> bool:
        """Whether entries are bounded by zero from below."""
        return self.low is not None and not self.low.any()

    @property
    def nonpositive(self) -> bool:
        """Whether all upper bounds are zero, and some lower bounds are negative."""
        return self.high is not None and not self.high.any() and not self.nonnegative

    @property
    def clips(self) -> bool:
        """Whether entries have bounds other than zero."""
        return self.bounded and not self.scalable

    @property
    def scalable(self) -> bool:
        """Whether positive multiples of points of A are in A."""
        if self.nearest is not None:
            return False
        return all(bound is None or bool((np.isinf(bound) | (bound == 0)).all()) for bound in (self.low, self.high))

    @cached_property
    def size(self) -> int:
        """The largest number of nonzeros of a point."""
        total, layout = 0, self.layout
        for level, count in enumerate(self.counts):
            sizes = layout.sizes[layout.order[layout.starts[level] : layout.starts[level + 1]]]
            total += int(np.sort(sizes)[::-1][:count].sum())
        return total

    def describe(self) -> str:
        """Return a text that is the same for the same structure.

        Returns
        -------
        str
            The number of nonzeros, and a digest of the rest if there is more.
        """
        if self.plain:
            return str(self.size)
        arrays = (self.low, self.high, self.layout.units, self.layout.levels)
        digest = hashlib.sha256(repr(self.counts).encode())
        for array in arrays:
            digest.update(b"none" if array is None else array.tobytes())
        words = ", ".join(sorted(kind.value for kind in self.kinds))
        return f"{self.size} ({words}, {digest.hexdigest()[:16]})"

    def part(self, share: float) -> Structure:
        """Return the structure with fewer units.

        Parameters
        ----------
        share : float
            The share of the units that is kept in each level, from 0 to 1; numbers are rounded up.

        Returns
        -------
        Structure
            The structure.
        """
        if self.nearest is not None:
            return self
        return self.resized(*(math.ceil(share * count) for count in self.counts))

    def resized(self, *counts: int) -> Structure:
        """Return the structure with another number of units.

        Parameters
        ----------
        *counts : int
            The number of units that may be nonzero in each level.

        Returns
        -------
        Structure
            The structure.
        """
        return self if counts == self.counts else dataclasses.replace(self, counts=counts)

    @property
    def mirrored(self) -> Structure:
        """The structure of points multiplied by -1."""
        if self.low is None or self.high is None:
            return self
        return dataclasses.replace(self, low=0 - self.high, high=0 - self.low)

    def scaled(self, factors: FloatArray) -> Structure:
        """Return the structure of points whose entries are multiplied by positive numbers.

        Parameters
        ----------
        factors : array, shape (n,)
            The numbers.

        Returns
        -------
        Structure
            The structure, with other bounds.
        """
        if self.low is None or self.high is None:
            return self
        return dataclasses.replace(self, low=self.low * factors, high=self.high * factors)

    def arguments(self, dtype: Any) -> tuple[NumpyArray, ...]:
        """Return the arrays by which the compiled kernels know the structure; those that have no meaning are empty.

        Parameters
        ----------
        dtype : dtype
            The dtype of the bounds.

        Returns
        -------
        tuple of array
            The counts, the lower and upper bounds, the units, their order by level, and where levels begin.
        """
        layout, empty = self.layout, np.empty(0)
        low, high = (empty if bound is None else bound for bound in (self.low, self.high))
        units = empty if layout.units is None else layout.units
        order = empty if layout.levels is None else layout.order
        places = (values.astype(np.int64) for values in (units, order, layout.starts))
        return np.array(self.counts, dtype=np.int64), low.astype(dtype), high.astype(dtype), *places

    def clipped(self, x: Array) -> Array:
        """Move the entries of every row into their bounds.

        Parameters
        ----------
        x : array, shape (..., n)
            Vectors, one per row.

        Returns
        -------
        array, shape (..., n)
            The clipped rows.
        """
        if self.low is None or self.high is None:
            return x
        xp = namespace(x)
        low, high = (xp.astype(from_numpy(bound, x), real_dtype(x)) for bound in (self.low, self.high))
        return xp.minimum(xp.maximum(x, low), high)

    def inside(self, support: Array) -> Array:
        """Return a point within the bounds that is nonzero on a support, as far as the bounds admit it.

        Parameters
        ----------
        support : array, shape (..., n)
            Nonzero where the point is to be.

        Returns
        -------
        array, shape (..., n)
            Numbers from -1 to 1.
        """
        xp = namespace(support)
        ones = xp.astype(support != 0, support.dtype)
        above = self.clipped(ones)
        return above if self.low is None else xp.where(above != 0, above, self.clipped(-ones))

    def unit_scores(self, x: Array, point: Array) -> Array:
        """Return by how much each unit reduces the distance to x if it is kept, as a norm.

        Parameters
        ----------
        x : array, shape (..., n)
            Vectors, one per row.
        point : array, shape (..., n)
            The same vectors with their entries in their bounds.

        Returns
        -------
        array, shape (..., number of units)
            The scores.
        """
        xp, layout = namespace(x), self.layout
        if layout.units is None:
            if self.low is None:
                return xp.abs(x)
            # Both factors have the same sign. Their product may leave the range of the dtype.
            return xp.where(point == x, xp.abs(x), xp.sqrt(xp.abs(point)) * xp.sqrt(xp.abs(2 * x - point)))
        return xp.sqrt(xp.clip(self._sums(xp.abs(x) ** 2 - xp.abs(x - point) ** 2), 0.0, None))

    def unit_sums(self, values: Array) -> Array:
        """Replace every entry by the sum over its unit.

        Parameters
        ----------
        values : array, shape (..., n)
            Real numbers, one for each entry.

        Returns
        -------
        array, shape (..., n)
            The sums, at each entry of the unit.
        """
        return values if self.layout.units is None else self.of_entries(self._sums(values))

    def of_entries(self, values: Array) -> Array:
        """Give every entry the value of its unit.

        Parameters
        ----------
        values : array, shape (..., number of units)
            One value for each unit.

        Returns
        -------
        array, shape (..., n)
            One value for each entry.
        """
        if self.layout.units is None:
            return values
        return namespace(values).take(values, self.layout.like("units", values), axis=-1)

    def level_sums(self, values: Array) -> Array:
        """Return the sum over each level, or over all units if there is one level.

        Parameters
        ----------
        values : array, shape (batch, number of units)
            One value for each unit.

        Returns
        -------
        array, shape (batch, number of levels) or (batch,)
            The sums.
        """
        xp, layout = namespace(values), self.layout
        if not self.leveled:
            return xp.sum(values, axis=-1)
        values = xp.take(values, layout.like("order", values), axis=-1)
        bounds = itertools.pairwise(layout.starts.tolist())
        return xp.stack([xp.sum(values[:, start:end], axis=-1) for start, end in bounds], axis=-1)

    def of_units(self, values: Array) -> Array:
        """Give every unit the value of its level.

        Parameters
        ----------
        values : array, shape (batch, number of levels) or (batch,)
            One value for each level.

        Returns
        -------
        array, shape (batch, number of units) or (batch, 1)
            One value for each unit.
        """
        if not self.leveled:
            return values[:, None]
        return namespace(values).take(values, self.layout.like("levels", values), axis=-1)

    def _sums(self, values: Array) -> Array:
        """Return the sum over each unit, shape (..., number of units)."""
        xp, layout = namespace(values), self.layout
        padded = xp.concat([values, xp.zeros_like(values[..., :1])], axis=-1)
        parts = xp.take(padded, layout.like("members", values), axis=-1)
        return xp.sum(xp.reshape(parts, (*values.shape[:-1], *layout.members.shape)), axis=-1)
