"""Bernoulli-Gaussian posterior of every entry, and the statistics of every row that message passing needs."""

from __future__ import annotations

import math

import numpy as np

from ...backend.parallel import compiled
from .limits import CERTAIN, FARTHEST, LEAST, NEVER_ALL, WIDEST

# The relative size of rounding errors.
ROUNDING = 2.0**-52
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
def mills(x):
    """Return the probability that a standard normal variable exceeds x >= 0, divided by its density there."""
    if x < -DEEP:
        return math.sqrt(math.pi / 2) * math.erfc(x / math.sqrt(2.0)) * math.exp(x * x / 2)
    q = 1 / (x * x)
    return (1 - q * (1 - q * (3 - 15 * q))) / x


@compiled
def between(a, b):
    """Return the moments of a standard normal variable between a and b, and the log-probability; see ``plain.py``."""
    root = math.sqrt(2 * math.pi)
    near, far = (-b, -a) if b < 0 else (a, b)
    if near > 0:
        fraction = math.exp((near - far) * (near + far) / 2)
        whole = mills(near)
        ratio = max(whole - fraction * mills(far), ROUNDING * whole)
        at_near, at_far = 1 / ratio, fraction / ratio
        logarithm = math.log(ratio / root) - near * near / 2
    else:
        middle = max((math.erf(far / math.sqrt(2.0)) - math.erf(near / math.sqrt(2.0))) / 2, ROUNDING**2)
        at_near, at_far = math.exp(-near * near / 2) / (root * middle), math.exp(-far * far / 2) / (root * middle)
        logarithm = math.log(middle)
    first = at_near - at_far
    return (-first if b < 0 else first), max(1 + near * at_near - far * at_far, 0.0), logarithm


@compiled
def clipped(value, precision, spread, gain, low, high):
    """Return the moments of a clipped normal variable, its second moment before, and the evidence; see ``plain.py``."""
    mean, deviation = gain * value, math.sqrt(gain / precision)
    a = min(max((low - mean) / deviation, -FARTHEST), FARTHEST)
    b = min(max((high - mean) / deviation, -FARTHEST), FARTHEST)
    first, second, evidence = between(a, b)
    known = math.log(2.0) if low == 0 or high == 0 else 0.0
    top = (mean / deviation) ** 2 / 2 + evidence + known
    inside = min(max(mean + deviation * first, low), high)
    square = mean * mean + deviation * (2 * mean * first + deviation * second)
    square = min(max(square, inside * inside), max(low * low, high * high))
    total, moments = 1.0, (inside, square, square)
    for bound in (low, high):
        if bound != 0 and not math.isinf(bound):
            alpha = min(abs(bound) / math.sqrt(spread), FARTHEST)
            ratio = mills(alpha)
            weight = math.log(ratio / math.sqrt(2 * math.pi)) - alpha * alpha / 2 + known
            weight += precision * (value * bound - bound * bound / 2) + math.log1p(spread * precision) / 2
            beyond = min(spread * (1 + alpha / ratio), WIDEST * bound * bound)
            share = math.exp(min(top - weight, 0.0)), math.exp(min(weight - top, 0.0))
            moments = (
                moments[0] * share[0] + bound * share[1],
                moments[1] * share[0] + bound * bound * share[1],
                moments[2] * share[0] + beyond * share[1],
            )
            total = total * share[0] + share[1]
            top = max(top, weight)
    return moments[0] / total, moments[1] / total, moments[2] / total, top + math.log(total)


@compiled
def denoise_structured(
    first, last, r, gamma, density, variance, nonnegative, low, high, units, count, levels, x, var, active, power
):
    """Compute what ``denoise`` does for nonnegative or clipped entries, units that are nonzero together, or levels."""
    n, parts = r.shape[1], density.shape[1]
    odds, means, seconds, unclipped = np.empty(count), np.empty(n), np.empty(n), np.empty(n)
    gains, deviations, priors, each = np.empty(parts), np.empty(parts), np.empty(parts), np.empty(parts)
    some, energy = np.empty(parts), np.empty(parts)
    for row in range(first, last):
        precision = float(gamma[row])
        for part in range(parts):
            spread = float(variance[row, part])
            gains[part] = spread * precision / (1 + spread * precision)
            deviations[part] = math.sqrt(gains[part] / precision)
            priors[part] = math.log(density[row, part] / (1 - density[row, part] + NEVER_ALL))
            each[part] = 0.5 * math.log1p(spread * precision)
        for i in range(count):
            odds[i] = priors[levels[i] if levels.size else 0]
        for j in range(n):
            part, value = levels[j] if levels.size else 0, float(r[row, j])
            gain = gains[part]
            mean, second = gain * value, gain / precision + gain * gain * value * value
            evidence = 0.5 * value * value * precision * gain
            if nonnegative and not low.size:
                mean, second, evidence = truncated(mean, deviations[part])
            means[j], seconds[j], unclipped[j] = mean, second, second
            if low.size:
                spread = float(variance[row, part])
                means[j], seconds[j], unclipped[j], evidence = clipped(value, precision, spread, gain, low[j], high[j])
            odds[units[j] if units.size else j] += evidence - each[part]
        for i in range(count):
            odds[i] = 1 / (1 + math.exp(-min(max(odds[i], -CERTAIN), CERTAIN)))
        left, some[:], energy[:] = 0.0, 0.0, 0.0
        for j in range(n):
            part, chance = levels[j] if levels.size else 0, odds[units[j] if units.size else j]
            mean, square = chance * means[j], chance * seconds[j]
            x[row, j] = mean
            some[part] += chance
            energy[part] += chance * unclipped[j]
            left += max(square - mean * mean, LEAST)
        var[row], active[row], power[row] = left / n, some, energy
