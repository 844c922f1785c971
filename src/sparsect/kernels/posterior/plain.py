"""Posterior of every entry, for real or complex arrays of any library."""

from __future__ import annotations

import math

import array_api_compat as compat

from ...backend.arrays import Array, epsilon, from_numpy, namespace, to_numpy
from ..thresholding import Structure
from .limits import CERTAIN, FARTHEST, LEAST, NEVER_ALL, SURELY_POSITIVE, WIDEST


def posterior(
    r: Array, gamma: Array, density: Array, variance: Array, kappa: float, structure: Structure | None = None
) -> tuple[Array, Array, Array, Array]:
    """Compute the posterior of Bernoulli-Gaussian x given r = x + N(0, 1/gamma).

    The entries of a group are zero or nonzero together. The nonzeros of a nonnegative x are half-normal, and normal
    values that exceed other bounds are at the bound. Each level has a prior of its own.

    Parameters
    ----------
    r : array, shape (batch, n)
        Noisy observations of x.
    gamma : array, shape (batch,)
        Precision of the noise.
    density : array, shape (batch,) or (batch, levels)
        Prior probability that an entry is nonzero.
    variance : array, shape (batch,) or (batch, levels)
        Prior variance of the nonzeros, before they are clipped.
    kappa : float
        1/2 for real and 1 for complex data.
    structure : Structure, optional
        What x may look like.

    Returns
    -------
    mean : array, shape (batch, n)
        Posterior mean.
    variance : array, shape (batch, n)
        Posterior variance.
    active : array, shape (batch, n)
        Posterior probability that an entry is nonzero.
    power : array, shape (batch, n)
        Posterior mean of ``|x|^2``.
    """
    return posterior_and_power(r, gamma, density, variance, kappa, structure)[:4]


def posterior_and_power(
    r: Array, gamma: Array, density: Array, variance: Array, kappa: float, structure: Structure | None
) -> tuple[Array, Array, Array, Array, Array]:
    """Compute the posterior, and the posterior mean of ``|x|^2`` before values were clipped.

    Parameters
    ----------
    r, gamma, density, variance, kappa, structure : array, float and Structure
        As for :func:`posterior`.

    Returns
    -------
    tuple of array, shape (batch, n)
        What :func:`posterior` returns, and the power before values were clipped.
    """
    xp = namespace(r)
    gamma = gamma[:, None]
    density, variance = (
        value[:, None] if structure is None else structure.of_units(value) for value in (density, variance)
    )
    gain = variance * gamma / (1 + variance * gamma)
    evidence = kappa * xp.abs(r) ** 2 * gamma * gain
    mean = gain * r
    second = unclipped = gain / gamma + xp.abs(mean) ** 2
    if structure is not None and structure.clips:
        mean, second, unclipped, evidence = _clipped(r, gamma, variance, gain, structure)
    elif structure is not None and structure.nonnegative:
        mean, second, evidence = _truncated(mean, xp.sqrt(gain / gamma))
        unclipped = second
    evidence = evidence - kappa * xp.log(1 + variance * gamma)
    if structure is not None:
        evidence = structure.unit_sums(evidence)
    odds = xp.log(density / (1 - density + NEVER_ALL)) + evidence
    active = 1 / (1 + xp.exp(-xp.clip(odds, -CERTAIN, CERTAIN)))
    power = active * second
    x = active * mean
    var = power - xp.abs(x) ** 2
    return x, xp.where(var > LEAST, var, xp.full_like(var, LEAST)), active, power, active * unclipped


