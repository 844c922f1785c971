"""All supports of a small problem, row by row: the best one, or the posterior distribution.

Supports are visited in lexicographic order. Columns are orthonormalized one after the other, as in
``kernels/pursuit.py``, so that the last column of a support costs one division. With G the Gram matrix, l a ridge and
H = (G_SS + l I)^-1, the probability of a support is proportional to exp(half b_S^H H b_S / noise) det(H)^half.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from .cpu import invert
from .limits import DEPENDENT, LARGEST_SLAB, NEGLIGIBLE, RESOLVED, SMALLEST_RIDGE


@compiled
def _visit(gram, squares, b, ridge, dependent, factor, half, best, sums, totals):
    """Visit all supports of the size of ``best``, which receives the one with the largest weight, and return that.

    The weight is factor b_S^H H b_S + half log det H. If ``sums`` has rows, they receive the sums of the conditional
    means of x, of |x|^2 and of being nonzero, all multiplied by exp(weight - largest weight); ``totals`` receives the
    sums of these factors alone, and of the squared residuals, the squared norms of x and the traces of H. Supports with
    a column whose squared distance from the span of the others is below ``dependent``, relatively, are left out.
    """
    n, size = b.size, best.size
    V, c, d = np.empty((size, n), gram.dtype), np.empty((size, n), b.dtype), np.empty((size, n))
    gain, volume, chosen, at = np.zeros(size), np.zeros(size), np.zeros(size, np.int64), np.zeros(size, np.int64)
    H, x = np.empty((size, size), gram.dtype), np.empty(size, b.dtype)
    collect, top, nearest = sums.shape[0] > 0, -np.inf, squares.max()
    sums[:] = 0
    totals[:] = 0
    for k in range(n):
        c[0, k], d[0, k] = b[k], squares[k] + ridge
        if squares[k] > 0:
            nearest = min(nearest, squares[k])
    # The last column adds at most this to half log det H.
    spare = -half * np.log(max(dependent * nearest, ridge))
    t = 0
    while t >= 0:
        j = at[t]
        if t < size - 1:
            if j > n - (size - t):
                t -= 1
                continue
            at[t] = j + 1
            pivot = d[t, j]
            if pivot <= max(dependent * squares[j], ridge):
                continue
            chosen[t] = j
            root = np.sqrt(pivot)
            amount = c[t, j] / root
            for k in range(j + 1, n):
                v = gram[j, k]
                for r in range(t):
                    v -= np.conj(V[r, j]) * V[r, k]
                v /= root
                V[t, k] = v
                c[t + 1, k] = c[t, k] - np.conj(v) * amount
                d[t + 1, k] = d[t, k] - v.real * v.real - v.imag * v.imag
            gain[t + 1] = gain[t] + amount.real * amount.real + amount.imag * amount.imag
            volume[t + 1] = volume[t] + np.log(pivot)
            t += 1
            at[t] = j + 1
            continue
        for k in range(j, n):
            D, z = d[t, k], c[t, k]
            if max(dependent * squares[k], ridge) >= D:
                continue
            weight = factor * (gain[t] + (z.real * z.real + z.imag * z.imag) / D) - half * volume[t]
            if weight + spare < top - NEGLIGIBLE:
                continue
            weight -= half * np.log(D)
            if weight > top:
                scale = np.exp(top - weight)
                sums *= scale
                totals *= scale
                top = weight
                best[:t] = chosen[:t]
                best[t] = k
            if not collect or weight < top - NEGLIGIBLE:
                continue
            chosen[t] = k
            for i in range(size):
                for q in range(size):
                    H[i, q] = gram[chosen[i], chosen[q]]
                H[i, i] += ridge
            invert(H, size)
            share, length, fitted, trace = np.exp(weight - top), 0.0, 0.0, 0.0
            for i in range(size):
                value = x.dtype.type(0)
                for q in range(size):
                    value += H[i, q] * b[chosen[q]]
                x[i] = value
                square = value.real * value.real + value.imag * value.imag
                length += square
                fitted += (np.conj(value) * b[chosen[i]]).real
                trace += H[i, i].real
            for i in range(size):
                place = chosen[i]
                sums[0, place] += share * x[i]
                # The noise in units of 1 / factor.
                second = x[i].real * x[i].real + x[i].imag * x[i].imag + half / factor * H[i, i].real
                sums[1, place] += share * second
                sums[2, place] += share
            totals[0] += share
            totals[1] -= share * (fitted + ridge * length)
            totals[2] += share * length
            totals[3] += share * trace
        t -= 1
    return top


@compiled
def best_of_all(first, last, gram, squares, ridge, b, support):
    """Find the supports with the smallest residuals, of rows ``first`` to ``last``.

    Parameters
    ----------
    gram : (n, n), Gram matrix in double precision; squares : (n,), its diagonal, 0 for columns that are not taken
    ridge : added to the diagonal of the Gram matrix, at the level of rounding errors
    b : (batch, n), Phi^H y; support : (batch, s), receives the supports
    """
    none, totals = np.empty((0, 0), b.dtype), np.empty(4)
    for row in range(first, last):
        _visit(gram, squares, b[row], ridge, RESOLVED, 1.0, 0.0, support[row], none, totals)


@compiled
def posterior(
    first, last, gram, squares, half, measurements, known, rounds, b, energy, floor, variance, support, sums, misfit
):
    """Compute the posterior distribution over all supports, of rows ``first`` to ``last``.

    The variances of the nonzeros and, unless it is known, of the noise are the most likely ones, found by expectation
    maximization. It starts at the noise of the best fit.

    Parameters
    ----------
    gram, squares, b : as above; energy : (batch,), ||y||^2
    half : 0.5 for real data, 1 for complex data; measurements : number of measurements
    known : whether ``variance`` is the known variance of the noise, otherwise it receives it
    rounds : number of rounds of expectation maximization
    floor : (batch,), the smallest variance of the noise
    support : (batch, s), receives the most probable supports
    sums : (batch, 3, n), receives the posterior means of x, of |x|^2 and of being nonzero
    misfit : (batch,), receives the posterior mean of the squared residual, infinite if no s columns are independent
    """
    size, level, totals = support.shape[1], squares.max(), np.empty(4)
    for row in range(first, last):
        expected = energy[row] / (size * level)
        slab, smallest = expected, SMALLEST_RIDGE * level
        gain = _visit(gram, squares, b[row], smallest, DEPENDENT, 1.0, 0.0, support[row], sums[row, :0], totals)
        if gain < 0:
            # All columns depend on each other.
            misfit[row] = np.inf
            continue
        if not known:
            variance[row] = max((energy[row] - gain) / max(measurements - size, 1), floor[row])
        for _ in range(rounds):
            noise = variance[row]
            ridge = max(noise / slab, smallest)
            _visit(gram, squares, b[row], ridge, DEPENDENT, half / noise, half, support[row], sums[row], totals)
            left, length, trace = energy[row] + totals[1] / totals[0], totals[2] / totals[0], totals[3] / totals[0]
            misfit[row] = max(left, 0.0)
            slab = min(max((length + noise * trace) / size, 1e-12 * expected), LARGEST_SLAB * expected)
            if not known:
                variance[row] = max((misfit[row] + noise * (size - ridge * trace)) / measurements, floor[row])
        sums[row] /= totals[0]
