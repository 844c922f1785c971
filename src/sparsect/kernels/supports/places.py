"""The posterior of a support of which one nonzero at a time may belong to another column."""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled

# Log-odds below which a column counts as impossible, and the smallest squared distance of a column from the others,
# relative to its squared norm.
HOPELESS, NEAREST = -40.0, 1e-9


@compiled
def average(half, ridge, variance, coherent, gram, V, pivots, values, c, squares, support, sums):
    """Sum, over the nonzeros, the moments of each one over its places; return the number expected to be elsewhere.

    Taking column i out of the support and putting j in changes the log-posterior by half of |z|^2 / (variance D) -
    log D, where z is the correlation of column j with the residual without i, and D its squared distance from the span
    of the others.

    Parameters
    ----------
    half : 1 / 2, or 1 for complex data
    coherent : cosine of two columns above which nothing is computed; infinity is returned then
    gram, V : (s, n), products of the selected columns with all columns, and H times these
    pivots : (s,), diagonal of H, the inverse of the selected columns' Gram matrix with the ridge
    values, c : (s,), (n,), the coefficients, and the correlations of the columns with the residual
    squares, support : (n,), (s,), squared norms of the columns, and the selected ones
    sums : (3, n), receives means, second moments and probabilities
    """
    s, n = gram.shape
    outside, left, shortest = squares > 0, squares + ridge, np.max(squares)
    odds, places = np.empty(n), np.empty(n, np.int64)
    z, D = np.empty(n, gram.dtype), np.empty(n)
    for i in range(s):
        outside[support[i]] = False
    for j in range(n):
        if outside[j]:
            shortest = min(shortest, squares[j])
    # No distance has a smaller logarithm.
    lowest = half * np.log(NEAREST * shortest)
    for i in range(s):
        limit, own = coherent * coherent * squares[support[i]], gram[i]
        for j in range(n):
            g, v = own[j], V[i, j]
            if g.real * g.real + g.imag * g.imag > limit * squares[j] and j != support[i]:
                return np.inf
            left[j] -= v.real * g.real + v.imag * g.imag
    elsewhere = 0.0
    for i in range(s):
        pivot, here = pivots[i], support[i]
        amount = values[i] / pivot
        strength = amount.real * amount.real + amount.imag * amount.imag
        level = half * (strength * pivot / variance + np.log(pivot))
        count, total = 0, 1.0
        for j in range(n):
            if not outside[j]:
                continue
            v = V[i, j]
            distance = max(left[j] + (v.real * v.real + v.imag * v.imag) / pivot, NEAREST * squares[j])
            t = c[j] + np.conj(v) * amount
            score = half * (t.real * t.real + t.imag * t.imag) / (variance * distance) - level
            # The logarithm is computed only where it can matter.
            if score - lowest > HOPELESS:
                score -= half * np.log(distance)
                if score > HOPELESS:
                    odds[count], places[count] = np.exp(min(score, 700.0)), j
                    z[count], D[count] = t / distance, distance
                    total += odds[count]
                    count += 1
        elsewhere += 1.0 - 1.0 / total
        mean = values[i]
        sums[0, here] += mean / total
        sums[1, here] += (mean.real * mean.real + mean.imag * mean.imag + variance * pivot) / total
        sums[2, here] += 1.0 / total
        for k in range(count):
            share, mean, j = odds[k] / total, z[k], places[k]
            sums[0, j] += share * mean
            sums[1, j] += share * (mean.real * mean.real + mean.imag * mean.imag + variance / D[k])
            sums[2, j] += share
    return elsewhere
