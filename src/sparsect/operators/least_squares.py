"""Least squares on given supports, for a batch: the best x that is zero elsewhere.

Dense Phi: ``kernels/fitting``. Otherwise: conjugate gradients on the columns of the support.
"""

from __future__ import annotations

from ..backend.arrays import Array, namespace
from ..kernels.fitting import corrects_rounding, fit
from .base import Operator
from .row_space import ConjugateGradients


def on_support(operator: Operator, y: Array, support: Array) -> Array:
    """argmin ||Phi x - y|| over x that vanish outside ``support``, for every row.

    Parameters
    ----------
    operator : Operator
        Phi, (m, n).
    y : array, (batch, m)
    support : array of bool, (batch, n)
        True where x may be nonzero; rows may differ in size.

    Returns
    -------
    array, (batch, n)
    """
    return fit(operator, y, support) if operator.is_dense else _by_conjugate_gradients(operator, y, support)


def refit(operator: Operator, y: Array, x: Array) -> Array:
    """``x`` with its nonzeros replaced by the least-squares fit on them, corrected for rounding if Phi is dense."""
    support = x != 0
    fitted = on_support(operator, y, support)
    if not operator.is_dense or corrects_rounding(y, support):
        return fitted
    return fitted + on_support(operator, y - operator.forward(fitted), support)


def _by_conjugate_gradients(operator: Operator, y: Array, support: Array) -> Array:
    def adjoint(r: Array) -> Array:
        x = operator.adjoint(r)
        return namespace(x).where(support, x, namespace(x).zeros_like(x))

    solver = ConjugateGradients(operator.forward, adjoint, operator.shape)
    x, _ = solver.correction(y, 0.0)
    operator.row_space.unfinished += solver.unfinished
    return x
