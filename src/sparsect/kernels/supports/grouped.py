"""Sampled moves of the units of a support, row by row: groups, or entries that stay in their level.

The symbols are those of ``units.py``, but Gram matrices have a ridge. With the values of all units integrated out, unit
U has the log-probability half / noise |t|^2 - half (log det M - size log ridge), where M is the F_U that is left after
the unit at its position was taken out of the fit, M = L L^H, and t = L^-1 c_U.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from .cpu import fit_values, uniform
from .limits import DEPENDENT, LARGEST_SLAB, NEGLIGIBLE, SMALLEST_RIDGE
from .units import factor, forward, free_directions, inverse_of, taken_out

# Units with a smaller probability are left out of means.
UNLIKELY = 1e-9


@compiled
def likelihood(unit, members, squares, ridge, half, noise, c, F, Z, L, t, least):
    """Compute L and t of a unit that is not in the fit; return its log-probability, up to a constant."""
    n, size = squares.size, 0
    for own in range(members.shape[1]):
        j = members[unit, own]
        if j == n:
            break
        size += 1
        least[own] = DEPENDENT * squares[j]
        t[own] = c[j]
        for other in range(own + 1):
            total = F[j, other]
            for a in range(Z.shape[0]):
                total += np.conj(Z[a, j]) * Z[a, members[unit, other]]
            L[own, other] = total
        L[own, own] += ridge
    factor(L, size, least)
    forward(L, size, t)
    return weight_of(L, t, size, ridge, half, noise)


@compiled
def weight_of(L, t, size, ridge, half, noise):
    """Return the log-probability of a unit, given L and t; entries that depend on others have no part in it."""
    weight = 0.0
    for i in range(size):
        if L[i, i] != 0:
            weight += half / noise * (t[i].real * t[i].real + t[i].imag * t[i].imag)
            weight -= half * np.log(L[i, i].real * L[i, i].real / ridge)
    return weight


@compiled
def record(entries, share, noise, L, t, inverse, mean, square, inclusion):
    """Add the conditional moments of the values L^-H t of a unit to the sums."""
    size = entries.size
    for i in range(size):
        for j in range(size):
            inverse[j] = 0
        inverse[i] = 1
        forward(L, size, inverse)
        value, spread = t.dtype.type(0), 0.0
        for j in range(i, size):
            # Column i of L^-1, whose conjugate is row i of L^-H.
            value += np.conj(inverse[j]) * t[j]
            spread += inverse[j].real * inverse[j].real + inverse[j].imag * inverse[j].imag
        mean[entries[i]] += share * value
        square[entries[i]] += share * (value.real * value.real + value.imag * value.imag + noise * spread)
        inclusion[entries[i]] += share


@compiled
def refreshed(gram, members, b, chosen, ridge, V, F, c, v):
    """Fit y on the chosen units; return R, H and the values."""
    n, count, free = gram.shape[0], 0, np.empty(gram.shape[0], np.int64)
    for unit in chosen:
        for j in members[unit]:
            if j < n:
                free[count] = j
                count += 1
    free = free[:count]
    H, x = inverse_of(gram, free, ridge), np.empty(count, b.dtype)
    fit_values(gram, b, free, H, x, c, v)
    free_directions(gram, members, free, H, V, F)
    return free, H, x


@compiled
def sample(
    first,
    last,
    gram,
    squares,
    members,
    levels,
    half,
    measurements,
    known,
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
):
    """Move units at random, as ``cpu.sample`` moves single nonzeros.

    Parameters are those of ``cpu.sample``, but ``support`` and ``best`` have the units.

    Parameters
    ----------
    members : (units, largest), the entries of each unit, filled up with n; levels : (units,), the level of each unit
    """
    n, (units, largest), s = gram.shape[0], members.shape, support.shape[1]
    V, F = np.empty((min(s * largest, n), n), b.dtype), np.empty((n, largest), b.dtype)
    L, t, smallest = np.empty((largest, largest), b.dtype), np.empty(largest, b.dtype), np.empty(largest)
    c, trial, v = np.empty(n, b.dtype), np.empty((1, n), b.dtype), np.empty(n, b.dtype)
    column, weight, level = np.empty(largest, b.dtype), np.empty(units), squares.max()
    for row in range(first, last):
        if energy[row] == 0:
            continue
        chosen, inside = support[row], np.zeros(units, np.bool_)
        inside[chosen] = True
        for sweep in range(heat.size):
            low = variance[row]
            noise = low
            if heat[sweep] > 0:
                low = min(low, hot[row])
                noise = low * np.exp(heat[sweep] * np.log(hot[row] / low))
            ridge = max(low / slab[row], SMALLEST_RIDGE * level)
            free, H, x = refreshed(gram, members, b[row], chosen, ridge, V, F, c, v)
            for p in range(s):
                old, size, start = chosen[p], 0, 0
                for j in members[old]:
                    size += j < n
                while free[start] != members[old, 0]:
                    start += 1
                trial[0] = c
                part, values = np.arange(start, start + size), np.empty((1, size), b.dtype)
                values[0] = x[start : start + size]
                Z, own = taken_out(part, H, V, values, trial)
                top = -np.inf
                for unit in range(units):
                    weight[unit] = -np.inf
                    if unit == old:
                        # The factor of M is the inverse of that of H at this position.
                        weight[unit] = 0.0
                        for a in range(size):
                            power = values[0, a].real * values[0, a].real + values[0, a].imag * values[0, a].imag
                            weight[unit] += half / noise * power + half * np.log(own[a, a].real ** 2 * ridge)
                    elif not inside[unit] and levels[unit] == levels[old]:
                        weight[unit] = likelihood(
                            unit, members, squares, ridge, half, noise, trial[0], F, Z, L, t, smallest
                        )
                    top = max(top, weight[unit])
                total = 0.0
                for unit in range(units):
                    weight[unit] = np.exp(weight[unit] - top) if weight[unit] > top - NEGLIGIBLE else 0.0
                    total += weight[unit]
                aim, passed, new = uniform(visited[row]) * total, 0.0, -1
                for unit in range(units):
                    passed += weight[unit]
                    if new < 0 and weight[unit] > 0 and passed >= aim:
                        new = unit
                    share = weight[unit] / total
                    if recorded[sweep] and share > UNLIKELY:
                        length = 0
                        for j in members[unit]:
                            length += j < n
                        if unit == old:
                            for a in range(size):
                                for e in range(size):
                                    L[a, e] = H[start + a, start + e]
                            inverse = np.linalg.inv(L[:size, :size].copy())
                            for a in range(size):
                                t[a] = 0
                                for e in range(size):
                                    L[a, e] = inverse[a, e]
                                    t[a] += inverse[a, e] * x[start + e]
                            factor(L, size, np.zeros(size))
                            forward(L, size, t)
                        else:
                            likelihood(unit, members, squares, ridge, half, noise, trial[0], F, Z, L, t, smallest)
                        sums = mean[row], square[row], inclusion[row]
                        record(members[unit, :length], share, noise, L, t, column, *sums)
                new = old if new < 0 else new
                if new != old:
                    inside[old], inside[new] = False, True
                    chosen[p] = new
                    free, H, x = refreshed(gram, members, b[row], chosen, ridge, V, F, c, v)
                visited[row] += 1
            left, power, trace = energy[row], 0.0, 0.0
            for i in range(free.size):
                magnitude = x[i].real * x[i].real + x[i].imag * x[i].imag
                left -= (np.conj(x[i]) * b[row, free[i]]).real + ridge * magnitude
                power += magnitude
                trace += H[i, i].real
            left = max(left, 0.0)
            if left < least[row]:
                least[row] = left
                best[row] = chosen
            expected = energy[row] / (free.size * level)
            likely = (power + low * trace) / free.size
            slab[row] = min(max(likely, 1e-12 * expected), LARGEST_SLAB * expected)
            if not known:
                likely = (left + low * (free.size - ridge * trace)) / measurements
                if heat[sweep] > 0:
                    likely = least[row] / max(measurements - free.size, 1)
                variance[row] = max(likely, floor[row])
            if recorded[sweep]:
                misfit[row] += left
