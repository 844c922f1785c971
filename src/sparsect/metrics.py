"""Metrics of an estimate: signal-to-noise ratio, mean squared error and support recall."""

from __future__ import annotations

from typing import Any

import numpy as np

from .backend.array_checks import floating
from .backend.arrays import Array, namespace
from .backend.checks import reject
from .backend.norms import norm


def snr_db(truth: Any, estimate: Any) -> Array:
    """Compute the signal-to-noise ratio in decibels along the last axis.

    The ratio is 20 log10(||truth|| / ||truth - estimate||), and infinite where the two are equal.

    Parameters
    ----------
    truth : array, shape (..., n)
        True signals.
    estimate : array, shape (..., n)
        Estimates of these signals.

    Returns
    -------
    array, shape (...)
        Signal-to-noise ratio of each row.

    Examples
    --------
    >>> import sparsect
    >>> float(sparsect.snr_db([10.0, 0.0], [9.0, 0.0]))
    20.0
    """
    truth, estimate = _pair(truth, estimate)
    xp = namespace(truth)
    error = norm(truth - estimate)
    ratio = norm(truth) / xp.where(error == 0, xp.ones_like(error), error)
    with np.errstate(divide="ignore"):
        return xp.where(error == 0, xp.full_like(ratio, xp.inf), 20 * xp.log10(ratio))


def mse(truth: Any, estimate: Any) -> Array:
    """Compute the mean squared error along the last axis.

    Parameters
    ----------
    truth : array, shape (..., n)
        True signals, real or complex.
    estimate : array, shape (..., n)
        Estimates of these signals.

    Returns
    -------
    array, shape (...)
        Mean of ``|truth - estimate|^2`` in each row.

    Examples
    --------
    >>> import sparsect
    >>> sparsect.mse([[1.0, 2.0], [3.0, 4.0]], [[1.0, 4.0], [3.0, 4.0]]).round(6)
    array([2., 0.])
    """
    truth, estimate = _pair(truth, estimate)
    return norm(truth - estimate) ** 2 / truth.shape[-1]


def support_recall(truth: Any, estimate: Any) -> Array:
    """Compute the fraction of the true support that the estimate recovers, along the last axis.

    Parameters
    ----------
    truth : array, shape (..., n)
        True signals.
    estimate : array, shape (..., n)
        Estimates of these signals.

    Returns
    -------
    array, shape (...)
        Fraction of the nonzeros of each true signal that are nonzero in the estimate, too; 1 where the true signal
        is zero.

    Examples
    --------
    >>> import sparsect
    >>> float(sparsect.support_recall([1.0, 2.0, 0.0, 0.0], [0.9, 0.0, 0.3, 0.0]))
    0.5
    """
    truth, estimate = _pair(truth, estimate)
    xp, dtype = namespace(truth), norm(truth).dtype
    wanted = xp.astype(xp.count_nonzero(truth, axis=-1), dtype)
    found = xp.astype(xp.count_nonzero((truth != 0) & (estimate != 0), axis=-1), dtype)
    return xp.where(wanted > 0, found / xp.where(wanted > 0, wanted, xp.ones_like(wanted)), xp.ones_like(wanted))


def _pair(truth: Any, estimate: Any) -> tuple[Array, Array]:
    """Convert both to floating arrays of one shape; NaN is accepted, so that a bad estimate gives a NaN metric."""
    truth, estimate = floating("truth", truth, finite=False), floating("estimate", estimate, finite=False)
    namespace(truth, estimate)
    if truth.ndim == 0 or truth.shape[-1] == 0:
        raise reject("truth", f"shape {tuple(truth.shape)}", "have rows of at least one number")
    if truth.shape != estimate.shape:
        raise reject("estimate", f"shape {tuple(estimate.shape)}", f"have the shape of the truth, {tuple(truth.shape)}")
    return truth, estimate
