"""Supports of unknown size, sampled row by row: columns come, go and move.

H, x, c and d are those of ``joint.py``: a row may have several measurements with one support.
"""

from __future__ import annotations

import math

import numpy as np

from ...backend.parallel import compiled
from ..pursuit import combine_rows
from .cpu import uniform
from .joint import begin_all, drop_all, take_all
from .limits import DEPENDENT, LARGEST_RIDGE, LARGEST_SLAB, NEGLIGIBLE, RENEWED, SEPARATE, SMALLEST_RIDGE


@compiled
def _left(b, energy, support, x, s):
    """Return the squared residual of a fit, with its penalty; its size, since rounding errors can make it negative."""
    left = energy
    for t in range(b.shape[0]):
        for i in range(s):
            left -= (np.conj(x[t, i]) * b[t, support[i]]).real
    return abs(left)


@compiled
def _append(gram, support, k, H, x, c, d, v, u):
    """Put column k at the last position, which is new."""
    p = support.size - 1
    H[:, p], H[p], x[:, p] = 0, 0, 0
    take_all(gram, support, p, k, H, x, c, d, v, u)


@compiled
def _ridge(H, x, s, variance, energy):
    """Return the variance of the noise relative to the variance of the nonzeros that is most likely now."""
    times, size = x.shape[0], 0.0
    for i in range(s):
        size += times * variance * H[i, i].real
        for t in range(times):
            size += x[t, i].real * x[t, i].real + x[t, i].imag * x[t, i].imag
    return min(max(variance * s * times / min(size, LARGEST_SLAB * energy), SMALLEST_RIDGE), LARGEST_RIDGE)


