"""Posterior of Bernoulli-Gaussian entries observed in Gaussian noise."""

from __future__ import annotations

import numpy as np

from ...backend.arrays import Array, is_complex, namespace
from ...backend.engines import has_kernels, worth_compiling
from ..thresholding import Structure
from .plain import posterior, posterior_and_power

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
    density : array, shape (batch,) or (batch, levels)
        Prior probability that an entry is nonzero, for each level if there are several.
    variance : array, of the shape of density
        Prior variance of the nonzeros, before they are clipped.
    structure : Structure
        What x may look like: entries of groups are zero or nonzero together, nonzeros of a nonnegative x are
        half-normal, and normal values that exceed other bounds are at the bound.

    Returns
    -------
    x : array, shape (batch, n)
        Posterior mean.
    variance : array, shape (batch,)
        Mean of the posterior variances of the entries.
    nonzeros : array, of the shape of density
        Expected number of nonzeros.
    power : array, of the shape of density
        Expected squared norm of x, before it is clipped.
    """
    simple = not (structure.nonnegative or structure.clips or structure.grouped or structure.leveled)
    if worth_compiling(r):
        from ...backend.parallel import over_rows
        from . import cpu

        x: Array = np.empty_like(r)
        totals: list[Array] = [np.empty(shape, dtype=r.dtype) for shape in (gamma.shape, density.shape, density.shape)]
        if simple:
            over_rows(cpu.denoise, x.shape[0], r, gamma, density, variance, x, *totals, work=20 * x.shape[1])
        else:
            none = np.empty(0, dtype=np.int64)
            units = none if structure.layout.units is None else structure.layout.units
            levels = structure.layout.levels if structure.leveled else none
            bounds = (structure.low, structure.high) if structure.clips else (np.empty(0), np.empty(0))
            shape = (structure.nonnegative, *bounds, units, structure.layout.count, levels)
            # One column for each level; those of the sums are views.
            prior, sums = ([array.reshape(len(r), -1) for array in pair] for pair in ((density, variance), totals[1:]))
            rows = (r, gamma, *prior, *shape, x, totals[0], *sums)
            over_rows(cpu.denoise_structured, x.shape[0], *rows, work=40 * x.shape[1])
        return x, totals[0], totals[1], totals[2]
    if has_kernels(r) and simple:
        from . import gpu

        return gpu.denoise(r, gamma, density, variance)
    xp = namespace(r)
    kappa = 1.0 if is_complex(r) else 0.5
    x, var, active, _, power = posterior_and_power(r, gamma, density, variance, kappa, structure)
    return x, xp.mean(var, axis=-1), structure.level_sums(active), structure.level_sums(power)
