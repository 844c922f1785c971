"""Posterior of Bernoulli-Gaussian entries observed in Gaussian noise."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, is_complex, namespace
from ...backend.engines import has_kernels, worth_compiling
from .plain import posterior

__all__ = ["denoise", "posterior"]


def denoise(r: Array, gamma: Array, density: Array, variance: Array) -> tuple[Array, Array, Array, Array]:
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
    if worth_compiling(r):
        from ...backend.parallel import over_rows
        from . import cpu

        x: Array = np.empty_like(r)
        sums = [np.empty_like(gamma) for _ in range(3)]
        over_rows(cpu.denoise, x.shape[0], r, gamma, density, variance, x, *sums, work=20 * x.shape[1])
        return x, sums[0], sums[1], sums[2]
    if has_kernels(r):
        from . import gpu

        return gpu.denoise(r, gamma, density, variance)
    xp = namespace(r)
    x, var, active, power = posterior(r, gamma, density, variance, kappa=1.0 if is_complex(r) else 0.5)
    return x, xp.mean(var, axis=-1), xp.sum(active, axis=-1), xp.sum(power, axis=-1)
