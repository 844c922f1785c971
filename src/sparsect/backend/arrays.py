"""Array libraries, devices, dtypes and random generators. Nothing here depends on any mathematics.

Everything outside ``kernels/`` is written against the array API standard: NumPy, torch and CuPy arrays are processed
on their own device, and results are arrays of the same library.
"""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat
import numpy as np

from .checks import reject, shown

Array = Any
Namespace = Any

# Number of entries from which the compiled kernels are used.
LARGE = 2**15
# Longest rows that the GPU kernels accept.
LONGEST_ROW = 2**14
# Numbers from 2^-NEAR_ONE to 2^NEAR_ONE, their products and the squares of these products are in the range of every
# dtype.
NEAR_ONE = 10
ACCEPTED_DTYPES = "an array of integers, float32, float64, complex64 or complex128"


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


def worth_compiling(x: Array, like: Array | None = None) -> bool:
    """Whether an array is real, in main memory and large enough to justify loading the compiled kernels.

    Parameters
    ----------
    x : array
        Array that the kernel would process.
    like : array, optional
        Array whose size is considered instead of that of ``x``.

    Returns
    -------
    bool
        True if the compiled kernels should be used.
    """
    return is_numpy(namespace(x)) and (x if like is None else like).size >= LARGE and not is_complex(x)


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


def has_kernels(x: Array) -> bool:
    """Whether the Triton kernels accept an array: real torch tensors on a recent NVIDIA GPU.

    Parameters
    ----------
    x : array, shape (..., n)
        Any array.

    Returns
    -------
    bool
        True if the kernels can be used.
    """
    if not compat.is_torch_array(x) or x.device.type != "cuda" or x.shape[-1] > LONGEST_ROW:
        return False
    return _triton_is_there() and _is_recent(x.device) and not is_complex(x)


def has_fused_steps(x: Array) -> bool:
    """Whether whole steps of a solver can run on an array as Triton kernels.

    Their constants are float32, so the array has to be float32, too.

    Parameters
    ----------
    x : array, shape (..., n)
        Any array.

    Returns
    -------
    bool
        True if the kernels can be used.
    """
    return has_kernels(x) and is_single(x)


@lru_cache(maxsize=1)
def _triton_is_there() -> bool:
    """Whether torch is recent enough and has Triton and CUDA."""
    import torch

    recent = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    return recent and find_spec("triton") is not None and torch.version.cuda is not None


@lru_cache
def _is_recent(device: Any) -> bool:
    """Whether a GPU multiplies bfloat16 and TF32 numbers, as all since Ampere do."""
    import torch

    return bool(torch.cuda.get_device_capability(device) >= (8, 0))


def conj(x: Array) -> Array:
    """Compute the complex conjugate; real arrays are returned without a copy.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    array
        The conjugate.
    """
    return namespace(x).conj(x) if is_complex(x) else x


def real_vecdot(x: Array, y: Array) -> Array:
    """Compute the real part of <x, y> along the last axis.

    Parameters
    ----------
    x, y : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The real parts of the inner products.
    """
    xp = namespace(x, y)
    total = xp.vecdot(x, y)
    return xp.real(total) if is_complex(total) else total


def squared_norm(x: Array) -> Array:
    """Compute the squared Euclidean norm along the last axis.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The squared norms, real; infinite where squares exceed the range of the dtype.
    """
    # The imaginary part of a complex sum may be infinity minus infinity; it is discarded.
    with np.errstate(over="ignore", invalid="ignore"):
        return real_vecdot(x, x)


def norm(x: Array) -> Array:
    """Compute the Euclidean norm along the last axis.

    Parameters
    ----------
    x : array, shape (..., n)
        Vectors, one per row.

    Returns
    -------
    array, shape (...)
        The norms.
    """
    return namespace(x).sqrt(squared_norm(x))


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
    return norm(x[..., :0]).dtype


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
    sound = xp.isfinite(array)
    if finite and not bool(xp.all(sound)):
        bad = int(xp.sum(xp.astype(~sound, xp.int64)))
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


def largest(array: Array) -> float:
    """Find the largest magnitude of all entries.

    Parameters
    ----------
    array : array
        Real or complex array.

    Returns
    -------
    float
        The largest magnitude; 0 if the array is empty.
    """
    return float(namespace(array).max(magnitudes(array))) if math.prod(array.shape) else 0.0


def magnitudes(x: Array) -> Array:
    """Compute magnitudes that cannot overflow.

    Parameters
    ----------
    x : array
        Real or complex array.

    Returns
    -------
    array
        The absolute values; for complex ``x``, the larger one of the real and the imaginary part.
    """
    xp = namespace(x)
    return xp.maximum(xp.abs(xp.real(x)), xp.abs(xp.imag(x))) if is_complex(x) else xp.abs(x)


