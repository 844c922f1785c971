"""Posterior of Bernoulli-Gaussian entries observed in Gaussian noise."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, is_complex, namespace
from ...backend.engines import has_kernels, worth_compiling
from ..thresholding import Structure
from .plain import posterior

__all__ = ["denoise", "posterior"]


def denoise(
    r: Array, gamma: Array, density: Array, variance: Array, structure: Structure
) -> tuple[Array, Array, Array, Array]:
    """Compute the posterior mean of x given r = x + N(0, 1/gamma), and statistics of every row.

    Parameters
    ----------
    r : array, shape (batch, n)
        Noisy observations of x.
    gamma : array, shape (batch,)
        Precision of the noise.
    density : array, shape (batch,)
        Prior probability that an entry is nonzero.
    variance : array, shape (batch,)
        Prior variance of the nonzeros.
    structure : Structure
        What x may look like: entries of groups are zero or nonzero together, and nonzeros of a nonnegative x are
        half-normal. Other bounds and levels are ignored.

    Returns
    -------
    x : array, shape (batch, n)
        Posterior mean.
    variance : array, shape (batch,)
        Mean of the posterior variances of the entries.
    nonzeros : array, shape (batch,)
        Expected number of nonzeros.
    power : array, shape (batch,)
        Expected squared norm of x.
    """
    simple = not (structure.nonnegative or structure.grouped)
    if worth_compiling(r):
        from ...backend.parallel import over_rows
        from . import cpu

        x: Array = np.empty_like(r)
        prior, sums = (r, gamma, density, variance), [np.empty_like(gamma) for _ in range(3)]
        if simple:
            over_rows(cpu.denoise, x.shape[0], *prior, x, *sums, work=20 * x.shape[1])
        else:
            units = np.empty(0, dtype=np.int64) if structure.layout.units is None else structure.layout.units
            shape = (structure.nonnegative, units, structure.layout.count)
            over_rows(cpu.denoise_structured, x.shape[0], *prior, *shape, x, *sums, work=40 * x.shape[1])
        return x, sums[0], sums[1], sums[2]
    if has_kernels(r) and simple:
        from . import gpu

        return gpu.denoise(r, gamma, density, variance)
    xp = namespace(r)
    x, var, active, power = posterior(r, gamma, density, variance, 1.0 if is_complex(r) else 0.5, structure)
    return x, xp.mean(var, axis=-1), xp.sum(active, axis=-1), xp.sum(power, axis=-1)
