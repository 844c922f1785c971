"""Posterior of every entry, for real or complex arrays of any library."""

from __future__ import annotations

import math

import array_api_compat as compat

from ...backend.arrays import Array, from_numpy, namespace, to_numpy
from ..thresholding import Structure
from .limits import CERTAIN, LEAST, NEVER_ALL, SURE


def posterior(
    r: Array, gamma: Array, density: Array, variance: Array, kappa: float, structure: Structure | None = None
) -> tuple[Array, Array, Array, Array]:
    """Compute the posterior of Bernoulli-Gaussian x given r = x + N(0, 1/gamma).

    The entries of a group are zero or nonzero together. The nonzeros of a nonnegative x are half-normal.

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
    kappa : float
        1/2 for real and 1 for complex data.
    structure : Structure, optional
        What x may look like: of groups or nonnegative entries. Other bounds and levels are ignored.

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
    xp = namespace(r)
    gamma, density, variance = (value[:, None] for value in (gamma, density, variance))
    square = xp.abs(r) ** 2
    gain = variance * gamma / (1 + variance * gamma)
    evidence = kappa * square * gamma * gain
    mean = gain * r
    second = gain / gamma + xp.abs(mean) ** 2
    if structure is not None and structure.nonnegative:
        mean, second, evidence = _truncated(mean, xp.sqrt(gain / gamma))
    evidence = evidence - kappa * xp.log(1 + variance * gamma)
    if structure is not None:
        evidence = structure.unit_sums(evidence)
    odds = xp.log(density / (1 - density + NEVER_ALL)) + evidence
    active = 1 / (1 + xp.exp(-xp.clip(odds, -CERTAIN, CERTAIN)))
    power = active * second
    x = active * mean
    var = power - xp.abs(x) ** 2
    return x, xp.where(var > LEAST, var, xp.full_like(var, LEAST)), active, power


def _truncated(mean: Array, deviation: Array) -> tuple[Array, Array, Array]:
    """Return the first two moments of a normal variable if it is positive, and the evidence for the slab.

    With a = mean / deviation and the normal distribution function Phi, the evidence is a^2 / 2 + log(2 Phi(a)).
    """
    xp, a = namespace(mean), mean / deviation
    sure = a > SURE
    scaled = _erfcx(-xp.where(sure, xp.zeros_like(a), a) / math.sqrt(2))
    hazard = xp.where(sure, xp.zeros_like(a), math.sqrt(2 / math.pi) / scaled)
    evidence = xp.where(sure, a**2 / 2 + math.log(2), xp.log(scaled))
    excess = a + hazard
    return deviation * excess, deviation**2 * xp.clip(1 + a * excess, 0.0, None), evidence


def _erfcx(x: Array) -> Array:
    """Return exp(x^2) erfc(x)."""
    if compat.is_torch_array(x):
        import torch

        return torch.special.erfcx(x)
    if compat.is_cupy_array(x):
        from cupyx.scipy import special as on_gpu

        return on_gpu.erfcx(x)
    from scipy import special

    return from_numpy(special.erfcx(to_numpy(x)), x)
