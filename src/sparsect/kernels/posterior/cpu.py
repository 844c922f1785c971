"""Bernoulli-Gaussian posterior of every entry, and the statistics of every row that message passing needs."""

from __future__ import annotations

import math

import numpy as np

from ...backend.parallel import compiled
from .limits import CERTAIN, LEAST, NEVER_ALL

# For means this many standard deviations below zero, an asymptotic series is used.
DEEP = -35.0


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


@compiled
def truncated(mean, deviation):
    """Return the first two moments of a normal variable if it is positive, and the evidence; see ``plain.py``."""
    a = mean / deviation
    if a > DEEP:
        scaled = math.erfc(-a / math.sqrt(2.0)) / 2
        excess = a + math.exp(-a * a / 2) / math.sqrt(2 * math.pi) / scaled
        second = max(1 + a * excess, 0.0)
        evidence = a * a / 2 + math.log(2 * scaled)
    else:
        q = 1 / (a * a)
        second = q * (2 - q * (10 - q * (74 - 706 * q)))
        excess = (1 - second) / -a
        evidence = math.log(2 * (1 - q * (1 - q * (3 - 15 * q))) / (-a * math.sqrt(2 * math.pi)))
    return deviation * excess, deviation * deviation * second, evidence


@compiled
def positive_part(a):
    """Return how much likelier data are if a normal variable is positive: 2 Phi(a), times exp(a^2 / 2) if a < 0."""
    if a >= 0:
        return math.erfc(-a / math.sqrt(2.0))
    return math.exp(truncated(a, 1.0)[2])


@compiled
def denoise_structured(first, last, r, gamma, density, variance, nonnegative, units, count, x, var, active, power):
    """Compute what ``denoise`` does for nonnegative entries, or for units whose entries are nonzero together."""
    n = r.shape[1]
    odds, means, seconds = np.empty(count), np.empty(n), np.empty(n)
    for row in range(first, last):
        precision, spread = float(gamma[row]), float(variance[row])
        gain = spread * precision / (1 + spread * precision)
        deviation = math.sqrt(gain / precision)
        prior, each = math.log(density[row] / (1 - density[row] + NEVER_ALL)), 0.5 * math.log1p(spread * precision)
        odds[:] = prior
        for j in range(n):
            value = float(r[row, j])
            mean, second = gain * value, gain / precision + gain * gain * value * value
            evidence = 0.5 * value * value * precision * gain
            if nonnegative:
                mean, second, evidence = truncated(mean, deviation)
            means[j], seconds[j] = mean, second
            odds[units[j] if units.size else j] += evidence - each
        for i in range(count):
            odds[i] = 1 / (1 + math.exp(-min(max(odds[i], -CERTAIN), CERTAIN)))
        left, some, energy = 0.0, 0.0, 0.0
        for j in range(n):
            chance = odds[units[j] if units.size else j]
            mean, square = chance * means[j], chance * seconds[j]
            x[row, j] = mean
            some += chance
            energy += square
            left += max(square - mean * mean, LEAST)
        var[row], active[row], power[row] = left / n, some, energy
