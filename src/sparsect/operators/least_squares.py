"""Least-squares fits on given supports, for a batch of signals.

Dense operators use ``kernels/fitting``; the others use conjugate gradients restricted to the support, or projected
gradients if entries have bounds.
"""

from __future__ import annotations

import numpy as np

from ..backend.arrays import Array, at_columns, from_numpy, namespace, real_dtype, to_numpy
from ..backend.norms import norm, squared_norm
from ..kernels.fitting import corrects_rounding, fit, fit_bounded
from ..kernels.thresholding import Structure, project
from .base import Operator
from .pseudo_inverse import ConjugateGradients
from .repeated import split

# With more columns, the products of all pairs take too much memory. Fits then use this many columns at a time.
MANY, USED = 8192, 512
# Iterations of projected gradients, and of the power method that determines their step.
GRADIENTS, POWER = 300, 20


def on_support(operator: Operator, y: Array, support: Array) -> Array:
    """Minimize ||Phi x - y|| over all x that vanish outside ``support``, for every row.

    Parameters
    ----------
    operator : Operator
        Phi, of shape (m, n).
    y : array, shape (batch, m)
        Measurements.
    support : array of bool, shape (batch, n)
        True where x may be nonzero. The number of True entries may differ between rows.

    Returns
    -------
    array, shape (batch, n)
        The least-squares solutions.
    """
    if operator.times > 1:
        parts = _as_rows(y, operator.times), _as_rows(support, operator.times)
        fitted = on_support(operator.inner, *parts)
        return namespace(y).reshape(fitted, support.shape)
    if not operator.is_dense:
        return _by_conjugate_gradients(operator, y, support)
    return fit(operator, y, support) if operator.shape[1] <= MANY else _in_parts(operator, y, support)


def refit(operator: Operator, y: Array, x: Array, structure: Structure | None = None) -> Array:
    """Replace the nonzeros of ``x`` by the least-squares fit on its support.

    For a dense Phi the fit is corrected once for rounding errors.

    Parameters
    ----------
    operator : Operator
        Phi, of shape (m, n).
    y : array, shape (batch, m)
        Measurements.
    x : array, shape (batch, n)
        Signals whose supports are used.
    structure : Structure, optional
        What signals may look like. With bounds, the fit is the best one within them. With a set of the user's own, the
        projection of the fit is taken, if it is better than x.

    Returns
    -------
    array, shape (batch, n)
        The debiased signals.
    """
    if structure is not None and structure.bounded:
        if operator.is_dense and operator.shape[1] <= MANY:
            return fit_bounded(operator, y, structure.clipped(x), structure)
        return _by_projected_gradients(operator, y, structure.clipped(x), structure)
    support = x != 0
    fitted = on_support(operator, y, support)
    if operator.is_dense and not corrects_rounding(y, support):
        fitted = fitted + on_support(operator, y - operator.forward(fitted), support)
    if structure is None or structure.nearest is None:
        return fitted
    fitted = project(fitted, structure)
    better = norm(operator.forward(fitted) - y) < norm(operator.forward(x) - y)
    return namespace(x).where(better[:, None], fitted, x)


def _in_parts(operator: Operator, y: Array, support: Array) -> Array:
    """Fit a few rows at a time, with the columns in their supports only."""
    xp, used = namespace(y), to_numpy(support)
    rows = max(1, USED // int(used.sum(axis=1).max(initial=1)))
    parts = []
    for start in range(0, max(y.shape[0], 1), rows):
        some = slice(start, min(start + rows, y.shape[0]))
        columns = np.flatnonzero(used[some].any(axis=0))
        if not columns.size:
            parts.append(xp.zeros_like(support[some, :], dtype=y.dtype))
            continue
        fitted = fit(operator.among(columns), y[some, :], from_numpy(used[some][:, columns], support))
        parts.append(at_columns(fitted, columns, operator.shape[1]))
    return xp.concat(parts)


def _as_rows(array: Array, times: int) -> Array:
    """Make a row of every part of every row."""
    parts = split(array, times)
    return namespace(array).reshape(parts, (-1, parts.shape[-1]))


def _by_conjugate_gradients(operator: Operator, y: Array, support: Array) -> Array:
    """Fit by conjugate gradients, with gradients set to zero outside the support."""

    def adjoint(r: Array) -> Array:
        x = operator.adjoint(r)
        return namespace(x).where(support, x, namespace(x).zeros_like(x))

    solver = ConjugateGradients(operator.forward, adjoint, operator.shape)
    x, _ = solver.correction(y, 0.0)
    operator.pseudo_inverse.unconverged += solver.unconverged
    return x


def _by_projected_gradients(operator: Operator, y: Array, x: Array, structure: Structure) -> Array:
    """Fit within bounds by accelerated projected gradients (Beck and Teboulle 2009), restarted where they overshoot."""
    xp, support = namespace(x), x != 0
    # Entries of many different sizes, so that no direction is left out.
    sizes = xp.sin(xp.arange(1, x.shape[-1] + 1, dtype=real_dtype(x), device=x.device) ** 2)
    probe = xp.where(support, sizes + 0 * x, xp.zeros_like(x))
    largest = 0 * norm(x)
    for _ in range(POWER):
        length = norm(probe)
        probe = probe / xp.where(length > 0, length, xp.ones_like(length))[:, None]
        image = operator.adjoint(operator.forward(probe))
        probe = xp.where(support, image, xp.zeros_like(x))
        largest = norm(probe)
    step = 1 / (1.05 * xp.where(largest > 0, largest, xp.ones_like(largest)))[:, None]
    ahead, weight, least = x, xp.ones_like(step), squared_norm(operator.forward(x) - y)
    for _ in range(GRADIENTS):
        gradient = operator.adjoint(operator.forward(ahead) - y)
        moved = structure.clipped(xp.where(support, ahead - step * gradient, xp.zeros_like(x)))
        misfit = squared_norm(operator.forward(moved) - y)
        worse = (misfit > least)[:, None]
        # Without acceleration, a step that is worse is too long.
        step = xp.where(worse & (weight == 1), step / 2, step)
        next_weight = (1 + xp.sqrt(1 + 4 * weight**2)) / 2
        ahead = xp.where(worse, x, moved + (weight - 1) / next_weight * (moved - x))
        weight = xp.where(worse, xp.ones_like(weight), next_weight)
        x, least = xp.where(worse, x, moved), xp.where(worse[:, 0], least, misfit)
    return x
