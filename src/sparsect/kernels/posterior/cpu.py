"""Bernoulli-Gaussian posterior of every entry, and the statistics of every row that message passing needs."""

from __future__ import annotations

import math

from ...backend.parallel import compiled
from .limits import CERTAIN, LEAST, NEVER_ALL


@compiled
def denoise(first, last, r, gamma, density, variance, x, var, active, power):
    """Compute the posterior mean x of real rows, and for each row the mean variance, total probability and power."""
    n = r.shape[1]
    for row in range(first, last):
        precision, spread = float(gamma[row]), float(variance[row])
        gain = spread * precision / (1 + spread * precision)
        prior = math.log(density[row] / (1 - density[row] + NEVER_ALL)) - 0.5 * math.log1p(spread * precision)
        left, some, energy = 0.0, 0.0, 0.0
        for j in range(n):
            value = float(r[row, j])
            odds = min(max(prior + 0.5 * value * value * precision * gain, -CERTAIN), CERTAIN)
            chance = 1 / (1 + math.exp(-odds))
            mean = gain * value
            square = chance * (gain / precision + mean * mean)
            x[row, j] = chance * mean
            some += chance
            energy += square
            left += max(square - chance * chance * mean * mean, LEAST)
        var[row], active[row], power[row] = left / n, some, energy
