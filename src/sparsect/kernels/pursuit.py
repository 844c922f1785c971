"""Orthogonal matching pursuit, row by row: select a column, orthogonalize it, update all correlations.

For one row with selected columns I (in order), Phi_I = Q R with orthonormal columns q_0, q_1, ... of Q. Of each q, only
its products with the columns of Phi are needed, v = q^H Phi. A new column phi_i has the components t_r = q_r^H phi_i =
v_r[i], so that with G = Phi^H Phi and a = q^H y::

    v <- (G[i, :] - sum conj(t_r) v_r) / pivot,   pivot^2 = G_ii - sum |t_r|^2
    c <- c - conj(v) a    the correlations Phi^H r, a = c_i / pivot
    d <- d - |v|^2        the freedom: squared norm of the part of each column orthogonal to the selected ones

The components and the pivot are the next column of R. A selection takes k n operations for k selected columns of n.
The v are kept while a row is computed, not between calls: with R, those of columns that were selected earlier are
R^-H G[I, :]. Reading them takes most of the time. Where there are many, they are therefore subtracted from two rows of
G at once: for the best column, and for the next one in rank, which is mostly selected later.

All of this only ranks columns, and has the precision of Phi. What determines the solution is in double precision,
whatever the dtype of Phi: in rows in which nearly dependent columns are met, R and the distances of columns from the
span of the selected ones; in all rows the fit, which depends on the selected columns alone.
"""

from __future__ import annotations

import numpy as np

from ..backend.parallel import compiled

