"""Checks of arrays that a user passes: dtype, dimensions, finite entries of a usable magnitude, valid indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import array_api_compat as compat
import numpy as np

from .arrays import Array, is_numpy, namespace
from .checks import reject
from .norms import largest

ACCEPTED_DTYPES = "an array of integers, float32, float64, complex64 or complex128"


def refuse_masked(name: str, value: Any) -> None:
    """Reject NumPy's masked arrays, whose masked entries would otherwise be used as data.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : object
        The value to check.

    Raises
    ------
    InputError
        If it is a masked array.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise reject(name, "a masked array", "an array without masked entries")


def floating(name: str, value: Any, dimensions: tuple[int, ...] | None = None, finite: bool = True) -> Array:
    """Convert a value to a float or complex array.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    value : array_like
        Array of any library, or anything that NumPy converts to a numeric array. Integers become float64.
    dimensions : tuple of int, optional
        Accepted numbers of dimensions.
    finite : bool, optional
        Whether NaN and infinite entries are rejected.

    Returns
    -------
    array
        A float32, float64, complex64 or complex128 array of the same library.

    Raises
    ------
    InputError
        If the value cannot be converted.
    """
    array: Array
    refuse_masked(name, value)
    if compat.is_torch_array(value):
        if "strided" not in str(value.layout) or value.is_meta:
            raise reject(name, f"a torch tensor of layout {value.layout} on {value.device}", "a dense tensor with data")
        array = value.detach().resolve_conj().resolve_neg()
    elif compat.is_array_api_obj(value):
        array = value
    elif hasattr(value, "tocsr") or not (
        isinstance(value, Sequence) or hasattr(value, "__array__") or np.isscalar(value)
    ):
        raise reject(name, f"an object of type {type(value).__name__}", ACCEPTED_DTYPES)
    else:
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            raise reject(name, f"an object of type {type(value).__name__}", ACCEPTED_DTYPES) from None
    xp = namespace(array)
    if is_numpy(xp):
        if array.dtype.kind not in "biufc":
            raise reject(name, f"an array of dtype {array.dtype}", ACCEPTED_DTYPES)
        array = array.astype(array.dtype.newbyteorder("="), copy=False)
    if xp.isdtype(array.dtype, ("bool", "integral")):
        array = xp.astype(array, xp.float64)
    if array.dtype not in (xp.float32, xp.float64, xp.complex64, xp.complex128):
        raise reject(name, f"an array of dtype {array.dtype}", ACCEPTED_DTYPES)
    if dimensions is not None and array.ndim not in dimensions:
        wanted = " or ".join(str(count) for count in dimensions)
        raise reject(
            name, f"an array with {array.ndim} dimensions, shape {tuple(array.shape)}", f"have {wanted} dimensions"
        )
    if finite and not bool(xp.all(xp.isfinite(array))):
        bad = int(xp.sum(xp.astype(~xp.isfinite(array), xp.int64)))
        raise reject(name, f"{bad} entries that are NaN or infinite", "have finite entries only")
    return array


def check_magnitude(name: str, array: Array) -> None:
    """Check that sums of squares of the entries stay within the range of the dtype.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    array : array
        The array to check.

    Raises
    ------
    InputError
        If they do not; results computed from such an array would be meaningless.
    """
    size, limits = largest(array), namespace(array).finfo(array.dtype)
    count = math.prod(array.shape)
    if size and not 1e4 * float(limits.smallest_normal) ** 0.5 < size < 0.1 * (float(limits.max) / count) ** 0.5:
        received = f"entries whose squares leave the range of {array.dtype}"
        raise reject(name, received, "have entries nearer to 1, or a wider dtype")


def check_indices(array: Any) -> None:
    """Check that the indices of a SciPy sparse matrix are within its shape.

    Compiled code would follow them without a check. Other arrays need no such check.

    Parameters
    ----------
    array : array or SciPy sparse matrix
        The array to check.

    Raises
    ------
    ValueError
        If an index is out of bounds.
    """
    if hasattr(array, "check_format"):
        array.check_format(full_check=True)
        # SciPy skips this check if the last entry is zero.
        if (np.diff(array.indptr) < 0).any():
            raise ValueError("indptr must be a non-decreasing sequence")
