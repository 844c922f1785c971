"""Orthogonal matching pursuit, row by row: select a column, extend a Cholesky factor, update all correlations.

For one row with selected columns I (in order) and G = Phi^H Phi, let L L^H = G[I, I] and q be the part of the last
selected column that is orthogonal to the others, at unit norm. With w = L^-H e, e the last unit vector, q = Phi_I w, so
v = q^H Phi = w^H G[I, :] is a combination of rows of G. Then

    correlation c = Phi^H r   loses  conj(v) a   where a = q^H y = c_i / L_kk
    freedom     d = squared norm of each column's part orthogonal to the selected ones, loses |v|^2

and the least-squares coefficients are L^-H a. L is stored by rows, packed. Work per selection is k n, for k selected of
n columns, with nothing kept but L: Batch-OMP (Rubinstein, Zibulevsky, Elad 2008) with the freedom added.
"""

from __future__ import annotations

import numpy as np

from .rows import compiled


@compiled
def select(first, last, limit, dependent, follow, gram, c, d, L, order, a, count, energy, goal, quiet):
    """Take columns in rows ``first`` to ``last`` until ``limit`` are taken, none is left, or the residual is small.

    Parameters
    ----------
    dependent : columns whose freedom is below this fraction of their squared norm cannot be taken
    follow : whether squared correlations are divided by the freedom (order-recursive) or by the squared norm
    gram : (n, n)
    c, d : (batch, n), correlations and freedom
    L : (batch, capacity (capacity + 1) / 2); order, a : (batch, capacity)
    count : (batch,), columns taken
    energy : (batch,), squared norm of the residual, and ``goal``, at which a row stops
    quiet : (batch,), squared correlations with unit columns up to this are rounding
    """
    n = gram.shape[0]
    v = np.empty(n, c.dtype)
    w = np.empty(limit, c.dtype)
    for row in range(first, last):
        correlation, freedom, factor, taken = c[row], d[row], L[row], order[row]
        k = count[row]
        while k < limit and energy[row] > goal[row]:
            best, i = quiet[row], -1
            for j in range(n):
                if freedom[j] > dependent * gram[j, j].real:
                    z = correlation[j]
                    score = (z.real * z.real + z.imag * z.imag) / (freedom[j] if follow else gram[j, j].real)
                    if score > best:
                        best, i = score, j
            if i < 0:
                break
            base = k * (k + 1) // 2
            rest = gram[i, i].real
            for r in range(k):
                start = r * (r + 1) // 2
                t = gram[i, taken[r]]
                for q in range(r):
                    t -= factor[base + q] * np.conj(factor[start + q])
                t /= factor[start + r]
                factor[base + r] = t
                rest -= t.real * t.real + t.imag * t.imag
            if rest <= dependent * gram[i, i].real:
                freedom[i] = -1
                continue
            pivot = np.sqrt(rest)
            factor[base + k] = pivot
            taken[k] = i
            _last_column_of_inverse(factor, k, w)
            _combine_rows(gram, taken, w, k + 1, v)
            amount = correlation[i] / pivot
            a[row, k] = amount
            energy[row] -= amount.real * amount.real + amount.imag * amount.imag
            for j in range(n):
                z = v[j]
                correlation[j] -= np.conj(z) * amount
                freedom[j] -= z.real * z.real + z.imag * z.imag
            freedom[i] = -1
            k += 1
        count[row] = k


@compiled
def _last_column_of_inverse(factor, k, w):
    """w = L^-H e_k for the packed (k + 1) x (k + 1) factor."""
    w[:k] = 0
    w[k] = 1
    for r in range(k, -1, -1):
        start = r * (r + 1) // 2
        t = w[r] / factor[start + r]
        w[r] = t
        for q in range(r):
            w[q] -= np.conj(factor[start + q]) * t


@compiled
def _combine_rows(gram, taken, w, size, v):
    """v = sum of conj(w_r) gram[taken_r], four rows at a time so that v is read and written less often."""
    n = gram.shape[0]
    v[:] = 0
    r = 0
    while r + 4 <= size:
        w0, w1, w2, w3 = np.conj(w[r]), np.conj(w[r + 1]), np.conj(w[r + 2]), np.conj(w[r + 3])
        g0, g1, g2, g3 = gram[taken[r]], gram[taken[r + 1]], gram[taken[r + 2]], gram[taken[r + 3]]
        for j in range(n):
            v[j] += w0 * g0[j] + w1 * g1[j] + w2 * g2[j] + w3 * g3[j]
        r += 4
    while r < size:
        w0, g0 = np.conj(w[r]), gram[taken[r]]
        for j in range(n):
            v[j] += w0 * g0[j]
        r += 1


@compiled
def coefficients(first, last, L, order, a, count, x):
    """x = the least-squares coefficients L^-H a of every row, at the columns taken."""
    for row in range(first, last):
        factor, k = L[row], count[row]
        w = a[row, :k].copy()
        for r in range(k - 1, -1, -1):
            start = r * (r + 1) // 2
            t = w[r] / factor[start + r]
            x[row, order[row, r]] = t
            for q in range(r):
                w[q] -= np.conj(factor[start + q]) * t
