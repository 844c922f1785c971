"""Posterior of every entry, for real or complex arrays of any library."""

from __future__ import annotations

from ...backend.arrays import Array, namespace
from .limits import CERTAIN, LEAST, NEVER_ALL


def posterior(
    r: Array, gamma: Array, density: Array, variance: Array, kappa: float
) -> tuple[Array, Array, Array, Array]:
    """Compute the posterior of Bernoulli-Gaussian x given r = x + N(0, 1/gamma).

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
    odds = (
        xp.log(density / (1 - density + NEVER_ALL))
        - kappa * xp.log(1 + variance * gamma)
        + kappa * square * gamma * gain
    )
    active = 1 / (1 + xp.exp(-xp.clip(odds, -CERTAIN, CERTAIN)))
    mean = gain * r
    power = active * (gain / gamma + xp.abs(mean) ** 2)
    x = active * mean
    var = power - xp.abs(x) ** 2
    return x, xp.where(var > LEAST, var, xp.full_like(var, LEAST)), active, power
