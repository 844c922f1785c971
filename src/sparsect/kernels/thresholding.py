"""The s largest magnitudes of a row, found by counting: one pass over the row instead of one for every operation.

Magnitudes go into bins by the leading bits of their single-precision form, which keeps their order. The bin that
holds the s-th largest is found from the counts, and only its few members are compared with each other, exactly.
"""

from __future__ import annotations

import numpy as np

from .rows import compiled

# Exponent and four bits of the mantissa: sixteen bins for each power of two.
SHIFT, BINS = 19, 4096


@compiled
def _threshold(v, s, rounded, bits, counts, members):
    """The s-th largest magnitude of v, and how many entries equal to it are among the s largest."""
    n = v.size
    top = np.int64(0)
    for j in range(n):
        rounded[j] = abs(v[j])
    counts[:] = 0
    for j in range(n):
        place = np.int64(bits[j]) >> SHIFT
        counts[place] += 1
        if place > top:
            top = place
    left, place = s, top
    while counts[place] < left:
        left -= counts[place]
        place -= 1
    size = 0
    for j in range(n):
        if np.int64(bits[j]) >> SHIFT == place:
            members[size] = abs(v[j])
            size += 1
    # The left-th largest of the members, by partition around a pivot.
    low, high = 0, size - 1
    while low < high:
        pivot = members[(low + high) // 2]
        i, k = low, high
        while i <= k:
            while members[i] > pivot:
                i += 1
            while members[k] < pivot:
                k -= 1
            if i <= k:
                members[i], members[k] = members[k], members[i]
                i += 1
                k -= 1
        if left - 1 <= k:
            high = k
        elif left - 1 >= i:
            low = i
        else:
            break
    value = members[left - 1]
    equal = left
    for j in range(size):
        if members[j] > value:
            equal -= 1
    return value, equal


@compiled
def _keep_row(v, value, equal, kept):
    """kept = v where its magnitude exceeds ``value``, and at the first ``equal`` places where it equals that."""
    for j in range(v.size):
        magnitude = abs(v[j])
        if magnitude > value:
            kept[j] = v[j]
        elif magnitude == value and equal > 0:
            kept[j] = v[j]
            equal -= 1
        else:
            kept[j] = 0


@compiled
def keep(first, last, v, s, out):
    """out = the s largest magnitudes of every row of v, zero elsewhere; among equal ones the first win."""
    n = v.shape[1]
    rounded, members, counts = np.empty(n, np.float32), np.empty(n, v.dtype), np.empty(BINS, np.int32)
    bits = rounded.view(np.uint32)
    for row in range(first, last):
        source, kept = v[row], out[row]
        value, equal = _threshold(source, s, rounded, bits, counts, members)
        _keep_row(source, value, equal, kept)


@compiled
def reflect_and_keep(first, last, x, w, s, u, moved, gap):
    """u = P_A(x - 2 w), moved = u + w, gap = ||moved - x||, for every row: a step of the map at beta = 1."""
    n = x.shape[1]
    rounded, members, counts = np.empty(n, np.float32), np.empty(n, x.dtype), np.empty(BINS, np.int32)
    bits = rounded.view(np.uint32)
    v = np.empty(n, x.dtype)
    for row in range(first, last):
        here, change, kept, there = x[row], w[row], u[row], moved[row]
        for j in range(n):
            v[j] = here[j] - 2 * change[j]
        value, equal = _threshold(v, s, rounded, bits, counts, members)
        total = 0.0
        _keep_row(v, value, equal, kept)
        for j in range(n):
            there[j] = kept[j] + change[j]
            difference = there[j] - here[j]
            total += difference * difference
        gap[row] = np.sqrt(total)
