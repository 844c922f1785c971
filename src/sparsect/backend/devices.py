"""Where is it computed, and how may a GPU be used? Names of devices, precision of products, memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat

from .arrays import Array, is_complex, is_single, on_host, to_numpy, writable
from .checks import InputError, choice, real_number, reject, shown

PRECISIONS = ("auto", "fp16", "tf32", "bf16x3", "float32")
# What "auto" is where answers are wanted, and where only sums over very many of them are.
ACCURATE, FAST = "bf16x3", "fp16"
# Part of the free memory of a GPU that blocks of rows may take, and rows of a block at the most.
SHARE, MOST_ROWS = 0.8, 200_000
# Bytes of a batch of signals that are drawn, in single precision.
BATCH_BYTES = 2**29
# About how many rows of n and of m numbers a solver holds at a time for every signal.
LONG_ROWS, SHORT_ROWS = 18, 12


@dataclass(frozen=True)
class _Options:
    precision: str = "auto"
    memory: float | None = None


_DEFAULTS = _Options()
_options: ContextVar[_Options] = ContextVar("gpu_options", default=_DEFAULTS)


@contextlib.contextmanager
def gpu_options(*, precision: str | None = None, memory: float | None = None) -> Iterator[None]:
    """How a GPU is used within the block; what is not given stays as it was.

    Parameters
    ----------
    precision : of the products with Phi in steps of the Difference Map, the annealed map and ADMM on float32 tensors

        - "float32": errors of 4e-7; 3.5 times as slow as the next
        - "bf16x3": images are sums of three bfloat16 products, with errors of 7e-6, corrections in TF32
        - "tf32": errors of 3e-4, below which nothing converges; 5 to 10 % faster than "bf16x3"
        - "fp16": the same errors in half the bytes, for numbers of about one size; 1.4 to 2 times as fast as "bf16x3"
        - "auto": "bf16x3"; in dictionary learning, where only sums over very many codes matter, "fp16"

        Final least-squares fits are in double precision whatever is chosen. Products elsewhere follow torch's own
        setting, but in learning are TF32 unless this is "float32".
    memory : bytes of the GPU's memory that coding, reconstructing and learning may take for the signals they work on at
        a time; default 0.8 of what is free. What they read and write comes on top.

    Examples
    --------
    >>> import sparsect
    >>> problem = sparsect.random_problem(m=60, n=120, sparsity=12, rng=0)
    >>> with sparsect.gpu_options(precision="float32", memory=8e9):
    ...     result = sparsect.recover(problem.Phi, problem.y, sparsity=12)
    """
    given: dict[str, Any] = {}
    if precision is not None:
        given["precision"] = choice("precision", precision, PRECISIONS)
    if memory is not None:
        given["memory"] = real_number("memory", memory, "a positive number of bytes", low=0.0, nonzero=True)
    token = _options.set(replace(_options.get(), **given))
    try:
        yield
    finally:
        _options.reset(token)


def options_in_force() -> dict[str, Any]:
    """What :func:`gpu_options` has to be given elsewhere to have the same in force there."""
    return asdict(_options.get())


def memory_allowed() -> float | None:
    """Bytes that may be used, if that was said."""
    return _options.get().memory


def product_precision() -> str:
    """The precision chosen for products while iterating."""
    chosen = _options.get().precision
    return ACCURATE if chosen == "auto" else chosen


@contextlib.contextmanager
def tensor_cores(used: bool) -> Iterator[None]:
    """Whether float32 products may run as TF32 within the block; afterwards torch's own setting is what it was."""
    import torch

    matmul = torch.backends.cuda.matmul
    during: Any = used
    try:
        name, before = "allow_tf32", matmul.allow_tf32
    except RuntimeError:
        # Asked for by its newer name, torch no longer answers to the older one.
        name, before = "fp32_precision", matmul.fp32_precision
        during = "tf32" if used else "ieee"
    setattr(matmul, name, during)
    try:
        yield
    finally:
        setattr(matmul, name, before)


@contextlib.contextmanager
def summing(like: Array) -> Iterator[None]:
    """Within the block, products on a GPU are those for which only sums over very many rows matter."""
    if on_host(like) or not compat.is_torch_array(like):
        yield
        return
    precision = FAST if _options.get().precision == "auto" else None
    with gpu_options(precision=precision), tensor_cores(product_precision() != "float32"):
        yield


