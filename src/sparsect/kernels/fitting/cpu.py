"""Least squares on a support, row by row: gather the normal equations, factor them, solve, and correct once.

Columns are scaled to norm 1, and a small ridge keeps the equations of dependent columns solvable.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled

# A fixed entry is released if the slope of the residual there exceeds this fraction of the largest correlation with y.
SLOPE = 1e-10


@compiled
def _factor(L, k, least):
    """Compute the Cholesky factor of the leading k x k part of L in place, four rows at a time to reuse what is read.

    Squared pivots below ``least`` are rounding errors. At the end of the matrix, several of the four may be the same
    row, which then gets the same values.
    """
    for start in range(0, k, 4):
        end = min(start + 4, k)
        a, b, c, d = L[start], L[min(start + 1, k - 1)], L[min(start + 2, k - 1)], L[min(start + 3, k - 1)]
        for j in range(start):
            row, pivot = L[j], 1 / L[j, j]
            ta, tb, tc, td = 0.0, 0.0, 0.0, 0.0
            for q in range(j):
                ta += a[q] * row[q]
                tb += b[q] * row[q]
                tc += c[q] * row[q]
                td += d[q] * row[q]
            ta, tb, tc, td = (a[j] - ta) * pivot, (b[j] - tb) * pivot, (c[j] - tc) * pivot, (d[j] - td) * pivot
            a[j], b[j], c[j], d[j] = ta, tb, tc, td
        for i in range(start, end):
            row = L[i]
            for j in range(start, i):
                t = row[j]
                for q in range(j):
                    t -= row[q] * L[j, q]
                row[j] = t / L[j, j]
            rest = row[i]
            for q in range(i):
                rest -= row[q] * row[q]
            row[i] = np.sqrt(max(rest, least))


@compiled
def fit(first, last, gram, columns, y, support, ridge, out):
    """Minimize ||Phi x - y|| over x that vanish outside ``support``, in rows ``first`` to ``last``.

    The minimum is accurate up to the ridge, which is corrected for once.

    Parameters
    ----------
    gram : (n, n), Phi^T Phi in double precision
    columns : (n, m), the columns of Phi, one after the other
    y : (batch, m); support : (batch, n), true or false
    ridge : added to the squared norms of columns, at unit norm, for each column of a support
    out : (batch, n)
    """
    n, m = columns.shape
    most = 0
    for row in range(first, last):
        count = 0
        for j in range(n):
            count += support[row, j]
        most = max(most, count)
    L = np.empty((max(most, 1), max(most, 1)))
    places, length, z, t = np.empty(n, np.int64), np.empty(n), np.empty(n), np.empty(n)
    residual = np.empty(m)
    for row in range(first, last):
        k = 0
        for j in range(n):
            out[row, j] = 0
            if support[row, j] and gram[j, j] > 0:
                places[k] = j
                length[k] = 1 / np.sqrt(gram[j, j])
                z[k] = 0
                k += 1
        for i in range(k):
            source = gram[places[i]]
            for j in range(i + 1):
                L[i, j] = source[places[j]] * length[i] * length[j]
            L[i, i] += ridge * k
        _factor(L, k, ridge * k)
        for j in range(m):
            residual[j] = y[row, j]
        for _ in range(2):
            for i in range(k):
                column, total = columns[places[i]], 0.0
                for j in range(m):
                    total += column[j] * residual[j]
                total *= length[i]
                for q in range(i):
                    total -= L[i, q] * t[q]
                t[i] = total / L[i, i]
            for i in range(k - 1, -1, -1):
                t[i] /= L[i, i]
                for q in range(i):
                    t[q] -= L[i, q] * t[i]
            for i in range(k):
                step, column = t[i] * length[i], columns[places[i]]
                z[i] += step
                for j in range(m):
                    residual[j] -= step * column[j]
        for i in range(k):
            out[row, places[i]] = z[i]


@compiled
def fit_bounded(first, last, gram, b, start, low, high, ridge, out):
    """Minimize ||Phi x - y|| within bounds, over x that vanish outside the support of ``start``, by active sets.

    Entries at a bound are fixed, and the others fitted. A fit that leaves the bounds is followed until an entry
    reaches its bound, which is then fixed, too. If the fit is inside, the fixed entry whose release lowers the residual
    most is released. (Stark and Parker 1995, "Bounded-variable least-squares".)

    Parameters
    ----------
    gram : (n, n), Phi^T Phi in double precision
    b : (batch, n), Phi^T y
    start : (batch, n), points within the bounds
    low, high : (n,), bounds, with low <= 0 <= high
    ridge : added to the squared norms of columns, at unit norm, for each column of a support
    out : (batch, n)
    """
    n = gram.shape[0]
    places, free, fixed = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.bool_)
    z, t = np.empty(n), np.empty(n)
    for row in range(first, last):
        k = 0
        for j in range(n):
            out[row, j] = 0
            if start[row, j] != 0 and gram[j, j] > 0:
                places[k], z[k], fixed[k] = j, start[row, j], False
                k += 1
        L = np.empty((max(k, 1), max(k, 1)))
        for _ in range(5 * k + 10):
            size = 0
            for i in range(k):
                if not fixed[i]:
                    free[size] = i
                    size += 1
            for p in range(size):
                source, scale = gram[places[free[p]]], np.sqrt(gram[places[free[p]], places[free[p]]])
                total = b[row, places[free[p]]]
                for i in range(k):
                    if fixed[i]:
                        total -= source[places[i]] * z[i]
                for q in range(p + 1):
                    other = places[free[q]]
                    L[p, q] = source[other] / (scale * np.sqrt(gram[other, other]))
                L[p, p] += ridge * k
                t[p] = total / scale
            _factor(L, size, ridge * k)
            for p in range(size):
                for q in range(p):
                    t[p] -= L[p, q] * t[q]
                t[p] /= L[p, p]
            for p in range(size - 1, -1, -1):
                t[p] /= L[p, p]
                for q in range(p):
                    t[q] -= L[p, q] * t[p]
            step, hit = 1.0, -1
            for p in range(size):
                i = free[p]
                t[p] /= np.sqrt(gram[places[i], places[i]])
                bound = min(max(t[p], low[places[i]]), high[places[i]])
                if bound != t[p]:
                    length = max((bound - z[i]) / (t[p] - z[i]), 0.0)
                    if length < step:
                        step, hit = length, i
            for p in range(size):
                # A start far larger than the fit must leave no rounding error behind.
                z[free[p]] = t[p] if step == 1.0 else z[free[p]] + step * (t[p] - z[free[p]])
            if hit >= 0:
                below, above = low[places[hit]], high[places[hit]]
                z[hit] = below if z[hit] - below < above - z[hit] else above
                fixed[hit] = True
                continue
            most, best = 0.0, -1
            for i in range(k):
                if fixed[i]:
                    source, slope = gram[places[i]], b[row, places[i]]
                    for q in range(k):
                        slope -= source[places[q]] * z[q]
                    slope /= np.sqrt(gram[places[i], places[i]])
                    gain = slope if z[i] == low[places[i]] else -slope
                    if gain > most:
                        most, best = gain, i
            if most <= SLOPE * np.abs(b[row]).max():
                break
            fixed[best] = False
        for i in range(k):
            out[row, places[i]] = z[i]