# The maximum number of refinements of a fit.
REFINEMENTS = 6
# From this number of selected columns, the second in rank is begun, too; so many such columns are kept.
AHEAD, BEGUN = 48, 64


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
    c,
    d,
    R,
    order,
    count,
    energy,
    goal,
    margin,
    quiet,
    careful,
):
    """Select columns in rows ``first`` to ``last`` until there are ``limit``, none is left, or the residual is small.

    Parameters
    ----------
    dependent : columns whose freedom is below this fraction of their squared norm cannot be selected
    nearly : from the first column whose freedom is below this fraction, a row is factorized in double precision
    follow : whether squared correlations are divided by the freedom (order-recursive) or by the squared norm
    gram, exact : (n, n), in Phi's precision and in double precision
    c, d : (batch, n), correlations and freedom
    R : (batch, capacity (capacity + 1) / 2), columns of R one after the other, for later calls
    order : (batch, capacity), the selected columns
    count : (batch,), number of selected columns
    energy : (batch,), squared norm of the residual, and ``goal``, at which a row stops
    margin : (batch,), rounding errors of the energy: after its first selection, a row stops this much before its goal
    quiet : (batch,), squared correlations with unit columns up to this are rounding errors
    careful : (batch,), set for rows that were factorized in double precision
    """
    n = gram.shape[0]
    squares = np.diag(gram).real.copy()
    real = squares.dtype.type
    least, score = real(dependent) * squares, np.empty(n, squares.dtype)
    V, v = np.empty((limit, n), c.dtype), np.empty(n, c.dtype)
    W, begun, since, slot = np.empty((BEGUN, n), c.dtype), np.empty(BEGUN, np.int64), np.empty(BEGUN, np.int64), 0
    t, u, factor = np.empty(limit, c.dtype), np.empty(limit, c.dtype), np.empty(limit * (limit + 1) // 2, exact.dtype)
    for row in range(first, last):
        correlation, freedom, taken = c[row], d[row], order[row]
        k = known = count[row]
        careful[row], silent = False, real(quiet[row])
        begun[:] = -1
        kept = known * (known + 1) // 2
        factor[:kept] = R[row, :kept]
        rank(correlation, freedom, squares, least, silent, follow, score)
        while k < limit and energy[row] > goal[row] + (margin[row] if k > known else 0.0):
            i = best_column(score)
            if i < 0:
                break
            rest = float(freedom[i])
            if careful[row] or rest < nearly * squares[i]:
                if not careful[row]:
                    factorize(exact, taken, k, 0.0, factor)
                    careful[row] = True
                accurate = components(exact, taken, k, i, factor)
                if accurate <= dependent * exact[i, i].real:
                    freedom[i], score[i] = -1, 0
                    continue
                if abs(rest - accurate) > 0.5 * accurate:
                    # Rounding errors had falsified the freedom of the column: rank it again with the accurate value.
                    freedom[i] = accurate
                    rank(correlation, freedom, squares, least, silent, follow, score)
                    continue
                rest = accurate
            line = column_of(factor, k)
            v[:], start, place = gram[i], known, index_of(begun, i)
            if place >= 0:
                v[:], start = W[place], since[place]
                begun[place] = -1
            elif known > 0:
                if not careful[row]:
                    for r in range(known):
                        line[r] = gram[taken[r], i]
                    solve_lower(factor, line, known)
                u[:known] = line[:known]
                solve_upper(factor, u, known)
                combine_rows(gram, taken, u, known, v)
                for j in range(n):
                    v[j] = gram[i, j] - v[j]
            for r in range(known, k):
                t[r] = V[r, i]
                if not careful[row]:
                    line[r] = t[r]
            score[i] = 0
            other = best_column(score) if place < 0 and known == 0 and k >= AHEAD else -1
            if other >= 0 and index_of(begun, other) < 0:
                begun[slot], since[slot] = other, k
                W[slot] = gram[other]
                for r in range(k):
                    u[r] = V[r, other]
                subtract_lines_of_two(V, t, u, k, v, W[slot])
                slot = (slot + 1) % BEGUN
            else:
                subtract_lines(V, t, start, k, v)
            line[k] = np.sqrt(rest)
            pivot = real(np.sqrt(rest))
            amount = correlation[i] / pivot
            taken[k] = i
            energy[row] -= amount.real * amount.real + amount.imag * amount.imag
            own = V[k]
            for j in range(n):
                z = v[j] / pivot
                own[j] = z
                correlation[j] -= np.conj(z) * amount
                freedom[j] -= z.real * z.real + z.imag * z.imag
            freedom[i] = -1
            rank(correlation, freedom, squares, least, silent, follow, score)
            k += 1
        count[row] = k
        if k < order.shape[1]:
            R[row, : k * (k + 1) // 2] = factor[: k * (k + 1) // 2]


@compiled
def rank(correlation, freedom, squares, least, quiet, follow, score):
    """Compute by how much each column would lower the squared residual; 0 for columns that cannot be selected."""
    zero = least.dtype.type(0)
    for j in range(score.size):
        z = correlation[j]
        square = z.real * z.real + z.imag * z.imag
        possible = (freedom[j] > least[j]) & (square > quiet * squares[j])
        value = square / (freedom[j] if follow else squares[j])
        score[j] = value if possible else zero


@compiled
def best_column(score):
    """Return the index of the first largest score; -1 if all are 0."""
    # Maxima in eight lanes run in one vector register.
    n = score.size
    zero = score.dtype.type(0)
    m0 = m1 = m2 = m3 = m4 = m5 = m6 = m7 = zero
    j = 0
    while j + 8 <= n:
        s0, s1, s2, s3 = score[j], score[j + 1], score[j + 2], score[j + 3]
        s4, s5, s6, s7 = score[j + 4], score[j + 5], score[j + 6], score[j + 7]
        m0 = s0 if s0 > m0 else m0
        m1 = s1 if s1 > m1 else m1
        m2 = s2 if s2 > m2 else m2
        m3 = s3 if s3 > m3 else m3
        m4 = s4 if s4 > m4 else m4
        m5 = s5 if s5 > m5 else m5
        m6 = s6 if s6 > m6 else m6
        m7 = s7 if s7 > m7 else m7
        j += 8
    best = max(m0, m1, m2, m3, m4, m5, m6, m7)
    while j < n:
        best = max(best, score[j])
        j += 1
    if best <= zero:
        return -1
    for j in range(n):
        if score[j] == best:
            return j
    return -1


@compiled
def subtract_lines(V, t, first, last, v):
    """Compute v - sum of conj(t_r) V_r, eight lines at a time so that v is read and written less often."""
    r = first
    while r + 8 <= last:
        t0, t1, t2, t3 = np.conj(t[r]), np.conj(t[r + 1]), np.conj(t[r + 2]), np.conj(t[r + 3])
        t4, t5, t6, t7 = np.conj(t[r + 4]), np.conj(t[r + 5]), np.conj(t[r + 6]), np.conj(t[r + 7])
        a0, a1, a2, a3, a4, a5, a6, a7 = V[r], V[r + 1], V[r + 2], V[r + 3], V[r + 4], V[r + 5], V[r + 6], V[r + 7]
        for j in range(v.size):
            v[j] -= (t0 * a0[j] + t1 * a1[j] + t2 * a2[j] + t3 * a3[j]) + (
                t4 * a4[j] + t5 * a5[j] + t6 * a6[j] + t7 * a7[j]
            )
        r += 8
    while r < last:
        t0, a0 = np.conj(t[r]), V[r]
        for j in range(v.size):
            v[j] -= t0 * a0[j]
        r += 1


@compiled
def subtract_lines_of_two(V, t, u, last, v, w):
    """Compute v - sum of conj(t_r) V_r and w - sum of conj(u_r) V_r, so that V is read once for both."""
    r = 0
    while r + 4 <= last:
        t0, t1, t2, t3 = np.conj(t[r]), np.conj(t[r + 1]), np.conj(t[r + 2]), np.conj(t[r + 3])
        u0, u1, u2, u3 = np.conj(u[r]), np.conj(u[r + 1]), np.conj(u[r + 2]), np.conj(u[r + 3])
        a0, a1, a2, a3 = V[r], V[r + 1], V[r + 2], V[r + 3]
        for j in range(v.size):
            x0, x1, x2, x3 = a0[j], a1[j], a2[j], a3[j]
            v[j] -= t0 * x0 + t1 * x1 + t2 * x2 + t3 * x3
            w[j] -= u0 * x0 + u1 * x1 + u2 * x2 + u3 * x3
        r += 4
    while r < last:
        t0, u0, a0 = np.conj(t[r]), np.conj(u[r]), V[r]
        for j in range(v.size):
            v[j] -= t0 * a0[j]
            w[j] -= u0 * a0[j]
        r += 1


@compiled
def index_of(values, value):
    """Return the index at which a value stands; -1 if it does not."""
    for j in range(values.size):
        if values[j] == value:
            return j
    return -1


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
def solve_lower(factor, z, k):
    """Solve R^H t = z in place."""
    for r in range(k):
        line, t = column_of(factor, r), z[r]
        for q in range(r):
            t -= np.conj(line[q]) * z[q]
        z[r] = t / line[r]


@compiled
def solve_upper(factor, z, k):
    """Solve R u = z in place."""
    for r in range(k - 1, -1, -1):
        line = column_of(factor, r)
        t = z[r] / line[r]
        z[r] = t
        for q in range(r):
            z[q] -= t * line[q]


@compiled
def components(gram, taken, k, i, factor):
    """Write the components of column i along the first k selected ones into R, and return what is left, squared."""
    line, rest = column_of(factor, k), gram[i, i].real
    for r in range(k):
        line[r] = gram[taken[r], i]
    solve_lower(factor, line, k)
    for r in range(k):
        rest -= line[r].real * line[r].real + line[r].imag * line[r].imag
    line[k] = np.sqrt(max(rest, 0.0))
    return rest


@compiled
def factorize(gram, taken, k, least, factor):
    """Compute R; False if less than the fraction ``least`` of the squared norm of a column is left.

    Four columns are computed at a time, so that what is read is used four times. At the end, several of the four may be
    the same column, which then gets the same values.
    """
    for first in range(0, k, 4):
        last, end = min(first + 4, k), k - 1
        for i in range(first, last):
            line, source = column_of(factor, i), gram[taken[i]]
            for r in range(i + 1):
                line[r] = np.conj(source[taken[r]])
        a, b = column_of(factor, first), column_of(factor, min(first + 1, end))
        c, d = column_of(factor, min(first + 2, end)), column_of(factor, min(first + 3, end))
        for r in range(first):
            line = column_of(factor, r)
            ta = tb = tc = td = factor.dtype.type(0)
            for q in range(r):
                z = np.conj(line[q])
                ta += z * a[q]
                tb += z * b[q]
                tc += z * c[q]
                td += z * d[q]
            ta, tb, tc, td = (a[r] - ta) / line[r], (b[r] - tb) / line[r], (c[r] - tc) / line[r], (d[r] - td) / line[r]
            a[r], b[r], c[r], d[r] = ta, tb, tc, td
        for i in range(first, last):
            line, whole = column_of(factor, i), gram[taken[i], taken[i]].real
            for r in range(first, i):
                other = column_of(factor, r)
                z = line[r]
                for q in range(r):
                    z -= np.conj(other[q]) * line[q]
                line[r] = z / other[r]
            rest = whole
            for r in range(i):
                rest -= line[r].real * line[r].real + line[r].imag * line[r].imag
            if rest < least * whole:
                return False
            line[i] = np.sqrt(max(rest, 0.0))
    return True


@compiled
def column_of(factor, r):
    """Return a column of R, up to its diagonal."""
    return factor[r * (r + 1) // 2 : (r + 1) * (r + 2) // 2]


@compiled
def coefficients(first, last, nearly, fitted, gram, exact, columns, y, order, count, x, energy, slant):
    """Compute the least-squares coefficients of every row, and energy = ||Phi x - y||^2.

    The residual is fitted as long as that decreases it. The normal equations are factorized in Phi's precision and, if
    columns are ``nearly`` dependent, in double precision; residuals are in double precision. ``slant`` is the largest
    inner product of the residual and a selected column, with y and the columns at unit norm: 0 for a complete fit, and
    small enough if at most ``fitted``.
    """
    m, size = columns.shape[1], order.shape[1]
    residual, z, g = np.empty(m, exact.dtype), np.empty(size, exact.dtype), np.empty(size, exact.dtype)
    rough, sharp = np.empty(size * (size + 1) // 2, gram.dtype), np.empty(size * (size + 1) // 2, exact.dtype)
    for row in range(first, last):
        taken, k = order[row], count[row]
        precise = not factorize(gram, taken, k, nearly, rough)
        if precise:
            factorize(exact, taken, k, 0.0, sharp)
        length = 0.0
        for j in range(m):
            residual[j] = y[row, j]
            length += y[row, j].real * y[row, j].real + y[row, j].imag * y[row, j].imag
        z[:k] = 0
        energy[row], slant[row] = np.inf, np.inf
        for _ in range(REFINEMENTS + 2):
            left, worst = 0.0, 0.0
            for j in range(m):
                left += residual[j].real * residual[j].real + residual[j].imag * residual[j].imag
            if not left < energy[row]:
                break
            for r in range(k):
                t, column = exact.dtype.type(0), columns[taken[r]]
                for j in range(m):
                    t += np.conj(column[j]) * residual[j]
                g[r] = t
                worst = max(worst, (t.real * t.real + t.imag * t.imag) / (exact[taken[r], taken[r]].real * length))
                x[row, taken[r]] = z[r]
            energy[row], slant[row] = left, np.sqrt(worst)
            if slant[row] <= fitted:
                break
            if precise:
                solve_lower(sharp, g, k)
                solve_upper(sharp, g, k)
            else:
                solve_lower(rough, g, k)
                solve_upper(rough, g, k)
            for r in range(k):
                z[r] += g[r]
                column = columns[taken[r]]
                for j in range(m):
                    residual[j] -= g[r] * column[j]
