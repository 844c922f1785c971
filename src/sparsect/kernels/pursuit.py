"""Orthogonal matching pursuit, row by row: select a column, orthogonalize it, update all correlations.

For one row with selected columns I (in order) and G = Phi^H Phi, let q_0, q_1, ... be the columns orthonormalized one
after the other, q_r = Phi_I w_r. A new column phi_i has the components t_r = q_r^H phi_i = w_r^H G[I, i]. The rest of
it has the squared norm G_ii - sum |t_r|^2 and, scaled to unit norm, is the next q. With v = q^H Phi = w^H G[I, :] and
a = q^H y, the updates are::

    c <- c - conj(v) a    the correlations Phi^H r
    d <- d - |v|^2        the freedom: squared norm of the part of each column orthogonal to the selected ones

The least-squares coefficients are sum a_r w_r. The w_r are stored one after the other. A selection takes k n operations
for k selected columns of n, and W is the only large array: Batch-OMP (Rubinstein, Zibulevsky, Elad 2008), extended by
the freedom.

c and d only rank columns and have the precision of Phi. W, a and the squared norm of the residual determine the
solution. They are in double precision, whatever the dtype of Phi, and are computed from the selected columns and y.
"""

from __future__ import annotations

import numpy as np

from ..backend.parallel import compiled

# The maximum number of refinements of the coefficients.
REFINEMENTS = 3
# A fit is complete if the cosine of the residual and each selected column is below this.
FITTED = 1e-12


@compiled
def select(
    first,
    last,
    limit,
    dependent,
    nearly,
    follow,
    gram,
    exact,
    columns,
    y,
    c,
    d,
    W,
    order,
    a,
    count,
    energy,
    goal,
    quiet,
):
    """Select columns in rows ``first`` to ``last`` until there are ``limit``, none is left, or the residual is small.

    Parameters
    ----------
    dependent : columns whose freedom is below this fraction of their squared norm cannot be selected
    nearly : columns whose freedom is below this fraction are orthogonalized twice
    follow : whether squared correlations are divided by the freedom (order-recursive) or by the squared norm
    gram, exact : (n, n), in Phi's precision and in double precision
    columns : (n, m), the columns of Phi, one after the other; y : (batch, m)
    c, d : (batch, n), correlations and freedom
    W : (batch, capacity (capacity + 1) / 2); order, a : (batch, capacity)
    count : (batch,), number of selected columns
    energy : (batch,), squared norm of the residual, and ``goal``, at which a row stops
    quiet : (batch,), squared correlations with unit columns up to this are rounding errors
    """
    n, m = columns.shape
    squares = np.diag(gram).real.copy()
    v, rough = np.empty(n, c.dtype), np.empty(limit, c.dtype)
    w, g = np.empty(limit, W.dtype), np.empty(limit, W.dtype)
    for row in range(first, last):
        correlation, freedom, basis, taken, amounts = c[row], d[row], W[row], order[row], a[row]
        k = count[row]
        while k < limit and energy[row] > goal[row]:
            best, i = 0.0, -1
            for j in range(n):
                if freedom[j] > dependent * squares[j]:
                    z = correlation[j]
                    square = z.real * z.real + z.imag * z.imag
                    score = square / (freedom[j] if follow else squares[j])
                    if score > best and square > quiet[row] * squares[j]:
                        best, i = score, j
            if i < 0:
                break
            for r in range(k):
                g[r] = np.conj(exact[i, taken[r]])
            amount = W.dtype.type(0)
            for j in range(m):
                amount += np.conj(columns[i, j]) * y[row, j]
            rest = exact[i, i].real
            w[: k + 1] = 0
            w[k] = 1
            for r in range(k):
                t, line = W.dtype.type(0), basis[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]
                for q in range(r + 1):
                    t += np.conj(line[q]) * g[q]
                for q in range(r + 1):
                    w[q] -= line[q] * t
                rest -= t.real * t.real + t.imag * t.imag
                amount -= np.conj(t) * amounts[r]
            if rest < nearly * exact[i, i].real:
                # Little is left of the column, and rounding errors may be a large part of it: orthogonalize it again.
                for r in range(k):
                    t = np.conj(exact[i, taken[r]])
                    for q in range(k):
                        t += exact[taken[r], taken[q]] * w[q]
                    g[r] = t
                for r in range(k):
                    t, line = W.dtype.type(0), basis[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]
                    for q in range(r + 1):
                        t += np.conj(line[q]) * g[q]
                    for q in range(r + 1):
                        w[q] -= line[q] * t
                    rest -= t.real * t.real + t.imag * t.imag
                    amount -= np.conj(t) * amounts[r]
            if rest <= dependent * exact[i, i].real:
                freedom[i] = -1
                continue
            if abs(freedom[i] - rest) > 0.5 * rest:
                # Rounding errors had falsified the freedom of the column: rank it again with the accurate value.
                freedom[i] = rest
                continue
            pivot, base = np.sqrt(rest), k * (k + 1) // 2
            for r in range(k + 1):
                basis[base + r] = rough[r] = w[r] / pivot
            amount /= pivot
            taken[k], amounts[k] = i, amount
            energy[row] -= amount.real * amount.real + amount.imag * amount.imag
            combine_rows(gram, taken, rough, k + 1, v)
            step = c.dtype.type(amount)
            for j in range(n):
                z = v[j]
                correlation[j] -= np.conj(z) * step
                freedom[j] -= z.real * z.real + z.imag * z.imag
            freedom[i] = -1
            k += 1
        count[row] = k


