"""Moves of single nonzeros of a support, row by row: sampled (Gibbs), or taken where they lower the residual (swaps).

G is the Gram matrix of unit columns, b = Phi^H y, S the support, l a ridge, and H = (G_SS + l I)^-1. The fit on S is
x = H b_S. A row keeps, for every column k,

    c_k = b_k - G_kS x              its correlation with the residual
    d_k = G_kk + l - G_kS H G_Sk    its squared distance from the span of the columns of S

Without the nonzero at position p, with v = G_:S H_:p, these become c + v x_p / H_pp and D = d + |v|^2 / H_pp, and
column k at position p lowers the squared residual by |c_k + v_k x_p / H_pp|^2 / D_k. Looking at a position takes s n
multiplications, and moving a nonzero another s n.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from ..posterior.cpu import positive_part, truncated
from ..pursuit import combine_rows
from .limits import CLOSE, DEPENDENT, GAIN, LARGEST_SLAB, NEGLIGIBLE, PIVOT, RENEWED, ROUNDING, SEPARATE, SMALLEST_RIDGE


@compiled
def invert(A, size):
    """Invert the leading part of a positive definite matrix in place, and return the logarithm of its determinant."""
    volume = 0.0
    for j in range(size):
        pivot = A[j, j].real
        for q in range(j):
            pivot -= A[j, q].real * A[j, q].real + A[j, q].imag * A[j, q].imag
        pivot = np.sqrt(max(pivot, PIVOT))
        A[j, j] = pivot
        volume += 2 * np.log(pivot)
        for i in range(j + 1, size):
            t = A[i, j]
            for q in range(j):
                t -= A[i, q] * np.conj(A[j, q])
            A[i, j] = t / pivot
    # The inverse of the factor, and then its product with itself.
    for j in range(size):
        A[j, j] = 1 / A[j, j]
        for i in range(j + 1, size):
            t = A[i, j] * A[j, j]
            for q in range(j + 1, i):
                t += A[i, q] * A[q, j]
            A[i, j] = -t / A[i, i]
    for j in range(size):
        for i in range(j, size):
            t = A.dtype.type(0)
            for q in range(i, size):
                t += np.conj(A[q, i]) * A[q, j]
            A[i, j] = t
    for j in range(size):
        for i in range(j + 1, size):
            A[j, i] = np.conj(A[i, j])
    return volume


@compiled
def fit_values(gram, b, support, H, x, c, v):
    """Compute x and c of a support, given H."""
    s = support.size
    for i in range(s):
        t = H.dtype.type(0)
        for j in range(s):
            t += H[i, j] * b[support[j]]
        x[i] = t
    combine_rows(gram, support, x, s, v)
    for k in range(b.size):
        c[k] = b[k] - np.conj(v[k])


@compiled
def begin(gram, b, support, ridge, H, x, c, d, v):
    """Compute H, x, c and d of a support, and return -log det H."""
    s, n = support.size, b.size
    for i in range(s):
        for j in range(s):
            H[i, j] = gram[support[i], support[j]]
        H[i, i] += ridge
    volume = invert(H, s)
    fit_values(gram, b, support, H, x, c, v)
    for k in range(n):
        d[k] = gram[k, k].real + ridge
    for i in range(s):
        combine_rows(gram, support, H[:, i].copy(), s, v)
        row = gram[support[i]]
        for k in range(n):
            d[k] -= v[k].real * row[k].real + v[k].imag * row[k].imag
    return volume


@compiled
def drop(p, r, H, x, c, d, v, u):
    """Remove the nonzero at position p; ``v`` holds conj(G_:S H_:p) and ``r`` x_p / H_pp."""
    s, n = x.size, c.size
    pivot = H[p, p].real
    for j in range(n):
        c[j] += np.conj(v[j]) * r
        d[j] += (v[j].real * v[j].real + v[j].imag * v[j].imag) / pivot
    for i in range(s):
        u[i] = H[i, p]
    for i in range(s):
        x[i] -= u[i] * r
        for j in range(s):
            H[i, j] -= u[i] * np.conj(u[j]) / pivot


@compiled
def take(gram, support, p, k, H, x, c, d, v, u):
    """Put column k at position p, which is free."""
    s, n = support.size, c.size
    support[p] = k
    for i in range(s):
        t = x.dtype.type(0)
        if i != p:
            for j in range(s):
                if j != p:
                    t += H[i, j] * gram[support[j], k]
        u[i] = t
    # What is left of column k, conjugated: G_:k - G_:S u.
    combine_rows(gram, support, u, s, v)
    D, own = d[k], gram[k]
    value = c[k] / D
    for j in range(n):
        q = own[j] - v[j]
        c[j] -= np.conj(q) * value
        d[j] -= (q.real * q.real + q.imag * q.imag) / D
    u[p] = -1
    x[p] = 0
    for i in range(s):
        x[i] -= u[i] * value
        for j in range(s):
            H[i, j] += u[i] * np.conj(u[j]) / D


@compiled
def _move(gram, support, p, k, r, H, x, c, d, v, u):
    """Exchange the column at position p for column k; ``v`` holds conj(G_:S H_:p) and ``r`` x_p / H_pp."""
    drop(p, r, H, x, c, d, v, u)
    take(gram, support, p, k, H, x, c, d, v, u)


@compiled
def uniform(number):
    """Return the random number from 0 to 1 that belongs to a whole number (SplitMix64)."""
    z = np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (z ^ (z >> np.uint64(31))) * 2.0**-64


@compiled
def sample(
    first,
    last,
    gram,
    squares,
    half,
    measurements,
    known,
    nonnegative,
    heat,
    recorded,
    b,
    energy,
    hot,
    floor,
    visited,
    support,
    variance,
    slab,
    least,
    best,
    mean,
    square,
    inclusion,
    misfit,
    H,
    x,
    c,
    d,
    ridge,
    moves,
):
    """Move nonzeros at random, with the probabilities that the posterior distribution of the support gives them.

    Positions of the support are visited in turn. The nonzero there goes to column k with its conditional probability
    given all other nonzeros, with their values integrated out. Rows from ``first`` to ``last`` are changed in place.

    Parameters
    ----------
    gram : (n, n), Gram matrix in double precision; squares : (n,), its diagonal, 0 for columns that are not taken
    half : 0.5 for real data, 1 for complex data
    measurements : number of measurements
    known : whether ``variance`` is the known variance of the noise, not an estimate
    nonnegative : whether the nonzero that is moved is positive; the others are integrated out as if they could have
        either sign, and are positive when it is their turn
    heat : (sweeps,), from 1 (variance ``hot``) to 0 (the variance of the noise)
    recorded : (sweeps,), whether conditional means are added to the sums
    b : (batch, n), Phi^H y; energy : (batch,), ||y||^2
    hot, floor : (batch,), the variance of the noise to start with, and the smallest one
    visited : (batch,), number of positions visited so far, which determines the random numbers
    support : (batch, s), the columns of the nonzeros
    variance, slab : (batch,), variances of the noise and of the nonzeros
    least, best : (batch,) and (batch, s), the smallest squared residual and its support
    mean, square, inclusion : (batch, n), sums of conditional means of x, of |x|^2 and of being nonzero
    misfit : (batch,), sum of the squared residuals of recorded sweeps
    H, x, c, d : (batch, s, s), (batch, s), (batch, n) and (batch, n), as above
    ridge : (batch,), the ridge for which these hold; 0 if they have to be computed
    moves : (batch,), number of moves since they were computed anew
    """
    n, s = gram.shape[0], support.shape[1]
    u, v = np.empty(s, b.dtype), np.empty(n, b.dtype)
    weight, inside, level = np.empty(n), np.zeros(n, np.bool_), squares.max()
    for row in range(first, last):
        if energy[row] == 0:
            continue
        chosen = support[row]
        for k in range(n):
            inside[k] = squares[k] == 0
        for i in range(s):
            inside[chosen[i]] = True
        matrix, values, correlation, distance = H[row], x[row], c[row], d[row]
        for sweep in range(heat.size):
            low = variance[row]
            noise = low
            if heat[sweep] > 0:
                low = min(low, hot[row])
                noise = low * np.exp(heat[sweep] * np.log(hot[row] / low))
            damping = max(low / slab[row], SMALLEST_RIDGE * level)
            if moves[row] >= RENEWED or abs(damping - ridge[row]) > 0.2 * ridge[row]:
                ridge[row], moves[row] = damping, 0
                begin(gram, b[row], chosen, ridge[row], matrix, values, correlation, distance, v)
            for p in range(s):
                combine_rows(gram, chosen, matrix[:, p].copy(), s, v)
                old, pivot = chosen[p], matrix[p, p].real
                r, factor, top = values[p] / pivot, half / noise, 0.0
                inside[old] = False
                for k in range(n):
                    weight[k] = -1.0
                    if not inside[k]:
                        D = distance[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
                        z = correlation[k] + np.conj(v[k]) * r
                        if DEPENDENT * squares[k] < D:
                            weight[k] = factor * (z.real * z.real + z.imag * z.imag) / D
                            if nonnegative and z.real <= 0:
                                weight[k] = 0.0
                            top = max(top, weight[k])
                weight[old] = factor * (r.real * r.real + r.imag * r.imag) * pivot
                if nonnegative and r.real <= 0:
                    weight[old] = 0.0
                top = max(top, weight[old])
                total = 0.0
                for k in range(n):
                    if weight[k] >= 0 and weight[k] >= top - NEGLIGIBLE:
                        D = distance[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
                        if k == old:
                            D = 1 / pivot
                        weight[k] = np.exp(weight[k] - top) * D**-half
                        if nonnegative:
                            z = r if k == old else correlation[k] + np.conj(v[k]) * r
                            weight[k] *= positive_part(z.real / np.sqrt(noise * D))
                        total += weight[k]
                    else:
                        weight[k] = 0.0
                aim, passed, new = uniform(visited[row]) * total, 0.0, -1
                for k in range(n):
                    if weight[k] > 0:
                        passed += weight[k]
                        if new < 0 and passed >= aim:
                            new = k
                        if recorded[sweep]:
                            D = distance[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
                            z = correlation[k] + np.conj(v[k]) * r
                            if k == old:
                                D, z = 1 / pivot, r
                            z, share = z / D, weight[k] / total
                            second = z.real * z.real + z.imag * z.imag + noise / D
                            if nonnegative:
                                first_moment, second, _ = truncated(z.real, np.sqrt(noise / D))
                                z = z - z + first_moment
                            mean[row, k] += share * z
                            square[row, k] += share * second
                            inclusion[row, k] += share
                new = old if new < 0 else new
                inside[new] = True
                if new != old:
                    _move(gram, chosen, p, new, r, matrix, values, correlation, distance, v, u)
                    moves[row] += 1
                visited[row] += 1
            # The squared residual, and the variances that are most likely now.
            left, size, trace, allowed = energy[row], 0.0, 0.0, True
            for i in range(s):
                allowed &= not nonnegative or values[i].real >= 0
                t = np.conj(values[i]) * b[row, chosen[i]]
                magnitude = values[i].real * values[i].real + values[i].imag * values[i].imag
                left -= t.real + ridge[row] * magnitude
                size += magnitude
                trace += matrix[i, i].real
            left = max(left, 0.0)
            if left < least[row] and allowed:
                least[row] = left
                best[row] = chosen
            expected = energy[row] / (s * level)
            slab[row] = min(max((size + low * trace) / s, 1e-12 * expected), LARGEST_SLAB * expected)
            if not known:
                likely = (left + low * (s - ridge[row] * trace)) / measurements
                if heat[sweep] > 0:
                    likely = least[row] / max(measurements - s, 1)
                variance[row] = max(likely, floor[row])
            if recorded[sweep]:
                misfit[row] += left


@compiled
def swap(first, last, gram, squares, ridge, limit, b, energy, support, counts, swaps, optimal):
    """Exchange columns of the support of each row, one at a time, as long as that lowers the squared residual.

    Parameters
    ----------
    gram, squares, b, energy : as above
    ridge : added to the diagonal of the Gram matrix, at the level of rounding errors
    limit : the largest number of exchanges in a row
    support : (batch, s), changed in place; counts : (batch,), how many of its entries are used
    swaps : (batch,), the number of exchanges; optimal : (batch,), whether no exchange lowers the residual any more
    """
    n, most = gram.shape[0], support.shape[1]
    H, x, u = np.empty((most, most), b.dtype), np.empty(most, b.dtype), np.empty(most, b.dtype)
    c, d, v = np.empty(n, b.dtype), np.empty(n), np.empty(n, b.dtype)
    inside = np.zeros(n, np.bool_)
    for row in range(first, last):
        s = counts[row]
        swaps[row], optimal[row] = 0, True
        if s == 0 or energy[row] == 0:
            continue
        chosen = support[row, :s]
        for k in range(n):
            inside[k] = squares[k] == 0
        for i in range(s):
            inside[chosen[i]] = True
        matrix = H[:s, :s]
        begin(gram, b[row], chosen, ridge, matrix, x[:s], c, d, v)
        p, unimproved = 0, 0
        while unimproved < s:
            combine_rows(gram, chosen, matrix[:, p].copy(), s, v)
            old, pivot = chosen[p], matrix[p, p].real
            r = x[p] / pivot
            own = (r.real * r.real + r.imag * r.imag) * pivot
            left = energy[row]
            for i in range(s):
                left -= (np.conj(x[i]) * b[row, chosen[i]]).real
            top, new = own + GAIN * max(left, 0.0) + ROUNDING * energy[row], -1
            for k in range(n):
                if not inside[k]:
                    D = d[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
                    z = c[k] + np.conj(v[k]) * r
                    gain = (z.real * z.real + z.imag * z.imag) / D
                    if DEPENDENT * squares[k] < D and gain > top:
                        top, new = gain, k
            if new < 0:
                unimproved += 1
            elif swaps[row] == limit:
                optimal[row] = False
                break
            else:
                inside[old], inside[new] = False, True
                swaps[row] += 1
                unimproved = 1
                nearest = min(d[new] + (v[new].real * v[new].real + v[new].imag * v[new].imag) / pivot, 1 / pivot)
                if swaps[row] % RENEWED == 0 or nearest < CLOSE * squares[new]:
                    chosen[p] = new
                    begin(gram, b[row], chosen, ridge, matrix, x[:s], c, d, v)
                else:
                    _move(gram, chosen, p, new, r, matrix, x[:s], c, d, v, u[:s])
            p = (p + 1) % s


@compiled
def best_pair(first, last, gram, squares, nonnegative, b, support):
    """Find the two columns that fit each row best, by trying all pairs.

    If ``nonnegative``, only pairs with positive coefficients are tried, and single columns, which are given twice.
    """
    n = gram.shape[0]
    for row in range(first, last):
        top = -1.0
        if nonnegative:
            for i in range(n):
                z = b[row, i].real
                if squares[i] > 0 and z > 0 and z * z > top * squares[i]:
                    top = z * z / squares[i]
                    support[row, 0], support[row, 1] = i, i
        for i in range(n):
            if squares[i] > 0:
                z, own = b[row, i], gram[i]
                for j in range(i):
                    if squares[j] > 0:
                        t, g = b[row, j], own[j]
                        D = squares[i] * squares[j] - g.real * g.real - g.imag * g.imag
                        if DEPENDENT * squares[i] * squares[j] < D:
                            fit = (z.real * z.real + z.imag * z.imag) * squares[j]
                            fit += (t.real * t.real + t.imag * t.imag) * squares[i]
                            fit -= 2 * (np.conj(z) * g * t).real
                            if fit > top * D:
                                if nonnegative and (
                                    z.real * squares[j] <= (g * t).real or t.real * squares[i] <= (g * z).real
                                ):
                                    continue
                                top = fit / D
                                support[row, 0], support[row, 1] = i, j


@compiled
def grow(gram, squares, b, count, order):
    """Select columns one by one so that each lowers the squared residual most; return how many were selected.

    Parameters
    ----------
    gram : (n, n), Gram matrix in double precision; squares : (n,), its diagonal
    b : (n,), Phi^H y
    count : number of columns to select; order : (count,), receives them
    """
    n = b.size
    c, d, basis = b.copy(), squares.copy(), np.empty((count, n), b.dtype)
    for k in range(count):
        best, i = 0.0, -1
        for j in range(n):
            if d[j] > DEPENDENT * squares[j]:
                score = (c[j].real * c[j].real + c[j].imag * c[j].imag) / d[j]
                if score > best:
                    best, i = score, j
        if i < 0:
            return k
        order[k] = i
        # The products of all columns with what is left of column i, at unit norm.
        row, pivot = basis[k], np.sqrt(d[i])
        for j in range(n):
            row[j] = gram[i, j]
        for q in range(k):
            t, other = np.conj(basis[q, i]), basis[q]
            for j in range(n):
                row[j] -= t * other[j]
        for j in range(n):
            row[j] /= pivot
        amount = c[i] / pivot
        for j in range(n):
            c[j] -= np.conj(row[j]) * amount
            d[j] -= row[j].real * row[j].real + row[j].imag * row[j].imag
        d[i] = 0.0
    return count


@compiled
def separate(first, last, gram, squares, support):
    """Replace columns of the supports that depend on those before them by others that do not.

    Parameters
    ----------
    gram : (n, n), Gram matrix in double precision; squares : (n,), its diagonal
    support : (batch, s), changed in place
    """
    n, s = gram.shape[0], support.shape[1]
    L, row, best_row = np.empty((s, s), gram.dtype), np.empty(s, gram.dtype), np.empty(s, gram.dtype)
    inside = np.zeros(n, np.bool_)
    for number in range(first, last):
        chosen = support[number]
        inside[:] = False
        for i in range(s):
            inside[chosen[i]] = True
        for i in range(s):
            # Column i itself, and if it depends on the others, as many others as are needed to find a better one.
            best, new, k = -1.0, chosen[i], chosen[i]
            for trial in range(n):
                rest = squares[k]
                for j in range(i):
                    t = gram[k, chosen[j]]
                    for q in range(j):
                        t -= row[q] * np.conj(L[j, q])
                    row[j] = t / L[j, j]
                    rest -= row[j].real * row[j].real + row[j].imag * row[j].imag
                share = rest / squares[k] if squares[k] > 0 else 0.0
                if share > best:
                    best, new = share, k
                    for j in range(i):
                        best_row[j] = row[j]
                if share > (DEPENDENT if trial == 0 else SEPARATE):
                    break
                k = (k + 1) % n
                while inside[k] and k != chosen[i]:
                    k = (k + 1) % n
            inside[chosen[i]], inside[new] = False, True
            chosen[i] = new
            for j in range(i):
                L[i, j] = best_row[j]
            L[i, i] = np.sqrt(max(best * squares[new], PIVOT))
