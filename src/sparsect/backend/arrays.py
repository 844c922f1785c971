"""Which array library, device, dtype and random generator? Nothing here knows any mathematics.

Everything outside ``kernels/`` is written against the array API standard, so NumPy, torch and CuPy arrays
are computed where they live and come back as what they were.
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

from .checks import InputError, reject, shown

Array = Any
Namespace = Any

# Numbers in an array from which on the compiled kernels are used.
LARGE = 2**15
# The longest rows that kernels for a GPU take.
LONGEST_ROW = 2**14
# Numbers from 2^-NEAR_ONE to 2^NEAR_ONE, their products and the squares of those are in the range of any dtype.
NEAR_ONE = 10
ACCEPTED_DTYPES = "an array of integers, float32, float64, complex64 or complex128"


def namespace(*arrays: Array) -> Namespace:
    """The array-API namespace that all ``arrays`` belong to."""
    try:
        return compat.array_namespace(*arrays)
    except TypeError:
        kinds = " and ".join(sorted({type(array).__module__.split(".")[0] for array in arrays}))
        raise InputError(f"Phi, y: got arrays of {kinds}, accepted is one array library for both") from None


def is_numpy(xp: Namespace) -> bool:
    """Whether ``xp`` is NumPy, whose own fast paths ``kernels/`` may use."""
    return compat.is_numpy_namespace(xp)


def is_complex(x: Array) -> bool:
    """Whether ``x`` has a complex dtype."""
    return bool(namespace(x).isdtype(x.dtype, "complex floating"))


def worth_compiling(x: Array, like: Array | None = None) -> bool:
    """Whether x is real, in main memory and it, or ``like``, large enough for loading the compiled kernels to pay."""
    return is_numpy(namespace(x)) and (x if like is None else like).size >= LARGE and not is_complex(x)


def on_host(x: Array) -> bool:
    """Whether ``x`` is in main memory, where looking at it costs nothing."""
    return not (compat.is_cupy_array(x) or (compat.is_torch_array(x) and x.device.type != "cpu"))


def has_kernels(x: Array) -> bool:
    """Whether the Triton kernels take x: real rows in the hands of torch, on an NVIDIA GPU."""
    if not compat.is_torch_array(x) or x.device.type != "cuda" or x.shape[-1] > LONGEST_ROW:
        return False
    return _triton_is_there() and _is_recent(x.device) and not is_complex(x)


def has_fused_steps(x: Array) -> bool:
    """Whether whole steps run on x as Triton kernels: their constants are float32, so x has to be."""
    return has_kernels(x) and is_single(x)


@lru_cache(maxsize=1)
def _triton_is_there() -> bool:
    import torch

    recent = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    return recent and find_spec("triton") is not None and torch.version.cuda is not None


@lru_cache
def _is_recent(device: Any) -> bool:
    """Whether a GPU multiplies bfloat16 and TF32 numbers, as those since Ampere do."""
    import torch

    return bool(torch.cuda.get_device_capability(device) >= (8, 0))


def conj(x: Array) -> Array:
    """Complex conjugate; real arrays come back as they are, without a copy."""
    return namespace(x).conj(x) if is_complex(x) else x


def real_vecdot(x: Array, y: Array) -> Array:
    """Real part of <x, y> along the last axis."""
    xp = namespace(x, y)
    total = xp.vecdot(x, y)
    return xp.real(total) if is_complex(total) else total


def squared_norm(x: Array) -> Array:
    """Squared Euclidean norm along the last axis, real; infinite where squares leave the range of the dtype."""
    # The imaginary part of a complex sum, which is dropped, may be infinity minus infinity.
    with np.errstate(over="ignore", invalid="ignore"):
        return real_vecdot(x, x)


def norm(x: Array) -> Array:
    """Euclidean norm along the last axis."""
    return namespace(x).sqrt(squared_norm(x))


def real_dtype(x: Array) -> Any:
    """The real dtype with the precision of ``x``."""
    return norm(x[..., :0]).dtype


def epsilon(x: Array) -> float:
    """Machine epsilon of the precision of ``x``."""
    return float(namespace(x).finfo(x.dtype).eps)


def is_single(x: Array) -> bool:
    """Whether ``x`` is float32 or complex64."""
    return epsilon(x) > 1e-10


def refuse_masked(name: str, value: Any) -> None:
    """Refuse NumPy's masked arrays: as plain arrays, entries that are masked would be taken as they are."""
    if isinstance(value, np.ma.MaskedArray):
        raise reject(name, "a masked array", "an array without masked entries")


def floating(name: str, value: Any, dimensions: tuple[int, ...] | None = None, finite: bool = True) -> Array:
    """``value`` as a float or complex array, as a rule finite; anything else raises an error that names ``name``."""
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
        raise reject(name, f"an array with {array.ndim} dimensions, shape {tuple(array.shape)}", f"{wanted} dimensions")
    sound = xp.isfinite(array)
    if finite and not bool(xp.all(sound)):
        bad = int(xp.sum(xp.astype(~sound, xp.int64)))
        raise reject(name, f"{bad} entries that are NaN or infinite", "finite entries only")
    return array


