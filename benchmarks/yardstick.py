"""The yardstick for any matrix: a spike-and-slab Gibbs sampler that is told what no method knows.

It knows the density, the deviation of nonzeros and the noise, and starts at the truth. Where a few hundred sweeps are
too few to leave its neighbourhood, it is better than any estimate can be; no method can be expected to do better.
"""

from __future__ import annotations

import numpy as np
from numba import njit

SWEEPS, LEFT_OUT = 400, 100


def posterior_mean(case):
    """Mean of the conditional means over the sweeps; one coordinate at a time, one problem after the other."""
    gram = np.ascontiguousarray(case.unit.T @ case.unit)
    correlations = case.y @ case.unit
    density = case.kind.sparsity / gram.shape[0]
    generate = np.random.default_rng(case.kind.sparsity)
    rows = zip(correlations, case.z, case.noise_variance, strict=True)
    return np.array([_sampled(gram, *row, case.deviation**2, density, generate) for row in rows])


@njit(cache=True)
def _sampled(gram, b, start, noise, slab, density, generate):
    x, left, mean = start.copy(), b - gram @ start, np.zeros(start.size)
    prior = np.log(density / (1 - density))
    for sweep in range(SWEEPS):
        for j in range(x.size):
            precision = gram[j, j] / noise + 1 / slab[j]
            centre = (left[j] + gram[j, j] * x[j]) / noise / precision
            odds = prior - 0.5 * np.log(precision * slab[j]) + 0.5 * precision * centre**2
            probability = 1 / (1 + np.exp(-odds)) if odds > -700 else 0.0
            if sweep >= LEFT_OUT:
                mean[j] += probability * centre / (SWEEPS - LEFT_OUT)
            new = 0.0
            if generate.random() < probability:
                new = centre + generate.standard_normal() / precision**0.5
            if new != x[j]:
                left -= gram[j] * (new - x[j])
                x[j] = new
    return mean