def _truncated(mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Return the first two moments of a normal variable if it is positive, and the evidence for the slab.

    With a = mean / deviation and the normal distribution function Phi, the evidence is a^2 / 2 + log(2 Phi(a)).
    """
    xp, a = namespace(mean), mean / deviation
    sure = a > SURELY_POSITIVE
    scaled = _special("erfcx", -xp.where(sure, xp.zeros_like(a), a) / math.sqrt(2))
    hazard = xp.where(sure, xp.zeros_like(a), math.sqrt(2 / math.pi) / scaled)
    evidence = xp.where(sure, a**2 / 2 + math.log(2), xp.log(scaled))
    excess = a + hazard
    return deviation * excess, deviation**2 * xp.clip(1 + a * excess, 0.0, None), evidence


def _clipped(
    r: Array, gamma: Array, variance: Array, gain: Array, structure: Structure
) -> tuple[Array, Array, Array, Array]:
    """Return the moments of a clipped normal variable, its second moment before, and the evidence for the slab.

    A normal z of the given variance, which is positive if the lower bound is zero and negative if the upper one is,
    becomes x = min(max(z, low), high), so that values within the bounds compete with the bounds themselves. The
    evidence leaves out the factor (1 + variance gamma)^-1/2, as for ``_truncated``.
    """
    xp, mean, deviation = namespace(r), gain * r, namespace(r).sqrt(gain / gamma)
    bounds = (bound for bound in (structure.low, structure.high) if bound is not None)
    low, high = (xp.astype(from_numpy(bound, r), r.dtype)[None, :] + 0 * r for bound in bounds)
    a, b = (xp.clip((bound - mean) / deviation, -FARTHEST, FARTHEST) for bound in (low, high))
    first, second, evidence = _between(a, b)
    inside = xp.minimum(xp.maximum(mean + deviation * first, low), high)
    square = mean**2 + deviation * (2 * mean * first + deviation * second)
    square = xp.minimum(xp.maximum(square, inside**2), xp.maximum(low**2, high**2))
    # A sign is known before y is seen if a bound is zero.
    known = xp.where((low == 0) | (high == 0), xp.full_like(r, math.log(2)), xp.zeros_like(r))
    parts = [((mean / deviation) ** 2 / 2 + evidence + known, inside, square, square)]
    for bound in (low, high):
        there = xp.isfinite(bound) & (bound != 0)
        value = xp.where(there, bound, xp.ones_like(bound))
        alpha = xp.clip(xp.abs(value) / xp.sqrt(variance), 0.0, FARTHEST)
        mills = _mills(alpha)
        beyond = xp.minimum(variance * (1 + alpha / mills), WIDEST * value**2)
        weight = xp.log(mills / math.sqrt(2 * math.pi)) - alpha**2 / 2 + gamma * (r * value - value**2 / 2)
        weight = weight + known + xp.log(1 + variance * gamma) / 2
        parts.append((xp.where(there, weight, xp.full_like(r, -xp.inf)), value, value**2, beyond))
    weights = xp.stack([part[0] for part in parts])
    top = xp.max(weights, axis=0)
    shares = xp.exp(weights - top)
    total = xp.sum(shares, axis=0)
    moments = [xp.sum(shares / total * xp.stack([part[place] for part in parts]), axis=0) for place in (1, 2, 3)]
    return moments[0], moments[1], moments[2], top + xp.log(total)


def _between(a: Array, b: Array) -> tuple[Array, Array, Array]:
    """Return the first two moments of a standard normal variable between a and b, and the log-probability of that.

    Outside of the middle, a and b are mirrored to 0 < a < b, and Mills ratios avoid differences of small numbers.
    """
    xp, mirrored = namespace(a), b < 0
    near, far = xp.where(mirrored, -b, a), xp.where(mirrored, -a, b)
    outside = near > 0
    t = xp.where(outside, near, xp.zeros_like(near))
    fraction = xp.exp((t - far) * (t + far) / 2)
    whole, rounding, root = _mills(t), epsilon(a), math.sqrt(2 * math.pi)
    ratio = whole - fraction * _mills(xp.where(outside, far, xp.zeros_like(far)))
    middle = (_special("erf", far / math.sqrt(2)) - _special("erf", near / math.sqrt(2))) / 2
    # An interval may be too narrow to be seen.
    ratio, middle = xp.maximum(ratio, rounding * whole), xp.clip(middle, rounding**2, None)
    at_near = xp.where(outside, 1 / ratio, xp.exp(-(near**2) / 2) / (root * middle))
    at_far = xp.where(outside, fraction / ratio, xp.exp(-(far**2) / 2) / (root * middle))
    logarithm = xp.where(outside, xp.log(ratio / root) - t**2 / 2, xp.log(middle))
    first = at_near - at_far
    second = xp.clip(1 + near * at_near - far * at_far, 0.0, None)
    return xp.where(mirrored, -first, first), second, logarithm


def _mills(x: Array) -> Array:
    """Return the probability that a standard normal variable exceeds x >= 0, divided by its density there."""
    return math.sqrt(math.pi / 2) * _special("erfcx", x / math.sqrt(2))


def _special(name: str, x: Array) -> Array:
    """Return a special function, erf(x) or exp(x^2) erfc(x) = erfcx(x)."""
    if compat.is_torch_array(x):
        import torch

        return getattr(torch.special, name)(x)
    if compat.is_cupy_array(x):
        from cupyx.scipy import special as on_gpu

        return getattr(on_gpu, name)(x)
    from scipy import special

    return from_numpy(getattr(special, name)(to_numpy(x)), x)
