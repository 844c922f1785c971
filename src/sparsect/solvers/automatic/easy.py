"""Rows that a few columns explain almost beyond doubt: solved directly, without a factorization of Phi."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...backend.arrays import BoolArray, NumpyArray, epsilon, to_numpy
from ...kernels.supports import grow, moved_singly
from ...problems import Problem

# Columns in the first working set and columns added to it each time, for each nonzero and at least.
WIDTH, MORE, LEAST = 2.0, 0.5, 16
# The number of working sets.
ROUNDS = 8
# A fit is exact if its residual is below this times the square root of machine epsilon times ||y||.
EXACT = 0.1
# The expected number of nonzeros that belong elsewhere, up to which a row is easy: for each nonzero, and at most.
DOUBT = 0.05, 1.0
# Columns whose cosine with another one is above this may have been mistaken for it. Cosines that are twice too fine
# have 0.64.
COHERENT = 0.5
# Only rows with at most this many nonzeros for each measurement are tried.
SPARSE = 0.25


class Easy(NamedTuple):
    """The rows that were solved directly; entries of the other rows are zero.

    Attributes
    ----------
    x : array, shape (batch, n)
        The solutions.
    deviation : array, shape (batch, n)
        The posterior standard deviations of their entries.
    inclusion : array, shape (batch, n)
        The posterior probabilities of being nonzero.
    solved : array of bool, shape (batch,)
        The rows that are solved.
    """

    x: NumpyArray
    deviation: NumpyArray
    inclusion: NumpyArray
    solved: BoolArray


def solve_easy(problem: Problem) -> Easy:
    """Solve the rows that a few columns explain almost beyond doubt.

    Columns are selected from a working set by orthogonal least squares; the set grows by the columns that correlate
    most with the residual. A row is solved if the fit is exact, or if no selected column resembles another one and the
    noise that the fit leaves makes it improbable that many nonzeros belong elsewhere. In the second case, each nonzero
    is averaged over its places, given the other ones.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi.

    Returns
    -------
    Easy
        The solved rows.
    """
    m, n = problem.operator.shape
    s, shape = problem.sparsity, (problem.batch, n)
    data, Phi, norms = to_numpy(problem.y), to_numpy(problem.operator.Phi), problem.operator.column_norms
    x, deviation, inclusion = np.zeros(shape, dtype=data.dtype), np.zeros(shape), np.zeros(shape)
    solved = np.zeros(problem.batch, dtype=bool)
    noise_norm = np.zeros(problem.batch) if problem.noise_norm is None else to_numpy(problem.noise_norm)
    for row in range(problem.batch if 0 < s <= SPARSE * m else 0):
        y = data[row]
        size = float(np.linalg.norm(y))
        exact = EXACT * epsilon(y) ** 0.5 * size
        support, values, left, correlations = _pursuit(Phi, norms, y, s, exact) if size else ([], 0.0, 0.0, None)
        if support is None:
            continue
        if correlations is None:
            x[row, support], inclusion[row, support], solved[row] = values, 1.0, True
        elif len(support):
            # More noise than y has means the same, and its square might overflow.
            variance = max(left**2 / max(m - s, 1), min(float(noise_norm[row]), size) ** 2 / m)
            found = _posterior(Phi, norms, support, values, correlations, variance)
            if found is not None:
                x[row], deviation[row], inclusion[row] = found
                solved[row] = True
                fitted = _exact_at_other_places(Phi, y, x[row], support, exact)
                if fitted is not None:
                    x[row], deviation[row], inclusion[row] = fitted, 0.0, fitted != 0
    return Easy(x, deviation, inclusion, solved)


def _exact_at_other_places(Phi: Any, y: Any, mean: Any, support: Any, exact: float) -> Any:
    """Fit the nonzeros of the mean if they are not the columns of the pursuit; return None if the fit is not exact.

    The mean may have found the right column where the pursuit took a wrong one for a small nonzero.
    """
    places = np.flatnonzero(mean)
    if np.array_equal(places, np.sort(support)):
        return None
    own = Phi[:, places].T.astype(np.result_type(y, np.float64))
    products = own.conj() @ own.T
    if grow(products, own.conj() @ y, places.size).size < places.size:
        # A nonzero that may belong to either of two equal columns.
        return None
    values, rest = _fit(own, products, y, exact)
    if np.linalg.norm(rest) > exact:
        return None
    x = np.zeros_like(mean)
    x[places] = values
    return x


def _pursuit(Phi: Any, norms: Any, y: Any, s: int, exact: float) -> tuple[Any, Any, float, Any]:
    """Select s columns; return them, their coefficients, the norm of the residual, and its correlations with Phi.

    The working set grows as long as a column outside it correlates more with the residual than the weakest one that is
    selected. The columns are None if that does not end, and the correlations are None if the residual vanishes.
    """
    (m, n), wide = Phi.shape, np.result_type(Phi, y, np.float64)
    width, more = (max(round(part * s), LEAST) for part in (WIDTH, MORE))
    most = min(n, width + (ROUNDS - 1) * more)
    # The columns of the working set are rows here; those of conj are conjugated.
    working, columns = np.empty(most, dtype=np.int64), np.empty((most, m), dtype=wide)
    conj = columns if wide.kind == "f" else np.empty_like(columns)
    gram, outside = np.empty((most, most), dtype=wide), 1 / np.where(norms > 0, norms, np.inf)
    y = y.astype(wide)
    size, correlations = 0, y.conj() @ Phi
    for _ in range(ROUNDS):
        old, size = size, min(size + (more if size else width), most)
        if old < size:
            new = np.argpartition(-np.abs(correlations) * outside, size - old - 1)[: size - old]
            outside[new], working[old:size] = 0, new
            columns[old:size] = Phi[:, new].T
            np.conjugate(columns[old:size], out=conj[old:size])
            gram[old:size, :size] = conj[old:size] @ columns[:size].T
            gram[:old, old:size] = gram[old:size, :old].conj().T
        chosen = grow(gram[:size, :size], conj[:size] @ y, s)
        values, rest = _fit(columns[chosen], gram[np.ix_(chosen, chosen)], y, exact)
        left = float(np.linalg.norm(rest))
        if left <= exact:
            return working[chosen], values, left, None
        correlations = rest.conj() @ Phi
        weakest = np.min(np.abs(values) * norms[working[chosen]], initial=np.inf)
        if np.max(np.abs(correlations) * outside) <= weakest:
            return working[chosen], values, left, correlations.conj()
    return None, None, 0.0, None


def _fit(own: Any, equations: Any, y: Any, exact: float) -> tuple[Any, Any]:
    """Fit y by columns, which are rows here; return the coefficients and the residual.

    If the residual vanishes, rounding errors of the coefficients are corrected.
    """
    conj = own.conj()
    values = np.linalg.solve(equations, conj @ y)
    rest = y - values @ own
    if np.linalg.norm(rest) <= exact:
        values = values + np.linalg.solve(equations, conj @ rest)
    return values, rest


def _posterior(Phi: Any, norms: Any, support: Any, values: Any, correlations: Any, variance: float) -> Any:
    """Average each nonzero over its places given the other ones; None if this is unreliable.

    Returns the mean with s nonzeros, the standard deviations and the probabilities of being nonzero.
    """
    s = support.size
    half, ridge = 1.0 if np.iscomplexobj(values) else 0.5, variance / float(np.mean(np.abs(values) ** 2))
    gram = (Phi[:, support].conj().T @ Phi).astype(values.dtype)
    H = np.linalg.inv(gram[:, support] + ridge * np.eye(s))
    values = values - ridge * (H @ values)
    settings = half, ridge, variance, COHERENT
    elsewhere, mean, square, inclusion = moved_singly(*settings, gram, H, values, correlations, norms**2, support)
    if elsewhere > min(DOUBT[0] * s, DOUBT[1]):
        return None
    small = np.argpartition(-np.abs(mean), s - 1)[s:]
    deviation = np.sqrt(np.maximum(square - np.abs(mean) ** 2, 0.0))
    mean[small] = 0
    return mean, deviation, np.minimum(inclusion, 1.0)
