"""The set A = {x : at most s nonzeros, each within bounds}; its projection keeps the s entries that gain most."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.checks import real_number, reject, truth_value, whole_number
from ..kernels.thresholding import Layout, Structure
from .base import SignalSet


@dataclass(frozen=True)
class Sparse(SignalSet):
    """The set of vectors with at most ``size`` nonzeros, which may have bounds.

    Parameters
    ----------
    size : int or {'auto'}
        The largest number of nonzeros. ``'auto'`` stands for an unknown number, see :func:`sparsect.recover`.
    nonnegative : bool, optional
        Whether nonzeros are positive: the same as ``low=0``.
    low, high : float, optional
        Bounds of the entries. They must not exclude zero. By default there are none.

    Notes
    -----
    With c = min(max(x, low), high), keeping entry j reduces the squared distance to x by c_j (2 x_j - c_j). The
    projection keeps the entries of c for which this is largest. Without bounds, these are the largest magnitudes, as in
    the paper; if x is nonnegative, the largest entries.

    Examples
    --------
    >>> from sparsect import sets
    >>> sets.Sparse(2, nonnegative=True).project([3.0, -1.0, 2.0, -5.0])
    array([3., 0., 2., 0.])
    >>> sets.Sparse(2, low=-1.0, high=2.5).project([3.0, -1.0, 2.0, -5.0])
    array([ 2.5,  0. ,  0. , -1. ])
    """

    size: int | str
    nonnegative: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_size("size", self.size)
        truth_value("nonnegative", self.nonnegative)
        if self.low is not None and not _is(self.low, -np.inf):
            real_number("low", self.low, "a number of at most 0, because x may be zero", high=0.0)
        if self.high is not None and not _is(self.high, np.inf):
            real_number("high", self.high, "a number of at least 0, because x may be zero", low=0.0)
        if self.nonnegative and self.low is not None and self.low != 0:
            raise reject("low", f"{self.low} with nonnegative=True", "None or 0")

    def structure(self, n: int) -> Structure:
        """Return the form of the set that the kernels use."""
        size = structure_size(self.size, n)
        low = 0.0 if self.nonnegative else self.low
        below, above = -np.inf if low is None else float(low), np.inf if self.high is None else float(self.high)
        if below == -np.inf and above == np.inf:
            return Structure(Layout(n), (size,))
        return Structure(Layout(n), (size,), np.full(n, below), np.full(n, above))


def _is(bound: Any, infinity: float) -> bool:
    """Whether a bound is this infinite number."""
    return isinstance(bound, float | np.floating) and bound == infinity


def check_size(name: str, size: Any) -> None:
    """Check the size of a set.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    size : int or str
        The number, or 'auto'.

    Raises
    ------
    InputError
        If it is neither of these.
    """
    if isinstance(size, str) and size != "auto":
        raise reject(name, f"{size!r}", "a whole number or 'auto'")
    if not isinstance(size, str):
        whole_number(name, size, 0)


def structure_size(size: int | str, most: int) -> int:
    """Return the number of units of a set, and check it.

    Parameters
    ----------
    size : int or str
        The number.
    most : int
        The number of existing units.

    Returns
    -------
    int
        The number.

    Raises
    ------
    InputError
        If there are fewer units, or if the number is not known.
    """
    if isinstance(size, str):
        raise reject("size", "'auto'", "a number, except in recover")
    return whole_number("size", size, 0, most)
