"""Arrays of any library: their namespace, device and dtype, conversions, and selection of rows.

Everything outside ``kernels/`` is written against the array API standard: NumPy, torch and CuPy arrays are processed
on their own device, and results are arrays of the same library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import array_api_compat as compat
import numpy as np
from numpy.typing import NDArray

from .checks import reject


class ArrayObject(Protocol):
    """An array of any library that follows the array API standard: NumPy, torch, CuPy and others.

    Operators return ``Any``, as the functions of a namespace do, because the type of the result depends on the library.
    So do attributes that only some libraries have.

    Attributes
    ----------
    shape : tuple of int
        Length of each axis.
    ndim : int
        Number of axes.
    dtype : dtype
        Data type of the entries, an object of the library.
    device : object
        Device on which the entries are stored, an object of the library.
    T : array
        Transpose of a matrix.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def ndim(self) -> int: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def device(self) -> Any: ...
    @property
    def T(self) -> Any: ...
    def __getattr__(self, name: str) -> Any: ...
    def __array__(self) -> NDArray[Any]: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __getitem__(self, key: Any, /) -> Any: ...
    def __setitem__(self, key: Any, value: Any, /) -> None: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __neg__(self) -> Any: ...
    def __invert__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __add__(self, other: Any, /) -> Any: ...
    def __radd__(self, other: Any, /) -> Any: ...
    def __sub__(self, other: Any, /) -> Any: ...
    def __rsub__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __rmul__(self, other: Any, /) -> Any: ...
    def __truediv__(self, other: Any, /) -> Any: ...
    def __rtruediv__(self, other: Any, /) -> Any: ...
    def __floordiv__(self, other: Any, /) -> Any: ...
    def __mod__(self, other: Any, /) -> Any: ...
    def __pow__(self, other: Any, /) -> Any: ...
    def __matmul__(self, other: Any, /) -> Any: ...
    def __and__(self, other: Any, /) -> Any: ...
    def __or__(self, other: Any, /) -> Any: ...
    def __eq__(self, other: Any, /) -> Any: ...
    def __ne__(self, other: Any, /) -> Any: ...
    def __lt__(self, other: Any, /) -> Any: ...
    def __le__(self, other: Any, /) -> Any: ...
    def __gt__(self, other: Any, /) -> Any: ...
    def __ge__(self, other: Any, /) -> Any: ...


# Includes Any, because the functions of a namespace return Any, which could not be returned as an ArrayObject.
Array = ArrayObject | Any
Namespace = Any
# Arrays of NumPy only.
NumpyArray = NDArray[Any]
FloatArray = NDArray[np.floating[Any]]
IntArray = NDArray[np.integer[Any]]
BoolArray = NDArray[np.bool_]
NUMPY: Namespace = compat.array_namespace(np.empty(0))


def namespace(*arrays: Array) -> Namespace:
    """Determine the array API namespace that all arrays belong to.

    Parameters
    ----------
    *arrays : array
        One or more arrays.

    Returns
    -------
    module
        The namespace.

    Raises
    ------
    InputError
        If the arrays belong to different libraries.
    """
    # NumPy arrays are by far the commonest; looking at other libraries would take longer than small operations.
    if all(type(array) is np.ndarray for array in arrays):
        return NUMPY
    try:
        return compat.array_namespace(*arrays)
    except TypeError:
        kinds = " and ".join(sorted({type(array).__module__.split(".")[0] for array in arrays}))
        raise reject("Phi, y", f"arrays of {kinds}", "be arrays of one library") from None


def is_numpy(xp: Namespace) -> bool:
    """Whether a namespace is NumPy, for which ``kernels/`` has compiled versions.

    Parameters
    ----------
    xp : module
        Array API namespace.

    Returns
    -------
    bool
        True if it is NumPy.
    """
    return compat.is_numpy_namespace(xp)


def is_complex(x: Array) -> bool:
    """Whether an array has a complex dtype.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    bool
        True if it is complex.
    """
    return bool(namespace(x).isdtype(x.dtype, "complex floating"))


def on_host(x: Array) -> bool:
    """Whether an array is in main memory, where reading its entries requires no transfer.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    bool
        True unless it is on a GPU.
    """
    return not (compat.is_cupy_array(x) or (compat.is_torch_array(x) and x.device.type != "cpu"))


