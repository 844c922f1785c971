"""Least-squares fits on given supports, for a batch of signals.

Dense operators use ``kernels/fitting``; the others use conjugate gradients restricted to the support.
"""

from __future__ import annotations

from ..backend.arrays import Array, namespace
from ..kernels.fitting import corrects_rounding, fit
from .base import Operator
from .pseudo_inverse import ConjugateGradients


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
    return fit(operator, y, support) if operator.is_dense else _by_conjugate_gradients(operator, y, support)


def refit(operator: Operator, y: Array, x: Array) -> Array:
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

    Returns
    -------
    array, shape (batch, n)
        The debiased signals.
    """
    support = x != 0
    fitted = on_support(operator, y, support)
    if not operator.is_dense or corrects_rounding(y, support):
        return fitted
    return fitted + on_support(operator, y - operator.forward(fitted), support)


def _by_conjugate_gradients(operator: Operator, y: Array, support: Array) -> Array:
    """Fit by conjugate gradients, with gradients set to zero outside the support."""

    def adjoint(r: Array) -> Array:
        x = operator.adjoint(r)
        return namespace(x).where(support, x, namespace(x).zeros_like(x))

    solver = ConjugateGradients(operator.forward, adjoint, operator.shape)
    x, _ = solver.correction(y, 0.0)
    operator.pseudo_inverse.unconverged += solver.unconverged
    return x
