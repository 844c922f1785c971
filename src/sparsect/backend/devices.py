"""Names of devices, precision of products on a GPU, and GPU memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat

from .arrays import Array, is_complex, is_single, on_host, to_numpy, writable
from .checks import choice, real_number, reject, shown

PRECISIONS = ("auto", "fp16", "tf32", "bf16x3", "float32")
# Meaning of "auto" where solutions are wanted, and where only sums over very many of them matter.
ACCURATE, FAST = "bf16x3", "fp16"
# Fraction of a GPU's free memory that blocks of rows may take, and maximum number of rows in a block.
SHARE, MOST_ROWS = 0.8, 200_000
# Size of a batch of signals that are drawn in single precision, in bytes.
BATCH_BYTES = 2**29
# Approximate number of vectors of lengths n and m that a solver stores for every signal; chains of supports need most.
LONG_ROWS, SHORT_ROWS = 50, 16


@dataclass(frozen=True)
class _Options:
    """Options in force within a block of :func:`gpu_options`."""

    precision: str = "auto"
    memory: float | None = None


_DEFAULTS = _Options()
_options: ContextVar[_Options] = ContextVar("gpu_options", default=_DEFAULTS)


@contextlib.contextmanager
def gpu_options(*, precision: str | None = None, memory: float | None = None) -> Iterator[None]:
    """Set options for computations on a GPU within a ``with`` block.

    Options that are not given keep their value.

    Parameters
    ----------
    precision : {'auto', 'fp16', 'tf32', 'bf16x3', 'float32'}, optional
        Precision of the products with Phi in the steps of the Difference Map, its annealed form and ADMM on float32
        tensors:

        - "float32": errors of 4e-7; 3.5 times as slow as "bf16x3".
        - "bf16x3": images are sums of three bfloat16 products, with errors of 7e-6; corrections are in TF32.
        - "tf32": errors of 3e-4, which limit the accuracy of convergence; 5 to 10 % faster than "bf16x3".
        - "fp16": the same errors as "tf32" in half the bytes, for numbers of similar magnitude; 1.4 to 2 times as
          fast as "bf16x3".
        - "auto": "bf16x3"; in dictionary learning, where only sums over very many codes matter, "fp16".

        Final least-squares fits are in double precision, whatever is chosen. Other products follow torch's own
        setting, except in dictionary learning, where they are in TF32 unless ``precision`` is "float32".
    memory : float, optional
        GPU memory, in bytes, that coding, reconstruction and learning may use for the signals they process at a
        time. The default is 0.8 of the free memory. The arrays they read and write are not included.

    Yields
    ------
    None
        The options are in force until the block ends.

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
    """Return the options in force, as keyword arguments of :func:`gpu_options`.

    They can be passed to another process or thread to set the same options there.

    Returns
    -------
    dict
        The options by name.
    """
    return asdict(_options.get())


def memory_allowed() -> float | None:
    """Return the memory limit that was set with :func:`gpu_options`.

    Returns
    -------
    float or None
        The limit in bytes, or None if none was set.
    """
    return _options.get().memory


def product_precision() -> str:
    """Return the precision of products during iterations.

    Returns
    -------
    str
        One of ``PRECISIONS`` other than "auto".
    """
    chosen = _options.get().precision
    return ACCURATE if chosen == "auto" else chosen


@contextlib.contextmanager
def tensor_cores(used: bool) -> Iterator[None]:
    """Set whether float32 products may run as TF32 within a block, and restore torch's own setting afterwards.

    Parameters
    ----------
    used : bool
        Whether TF32 is allowed.

    Yields
    ------
    None
        The setting is in force until the block ends.
    """
    import torch

    matmul = torch.backends.cuda.matmul
    during: Any = used
    try:
        name, before = "allow_tf32", matmul.allow_tf32
    except RuntimeError:
        # Once the setting has been used under its newer name, torch raises an error for the older one.
        name, before = "fp32_precision", matmul.fp32_precision
        during = "tf32" if used else "ieee"
    setattr(matmul, name, during)
    try:
        yield
    finally:
        setattr(matmul, name, before)


@contextlib.contextmanager
def summing(like: Array) -> Iterator[None]:
    """Choose the precision of GPU products for sums over very many rows, within a block.

    Parameters
    ----------
    like : array
        Array on the device that is used; on a CPU nothing is changed.

    Yields
    ------
    None
        The setting is in force until the block ends.
    """
    if on_host(like) or not compat.is_torch_array(like):
        yield
        return
    precision = FAST if _options.get().precision == "auto" else None
    with gpu_options(precision=precision), tensor_cores(product_precision() != "float32"):
        yield


def described(like: Array) -> str:
    """Describe the device of an array.

    Parameters
    ----------
    like : array
        Any array.

    Returns
    -------
    str
        Name of the device and, on a GPU, the precision of products within :func:`summing`.
    """
    if on_host(like):
        return "CPU"
    if not compat.is_torch_array(like):
        return "GPU, by CuPy"
    import torch

    with summing(like):
        return f"{torch.cuda.get_device_name(like.device)}, products in {product_precision()}"


