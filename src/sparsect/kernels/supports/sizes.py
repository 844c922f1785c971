"""Supports of unknown size, sampled row by row: columns come, go and move.

H, x, c and d are those of ``cpu.py``.
"""

from __future__ import annotations

import math

import numpy as np

from ...backend.parallel import compiled
from ..pursuit import combine_rows
from .cpu import begin, drop, take, uniform
from .limits import DEPENDENT, LARGEST_RIDGE, LARGEST_SLAB, NEGLIGIBLE, RENEWED, SEPARATE, SMALLEST_RIDGE


@compiled
def _left(b, energy, support, x, s):
    """Return the squared residual of a fit, with its penalty; its size, since rounding errors can make it negative."""
    left = energy
    for i in range(s):
        left -= (np.conj(x[i]) * b[support[i]]).real
    return abs(left)


@compiled
def _append(gram, support, k, H, x, c, d, v, u):
    """Put column k at the last position, which is new."""
    p = support.size - 1
    H[:, p], H[p], x[p] = 0, 0, 0
    take(gram, support, p, k, H, x, c, d, v, u)


@compiled
def _ridge(H, x, s, variance, energy):
    """Return the variance of the noise relative to the variance of the nonzeros that is most likely now."""
    size = 0.0
    for i in range(s):
        size += x[i].real * x[i].real + x[i].imag * x[i].imag + variance * H[i, i].real
    return min(max(variance * s / min(size, LARGEST_SLAB * energy), SMALLEST_RIDGE), LARGEST_RIDGE)


@compiled
def _weigh(squares, inside, half, exponent, left, floor, prior, c, d, v, pivot, r, old, weight):
    """Compute the probability of each column for a free slot, and return that of staying free.

    Parameters
    ----------
    squares, inside : (n,), as above, and the columns that are taken
    half : 0.5 for real data, 1 for complex data; exponent : that times the number of measurements
    left, floor : the squared residual while the slot is free, and the smallest one
    prior : logarithm of the prior odds of a further column, plus ``half`` times that of the ridge
    c, d, v, pivot, r : as above; v and r are zero if the slot is free already
    old : the column in the slot, or -1; weight : (n,), receives the probabilities
    """
    n, top = c.size, 0.0
    for k in range(n):
        weight[k] = -1.0
        if not inside[k]:
            D = d[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
            z = c[k] + np.conj(v[k]) * r
            if DEPENDENT * squares[k] < D:
                weight[k] = (z.real * z.real + z.imag * z.imag) / D
                top = max(top, weight[k])
    if old >= 0:
        weight[old] = (r.real * r.real + r.imag * r.imag) * pivot
        top = max(top, weight[old])
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
            weight[k] = np.exp(base - exponent * np.log(after) - shift) * D**-half
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
    likelihood of a support is sqrt(l^s det H) (||y||^2 - b_S^H H b_S)^-m/2, or its square for complex data. All sizes
    have the same prior probability, and so have all supports of one size. The ridge l is estimated after each sweep.

    Parameters
    ----------
    gram, squares, half, measurements, b, energy : as above
    floor : (sweeps,), added to the squared residual, relative to the energy
    support : (batch, slots), changed in place; a start leaves out columns that almost depend on others
    counts : (batch,), how many slots are taken, the first ones; changed in place
    sizes, scores : (batch, sweeps), receive the number of columns and the log-probability after each sweep
    """
    n, slots, exponent = gram.shape[0], support.shape[1], half * measurements
    H, x, u = np.zeros((slots, slots), b.dtype), np.zeros(slots, b.dtype), np.empty(slots, b.dtype)
    c, d, v, none = np.empty(n, b.dtype), np.empty(n), np.empty(n, b.dtype), np.zeros(n, b.dtype)
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
                _append(gram, chosen[:s], k, H[:s, :s], x[:s], c, d, v, u)
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
                    volume = begin(gram, b[row], chosen[:s], ridge, H[:s, :s], x[:s], c, d, v)
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
                old, pivot, r, free, options = -1, 1.0, none[0], idle, births
                if p < s:
                    combine_rows(gram, chosen, H[:s, p].copy(), s, v)
                    old, pivot, options = chosen[p], H[p, p].real, weight
                    r = x[p] / pivot
                    left += (r.real * r.real + r.imag * r.imag) * pivot
                    inside[old] = False
                    free = _weigh(squares, inside, half, exponent, left, least, prior, c, d, v, pivot, r, old, weight)
                    inside[old] = True
                elif idle < 0:
                    free = _weigh(
                        squares, inside, half, exponent, left, least, prior, c, d, none, pivot, r, old, births
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
                    drop(p, r, H[:s, :s], x[:s], c, d, v, u)
                    # The last column takes the place of the one that goes.
                    s -= 1
                    chosen[p], x[p] = chosen[s], x[s]
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
                    _append(gram, chosen[:s], new, H[:s, :s], x[:s], c, d, v, u)
            left = (_left(b[row], energy[row], chosen, x, s) + least) / measurements
            ways = math.lgamma(n + 1.0) - math.lgamma(s + 1.0) - math.lgamma(n - s + 1.0)
            sizes[row, sweep] = s
            scores[row, sweep] = half * (s * np.log(used) - volume) - exponent * np.log(left) - ways
            if s > 0:
                ridge = _ridge(H, x, s, left, energy[row])
        counts[row] = s
