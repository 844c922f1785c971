"""Choice of the engine for a hot loop: compiled kernels (Numba), GPU kernels (Triton) or the array library itself."""

from __future__ import annotations

from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import array_api_compat as compat

from .arrays import Array, is_complex, is_numpy, is_single, namespace

# Number of entries from which the compiled kernels are used.
LARGE = 2**15
# Longest rows that the GPU kernels accept.
LONGEST_ROW = 2**14


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
    return has_triton() and _is_recent(x.device) and not is_complex(x)


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
def has_triton() -> bool:
    """Whether torch is recent enough and has Triton and CUDA.

    Returns
    -------
    bool
        True if there can be kernels for a GPU.
    """
    import torch

    recent = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)
    return recent and find_spec("triton") is not None and torch.version.cuda is not None


@lru_cache
def _is_recent(device: Any) -> bool:
    """Whether a GPU supports products of bfloat16 and TF32 numbers, as all GPUs since Ampere do."""
    import torch

    return bool(torch.cuda.get_device_capability(device) >= (8, 0))
