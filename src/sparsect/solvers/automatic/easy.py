"""Rows that a few columns explain beyond doubt: solved directly, without a factorization of Phi."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...backend.arrays import BoolArray, NumpyArray, epsilon, to_numpy
from ...kernels.supports import grow
from ...problems import Problem

# Columns taken into the working set at a time, for each nonzero, and at least.
WIDTH, LEAST = 3, 32
# Number of times that the working set grows.
ROUNDS = 4
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
    n = Phi.shape[1]
    width = min(n, max(WIDTH * s, LEAST))
    wide = np.complex128 if np.iscomplexobj(y) or np.iscomplexobj(Phi) else np.float64
    left, inside, before = y, np.zeros(n, dtype=bool), None
    for _ in range(ROUNDS):
        score = np.abs(left.conj() @ Phi)
        score[inside] = -1.0
        inside[np.argpartition(-score, width - 1)[:width] if width < n else slice(None)] = True
        working = np.flatnonzero(inside)
        columns = Phi[:, working].astype(wide)
        adjoint = columns.conj().T
        b = adjoint @ y
        chosen = grow(np.ascontiguousarray(adjoint @ columns), np.ascontiguousarray(b, dtype=wide), s)
        values = np.linalg.lstsq(columns[:, chosen], y.astype(wide), rcond=None)[0]
        left = y - columns[:, chosen] @ values
        support = working[chosen]
        if np.linalg.norm(left) <= exact:
            return support, values, None
        if before is not None and set(before) == set(support):
            return support, values, left
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
