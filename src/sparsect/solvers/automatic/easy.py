"""Rows that a few columns explain beyond doubt: solved directly, without a factorization of Phi."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays import BoolArray, NumpyArray, epsilon, to_numpy
from ...kernels.supports import grow
from ...problems import Problem

# Columns in the first working set and columns added to it each time, for each nonzero and at least.
WIDTH, MORE, LEAST = 2.0, 0.5, 16
# The number of working sets.
ROUNDS = 8
# A fit is exact if its residual is below this times the square root of machine epsilon times ||y||.
EXACT = 0.1
# A nonzero is certain if all other places for it together are less likely than this, relative to its own.
DOUBT = 1e-3
# Columns whose cosine with another one is above this may have been mistaken for it.
COHERENT = 0.7
# Only rows with at most this many nonzeros for each measurement are tried.
SPARSE = 0.25


def solve_easy(problem: Problem) -> tuple[NumpyArray, NumpyArray, BoolArray]:
    """Solve the rows that a few columns explain beyond doubt.

    Columns are selected from a working set by orthogonal least squares; the set grows by the columns that correlate
    most with what is left. A row is solved if the fit is exact, or if the noise that the fit leaves makes every other
    place of every nonzero improbable and no selected column resembles another one.

    Parameters
    ----------
    problem : Problem
        The problem, with a dense Phi.

    Returns
    -------
    x : array, shape (batch, n)
        The least-squares fits of solved rows; zero in the others.
    deviation : array, shape (batch, n)
        The standard deviations of their nonzeros.
    solved : array of bool, shape (batch,)
        The rows that are solved.
    """
    m, n = problem.operator.shape
    s, shape = problem.sparsity, (problem.batch, n)
    data, Phi = to_numpy(problem.y), to_numpy(problem.operator.Phi)
    x, deviation, solved = np.zeros(shape, dtype=data.dtype), np.zeros(shape), np.zeros(shape[0], dtype=bool)
    noise_norm = None if problem.noise_norm is None else to_numpy(problem.noise_norm)
    if not 0 < s <= SPARSE * m:
        return x, deviation, solved
    for row in range(problem.batch):
        y = data[row]
        size = float(np.linalg.norm(y))
        if size == 0:
            solved[row] = True
            continue
        noise = 0.0 if noise_norm is None else float(noise_norm[row])
        support, values, left = _pursuit(Phi, y, s, EXACT * epsilon(y) ** 0.5 * size)
        if support is None:
            continue
        spread = 0.0 if left is None else _deviation(Phi, problem.operator.column_norms, support, values, left, noise)
        if spread is not None:
            x[row, support], deviation[row, support], solved[row] = values, spread, True
    return x, deviation, solved


def _pursuit(Phi: Any, y: Any, s: int, exact: float) -> tuple[Any, Any, Any]:
    """Select s columns; return them, their coefficients and the residual, which is None if it vanishes."""
    (m, n), wide = Phi.shape, np.result_type(Phi, y, np.float64)
    width, more = (max(round(part * s), LEAST) for part in (WIDTH, MORE))
    most = min(n, width + (ROUNDS - 1) * more)
    # The columns of the working set are rows here; those of conj are conjugated.
    working, columns = np.empty(most, dtype=np.int64), np.empty((most, m), dtype=wide)
    conj = columns if wide.kind == "f" else np.empty_like(columns)
    gram, outside = np.empty((most, most), dtype=wide), np.ones(n)
    y = rest = y.astype(wide)
    size, before = 0, None
    for _ in range(ROUNDS):
        score = np.abs(rest.conj() @ Phi) * outside
        old, size = size, min(size + (more if size else width), most)
        if old < size:
            new = np.argpartition(-score, size - old - 1)[: size - old]
            outside[new], working[old:size] = 0, new
            columns[old:size] = Phi[:, new].T
            np.conjugate(columns[old:size], out=conj[old:size])
            gram[old:size, :size] = conj[old:size] @ columns[:size].T
            gram[:old, old:size] = gram[old:size, :old].conj().T
        chosen = grow(gram[:size, :size], conj[:size] @ y, s)
        own, equations = columns[chosen], gram[np.ix_(chosen, chosen)]
        values = np.linalg.solve(equations, conj[chosen] @ y)
        rest = y - values @ own
        if np.linalg.norm(rest) <= exact:
            # Rounding errors of the fit are corrected.
            return working[chosen], values + np.linalg.solve(equations, conj[chosen] @ rest), None
        support = np.sort(working[chosen])
        if before is not None and np.array_equal(before, support):
            return working[chosen], values, rest
        before = support
    return None, None, None


def _deviation(Phi: Any, norms: Any, support: Any, values: Any, left: Any, noise_norm: float) -> Any:
    """Return the standard deviations of the nonzeros, or None if one of them might be in another place."""
    m, s = Phi.shape[0], support.size
    variance = max(float(np.linalg.norm(left)) ** 2 / max(m - s, 1), noise_norm**2 / m)
    half = 1.0 if np.iscomplexobj(values) else 0.5
    columns = Phi[:, support]
    gram = columns.conj().T @ Phi
    own = gram[:, support].copy()
    gram[np.arange(s), support] = 0
    if (np.abs(gram) > COHERENT * norms * norms[support, None]).any():
        return None
    gram[:, support] = own
    H = np.linalg.inv(own)
    diagonal = np.diag(H).real
    V = H @ gram
    c, d = left.conj() @ Phi, norms**2 - np.sum((V.conj() * gram).real, axis=0)
    # Without the nonzero in a row, a column has the correlation z with the residual and the squared distance D from
    # the span of the others.
    D = d + np.abs(V) ** 2 / diagonal[:, None]
    z = c.conj() + V.conj() * (values / diagonal)[:, None]
    gain = half / variance * (np.abs(z) ** 2 / np.maximum(D, 1e-9) - (np.abs(values) ** 2 / diagonal)[:, None])
    gain -= half * np.log(np.maximum(D, 1e-9) * diagonal[:, None])
    gain[:, support] = -np.inf
    certain = np.sum(np.exp(np.minimum(gain, 50.0)), axis=1).max() <= DOUBT
    return np.sqrt(variance * diagonal) if certain else None
