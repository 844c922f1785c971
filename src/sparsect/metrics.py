"""How good is an estimate? Signal-to-noise ratio, mean squared error, support recovery."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend.arrays import Array, floating, namespace, norm
from .backend.checks import reject


def snr_db(truth: Any, estimate: Any) -> Array:
    """20 log10(||truth|| / ||truth - estimate||) along the last axis; infinite where they are equal."""
    truth, estimate = _pair(truth, estimate)
    xp = namespace(truth)
    error = norm(truth - estimate)
    ratio = norm(truth) / xp.where(error == 0, xp.ones_like(error), error)
    with np.errstate(divide="ignore"):
        return xp.where(error == 0, xp.full_like(ratio, xp.inf), 20 * xp.log10(ratio))


def mse(truth: Any, estimate: Any) -> Array:
    """Mean of |truth - estimate|^2 along the last axis."""
    truth, estimate = _pair(truth, estimate)
    return norm(truth - estimate) ** 2 / truth.shape[-1]


def support_recall(truth: Any, estimate: Any) -> Array:
    """Fraction of the truth's nonzeros that the estimate has too, along the last axis; 1 where there are none."""
    truth, estimate = _pair(truth, estimate)
    xp, dtype = namespace(truth), norm(truth).dtype
    wanted = xp.astype(xp.count_nonzero(truth, axis=-1), dtype)
    found = xp.astype(xp.count_nonzero((truth != 0) & (estimate != 0), axis=-1), dtype)
    return xp.where(wanted > 0, found / xp.where(wanted > 0, wanted, xp.ones_like(wanted)), xp.ones_like(wanted))


def _pair(truth: Any, estimate: Any) -> tuple[Array, Array]:
    """Both as floating arrays of one shape; NaN is let through, so that a bad estimate is seen for what it is."""
    truth, estimate = floating("truth", truth, finite=False), floating("estimate", estimate, finite=False)
    namespace(truth, estimate)
    if truth.ndim == 0 or truth.shape[-1] == 0:
        raise reject("truth", f"shape {tuple(truth.shape)}", "rows of at least one number")
    if truth.shape != estimate.shape:
        raise reject("estimate", f"shape {tuple(estimate.shape)}", f"that of the truth, {tuple(truth.shape)}")
    return truth, estimate
