"""Block matching and the filters of groups of similar patches, for the reference patches of one strip of an image.

A strip is processed by one thread, which adds the filtered patches to sums of its own; the caller adds the sums of the
strips in order. Results therefore do not depend on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from ...backend.parallel import compiled

# Ridge of the Gram matrix relative to its trace, so that single precision suffices to factor it.
RIDGE = 1e-6


@compiled
def _match(guide, side, top, left, reach, distances, tops, lefts, line):
    """Find the patches of ``guide`` nearest to one of them, nearest first; return their number."""
    height, width = guide.shape
    start, end = max(left - reach, 0), min(left + reach, width - side)
    count, across = 0, end - start + 1
    for row in range(max(top - reach, 0), min(top + reach, height - side) + 1):
        # The squared distances to all patches of a row at once, because the inner loop then uses vector registers.
        line[:across] = 0
        for down in range(side):
            for right in range(side):
                value, pixels = guide[top + down, left + right], guide[row + down, start + right :]
                for place in range(across):
                    step = pixels[place] - value
                    line[place] += step * step
        if row == top:
            line[left - start] = -1  # the reference patch comes first
        for place in range(across):
            distance = line[place]
            if count < distances.size or distance < distances[count - 1]:
                count = min(count + 1, distances.size)
                rank = count - 1
                while rank > 0 and distances[rank - 1] > distance:
                    distances[rank] = distances[rank - 1]
                    tops[rank] = tops[rank - 1]
                    lefts[rank] = lefts[rank - 1]
                    rank -= 1
                distances[rank], tops[rank], lefts[rank] = distance, row, start + place
    return count


@compiled
def _gather(plane, side, count, tops, lefts, group):
    for member in range(count):
        for down in range(side):
            for right in range(side):
                group[member, down * side + right] = plane[tops[member] + down, lefts[member] + right]


@compiled
def _scatter(group, side, count, tops, lefts, factor, total):
    for member in range(count):
        for down in range(side):
            for right in range(side):
                total[tops[member] + down, lefts[member] + right] += factor * group[member, down * side + right]


@compiled
def _transform(group, count, side, basis, work):
    """Transform patches: ``basis @ patch @ basis.T``, in place."""
    for member in range(count):
        for down in range(side):
            for u in range(side):
                value = np.float32(0)
                for right in range(side):
                    value += basis[u, right] * group[member, down * side + right]
                work[down * side + u] = value
        group[member] = 0
        for v in range(side):
            for down in range(side):
                factor = basis[v, down]
                for u in range(side):
                    group[member, v * side + u] += factor * work[down * side + u]


@compiled
def _sums_and_differences(group, count, work):
    """Haar transform across the patches of a group, whose number is a power of two, in place."""
    half = count // 2
    while half > 0:
        work[: 2 * half] = group[: 2 * half]
        for member in range(half):
            for pixel in range(group.shape[1]):
                first, second = work[2 * member, pixel], work[2 * member + 1, pixel]
                group[member, pixel] = (first + second) * np.float32(math.sqrt(0.5))
                group[half + member, pixel] = (first - second) * np.float32(math.sqrt(0.5))
        half //= 2


@compiled
def _inverse_sums_and_differences(group, count, work):
    half = 1
    while 2 * half <= count:
        work[: 2 * half] = group[: 2 * half]
        for member in range(half):
            for pixel in range(group.shape[1]):
                total, difference = work[member, pixel], work[half + member, pixel]
                group[2 * member, pixel] = (total + difference) * np.float32(math.sqrt(0.5))
                group[2 * member + 1, pixel] = (total - difference) * np.float32(math.sqrt(0.5))
        half *= 2


@compiled
def threshold(corners, image, limit, basis, reach, count, above, total, weight):
    """Keep the coefficients of each group that exceed ``limit``, and add the patches to ``total``."""
    side = basis.shape[0]
    inverse = np.ascontiguousarray(basis.T)
    distances, line = np.empty(count, np.float32), np.empty(2 * reach + 1, np.float32)
    tops, lefts = np.empty(count, np.int64), np.empty(count, np.int64)
    groups = np.empty((image.shape[0], count, side * side), np.float32)
    work, ones = np.empty((count, side * side), np.float32), np.ones((count, side * side), np.float32)
    patch = np.empty(side * side, np.float32)
    for number in range(corners.shape[0]):
        found = _match(image[0], side, corners[number, 0], corners[number, 1], reach, distances, tops, lefts, line)
        size = 1
        while 2 * size <= found:
            size *= 2
        kept = 0
        for channel in range(image.shape[0]):
            group = groups[channel]
            _gather(image[channel], side, size, tops, lefts, group)
            _transform(group, size, side, basis, patch)
            _sums_and_differences(group, size, work)
            for member in range(size):
                for pixel in range(side * side):
                    if member + pixel == 0 or abs(group[member, pixel]) >= limit:
                        kept += 1
                    else:
                        group[member, pixel] = 0
            _inverse_sums_and_differences(group, size, work)
            _transform(group, size, side, inverse, patch)
        # The variance of the estimate is proportional to the number of coefficients kept.
        factor = np.float32(1) / np.float32(kept)
        tops -= above
        for channel in range(image.shape[0]):
            _scatter(groups[channel], side, size, tops, lefts, factor, total[channel])
        _scatter(ones, side, size, tops, lefts, factor, weight)


@compiled
def _filter(pilot, group, count, noise, gram, cross):
    """Replace the rows Y of ``group`` by Y P' (P P' + noise I)^-1 P, where P are the rows of ``pilot``."""
    pixels = pilot.shape[1]
    trace = np.float32(0)
    for row in range(count):
        for column in range(row + 1):
            value = np.float32(0)
            for pixel in range(pixels):
                value += pilot[row, pixel] * pilot[column, pixel]
            gram[row, column] = value
        trace += gram[row, row]
        for column in range(count):
            value = np.float32(0)
            for pixel in range(pixels):
                value += group[row, pixel] * pilot[column, pixel]
            cross[row, column] = value
    for row in range(count):
        gram[row, row] += noise + np.float32(RIDGE) * trace
    # Cholesky factor of the Gram matrix, in place.
    for column in range(count):
        for row in range(column, count):
            value = gram[row, column]
            for k in range(column):
                value -= gram[row, k] * gram[column, k]
            gram[row, column] = math.sqrt(value) if row == column else value / gram[column, column]
    for row in range(count):
        for column in range(count):
            value = cross[row, column]
            for k in range(column):
                value -= cross[row, k] * gram[column, k]
            cross[row, column] = value / gram[column, column]
        for column in range(count - 1, -1, -1):
            value = cross[row, column] / gram[column, column]
            cross[row, column] = value
            for k in range(column):
                cross[row, k] -= value * gram[column, k]
        group[row] = 0
        for k in range(count):
            for pixel in range(pixels):
                group[row, pixel] += cross[row, k] * pilot[k, pixel]


@compiled
def wiener(corners, image, pilot, noise, trust, side, reach, count, above, total, weight):
    """Filter each group with the mean and covariance of the same group of ``pilot``, and add it to ``total``."""
    pixels = side * side
    distances, line = np.empty(count, np.float32), np.empty(2 * reach + 1, np.float32)
    tops, lefts = np.empty(count, np.int64), np.empty(count, np.int64)
    group, guess = np.empty((count, pixels), np.float32), np.empty((count, pixels), np.float32)
    ones = np.ones((count, pixels), np.float32)
    mean, middle = np.empty(pixels, np.float32), np.empty(pixels, np.float32)
    gram, cross = np.empty((count, count), np.float32), np.empty((count, count), np.float32)
    for number in range(corners.shape[0]):
        found = _match(pilot[0], side, corners[number, 0], corners[number, 1], reach, distances, tops, lefts, line)
        for channel in range(image.shape[0]):
            _gather(image[channel], side, found, tops, lefts, group)
            _gather(pilot[channel], side, found, tops, lefts, guess)
            mean[:], middle[:] = 0, 0
            for member in range(found):
                for pixel in range(pixels):
                    mean[pixel] += group[member, pixel] / found
                    middle[pixel] += guess[member, pixel] / found
            for pixel in range(pixels):
                mean[pixel] += trust * (middle[pixel] - mean[pixel])
            for member in range(found):
                for pixel in range(pixels):
                    group[member, pixel] -= mean[pixel]
                    guess[member, pixel] -= middle[pixel]
            _filter(guess, group, found, noise * found, gram, cross)
            for member in range(found):
                for pixel in range(pixels):
                    group[member, pixel] += mean[pixel]
            for member in range(found):
                for down in range(side):
                    for right in range(side):
                        value = group[member, down * side + right]
                        total[channel, tops[member] - above + down, lefts[member] + right] += value
        tops -= above
        _scatter(ones, side, found, tops, lefts, np.float32(1), weight)
