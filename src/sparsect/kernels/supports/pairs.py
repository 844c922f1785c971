"""Moves of two nonzeros at a time: between columns that resemble each other, one alone may have nowhere to go.

With G, S, l, H, x, c and d as in ``cpu``, let P be the block of H that belongs to positions p and q, V = G_:S H_:pq,
and r = P^-1 x_pq. Without these two nonzeros,

    C_k  = c_k + V_k r                                            is the correlation of column k with the residual, and
    E_kl = G_kl + l (k = l) - G_kS H G_Sl + V_k P^-1 V_l^H        the product of what the others leave of k and l.

Columns k and l in their places lower the squared residual by C_kl^H E_kl^-1 C_kl. For the columns at p and q
themselves, C = r, E = P^-1, and their products with column k are P^-1 V_k^H.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from ..pursuit import best_column, combine_rows
from .cpu import uniform
from .joint import begin_all
from .limits import DEPENDENT, INTERACTING, NEIGHBOURS


@compiled
def sample_pairs(
    first, last, gram, squares, half, nonnegative, rounds, b, energy, ridge, noise, visited, support, moved
):
    """Move pairs of nonzeros at random, with the probabilities that the posterior distribution gives them.

    Two nonzeros whose values depend on each other go to two of the columns that would lower the residual most without
    them, and whose values depend on each other, too, or they stay. They also stay if they are not among these columns.
    Rows from ``first`` to ``last`` are changed in place.

    Parameters
    ----------
    gram, squares, half, nonnegative, visited, support : as in ``cpu.sample``
    rounds : number of visits of each position
    b : (batch, times, n), Phi^H y at several times with a joint support; energy : (batch,), ||y||^2
    ridge, noise : (batch,), the ridge and the variance of the noise
    moved : (batch,), receives the number of moves
    """
    times, n, s = b.shape[1], gram.shape[0], support.shape[1]
    H, x, c, d = np.empty((s, s), b.dtype), np.empty((times, s), b.dtype), np.empty((times, n), b.dtype), np.empty(n)
    v, w, r = np.empty(n, b.dtype), np.empty(n, b.dtype), np.empty((times, 2), b.dtype)
    inside, gain = np.zeros(n, np.bool_), np.empty(n)
    # The columns that are compared, by their gains, and once more with those at p and q first.
    compared, columns = np.empty(NEIGHBOURS, np.int64), np.empty(NEIGHBOURS, np.int64)
    C, E = np.empty((times, NEIGHBOURS), b.dtype), np.empty((NEIGHBOURS, NEIGHBOURS), b.dtype)
    projected, weight = np.empty(s, b.dtype), np.empty((NEIGHBOURS, NEIGHBOURS))
    for row in range(first, last):
        moved[row] = 0
        if energy[row] == 0 or s < 2:
            continue
        chosen, current = support[row], False
        for k in range(n):
            inside[k] = squares[k] == 0
        for i in range(s):
            inside[chosen[i]] = True
        for visit in range(rounds * s):
            p = visit % s
            if not current:
                begin_all(gram, b[row], chosen, ridge[row], H, x, c, d, v)
                current = True
            q = partner(H, p)
            own, other, between = H[p, p].real, H[q, q].real, H[p, q]
            det = own * other - squared(between)
            # Two partners of each other are visited once.
            if squared(between) < INTERACTING * own * other or det <= 0 or (q < p and partner(H, q) == p):
                continue
            combine_rows(gram, chosen, H[:, p].copy(), s, v)
            combine_rows(gram, chosen, H[:, q].copy(), s, w)
            for t in range(times):
                r[t, 0] = (other * x[t, p] - between * x[t, q]) / det
                r[t, 1] = (own * x[t, q] - np.conj(between) * x[t, p]) / det
            for k in range(n):
                gain[k] = 0.0
                if not inside[k]:
                    D = squared(v[k]) * other + squared(w[k]) * own - 2 * (np.conj(v[k]) * between * w[k]).real
                    D = d[k] + D / det
                    if DEPENDENT * squares[k] < D:
                        for t in range(times):
                            gain[k] += squared(c[t, k] + np.conj(v[k]) * r[t, 0] + np.conj(w[k]) * r[t, 1])
                        gain[k] /= D
            E[0, 0], E[0, 1], E[1, 0], E[1, 1] = other / det, -between / det, -np.conj(between) / det, own / det
            gain[chosen[p]] = gain[chosen[q]] = 0.0
            for t in range(times):
                C[t, 0], C[t, 1] = r[t, 0], r[t, 1]
                gain[chosen[p]] += squared(C[t, 0]) / E[0, 0].real
                gain[chosen[q]] += squared(C[t, 1]) / E[1, 1].real
            # Which columns are compared must not depend on where the two nonzeros are, so that they may come back.
            for place in range(NEIGHBOURS):
                compared[place] = best_column(gain)
                if compared[place] >= 0:
                    gain[compared[place]] = 0.0
            if not (chosen[p] in compared and chosen[q] in compared):
                continue
            columns[0], columns[1], count = chosen[p], chosen[q], 2
            for column in compared:
                if column < 0 or column == chosen[p] or column == chosen[q]:
                    continue
                columns[count] = column
                for t in range(times):
                    C[t, count] = c[t, column] + np.conj(v[column]) * r[t, 0] + np.conj(w[column]) * r[t, 1]
                a, z = (
                    (other * v[column] - between * w[column]) / det,
                    (own * w[column] - np.conj(between) * v[column]) / det,
                )
                E[0, count], E[1, count], E[count, 0], E[count, 1] = a, z, np.conj(a), np.conj(z)
                for i in range(s):
                    total = H.dtype.type(0)
                    for j in range(s):
                        total += H[i, j] * gram[chosen[j], column]
                    projected[i] = total
                for i in range(2, count + 1):
                    total, line = np.conj(v[columns[i]]) * a + np.conj(w[columns[i]]) * z, gram[columns[i]]
                    total += line[column]
                    for j in range(s):
                        total -= line[chosen[j]] * projected[j]
                    E[i, count], E[count, i] = total, np.conj(total)
                E[count, count] += ridge[row]
                count += 1
            top = -np.inf
            for i in range(1, count):
                for j in range(i):
                    weight[i, j] = -np.inf
                    product, shared = E[i, i].real * E[j, j].real, squared(E[i, j])
                    volume = product - shared
                    apart = DEPENDENT * squares[columns[i]] * E[j, j].real < volume
                    if i == 1 or (apart and shared >= INTERACTING * product):
                        fall = pair_gain(C, E, i, j, volume, nonnegative)
                        weight[i, j] = half * (fall / noise[row] - times * np.log(volume))
                        top = max(top, weight[i, j])
            visited[row] += 1
            if top == -np.inf:
                continue
            total = 0.0
            for i in range(1, count):
                for j in range(i):
                    weight[i, j] = np.exp(weight[i, j] - top)
                    total += weight[i, j]
            aim, passed, new, partner_of_new = uniform(visited[row]) * total, 0.0, 0, 1
            for i in range(1, count):
                for j in range(i):
                    if passed < aim:
                        new, partner_of_new = j, i
                    passed += weight[i, j]
            if partner_of_new > 1:
                inside[chosen[p]] = inside[chosen[q]] = False
                chosen[p], chosen[q] = columns[new], columns[partner_of_new]
                inside[chosen[p]] = inside[chosen[q]] = True
                moved[row] += 1
                current = False


@compiled
def partner(H, p):
    """Return the position whose value depends most on that at position p."""
    best, q = -1.0, p
    for i in range(H.shape[0]):
        share = squared(H[i, p]) / H[i, i].real
        if i != p and share > best:
            best, q = share, i
    return q


@compiled
def pair_gain(C, E, i, j, volume, nonnegative):
    """Return by how much two columns lower the squared residual; -infinity if a value is not positive but has to be."""
    total, between = 0.0, E[i, j]
    for t in range(C.shape[0]):
        one = (E[j, j].real * C[t, i] - between * C[t, j]) / volume
        two = (E[i, i].real * C[t, j] - np.conj(between) * C[t, i]) / volume
        if nonnegative and (one.real <= 0 or two.real <= 0):
            return -np.inf
        total += (np.conj(one) * C[t, i] + np.conj(two) * C[t, j]).real
    return total


@compiled
def squared(z):
    """Return the square of a magnitude."""
    return z.real * z.real + z.imag * z.imag