def units(sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Find powers of two by which ``sizes`` can be divided, without rounding, to be near 1.

    Parameters
    ----------
    sizes : array
        Numbers of at least 0.

    Returns
    -------
    array
        The powers of two; 1 where a size is near 1 already, or zero.
    """
    exponents = np.frexp(sizes)[1] - 1
    return np.where((sizes > 0) & (np.abs(exponents) > NEAR_ONE), np.ldexp(1.0, exponents), 1.0)


def row_norms(x: Array) -> np.ndarray[Any, Any]:
    """Compute the norms of rows of any magnitude without overflow.

    Parameters
    ----------
    x : array, shape (batch, n)
        Vectors, one per row.

    Returns
    -------
    numpy.ndarray, shape (batch,)
        The norms, in double precision.
    """
    xp = namespace(x)
    unit = units(to_numpy(xp.max(magnitudes(x), axis=-1)).astype(np.float64))
    if (unit != 1).any():
        x = x / xp.astype(from_numpy(unit, x), x.dtype)[:, None]
    return np.asarray(unit * to_numpy(norm(x)))


def generator(rng: Any) -> np.random.Generator:
    """Create a random generator.

    Parameters
    ----------
    rng : int, numpy.random.Generator or None
        Seed, generator, or None for fresh entropy.

    Returns
    -------
    numpy.random.Generator
        The generator.

    Raises
    ------
    InputError
        If ``rng`` is none of these.
    """
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise reject("rng", shown(rng), "a non-negative integer, a numpy.random.Generator or None") from None


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
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
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x.cpu() if compat.is_torch_array(x) else x)


def from_numpy(array: np.ndarray[Any, Any], like: Array) -> Array:
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
    xp = namespace(like)
    return xp.asarray(array if is_numpy(xp) else writable(array), device=compat.device(like))


def writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
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
    """Store an array row by row where its library allows to choose the layout, which makes products faster.

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


def take_rows(x: Array, rows: np.ndarray[Any, Any]) -> Array:
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
    return namespace(x).take(x, from_numpy(rows, x), axis=0)


def compressed(x: Array) -> Array:
    """Convert a dense array to a sparse one in CSR format.

    Parameters
    ----------
    x : array, shape (rows, n)
        NumPy, torch or CuPy array.

    Returns
    -------
    SciPy CSR array, torch CSR tensor or CuPy CSR matrix
        The sparse array, in the library of ``x``.
    """
    if is_numpy(namespace(x)):
        from scipy.sparse import csr_array

        return csr_array(x)
    if compat.is_torch_array(x):
        with _beta_state():
            return x.to_sparse_csr()
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(x)


def compressed_on_host(x: Array) -> Any:
    """Convert a dense array to a SciPy CSR array; only the nonzeros are copied from a GPU.

    Parameters
    ----------
    x : array, shape (rows, n)
        NumPy, torch or CuPy array.

    Returns
    -------
    scipy.sparse.csr_array
        The sparse array.
    """
    from scipy.sparse import csr_array

    sparse = compressed(x)
    if not compat.is_torch_array(x):
        return csr_array(sparse.get()) if compat.is_cupy_array(x) else sparse
    parts = (sparse.values(), sparse.col_indices(), sparse.crow_indices())
    return csr_array(tuple(to_numpy(part) for part in parts), shape=tuple(x.shape))


def joined_rows(parts: Sequence[Any]) -> Any:
    """Stack CSR arrays vertically, in their own library.

    Parameters
    ----------
    parts : sequence of CSR arrays
        Arrays with the same number of columns.

    Returns
    -------
    CSR array
        The stacked rows.
    """
    if len(parts) == 1:
        return parts[0]
    if not compat.is_torch_array(parts[0]):
        on_gpu = type(parts[0]).__module__.startswith("cupyx")
        return import_module("cupyx.scipy.sparse" if on_gpu else "scipy.sparse").vstack(parts, format="csr")
    import torch

    ends = [part.crow_indices()[-1] for part in parts]
    starts = [part.crow_indices()[:-1] + sum(ends[:number]) for number, part in enumerate(parts)]
    rows = torch.cat([*starts, sum(ends).reshape(1)])
    columns, values = torch.cat([part.col_indices() for part in parts]), torch.cat([part.values() for part in parts])
    with _beta_state():
        return torch.sparse_csr_tensor(rows, columns, values, (rows.shape[0] - 1, parts[0].shape[1]))


@contextlib.contextmanager
def _beta_state() -> Iterator[None]:
    """Suppress torch's warning that sparse tensors are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
