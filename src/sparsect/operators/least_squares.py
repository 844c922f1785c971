"""Least squares on given supports, for a batch: the best x that is zero elsewhere.

Dense Phi: normal equations gathered from the Gram matrix, one small solve a row, in double precision, compiled where
there are many rows or a GPU. Otherwise: conjugate gradients on the columns of the support.
"""

from __future__ import annotations

import math

import numpy as np

from ..backend.arrays import Array, contiguous, has_kernels, is_complex, namespace, worth_compiling
from ..problems import Problem
from .base import Operator
from .row_space import ConjugateGradients

# Rows are solved in groups whose Gram matrices together take at most this much memory.
GROUP_BYTES = 2**27
# Squared distance of a unit column from the span of others, for each of their entries, that is rounding.
DEPENDENT = 4 * 2.0**-52


def on_support(operator: Operator, y: Array, support: Array) -> Array:
    """argmin ||Phi x - y|| over x that vanish outside ``support``, for every row.

    Parameters
    ----------
    operator : Phi, (m, n)
    y : (batch, m)
    support : (batch, n), true where x may be nonzero; rows may differ in size
    """
    if not operator.is_dense:
        return _by_conjugate_gradients(operator, y, support)
    if worth_compiling(y, support):
        return _row_by_row(operator, y, support)
    if has_kernels(support) and not is_complex(y):
        from ..kernels.fitting.gpu import fit as fit_on_gpu

        return fit_on_gpu(operator.double_gram_matrix, operator.Phi, y, support, DEPENDENT)
    return _by_normal_equations(operator, operator.adjoint(y), support)


def refit(problem: Problem, x: Array) -> Array:
    """``x`` with its nonzeros replaced by the least-squares fit on them, corrected for rounding if Phi is dense."""
    support = x != 0
    fitted = on_support(problem.operator, problem.y, support)
    if not problem.operator.is_dense or worth_compiling(problem.y, support) or has_kernels(fitted):
        return fitted
    residual = problem.y - problem.operator.forward(fitted)
    return fitted + on_support(problem.operator, residual, support)


def _row_by_row(operator: Operator, y: Array, support: Array) -> Array:
    """The compiled fits, for many rows in main memory."""
    from ..backend.parallel import over_rows
    from ..kernels.fitting.cpu import fit

    (m, n), batch = operator.shape, y.shape[0]
    gram, columns = operator.double_gram_matrix, operator.columns
    x = np.empty((batch, n), dtype=y.dtype)
    size = int(np.max(np.count_nonzero(support, axis=-1)))
    dependent = DEPENDENT * max(m, n)
    over_rows(fit, batch, gram, columns, contiguous(y), support, dependent, x, work=size**3 / 3 + 4 * size * m)
    return x


def _by_conjugate_gradients(operator: Operator, y: Array, support: Array) -> Array:
    def adjoint(r: Array) -> Array:
        x = operator.adjoint(r)
        return namespace(x).where(support, x, namespace(x).zeros_like(x))

    solver = ConjugateGradients(operator.forward, adjoint, operator.shape)
    x, _ = solver.correction(y, 0.0)
    operator.row_space.unfinished += solver.unfinished
    return x


def _by_normal_equations(operator: Operator, correlation: Array, support: Array) -> Array:
    """Solve Phi_S^H Phi_S z = (Phi^H y)_S for every row's support S, padded to the size of the largest."""
    xp = namespace(correlation)
    batch = support.shape[0]
    size = int(xp.max(xp.count_nonzero(support, axis=-1)))
    if size == 0:
        return xp.zeros_like(correlation)
    group = max(1, GROUP_BYTES // (24 * size * size))
    parts = []
    for start in range(0, batch, group):
        rows = slice(start, min(start + group, batch))
        parts.append(_solve_group(operator.gram_matrix, correlation[rows, :], support[rows, :], size))
    return parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)


def _solve_group(gram: Array, correlation: Array, support: Array, size: int) -> Array:
    xp = namespace(gram)
    n = support.shape[-1]
    wide = xp.complex128 if xp.isdtype(gram.dtype, "complex floating") else xp.float64
    order = xp.argsort(xp.astype(~support, xp.int8), axis=-1, stable=True)[:, :size]
    inside = xp.take_along_axis(support, order, axis=-1)
    places = xp.reshape(order[:, :, None] * n + order[:, None, :], (math.prod(order.shape) * size,))
    gathered = xp.reshape(xp.take(xp.reshape(gram, (n * n,)), places, axis=0), (order.shape[0], size, size))
    identity = xp.eye(size, dtype=wide, device=gram.device)
    both = inside[:, :, None] & inside[:, None, :]
    # Columns are scaled to norm 1 first. Dependent ones make the equations singular; a ridge at rounding level picks a
    # small solution.
    lengths = xp.sqrt(xp.abs(xp.astype(xp.take(xp.reshape(gram, (n * n,)), xp.reshape(order * (n + 1), (-1,))), wide)))
    lengths = xp.reshape(lengths, order.shape)
    lengths = xp.where(inside & (lengths > 0), lengths, xp.ones_like(lengths))
    scaled = xp.astype(gathered, wide) / lengths[:, :, None] / lengths[:, None, :]
    ridge = 4 * size * float(xp.finfo(xp.float64).eps)
    matrices = xp.where(both, scaled, identity) + ridge * identity
    values = xp.where(inside, xp.take_along_axis(correlation, order, axis=-1), xp.zeros_like(correlation[:, :size]))
    solution = xp.linalg.solve(matrices, (xp.astype(values, wide) / lengths)[:, :, None])[:, :, 0] / lengths
    position = xp.cumulative_sum(xp.astype(support, order.dtype), axis=-1) - 1
    position = xp.where(support, position, xp.zeros_like(position))
    spread = xp.take_along_axis(xp.astype(solution, correlation.dtype), position, axis=-1)
    return xp.where(support, spread, xp.zeros_like(spread))
