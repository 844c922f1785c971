"""How good is an estimate? Signal-to-noise ratio, mean squared error, support recovery."""

from __future__ import annotations

from typing import Any

from .arrays import Array, namespace, norm


def snr_db(truth: Array, estimate: Array) -> Array:
    """20 log10(||truth|| / ||truth - estimate||) along the last axis; infinite where they are equal."""
    xp = namespace(truth, estimate)
    error = norm(truth - estimate)
    ratio = norm(truth) / xp.where(error > 0, error, xp.ones_like(error))
    return xp.where(error > 0, 20 * xp.log10(ratio), xp.full_like(ratio, xp.inf))


def mse(truth: Array, estimate: Array) -> Array:
    """Mean of |truth - estimate|^2 along the last axis."""
    return norm(truth - estimate) ** 2 / truth.shape[-1]


def support_recovery(truth: Array, estimate: Array) -> Any:
    """Fraction of the truth's nonzeros that the estimate has too, along the last axis; 1 where there are none."""
    xp = namespace(truth, estimate)
    wanted = xp.count_nonzero(truth, axis=-1)
    found = xp.count_nonzero((truth != 0) & (estimate != 0), axis=-1)
    dtype = norm(truth).dtype
    wanted, found = xp.astype(wanted, dtype), xp.astype(found, dtype)
    return xp.where(wanted > 0, found / xp.where(wanted > 0, wanted, xp.ones_like(wanted)), xp.ones_like(wanted))
