"""Sets of the user's own: anything that has a projection and a size."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from array_api_compat import is_array_api_obj

from ..backend.arrays import Array, is_complex, namespace
from ..backend.checks import reject, shown, whole_number
from ..backend.norms import norm
from ..kernels.thresholding import Layout, Structure
from .base import DataSet, SignalSet

# A projection may move a point of its own set by this fraction of its norm.
MOVED = 1e-3


def as_structure(sparsity: Any, n: int) -> Structure:
    """Return the structure of the set that contains x.

    Parameters
    ----------
    sparsity : int, SignalSet or object
        The number of nonzeros, a set, or a set of the user's own: an object with ``project`` and ``size``.
    n : int
        The number of entries of x.

    Returns
    -------
    Structure
        The form in which the kernels use it.

    Raises
    ------
    InputError
        If ``sparsity`` is anything else, or does not fit vectors of this length.
    """
    if isinstance(sparsity, SignalSet):
        return sparsity.structure(n)
    if not callable(getattr(sparsity, "project", None)):
        return Structure(Layout(n), (whole_number("sparsity", sparsity, 0, n),))
    if isinstance(sparsity, type):
        raise reject("sparsity", f"the class {sparsity.__name__}", "an object of this class")
    if not hasattr(sparsity, "size"):
        raise reject("sparsity", f"{shown(sparsity)} without `size`", "have `size`, the largest number of nonzeros")
    size = whole_number("sparsity.size", sparsity.size, 0, n)
    _check_arguments("sparsity", sparsity.project, "x")
    return Structure(Layout(n), (size,), nearest=checked_projection("sparsity", sparsity.project, size))


@dataclass(frozen=True, eq=False)
class OwnData(DataSet):
    """A data set of the user's own.

    Parameters
    ----------
    data : object
        An object with a method ``project(x, y)``, which returns the nearest point that agrees with y for every row.
    """

    data: Any

    @cached_property
    def project(self) -> Any:
        """The projection, which is checked whenever it is used."""
        return checked_projection("data", self.data.project)

    def nearest(self, x: Array, y: Array, times: int | None) -> Array:
        """Return P_B(x).

        Parameters
        ----------
        x : array, shape (batch, n), or (batch, times n) for joint supports
            The points.
        y : array, shape (batch, m) or (batch, times m)
            The data.
        times : int or None
            The number of measurements with the same support. The user's set sees arrays of shape (batch, times, n) and
            (batch, times, m).

        Returns
        -------
        array, of the shape of x
            The nearest points that agree with the data.
        """
        if times is None:
            return self.project(x, y)
        xp = namespace(x)
        x_times, y_times = (xp.reshape(each, (each.shape[0], times, -1)) for each in (x, y))
        return xp.reshape(self.project(x_times, y_times), x.shape)

    def __repr__(self) -> str:
        return f"{type(self.data).__name__}()"


def as_data_set(name: str, data: Any) -> DataSet | None:
    """Return a data set.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    data : DataSet, object with ``project(x, y)``, or None
        The data set, or one of the user's own.

    Returns
    -------
    DataSet or None
        The data set.

    Raises
    ------
    InputError
        If ``data`` is anything else.
    """
    if data is None or isinstance(data, OwnData):
        return data
    own = callable(getattr(data, "project", None)) and not isinstance(data, type | SignalSet)
    if isinstance(data, DataSet) and not own:
        return data
    if not own:
        raise reject(
            name, shown(data), "Affine(), Relaxed(alpha), Ball(), None, or an object with a method project(x, y)"
        )
    _check_arguments(name, data.project, "x", "y")
    return OwnData(data)


def _check_arguments(name: str, project: Any, *arguments: str) -> None:
    """Check that a projection can be called with this number of arguments."""
    try:
        called = inspect.signature(project)
    except ValueError:
        # Functions that are not written in Python may have no signature.
        return
    try:
        called.bind(*arguments)
    except TypeError:
        wanted = ", ".join(arguments)
        raise reject(f"{name}.project", f"project{called}", f"a function project({wanted})") from None


def checked_projection(name: str, project: Any, size: int | None = None) -> Any:
    """Return a projection of the user's own that is checked whenever it is used.

    Parameters
    ----------
    name : str
        The argument, for errors.
    project : callable
        The projection.
    size : int, optional
        The largest number of nonzeros of a point.

    Returns
    -------
    callable
        The same projection, which raises an error if its result does not consist of real or complex points of the shape
        of x, if a point has too many nonzeros, or if projecting the points again moves them. The last check is made at
        the first, second, fourth, eighth, ... use.
    """
    uses = 0

    def of_copies(*arguments: Array) -> Any:
        # A projection may change its arguments.
        return project(*(namespace(each).asarray(each, copy=True) for each in arguments))

    def nearest(x: Array, *data: Array) -> Array:
        nonlocal uses
        xp, found = namespace(x), of_copies(x, *data)
        shape = getattr(found, "shape", None)
        if shape != x.shape or not is_array_api_obj(found):
            kind = f"shape {tuple(found.shape)}" if is_array_api_obj(found) else f"type {type(found).__name__}"
            got = f"a result of {kind} for x of shape {tuple(x.shape)}"
            raise reject(f"{name}.project", got, "yield points of the shape of x")
        if not namespace(found).isdtype(found.dtype, ("bool", "numeric")) or (is_complex(found) and not is_complex(x)):
            raise reject(f"{name}.project", f"a result of dtype {found.dtype}", f"yield points of dtype {x.dtype}")
        found = xp.astype(xp.asarray(found), x.dtype)
        if not bool(xp.all(xp.isfinite(found))):
            raise reject(f"{name}.project", "a result that is NaN or infinite", "yield finite points")
        if size is not None and bool(xp.any(xp.count_nonzero(found, axis=-1) > size)):
            raise reject(f"{name}.project", "a point with more nonzeros", f"yield at most {size} nonzeros, its size")
        uses += 1
        if uses & (uses - 1) == 0:
            again = xp.asarray(of_copies(found, *data))
            if bool(xp.any(norm(again - found) > MOVED * norm(found))):
                got = "a result that another projection moves"
                raise reject(f"{name}.project", got, "leave points of its set where they are")
        return found

    return nearest