@compiled
def combine_rows(gram, taken, w, size, v):
    """Compute v = sum of conj(w_r) gram[taken_r], four rows at a time so that v is read and written less often."""
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
def coefficients(first, last, columns, y, W, order, a, count, x, energy, slant):
    """Compute the least-squares coefficients sum a_r w_r of every row, and energy = ||Phi x - y||^2.

    The residual is fitted again as long as that decreases it, to correct rounding errors. ``slant`` is the largest
    inner product of the residual and a selected column, with y and the columns at unit norm: 0 for a complete fit.
    """
    m = columns.shape[1]
    residual = np.empty(m, W.dtype)
    for row in range(first, last):
        basis, taken, k = W[row], order[row], count[row]
        z, best, g = np.zeros(k, W.dtype), np.zeros(k, W.dtype), np.empty(k, W.dtype)
        size = 0.0
        for j in range(m):
            size += y[row, j].real * y[row, j].real + y[row, j].imag * y[row, j].imag
        for r in range(k):
            line = basis[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]
            for q in range(r + 1):
                z[q] += a[row, r] * line[q]
        energy[row], slant[row] = np.inf, np.inf
        for _ in range(REFINEMENTS + 1):
            for j in range(m):
                residual[j] = y[row, j]
            for r in range(k):
                column = columns[taken[r]]
                for j in range(m):
                    residual[j] -= z[r] * column[j]
            left = 0.0
            for j in range(m):
                left += residual[j].real * residual[j].real + residual[j].imag * residual[j].imag
            if not left < energy[row]:
                break
            worst = 0.0
            for r in range(k):
                t, column, length = W.dtype.type(0), columns[taken[r]], 0.0
                for j in range(m):
                    t += np.conj(column[j]) * residual[j]
                    length += column[j].real * column[j].real + column[j].imag * column[j].imag
                g[r] = t
                worst = max(worst, (t.real * t.real + t.imag * t.imag) / (length * size))
            energy[row], slant[row] = left, np.sqrt(worst)
            best[:] = z
            if slant[row] <= FITTED:
                break
            for r in range(k):
                t, line = W.dtype.type(0), basis[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]
                for q in range(r + 1):
                    t += np.conj(line[q]) * g[q]
                for q in range(r + 1):
                    z[q] += line[q] * t
        for r in range(k):
            x[row, taken[r]] = best[r]
