"""The set A = {X : at most s nonzero columns}, for several measurements with one support."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..backend.checks import reject
from ..kernels.thresholding import Layout, Structure
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
        The number of times. In :func:`sparsect.recover` it is that of y.

    Notes
    -----
    The projection keeps the entries j for which sum_t |x_tj|^2 is largest.

    Examples
    --------
    >>> from sparsect import sets
    >>> sets.JointSparse(1, times=2).project([1.0, 2.0, 2.0, 0.0, 2.0, 0.0]).reshape(2, 3)
    array([[0., 2., 0.],
           [0., 2., 0.]])
    """

    size: int | str
    times: int = 1

    def __post_init__(self) -> None:
        check_size("size", self.size)

    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use, for the entries of all times, one time after the other."""
        if n % self.times:
            raise reject("x", f"{n} entries", f"have a multiple of {self.times} entries, the same number for each time")
        each = n // self.times
        units = None if self.times == 1 else np.tile(np.arange(each), self.times)
        return Structure(Layout(n, units), (structure_size(self.size, each),))