def place(array: Array, device: Any) -> Array:
    """Move an array to a device.

    Parameters
    ----------
    array : array
        Array of any library.
    device : str, torch.device or None
        "cpu" for a NumPy array; "cuda", or "cuda:1" for one of several GPUs, for a torch tensor; "auto" for "cuda" if
        torch is installed and finds a GPU; None to leave the array unchanged. "auto" leaves it unchanged, too, if there
        is no GPU or if the array is on a GPU already.

    Returns
    -------
    array
        The array on the device.

    Raises
    ------
    InputError
        If the device does not exist or its memory is too small.
    """
    if device is None:
        return array
    # A torch.device is treated like its name.
    name = str(device) if isinstance(device, str) or hasattr(device, "type") else ""
    if name == "cpu":
        return to_numpy(array)
    if name != "auto" and name.partition(":")[0] != "cuda":
        raise reject("device", shown(device), "'auto', 'cpu', 'cuda', or 'cuda:1' for one of several GPUs")
    if find_spec("torch") is None:
        if name == "auto":
            return array
        raise reject(
            "device",
            f"{name!r}, but torch is not installed",
            "'cpu' or 'auto'",
            "To use a GPU: pip install 'sparsect[torch]'.",
        )
    import torch

    if not torch.cuda.is_available():
        if name == "auto":
            return array
        why = "was built without CUDA" if torch.version.cuda is None else "finds no GPU that it can use"
        raise reject("device", f"{name!r}, but torch {why}", "'cpu' or 'auto'")
    if name == "auto":
        if not on_host(array):
            return array
        name = "cuda"
    try:
        chosen = torch.device(name)
    except RuntimeError:
        raise reject("device", shown(name), "'auto', 'cpu', 'cuda', or 'cuda:1' for one of several GPUs") from None
    if chosen.index is not None and chosen.index >= torch.cuda.device_count():
        raise reject("device", shown(name), f"cuda:0 to cuda:{torch.cuda.device_count() - 1}")
    tensor = array if compat.is_torch_array(array) else torch.from_numpy(writable(to_numpy(array)))
    with memory_errors("device", "a larger array", "'cpu' for an array of this size"):
        return tensor.to(chosen)


def bytes_a_row(like: Array, shape: tuple[int, ...], further: int = 0) -> int:
    """Estimate the memory that a solver needs for one signal.

    Parameters
    ----------
    like : array
        Array of the working dtype.
    shape : tuple of int
        Shape (m, n) of Phi.
    further : int, optional
        Number of vectors of length n that the solver needs in addition to what most solvers need.

    Returns
    -------
    int
        Approximate number of bytes.
    """
    number = (4 if is_single(like) else 8) * (2 if is_complex(like) else 1)
    return (SHORT_ROWS * shape[0] + (LONG_ROWS + further) * shape[1]) * number


def rows_at_a_time(like: Array, shape: tuple[int, ...], otherwise: int, further: int = 0) -> int:
    """Choose how many signals to process at a time.

    Parameters
    ----------
    like : array
        Array on the device and of the dtype that are used.
    shape : tuple of int
        Shape (m, n) of Phi.
    otherwise : int
        Number of signals on a CPU.
    further : int, optional
        Number of vectors of length n that the solver needs in addition to what most solvers need.

    Returns
    -------
    int
        As many signals as fit into the memory of the GPU, at most ``MOST_ROWS``; ``otherwise`` on a CPU.

    Raises
    ------
    InputError
        If the memory does not suffice for one signal.
    """
    if on_host(like):
        return otherwise
    each = bytes_a_row(like, shape, further)
    available = memory_allowed() or SHARE * _free_memory(like)
    rows = int(available / each)
    if rows == 0:
        raise reject("memory", f"{available:.0f} bytes", f"at least {each} bytes for signals of this size")
    return min(rows, MOST_ROWS)


def _free_memory(like: Array) -> int:
    """Memory of a GPU that can be allocated, in bytes."""
    if compat.is_torch_array(like):
        import torch

        free, _ = torch.cuda.mem_get_info(like.device)
        # Memory that torch has reserved and does not use is available, too.
        return int(free + torch.cuda.memory_reserved(like.device) - torch.cuda.memory_allocated(like.device))
    import cupy

    with like.device:
        return int(cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes())


def wait_for(x: Array) -> Array:
    """Wait until an array has been computed, since operations on a GPU are asynchronous.

    Parameters
    ----------
    x : array
        Any array.

    Returns
    -------
    array
        The same array.
    """
    if not on_host(x) and 0 not in x.shape:
        to_numpy(x[:1, ...])
    return x


def batch_rows(numbers: int) -> int:
    """Choose how many signals to draw at a time for a GPU, independently of the machine.

    Parameters
    ----------
    numbers : int
        Length of a signal.

    Returns
    -------
    int
        Number of signals.
    """
    return max(1, min(MOST_ROWS, BATCH_BYTES // (4 * numbers)))


def too_many_rows() -> contextlib.AbstractContextManager[None]:
    """Convert a GPU's out-of-memory error over a batch of signals into an error that says what to do.

    Returns
    -------
    context manager
        Context in which the error is converted.
    """
    advice = "have fewer rows (SparseCoder, images.reconstruct and learn divide signals into blocks that fit)"
    return memory_errors("y", "more rows", advice)


@contextlib.contextmanager
def memory_errors(name: str, received: str, accepted: str) -> Iterator[None]:
    """Convert a GPU's out-of-memory error into an error that says what to do.

    Parameters
    ----------
    name : str
        Name of the argument, for the error.
    received : str
        Description of the value received, in comparative form: "more rows".
    accepted : str
        Description of what would work.

    Yields
    ------
    None
        Errors are converted until the block ends.
    """
    try:
        yield
    except Exception as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise reject(name, f"{received} than the memory of the GPU can hold", accepted) from None