def real_dtype(x: Array) -> Any:
    """Determine the real dtype with the precision of ``x``.

    Parameters
    ----------
    x : array, shape (..., n)
        Real or complex array.

    Returns
    -------
    dtype
        The real dtype.
    """
    return namespace(x).real(x[..., :0]).dtype if is_complex(x) else x.dtype


def epsilon(x: Array) -> float:
    """Determine the machine epsilon of the dtype of ``x``.

    Parameters
    ----------
    x : array
        Real or complex array.

    Returns
    -------
    float
        The machine epsilon.
    """
    return float(namespace(x).finfo(x.dtype).eps)


def is_single(x: Array) -> bool:
    """Whether an array is float32 or complex64.

    Parameters
    ----------
    x : array
        Real or complex array.

    Returns
    -------
    bool
        True if it is in single precision.
    """
    return epsilon(x) > 1e-10


def to_numpy(x: Array) -> NumpyArray:
    """Copy an array to main memory as a NumPy array.

    Parameters
    ----------
    x : array
        Array of any library.

    Returns
    -------
    numpy.ndarray
        The same numbers; not copied if they are in main memory already.
    """
    if type(x) is np.ndarray:
        return x
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x.cpu() if compat.is_torch_array(x) else x)


def from_numpy(array: NumpyArray, like: Array) -> Array:
    """Convert a NumPy array to the library and device of another array.

    Parameters
    ----------
    array : numpy.ndarray
        The array to convert.
    like : array
        Array whose library and device are used.

    Returns
    -------
    array
        The converted array, with its dtype unchanged.
    """
    if type(like) is np.ndarray:
        return array
    xp = namespace(like)
    return xp.asarray(array if is_numpy(xp) else writable(array), device=compat.device(like))


def placed(x: Array, like: Array) -> Array:
    """Convert an array of NumPy, or one that is there already, to the library and device of another array.

    Parameters
    ----------
    x : array
        An array of NumPy, or of the library and on the device of ``like``.
    like : array
        Array whose library and device are used.

    Returns
    -------
    array
        The converted array, with its dtype unchanged.
    """
    return from_numpy(to_numpy(x), like) if is_numpy(namespace(x)) else x


def writable(array: NumpyArray) -> NumpyArray:
    """Copy an array if it is read-only or not C-contiguous, which other libraries do not accept.

    Parameters
    ----------
    array : numpy.ndarray
        Any array.

    Returns
    -------
    numpy.ndarray
        The array or a copy.
    """
    return np.require(array, requirements=["C", "W"])


def can_change(x: Array) -> bool:
    """Whether entries of an array can be assigned, which not all libraries that follow the standard allow.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    bool
        True for NumPy, torch and CuPy.
    """
    return is_numpy(namespace(x)) or compat.is_torch_array(x) or compat.is_cupy_array(x)


def contiguous(x: Array) -> Array:
    """Store an array in row-major order, if its library lets the caller choose the layout; this makes products faster.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    array
        The array or a contiguous copy.
    """
    if is_numpy(namespace(x)):
        return np.ascontiguousarray(x)
    return x.contiguous() if compat.is_torch_array(x) else x


def take_rows(x: Array, rows: IntArray) -> Array:
    """Select rows of an array.

    Parameters
    ----------
    x : array, shape (batch, ...)
        Array of any library.
    rows : numpy.ndarray of int
        Indices along the first axis.

    Returns
    -------
    array
        The selected rows.
    """
    return x[rows] if type(x) is np.ndarray else namespace(x).take(x, from_numpy(rows, x), axis=0)


def at_columns(values: Array, columns: IntArray, n: int) -> Array:
    """Put values at some columns, and zeros at the others.

    Parameters
    ----------
    values : array, shape (batch, number of columns)
        Array of any library, with at least one column.
    columns : numpy.ndarray of int
        Where its columns are put.
    n : int
        The number of all columns.

    Returns
    -------
    array, shape (batch, n)
        The wider array.
    """
    # The other columns are taken from a zero at the end.
    xp, places = namespace(values), np.full(n, columns.size)
    places[columns] = np.arange(columns.size)
    padded = xp.concat([values, xp.zeros_like(values[..., :1])], axis=-1)
    return xp.take(padded, from_numpy(places, values), axis=-1)
