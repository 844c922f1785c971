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

    Two nonzeros whose values depend on each other move together: to two of the columns that would lower the residual
    most without them, and whose values depend on each other as well. They stay if they are not among these columns.
    Rows from ``first`` to ``last`` are changed in place.

    Parameters
    ----------
    gram, squares, half, visited, support : as in ``cpu.sample``
    nonnegative : whether pairs are left out whose fit is not positive; the probability that both values are positive is
        not computed
    rounds : number of visits of each pair
    b : (batch, times, n), Phi^H y at several times with a joint support; energy : (batch,), ||y||^2
    ridge, noise : (batch,), the ridge and the variance of the noise
    moved : (batch,), receives the number of moves
    """
    times, n, s = b.shape[1], gram.shape[0], support.shape[1]
    H, x, c, d = np.empty((s, s), b.dtype), np.empty((times, s), b.dtype), np.empty((times, n), b.dtype), np.empty(n)
    V, r, inside = np.empty((2, n), b.dtype), np.empty((times, 2), b.dtype), np.zeros(n, np.bool_)
    columns = np.empty(NEIGHBOURS, np.int64)
    C, E = np.empty((times, NEIGHBOURS), b.dtype), np.empty((NEIGHBOURS, NEIGHBOURS), b.dtype)
    gain, weight = np.empty(n), np.empty((NEIGHBOURS, NEIGHBOURS))
    for row in range(first, last):
        moved[row] = 0
        if energy[row] == 0:
            continue
        chosen, current = support[row], False
        for k in range(n):
            inside[k] = squares[k] == 0
        for i in range(s):
            inside[chosen[i]] = True
        for visit in range(rounds * s * s):
            # Which pair is visited must not depend on the support, so that moves can be undone.
            p, q = visit // s % s, visit % s
            if q >= p:
                continue
            if not current:
                begin_all(gram, b[row], chosen, ridge[row], H, x, c, d, V[0])
                current = True
            if not together(H, p, q, E):
                continue
            without(gram, chosen, H, x, p, q, E, V, r)
            gains(squares, inside, chosen[p], chosen[q], c, d, V, r, E, gain)
            count = compared(gram, chosen, p, q, ridge[row], H, c, V, r, gain, columns, C, E)
            if count == 0:
                continue
            top = weigh(squares, columns[:count], half, noise[row], nonnegative, C, E, weight)
            visited[row] += 1
            if top == -np.inf:
                continue
            i, j = drawn(weight, count, top, uniform(visited[row]))
            if i + j > 1:
                inside[chosen[p]] = inside[chosen[q]] = False
                chosen[p], chosen[q] = columns[i], columns[j]
                inside[chosen[p]] = inside[chosen[q]] = True
                moved[row] += 1
                current = False


@compiled
def together(H, p, q, E):
    """Compute P^-1, and return whether the values at two positions depend on each other."""
    own, other, between = H[p, p].real, H[q, q].real, H[p, q]
    det = own * other - squared(between)
    if squared(between) < INTERACTING * own * other or det <= 0:
        return False
    E[0, 0], E[0, 1], E[1, 0], E[1, 1] = other / det, -between / det, -np.conj(between) / det, own / det
    return True


@compiled
def without(gram, chosen, H, x, p, q, E, V, r):
    """Compute r, and V^H in the rows of ``V``."""
    for i, position in enumerate((p, q)):
        combine_rows(gram, chosen, H[:, position].copy(), chosen.size, V[i])
    for t in range(x.shape[0]):
        r[t, 0], r[t, 1] = solved(E, x[t, p], x[t, q])


@compiled
def gains(squares, inside, first, second, c, d, V, r, E, gain):
    """Compute by how much each column alone would lower the squared residual without the pair."""
    for k in range(gain.size):
        gain[k] = 0.0
        if not inside[k]:
            a, z = solved(E, V[0, k], V[1, k])
            D = d[k] + (np.conj(V[0, k]) * a + np.conj(V[1, k]) * z).real
            if DEPENDENT * squares[k] < D:
                for t in range(c.shape[0]):
                    gain[k] += squared(correlation(c, V, r, t, k)) / D
    gain[first] = gain[second] = 0.0
    for t in range(c.shape[0]):
        gain[first] += squared(r[t, 0]) / E[0, 0].real
        gain[second] += squared(r[t, 1]) / E[1, 1].real


@compiled
def compared(gram, chosen, p, q, ridge, H, c, V, r, gain, columns, C, E):
    """Compute C and E of the columns with the largest gains, those of the pair first; return how many they are.

    Which columns these are does not depend on where the pair is. If it is not among them, it is left where it is, and
    their number is 0, because it could not come back.
    """
    columns[0], columns[1], count, found = chosen[p], chosen[q], 2, 0
    for _ in range(NEIGHBOURS):
        column = best_column(gain)
        if column < 0:
            break
        gain[column] = 0.0
        if column == chosen[p] or column == chosen[q]:
            found += 1
        elif count < NEIGHBOURS:
            columns[count] = column
            count += 1
    if found < 2:
        return 0
    s = chosen.size
    for t in range(c.shape[0]):
        C[t, 0], C[t, 1] = r[t, 0], r[t, 1]
        for i in range(2, count):
            C[t, i] = correlation(c, V, r, t, columns[i])
    projected = np.empty(s, H.dtype)
    for j in range(2, count):
        column = columns[j]
        for i in range(s):
            projected[i] = 0
            for k in range(s):
                projected[i] += H[i, k] * gram[chosen[k], column]
        E[0, j], E[1, j] = a, z = solved(E, V[0, column], V[1, column])
        for i in range(2, j + 1):
            line = gram[columns[i]]
            E[i, j] = line[column] + np.conj(V[0, columns[i]]) * a + np.conj(V[1, columns[i]]) * z
            for k in range(s):
                E[i, j] -= line[chosen[k]] * projected[k]
        E[j, j] += ridge
        for i in range(j):
            E[j, i] = np.conj(E[i, j])
    return count


@compiled
def weigh(squares, columns, half, noise, nonnegative, C, E, weight):
    """Compute the log-probability of each pair of columns up to a constant, and return the largest one.

    The first two columns are those of the pair. The other pairs may be chosen if their values depend on each other and
    neither column lies in the span of the others.
    """
    top = -np.inf
    for i in range(1, columns.size):
        for j in range(i):
            weight[i, j] = -np.inf
            product, shared = E[i, i].real * E[j, j].real, squared(E[i, j])
            volume = product - shared
            least = DEPENDENT * max(squares[columns[i]] * E[j, j].real, squares[columns[j]] * E[i, i].real)
            if i == 1 or (least < volume and shared >= INTERACTING * product):
                fall = pair_gain(C, E, i, j, volume, nonnegative)
                weight[i, j] = half * (fall / noise - C.shape[0] * np.log(volume))
                top = max(top, weight[i, j])
    return top


@compiled
def drawn(weight, count, top, number):
    """Draw a pair by a random number from 0 to 1, in random order."""
    total = 0.0
    for i in range(1, count):
        for j in range(i):
            weight[i, j] = np.exp(weight[i, j] - top)
            total += weight[i, j]
    # Either column may come first: what later visits do must not depend on how columns are ranked.
    turned = number >= 0.5
    aim, passed, first, second = (2 * number - turned) * total, 0.0, 0, 1
    for i in range(1, count):
        for j in range(i):
            if passed < aim:
                first, second = j, i
            passed += weight[i, j]
    return (second, first) if turned else (first, second)


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
def correlation(c, V, r, t, k):
    """Return C_k at time t; the rows of ``V`` hold V^H."""
    return c[t, k] + np.conj(V[0, k]) * r[t, 0] + np.conj(V[1, k]) * r[t, 1]


@compiled
def solved(E, a, b):
    """Return P^-1 (a, b)."""
    return E[0, 0] * a + E[0, 1] * b, E[1, 0] * a + E[1, 1] * b


@compiled
def squared(z):
    """Return the square of a magnitude."""
    return z.real * z.real + z.imag * z.imag
