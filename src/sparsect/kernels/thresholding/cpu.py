"""The s largest magnitudes of a row, found by counting how many exceed a guess: passes so short that few are enough.

A count over a row in cache runs at the width of the machine's registers. The guess moves by interpolation between
counts, every third time to the geometric middle, until exactly s entries exceed it or only equal ones are left.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled


@compiled
def _count(magnitudes, threshold):
    # Counted in the dtype of the row, so that one register holds both.
    one, total = magnitudes.dtype.type(1), magnitudes.dtype.type(0)
    zero = total
    for j in range(magnitudes.size):
        total += one if magnitudes[j] >= threshold else zero
    return np.int64(total)


@compiled
def _bound(magnitudes, energy, s):
    """A number above the s-th largest magnitude: s times its square is at most the sum of squares."""
    number = magnitudes.dtype.type
    bound = np.sqrt(energy / number(s)) * number(1.001)
    if number(1e-15) < bound < number(1e15):
        return bound
    # Squares may have run out of range.
    top = number(0)
    for j in range(magnitudes.size):
        if magnitudes[j] > top:
            top = magnitudes[j]
    return np.nextafter(top, number(np.inf))


@compiled
def _threshold(magnitudes, s, high, guess):
    """A value that s magnitudes reach, and 0; or one that more do, and how many of those equal to it are to be kept.

    ``high`` is above the s-th largest, ``guess`` where to look first.
    """
    number = magnitudes.dtype.type
    low, value, passes = number(0), guess, 0
    at_low, at_high = magnitudes.size, 0
    while True:
        if not low < value < high:
            value = low + (high - low) * number(0.5)
            if not low < value < high:
                return low, s - at_high
        count = _count(magnitudes, value)
        if count == s:
            return value, 0
        if count > s:
            low, at_low = value, count
        else:
            high, at_high = value, count
        passes += 1
        if passes % 3 == 0:
            value = np.sqrt(low) * np.sqrt(high) if low > 0 else high * number(1e-4)
        else:
            value = low + (high - low) * number((at_low - s + 0.5) / (at_low - at_high))


@compiled
def _raise(magnitudes, value, equal):
    """Give the first ``equal`` magnitudes that equal ``value`` a larger one, and return that: ties are broken."""
    above = np.nextafter(value, magnitudes.dtype.type(np.inf))
    for j in range(magnitudes.size):
        if equal > 0 and magnitudes[j] == value:
            magnitudes[j] = above
            equal -= 1
    return above


@compiled
def keep(first, last, v, s, out):
    """out = the s largest magnitudes of every row of v, zero elsewhere; among equal ones the first win."""
    number = v.dtype.type
    magnitudes = np.empty(v.shape[1], v.dtype)
    value = number(0)
    for row in range(first, last):
        source, kept, energy = v[row], out[row], number(0)
        for j in range(v.shape[1]):
            magnitudes[j] = abs(source[j])
            energy += source[j] * source[j]
        value, equal = _threshold(magnitudes, s, _bound(magnitudes, energy, s), value)
        if equal > 0:
            value = _raise(magnitudes, value, equal)
        for j in range(v.shape[1]):
            kept[j] = source[j] if magnitudes[j] >= value else number(0)


@compiled
def advance(first, last, w, s, relaxation, x, u, level, length, changed):
    """A step of the map at beta = 1 for every row, in place: see ``plain.py``; u is ``before`` at first.

    ``level`` holds each row's threshold: a guess at first, which decides how soon the new one is found and no more.
    """
    n, number = x.shape[1], x.dtype.type
    v, magnitudes = np.empty(n, x.dtype), np.empty(n, x.dtype)
    two, zero, one, relax = number(2), number(0), number(1), number(relaxation)
    for row in range(first, last):
        here, change, kept, energy = x[row], w[row], u[row], zero
        for j in range(n):
            reflected = here[j] - two * change[j]
            v[j] = reflected
            magnitudes[j] = abs(reflected)
            energy += reflected * reflected
        value, equal = _threshold(magnitudes, s, _bound(magnitudes, energy, s), level[row])
        if equal > 0:
            value = _raise(magnitudes, value, equal)
        level[row] = value
        total, differences = zero, zero
        for j in range(n):
            point = v[j] if magnitudes[j] >= value else zero
            difference = relax * (point - here[j] + change[j])
            total += difference * difference
            here[j] += difference
            differences += one if (point == zero) != (kept[j] == zero) else zero
            kept[j] = point
        length[row] = np.sqrt(total)
        changed[row] = differences > zero
