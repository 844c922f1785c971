"""The set A = {X : at most s nonzero columns}, for several measurements with one support."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.array_checks import floating
from ..backend.arrays import Array, namespace
from ..backend.checks import reject, whole_number
from ..kernels.thresholding import Layout, Structure
from ..operators.repeated import joined
from .base import SignalSet
from .sparse import check_size, structure_size


@dataclass(frozen=True)
class JointSparse(SignalSet):
    """The set of signals at several times that have at most ``size`` nonzeros, at the same places at all times.

    The data y have shape (times, m) or (batch, times, m), and x has shape (times, n) or (batch, times, n).

    Parameters
    ----------
    size : int or {'auto'}
        The largest number of nonzeros at a time. ``'auto'`` stands for an unknown number, see
        :func:`sparsect.recover`.
    times : int, optional
        The number of times; by default that of y in :func:`sparsect.recover`, and of x in ``project``.

    Notes
    -----
    The projection keeps the entries j for which ``sum_t |x_tj|^2`` is largest.

    Examples
    --------
    >>> from sparsect import sets
    >>> sets.JointSparse(1).project([[1.0, 2.0, 2.0], [0.0, 2.0, 0.0]])
    array([[0., 2., 0.],
           [0., 2., 0.]])
    """

    size: int | str
    times: int | None = None

    def __post_init__(self) -> None:
        check_size("size", self.size)
        if self.times is not None:
            whole_number("times", self.times, 1)

    def project(self, x: Any) -> Array:
        """Project signals at several times onto the set.

        Parameters
        ----------
        x : array, shape (..., times, n)
            Points to project. If the set was given ``times``, their shape is (..., times n) instead: the entries of all
            times, one time after the other.

        Returns
        -------
        array, of the shape of x
            The nearest points of the set.
        """
        if self.times is not None:
            return super().project(x)
        x = floating("x", x)
        if x.ndim < 2 or 0 in x.shape:
            raise reject("x", f"shape {tuple(x.shape)}", "have shape (..., times, n), unless the set has times")
        parts = dataclasses.replace(self, times=int(x.shape[-2])).project(joined(x))
        return namespace(x).reshape(parts, x.shape)

    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use, for the entries of all times, one time after the other."""
        times = self.times or 1
        if n % times:
            raise reject("x", f"{n} entries", f"have a multiple of {times} entries, the same number for each time")
        each = n // times
        units = None if times == 1 else np.tile(np.arange(each), times)
        return Structure(Layout(n, units), (structure_size(self.size, each),))
