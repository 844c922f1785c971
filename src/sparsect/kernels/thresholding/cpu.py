"""The s largest magnitudes of a row, found by counting the entries that exceed a guess of the threshold.

Counting over a row in cache is fast, because it is vectorized. The guess is moved by interpolation between counts,
every third time to the geometric mean of the bounds, until exactly s entries exceed it or only equal ones are left.
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
    """Return a number above the s-th largest magnitude; s times its square is at most the sum of squares."""
    number = magnitudes.dtype.type
    bound = np.sqrt(energy / number(s)) * number(1.001)
    if number(1e-15) < bound < number(1e15):
        return bound
    # Squares may have overflowed or underflowed.
    top = number(0)
    for j in range(magnitudes.size):
        if magnitudes[j] > top:
            top = magnitudes[j]
    return np.nextafter(top, number(np.inf))


@compiled
def _threshold(magnitudes, s, high, guess):
    """Return a threshold that s magnitudes reach, and 0; with ties, the tied value and how many of its ties to keep.

    ``high`` is above the s-th largest magnitude, and ``guess`` is the first value tried.
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
    """Break ties: raise the first ``equal`` magnitudes that equal ``value`` to the next number, and return that."""
    above = np.nextafter(value, magnitudes.dtype.type(np.inf))
    for j in range(magnitudes.size):
        if equal > 0 and magnitudes[j] == value:
            magnitudes[j] = above
            equal -= 1
    return above


@compiled
def keep(first, last, v, s, out):
    """Write the s largest magnitudes of every row of v to ``out``, zero elsewhere; among equal ones, the first."""
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
    """Take a step of the map at beta = 1 in every row, in place, as in ``plain.py``; u holds ``before`` on entry.

    ``level`` holds the threshold of each row: on entry a guess, which affects the speed but not the result.
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


@compiled
def _mark(v, counts, low, high, units, order, starts, guess, point, scores, sorted_scores, kept):
    """Project a row v to ``point``; ``kept`` marks the units that are kept. Return the threshold of the last level.

    ``low``, ``high``, ``units`` and ``order`` are empty if there are no bounds, groups or levels.
    """
    number, n = v.dtype.type, v.size
    zero, two = number(0), number(2)
    if low.size:
        for j in range(n):
            point[j] = min(max(v[j], low[j]), high[j])
    else:
        point[:] = v
    if units.size:
        scores[:] = zero
        for j in range(n):
            scores[units[j]] += point[j] * (two * v[j] - point[j])
        for i in range(scores.size):
            scores[i] = np.sqrt(max(scores[i], zero))
    elif low.size:
        for j in range(n):
            inside = point[j]
            moved = np.sqrt(abs(inside)) * np.sqrt(abs(two * v[j] - inside))
            scores[j] = abs(inside) if inside == v[j] else moved
    else:
        for j in range(n):
            scores[j] = abs(v[j])
    value = guess
    for level in range(counts.size):
        first, last, count = starts[level], starts[level + 1], counts[level]
        if order.size:
            part = sorted_scores[: last - first]
            for i in range(first, last):
                part[i - first] = scores[order[i]]
        else:
            part = scores
        if count == 0:
            value = number(np.inf)
        elif count == last - first:
            value = zero
        else:
            energy = zero
            for i in range(part.size):
                energy += part[i] * part[i]
            value, equal = _threshold(part, count, _bound(part, energy, count), value)
            if equal > 0:
                value = _raise(part, value, equal)
        for i in range(first, last):
            kept[order[i] if order.size else i] = part[i - first] >= value
    return value


@compiled
def project(first, last, v, counts, low, high, units, order, starts, out):
    """Write the nearest point with a given structure to ``out`` for every row of v."""
    n, number = v.shape[1], v.dtype.type
    point, scores, sorted_scores = np.empty(n, v.dtype), np.empty(starts[-1], v.dtype), np.empty(starts[-1], v.dtype)
    kept, value = np.empty(starts[-1], np.bool_), number(0)
    for row in range(first, last):
        value = _mark(v[row], counts, low, high, units, order, starts, value, point, scores, sorted_scores, kept)
        for j in range(n):
            out[row, j] = point[j] if kept[units[j] if units.size else j] else number(0)


@compiled
def advance_structured(
    first, last, w, counts, low, high, units, order, starts, relaxation, x, u, level, length, changed
):
    """Take a step as ``advance`` does, with points of a given structure."""
    n, number = x.shape[1], x.dtype.type
    point, scores, sorted_scores = np.empty(n, x.dtype), np.empty(starts[-1], x.dtype), np.empty(starts[-1], x.dtype)
    v, kept = np.empty(n, x.dtype), np.empty(starts[-1], np.bool_)
    two, zero, one, relax = number(2), number(0), number(1), number(relaxation)
    for row in range(first, last):
        here, change, before = x[row], w[row], u[row]
        for j in range(n):
            v[j] = here[j] - two * change[j]
        guess = level[row]
        level[row] = _mark(v, counts, low, high, units, order, starts, guess, point, scores, sorted_scores, kept)
        if units.size:
            for j in range(n):
                point[j] = point[j] if kept[units[j]] else zero
        else:
            for j in range(n):
                point[j] = point[j] if kept[j] else zero
        total, differences = zero, zero
        for j in range(n):
            difference = relax * (point[j] - here[j] + change[j])
            total += difference * difference
            here[j] += difference
            differences += one if (point[j] == zero) != (before[j] == zero) else zero
            before[j] = point[j]
        length[row] = np.sqrt(total)
        changed[row] = differences > zero
