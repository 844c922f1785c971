"""Least squares on a support, row by row: gather the normal equations, factor them, solve, and correct once.

Columns are scaled to norm 1, and a small ridge keeps the equations of dependent columns solvable.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled


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