def check_magnitude(name: str, array: Array) -> None:
    """Refuse an array whose sums of squares leave the range of its dtype: what follows from them would be nonsense."""
    size, limits = largest(array), namespace(array).finfo(array.dtype)
    count = math.prod(array.shape)
    if size and not 1e4 * float(limits.smallest_normal) ** 0.5 < size < 0.1 * (float(limits.max) / count) ** 0.5:
        received = f"entries whose squares leave the range of {array.dtype}"
        raise reject(name, received, f"{name} scaled nearer to 1, or a wider dtype")


def check_indices(array: Any) -> None:
    """Raise a ValueError if the indices of a SciPy sparse matrix lead out of it: compiled code would follow them.

    Other arrays are sound in this respect.
    """
    if hasattr(array, "check_format"):
        array.check_format(full_check=True)
        # What SciPy does not look at if the last one is zero.
        if (np.diff(array.indptr) < 0).any():
            raise ValueError("indptr must be a non-decreasing sequence")


def largest(array: Array) -> float:
    """The largest magnitude of all entries; 0 if there are none."""
    return float(namespace(array).max(magnitudes(array))) if math.prod(array.shape) else 0.0


def magnitudes(x: Array) -> Array:
    """|x|, for complex x the larger of the real and the imaginary part, which cannot overflow."""
    xp = namespace(x)
    return xp.maximum(xp.abs(xp.real(x)), xp.abs(xp.imag(x))) if is_complex(x) else xp.abs(x)


def units(sizes: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Powers of two by which ``sizes`` can be divided, without rounding, to lie near 1; 1 where they do already."""
    exponents = np.frexp(sizes)[1] - 1
    return np.where((sizes > 0) & (np.abs(exponents) > NEAR_ONE), np.ldexp(1.0, exponents), 1.0)


def row_norms(x: Array) -> np.ndarray[Any, Any]:
    """Norms of rows that may be of any size, as NumPy numbers in double precision."""
    xp = namespace(x)
    unit = units(to_numpy(xp.max(magnitudes(x), axis=-1)).astype(np.float64))
    if (unit != 1).any():
        x = x / xp.astype(from_numpy(unit, x), x.dtype)[:, None]
    return np.asarray(unit * to_numpy(norm(x)))


def generator(rng: Any) -> np.random.Generator:
    """The random generator that ``rng`` (a seed, a Generator or None for fresh entropy) stands for."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError):
        raise reject("rng", shown(rng), "a non-negative integer, a numpy.random.Generator or None") from None


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """``x`` as a NumPy array on the host."""
    if compat.is_cupy_array(x):
        return np.asarray(x.get())
    return np.asarray(x.cpu() if compat.is_torch_array(x) else x)


def from_numpy(array: np.ndarray[Any, Any], like: Array) -> Array:
    """``array`` in the library and on the device of ``like``, its dtype unchanged."""
    xp = namespace(like)
    return xp.asarray(array if is_numpy(xp) else writable(array), device=compat.device(like))


def writable(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``array``, copied if it is read-only or runs backwards: other libraries take neither."""
    return np.require(array, requirements=["C", "W"])


def can_change(x: Array) -> bool:
    """Whether entries of x can be replaced: not all libraries that follow the standard allow that."""
    return is_numpy(namespace(x)) or compat.is_torch_array(x) or compat.is_cupy_array(x)


def contiguous(x: Array) -> Array:
    """``x`` laid out row by row where its library lets that be chosen: products read it faster so."""
    if is_numpy(namespace(x)):
        return np.ascontiguousarray(x)
    return x.contiguous() if compat.is_torch_array(x) else x


def take_rows(x: Array, rows: np.ndarray[Any, Any]) -> Array:
    """The given rows (axis 0) of ``x``."""
    return namespace(x).take(x, from_numpy(rows, x), axis=0)


def compressed(x: Array) -> Array:
    """A dense (rows, n) array as a sparse one: SciPy's CSR array, torch's CSR tensor or CuPy's CSR matrix."""
    if is_numpy(namespace(x)):
        from scipy.sparse import csr_array

        return csr_array(x)
    if compat.is_torch_array(x):
        with _beta_state():
            return x.to_sparse_csr()
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(x)


def compressed_on_host(x: Array) -> Any:
    """A dense (rows, n) array as SciPy's CSR array; from a GPU only what is not zero is copied."""
    from scipy.sparse import csr_array

    sparse = compressed(x)
    if not compat.is_torch_array(x):
        return csr_array(sparse.get()) if compat.is_cupy_array(x) else sparse
    parts = (sparse.values(), sparse.col_indices(), sparse.crow_indices())
    return csr_array(tuple(to_numpy(part) for part in parts), shape=tuple(x.shape))


def joined_rows(parts: Sequence[Any]) -> Any:
    """CSR arrays one below the other, in the library that they are of."""
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
    """Without the warning that torch's sparse tensors are in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        yield