@compiled
def _weigh(squares, inside, half, exponent, left, floor, prior, c, d, v, pivot, values, old, weight):
    """Compute the probability of each column for a free slot, and return that of staying free.

    Parameters
    ----------
    squares, inside : (n,), as above, and the columns that are taken
    half : 0.5 for real data, 1 for complex data, times the number of measurements with one support
    exponent : 0.5 or 1 times the number of all measured numbers
    left, floor : the squared residual while the slot is free, and the smallest one
    prior : logarithm of the prior odds of a further column, plus ``half`` times that of the ridge
    c, d, v, pivot : as above; v is zero if the slot is free already
    values : (times,), the nonzeros in the slot, or zeros
    old : the column in the slot, or -1; weight : (n,), receives the probabilities
    """
    times, n, top, own = c.shape[0], c.shape[1], 0.0, 0.0
    for k in range(n):
        weight[k] = 0.0
    for t in range(times):
        r = values[t] / pivot
        own += (r.real * r.real + r.imag * r.imag) * pivot
        for k in range(n):
            z = c[t, k] + np.conj(v[k]) * r
            weight[k] += z.real * z.real + z.imag * z.imag
    for k in range(n):
        D = d[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
        weight[k] = weight[k] / D if not inside[k] and DEPENDENT * squares[k] < D else -1.0
        top = max(top, weight[k])
    if old >= 0:
        weight[old] = own
        top = max(top, own)
    least = max(left - top, floor)
    largest = least * np.exp(min(NEGLIGIBLE / exponent, NEGLIGIBLE))
    base = prior + exponent * np.log(left)
    shift = max(0.0, base - exponent * np.log(least))
    free = np.exp(-shift)
    total = free
    for k in range(n):
        after = max(left - weight[k], floor)
        if weight[k] >= 0 and after <= largest:
            D = d[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
            if k == old:
                D = 1 / pivot
            weight[k] = np.exp(base - exponent * np.log(after) - shift - half * np.log(D))
            total += weight[k]
        else:
            weight[k] = 0.0
    for k in range(n):
        weight[k] /= total
    return free / total


@compiled
def sample_sizes(first, last, gram, squares, half, measurements, floor, b, energy, support, counts, sizes, scores):
    """Sample supports of any size up to the number of their slots.

    A slot is free or has a column. Slots are visited at random, and each is filled anew with the conditional
    probabilities given all others, with the values of the nonzeros and the variance of the noise integrated out: the
    likelihood of a support is sqrt(l^s det H) (||y||^2 - b_S^H H b_S)^-m/2, or its square for complex data; with
    several measurements, the root becomes a power and the squares are sums. All sizes have the same prior probability,
    and so have all supports of one size. The ridge l is estimated after each sweep.

    Parameters
    ----------
    gram, squares, half, measurements, energy : as in ``cpu.py``
    b : (batch, times, n), Phi^H y
    floor : (sweeps,), added to the squared residual, relative to the energy
    support : (batch, slots), changed in place; a start leaves out columns that almost depend on others
    counts : (batch,), how many slots are taken, the first ones; changed in place
    sizes, scores : (batch, sweeps), receive the number of columns and the log-probability after each sweep
    """
    n, slots, times, exponent = gram.shape[0], support.shape[1], b.shape[1], half * measurements
    half *= times
    H, x, u = np.zeros((slots, slots), b.dtype), np.zeros((times, slots), b.dtype), np.empty(slots, b.dtype)
    c, d, v, none = np.empty((times, n), b.dtype), np.empty(n), np.empty(n, b.dtype), np.zeros(n, b.dtype)
    nothing = np.zeros(times, b.dtype)
    weight, births, inside = np.empty(n), np.empty(n), np.empty(n, np.bool_)
    for row in range(first, last):
        if energy[row] == 0:
            counts[row] = 0
            continue
        chosen, given, s, ridge = support[row], counts[row], 0, LARGEST_RIDGE
        inside[:] = squares == 0
        c[:], d[:] = b[row], squares + SMALLEST_RIDGE
        for i in range(given):
            k = chosen[i]
            if SEPARATE * squares[k] < d[k]:
                inside[k] = True
                s += 1
                _append(gram, chosen[:s], k, H[:s, :s], x[:, :s], c, d, v, u)
        if s > 0:
            left = _left(b[row], energy[row], chosen, x, s) + floor[0] * energy[row]
            ridge = _ridge(H, x, s, left / measurements, energy[row])
        visited, moves, used, volume = 0, 0, 0.0, 0.0
        for sweep in range(floor.size):
            least = floor[sweep] * energy[row]
            if moves >= RENEWED or abs(ridge - used) > 0.2 * used:
                used, moves, volume = ridge, 0, 0.0
                c[:], d[:] = b[row], squares + ridge
                if s > 0:
                    volume = begin_all(gram, b[row], chosen[:s], ridge, H[:s, :s], x[:, :s], c, d, v)
            # The probability that a free slot stays free; unknown after a move.
            idle = -1.0
            for _ in range(slots):
                p, aim = int(slots * uniform(visited)), uniform(visited + 1)
                visited += 2
                if p >= s and aim <= idle:
                    continue
                left = _left(b[row], energy[row], chosen, x, s) + least
                others = s - 1 if p < s else s
                prior = np.log((others + 1) / ((n - others) * (slots - others))) + half * np.log(used)
                old, pivot, free, options = -1, 1.0, idle, births
                if p < s:
                    combine_rows(gram, chosen, H[:s, p].copy(), s, v)
                    old, pivot, options, own = chosen[p], H[p, p].real, weight, x[:, p].copy()
                    for t in range(times):
                        left += (own[t].real * own[t].real + own[t].imag * own[t].imag) / pivot
                    inside[old] = False
                    free = _weigh(squares, inside, half, exponent, left, least, prior, c, d, v, pivot, own, old, weight)
                    inside[old] = True
                elif idle < 0:
                    free = _weigh(
                        squares, inside, half, exponent, left, least, prior, c, d, none, pivot, nothing, old, births
                    )
                    idle = free
                new, passed = -1, free
                for k in range(n):
                    if passed >= aim:
                        break
                    if options[k] > 0:
                        passed += options[k]
                        new = k
                if new == old:
                    continue
                moves, idle = moves + 1, -1.0
                if old >= 0:
                    inside[old] = False
                    volume += np.log(pivot)
                    drop_all(p, H[:s, :s], x[:, :s], c, d, v, u)
                    # The last column takes the place of the one that goes.
                    s -= 1
                    chosen[p], x[:, p] = chosen[s], x[:, s]
                    for i in range(s):
                        H[i, p] = H[i, s]
                    for i in range(s):
                        H[p, i] = H[s, i]
                    if p < s:
                        H[p, p] = H[s, s]
                if new >= 0:
                    inside[new] = True
                    volume += np.log(d[new])
                    s += 1
                    _append(gram, chosen[:s], new, H[:s, :s], x[:, :s], c, d, v, u)
            left = (_left(b[row], energy[row], chosen, x, s) + least) / measurements
            ways = math.lgamma(n + 1.0) - math.lgamma(s + 1.0) - math.lgamma(n - s + 1.0)
            sizes[row, sweep] = s
            scores[row, sweep] = half * (s * np.log(used) - volume) - exponent * np.log(left) - ways
            if s > 0:
                ridge = _ridge(H, x, s, left, energy[row])
        counts[row] = s