def described(like: Array) -> str:
    """The device of an array in words and, on a GPU, the precision of products of which sums are wanted."""
    if on_host(like):
        return "CPU"
    if not compat.is_torch_array(like):
        return "GPU, by CuPy"
    import torch

    with summing(like):
        return f"{torch.cuda.get_device_name(like.device)}, products in {product_precision()}"


def place(array: Array, device: Any) -> Array:
    """``array`` on a device: None where it is, "cpu" a NumPy array, "cuda" or "cuda:1" a torch tensor.

    "auto" is "cuda" if torch is installed and sees a GPU, and where it is otherwise.
    """
    if device is None:
        return array
    # A torch.device is as good as its name.
    name = str(device) if isinstance(device, str) or hasattr(device, "type") else ""
    if name == "cpu":
        return to_numpy(array)
    if name != "auto" and name.partition(":")[0] != "cuda":
        raise reject("device", shown(device), "auto, cpu, cuda, or one GPU of several as in cuda:1")
    if find_spec("torch") is None:
        if name == "auto":
            return array
        raise InputError(f"device: got {name!r}, but torch is not installed; pip install 'sparsect[torch]', or 'cpu'")
    import torch

    if not torch.cuda.is_available():
        if name == "auto":
            return array
        why = "was built without CUDA" if torch.version.cuda is None else "finds no GPU that it can use"
        raise InputError(f"device: got {name!r}, but torch {why}; accepted is 'cpu' or 'auto'")
    if name == "auto":
        if not on_host(array):
            return array
        name = "cuda"
    try:
        chosen = torch.device(name)
    except RuntimeError:
        raise reject("device", shown(name), "auto, cpu, cuda, or one GPU of several as in cuda:1") from None
    if chosen.index is not None and chosen.index >= torch.cuda.device_count():
        raise reject("device", shown(name), f"cuda:0 to cuda:{torch.cuda.device_count() - 1}")
    tensor = array if compat.is_torch_array(array) else torch.from_numpy(writable(to_numpy(array)))
    with memory_errors("device", "a larger array", "'cpu', or less at a time"):
        return tensor.to(chosen)


def bytes_a_row(like: Array, shape: tuple[int, int]) -> int:
    """About what a solver needs for every signal with a Phi of the given shape."""
    number = (4 if is_single(like) else 8) * (2 if is_complex(like) else 1)
    return (SHORT_ROWS * shape[0] + LONG_ROWS * shape[1]) * number


def rows_at_a_time(like: Array, shape: tuple[int, int], otherwise: int) -> int:
    """How many signals to code at once with a Phi of the given shape: as many as a GPU's memory takes, if it is one.

    On a CPU ``otherwise``.
    """
    if on_host(like):
        return otherwise
    each = bytes_a_row(like, shape)
    available = memory_allowed() or SHARE * _free_memory(like)
    rows = int(available / each)
    if rows == 0:
        raise reject("memory", f"{available:.0f} bytes", f"at least {each} bytes for signals of this size")
    return min(rows, MOST_ROWS)


def _free_memory(like: Array) -> int:
    if compat.is_torch_array(like):
        import torch

        free, _ = torch.cuda.mem_get_info(like.device)
        # What torch has taken and does not use now is as good as free.
        return int(free + torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device))
    import cupy

    with like.device:
        return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())


def wait_for(x: Array) -> Array:
    """``x``, once it has been computed: what is asked of a GPU is done some time later."""
    if not on_host(x) and 0 not in x.shape:
        to_numpy(x[:1, ...])
    return x


def batch_rows(numbers: int) -> int:
    """Signals of so many numbers to draw at a time for a GPU, on every machine the same."""
    return max(1, min(MOST_ROWS, BATCH_BYTES // (4 * numbers)))


def too_many_rows() -> contextlib.AbstractContextManager[None]:
    """Turn a GPU's running out of memory over a batch of signals into an error that says what would work."""
    advice = "fewer at a time (SparseCoder, images.reconstruct and learn find out how many; less: gpu_options(memory=))"
    return memory_errors("y", "more rows", advice)


@contextlib.contextmanager
def memory_errors(name: str, received: str, accepted: str) -> Iterator[None]:
    """Turn a GPU's running out of memory into an error that says what would work."""
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise InputError(f"{name}: got {received} than the memory of the GPU takes, accepted is {accepted}") from None
