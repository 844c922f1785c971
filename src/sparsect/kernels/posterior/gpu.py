"""Bernoulli-Gaussian posterior of every entry of a row, on a GPU; see ``plain.py``."""

from __future__ import annotations

import triton
import triton.language as tl

from ...backend.arrays import Array
from ..gpu_rows import launch
from . import limits

# Triton accepts global constants in this form only.
CERTAIN, NEVER_ALL, LEAST = (tl.constexpr(value) for value in (limits.CERTAIN, limits.NEVER_ALL, limits.LEAST))


@triton.jit
def _denoise(R, GAMMA, DENSITY, VARIANCE, X, VAR, ACTIVE, POWER, n: tl.constexpr, BLOCK: tl.constexpr):
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    r = tl.load(R + row * n + j, mask=inside, other=0)
    precision, density, spread = tl.load(GAMMA + row), tl.load(DENSITY + row), tl.load(VARIANCE + row)
    gain = spread * precision / (1 + spread * precision)
    prior = tl.log(density / (1 - density + NEVER_ALL)) - 0.5 * tl.log(1 + spread * precision)
    odds = tl.minimum(tl.maximum(prior + 0.5 * r * r * precision * gain, -CERTAIN), CERTAIN)
    chance = tl.where(inside, 1 / (1 + tl.exp(-odds)), 0)
    mean = gain * r
    square = chance * (gain / precision + mean * mean)
    x = chance * mean
    tl.store(X + row * n + j, x, mask=inside)
    tl.store(VAR + row, tl.sum(tl.where(inside, tl.maximum(square - x * x, LEAST), 0), 0) / n)
    tl.store(ACTIVE + row, tl.sum(chance, 0))
    tl.store(POWER + row, tl.sum(square, 0))


def denoise(r: Array, gamma: Array, density: Array, variance: Array) -> tuple[Array, Array, Array, Array]:
    """Return the posterior mean of rows r = x + N(0, 1/gamma), and their mean variance, expected nonzeros and power."""
    import torch

    r = r.contiguous()
    x, (var, active, power) = torch.empty_like(r), torch.empty((3, r.shape[0]), dtype=r.dtype, device=r.device)
    launch(_denoise, r, gamma.contiguous(), density.contiguous(), variance.contiguous(), x, var, active, power)
    return x, var, active, power
