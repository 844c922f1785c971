"""Exchanges of the units of a support, row by row: entries within bounds, groups, or entries at several times.

R are the entries of the support whose values lie strictly within their bounds; the others are fixed at theirs.
H = (G_RR)^-1, V = H G_R:, and c are the correlations of the residual with the columns at each time. The columns of a
unit U have the Gram matrix F_U = G_UU - G_UR V_RU after projection onto the complement of those in R. If values z of U
are put into the fit, and the values in R adapt, the squared residual falls by the gain 2 Re(z^H c_U) - z^H F_U z.
Taking P, a part of R, out of the fit changes c and F by Z = L^-1 V_P:, where H_PP = L L^H:

    c + Z^H L^-1 x_P  and  F_U + Z_U^H Z_U.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from ..fitting.cpu import fit_bounded
from ..pursuit import combine_rows
from .cpu import fit_values, invert
from .limits import DEPENDENT, GAIN, ROUNDING

# The ridge of fits within bounds, relative to the squared norms of columns.
RIDGE = 4 * 2.0**-52


@compiled
def factor(A, size, least):
    """Compute the Cholesky factor of the leading part of A in place; rows with a square below ``least`` become zero."""
    for i in range(size):
        for j in range(i + 1):
            total = A[i, j]
            for q in range(j):
                total -= A[i, q] * np.conj(A[j, q])
            if j < i:
                A[i, j] = total / A[j, j] if A[j, j] != 0 else A.dtype.type(0)
            elif total.real > least[i]:
                A[i, i] = np.sqrt(total.real)
            else:
                A[i, : i + 1] = 0
    # A column below an entry that was dropped is zero already, so that the entry has no part in any sum.


@compiled
def forward(L, size, values):
    """Solve L t = values in place; entries whose row of L is zero become zero."""
    for i in range(size):
        total = values[i]
        for q in range(i):
            total -= L[i, q] * values[q]
        values[i] = total / L[i, i] if L[i, i] != 0 else values.dtype.type(0)


@compiled
def inverse_of(gram, free, ridge):
    """Return H = (G_RR)^-1."""
    H = np.empty((free.size, free.size), gram.dtype)
    for i in range(free.size):
        for j in range(free.size):
            H[i, j] = gram[free[i], free[j]]
        H[i, i] += ridge
    invert(H, free.size)
    return H


@compiled
def free_directions(gram, members, free, H, V, F):
    """Compute V = H G_R: and F, the rows of every F_U one after the other."""
    n = gram.shape[0]
    for i in range(free.size):
        combine_rows(gram, free, H[:, i].copy(), free.size, V[i])
    for unit in range(members.shape[0]):
        for own in range(members.shape[1]):
            j = members[unit, own]
            if j == n:
                break
            for other in range(members.shape[1]):
                k = members[unit, other]
                if k == n:
                    break
                total = gram[j, k]
                for i in range(free.size):
                    total -= np.conj(gram[free[i], j]) * V[i, k]
                F[j, other] = total


@compiled
def taken_out(part, H, V, values, c):
    """Take entries out of the fit: return Z and L, and change their values to L^-1 x_P, and c accordingly.

    Parameters
    ----------
    part : (size,), their places in R
    values : (times, size or more), x_P; c : (times, n)
    """
    size, n = part.size, V.shape[1]
    L, Z = np.empty((size, size), H.dtype), np.empty((size, n), H.dtype)
    for a in range(size):
        for e in range(a + 1):
            L[a, e] = H[part[a], part[e]]
    factor(L, size, np.zeros(size))
    for a in range(size):
        Z[a] = V[part[a]]
        for e in range(a):
            for k in range(n):
                Z[a, k] -= L[a, e] * Z[e, k]
        for k in range(n):
            Z[a, k] /= L[a, a]
    for time in range(c.shape[0]):
        forward(L, size, values[time])
        for a in range(size):
            for k in range(n):
                c[time, k] += np.conj(Z[a, k]) * values[time, a]
    return Z, L


@compiled
def gain_of(unit, members, squares, low, high, c, F, Z, L, t, least):
    """Return by how much the squared residual falls if a unit is put into the fit.

    ``Z`` are the parts of the columns along which others have been taken out of the fit.
    """
    n, size = squares.size, 0
    for own in range(members.shape[1]):
        j = members[unit, own]
        if j == n:
            break
        size += 1
        least[own] = DEPENDENT * squares[j]
        for other in range(own + 1):
            total = F[j, other]
            for a in range(Z.shape[0]):
                total += np.conj(Z[a, j]) * Z[a, members[unit, other]]
            L[own, other] = total
    if low is not None:
        j, D = members[unit, 0], L[0, 0]
        value = min(max(c[0, j] / D, low[j]), high[j])
        return value * (2 * c[0, j] - D * value) if least[0] < D else 0.0
    factor(L, size, least)
    gain = 0.0
    for time in range(c.shape[0]):
        for own in range(size):
            t[own] = c[time, members[unit, own]]
        forward(L, size, t)
        for own in range(size):
            gain += t[own].real * t[own].real + t[own].imag * t[own].imag
    return gain


@compiled
def refitted(gram, members, low, high, b, energy, chosen, ridge, x, c, v):
    """Fit y on the chosen units, with x and c of shape (times, n); return R, H and the squared residual."""
    n, count, free = gram.shape[0], 0, np.empty(gram.shape[0], np.int64)
    x[:] = 0
    c[:] = b
    if low is None:
        for unit in chosen:
            for j in members[unit]:
                if j < n and gram[j, j].real > 0:
                    free[count] = j
                    count += 1
    else:
        start = np.zeros((1, n))
        for unit in chosen:
            for j in members[unit]:
                if j < n:
                    start[0, j] = min(1.0, high[j]) if high[j] > 0 else max(-1.0, low[j])
        found = np.zeros((1, n))
        fit_bounded(0, 1, gram, b, start, low, high, RIDGE, found)
        for j in range(n):
            if found[0, j] != 0 and low[j] < found[0, j] < high[j]:
                free[count] = j
                count += 1
            elif found[0, j] != 0:
                x[0, j] = found[0, j]
                for k in range(n):
                    c[0, k] -= gram[j, k] * found[0, j]
    free = free[:count]
    H, values, left = inverse_of(gram, free, ridge), np.empty(count, b.dtype), energy
    for time in range(b.shape[0]):
        fit_values(gram, c[time].copy(), free, H, values, c[time], v)
        for i in range(count):
            x[time, free[i]] = values[i]
    for time in range(b.shape[0]):
        for j in range(n):
            if x[time, j] != 0:
                left -= (np.conj(x[time, j]) * (b[time, j] + c[time, j])).real
    return free, H, max(left, 0.0)


@compiled
def exchange(
    first, last, gram, squares, members, levels, low, high, ridge, limit, b, energy, support, counts, swaps, optimal
):
    """Exchange units of the support of each row for others of their level, as long as that lowers the squared residual.

    Of all exchanges, the one that gains most is made. Gains are those of a fit in which the values of the other units
    may leave their bounds; an exchange that does not lower the residual within the bounds is undone.

    Parameters
    ----------
    gram : (n, n), Gram matrix in double precision; squares : (n,), its diagonal
    members : (units, largest), the entries of each unit, filled up with n; levels : (units,), the level of each unit
    low, high : (n,), bounds if units are single entries, or both None
    ridge : added to the diagonal of Gram matrices, at the level of rounding errors
    limit : the largest number of exchanges in a row, those included that are undone
    b : (batch, times, n), Phi^H y; energy : (batch,), the squared norm of y
    support : (batch, s), units, changed in place; counts : (batch,), how many of them are used
    swaps : (batch,), the number of exchanges; optimal : (batch,), whether it is certain that none lowers the residual
        any more
    """
    n, (units, largest), times = gram.shape[0], members.shape, b.shape[1]
    x, c, trial = np.empty((times, n), b.dtype), np.empty((times, n), b.dtype), np.empty((times, n), b.dtype)
    V, F = np.empty((min(support.shape[1] * largest, n), n), b.dtype), np.empty((n, largest), b.dtype)
    L, t, least = np.empty((largest, largest), b.dtype), np.empty(largest, b.dtype), np.empty(largest)
    places, v = np.empty(n, np.int64), np.empty(n, b.dtype)
    for row in range(first, last):
        s = counts[row]
        swaps[row], optimal[row] = 0, True
        if s == 0 or energy[row] == 0:
            continue
        chosen, data = support[row, :s], b[row]
        inside, failed = np.zeros(units, np.bool_), np.zeros((s, units), np.bool_)
        for unit in range(units):
            inside[unit] = True
            for j in members[unit]:
                if j < n and squares[j] > 0:
                    inside[unit] = False
        inside[chosen] = True
        free, H, left = refitted(gram, members, low, high, data, energy[row], chosen, ridge, x, c, v)
        free_directions(gram, members, free, H, V, F)
        attempts = 0
        while True:
            places[:] = -1
            for i in range(free.size):
                places[free[i]] = i
            top, position, new = GAIN * left + ROUNDING * energy[row], -1, -1
            for p in range(s):
                unit, size = chosen[p], 0
                part, values = np.empty(largest, np.int64), np.empty((times, largest), b.dtype)
                trial[:] = c
                for j in members[unit]:
                    if j < n and places[j] >= 0:
                        part[size] = places[j]
                        values[:, size] = x[:, j]
                        size += 1
                for j in members[unit]:
                    if j < n and places[j] < 0 and x[0, j] != 0:
                        # A value at its bound is taken out of the fit, to which those in R adapt.
                        for k in range(n):
                            total = gram[j, k]
                            for i in range(free.size):
                                total -= V[i, k] * gram[free[i], j]
                            trial[0, k] += total * x[0, j]
                        for a in range(size):
                            values[0, a] += V[part[a], j] * x[0, j]
                Z, _ = taken_out(part[:size], H, V, values, trial)
                own = own_gain(members[unit], trial, x, F, Z)
                for other in range(units):
                    if not inside[other] and levels[other] == levels[unit] and not failed[p, other]:
                        gain = gain_of(other, members, squares, low, high, trial, F, Z, L, t, least) - own
                        if gain > top:
                            top, position, new = gain, p, other
            if new < 0:
                break
            if attempts == limit:
                optimal[row] = False
                break
            attempts += 1
            old, before = chosen[position], left
            chosen[position] = new
            free, H, left = refitted(gram, members, low, high, data, energy[row], chosen, ridge, x, c, v)
            if left < before:
                inside[old], inside[new] = False, True
                swaps[row] += 1
                failed[:] = False
            else:
                chosen[position] = old
                failed[position, new] = True
                free, H, left = refitted(gram, members, low, high, data, energy[row], chosen, ridge, x, c, v)
            free_directions(gram, members, free, H, V, F)
        if low is not None:
            for j in range(n):
                # The fits above keep a nonzero at its bound, which another exchange might release.
                if x[0, j] != 0 and (x[0, j] == low[j] or x[0, j] == high[j]):
                    optimal[row] = False


@compiled
def own_gain(entries, c, x, F, Z):
    """Return the gain of a unit with the values that it has, after it was taken out of the fit."""
    n, gain = c.shape[1], 0.0
    for time in range(c.shape[0]):
        for own in range(entries.size):
            j = entries[own]
            if j < n:
                gain += 2 * (np.conj(x[time, j]) * c[time, j]).real
                for other in range(entries.size):
                    k = entries[other]
                    if k < n:
                        total = F[j, other]
                        for a in range(Z.shape[0]):
                            total += np.conj(Z[a, j]) * Z[a, k]
                        gain -= (np.conj(x[time, j]) * total * x[time, k]).real
    return gain


@compiled
def gains(first, last, gram, squares, members, low, high, ridge, c, x, taken, out):
    """Compute by how much each unit lowers the squared residual if the values of those taken adapt to it.

    Parameters
    ----------
    gram, squares, members, low, high, ridge : as for ``exchange``
    c : (batch, times, n), the correlations of the columns with the residual
    x : (batch, times, n), the fit; taken : (batch, units), the units that it uses
    out : (batch, units), the gains; -1 for units that are taken
    """
    n, (units, largest) = gram.shape[0], members.shape
    F, L = np.empty((n, largest), c.dtype), np.empty((largest, largest), c.dtype)
    t, least, none = np.empty(largest, c.dtype), np.empty(largest), np.empty((0, n), c.dtype)
    for row in range(first, last):
        inside = np.zeros(n, np.bool_)
        for unit in range(units):
            if taken[row, unit]:
                for j in members[unit]:
                    if j < n and squares[j] > 0:
                        inside[j] = True
        if low is not None:
            for j in range(n):
                inside[j] &= x[row, 0, j] != 0 and low[j] < x[row, 0, j] < high[j]
        free = np.flatnonzero(inside)
        V = np.empty((free.size, n), c.dtype)
        free_directions(gram, members, free, inverse_of(gram, free, ridge), V, F)
        for unit in range(units):
            out[row, unit] = -1.0
            if not taken[row, unit]:
                out[row, unit] = gain_of(unit, members, squares, low, high, c[row], F, none, L, t, least)
