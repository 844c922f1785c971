"""Least angle regression with the lasso modification, row by row.

For one row with active columns I (in order), their signs e and G = Phi^T Phi, let L L^T = G[I, I]. Along the direction
h = G[I, I]^-1 e the correlations of active columns all shrink at rate 1 and those of the others at rate g = G[:, I] h,
until another column catches up (it joins) or an active coefficient reaches zero (it leaves). L is stored by rows,
packed.
"""

from __future__ import annotations

import numpy as np

from ..backend.parallel import compiled


@compiled
def walk(first, last, steps, dependent, alpha, floor, gram, x, c, L, order, size, status, skip, energy, goal, taken):
    """Take up to ``steps`` steps of the lasso path in rows ``first`` to ``last``.

    Parameters
    ----------
    dependent : a column joins only if its part orthogonal to the active ones has at least this fraction of its energy
    alpha : the correlation at which the path ends; floor : (batch,), the largest one at which a row is done
    gram : (n, n); x, c : (batch, n), coefficients and correlations Phi^T (y - Phi x)
    L : (batch, capacity (capacity + 1) / 2); order : (batch, capacity); size : (batch,), active columns
    status : (batch, n), 0 free, 1 active, 2 cannot join
    skip : (batch,), the column that left in the last step and must not rejoin in the next, or -1
    energy : (batch,), squared norm of the residual, and ``goal``, at which a row stops; taken : (batch,), steps taken
    """
    n = gram.shape[0]
    capacity = order.shape[1]
    g = np.empty(n, x.dtype)
    h = np.empty(capacity, x.dtype)
    for row in range(first, last):
        coefficient, correlation, factor, active, state = x[row], c[row], L[row], order[row], status[row]
        for _ in range(steps):
            k = size[row]
            if energy[row] <= goal[row]:
                break
            if skip[row] < 0 and not _join_largest(
                gram, correlation, factor, active, state, k, capacity, dependent, floor[row]
            ):
                break
            if skip[row] < 0:
                k += 1
                size[row] = k
            level = 0.0
            for r in range(k):
                level = max(level, abs(correlation[active[r]]))
            if k == 0 or level <= floor[row]:
                break
            slope = _direction(factor, active, correlation, k, h)
            g[:] = 0
            for r in range(k):
                t, line = h[r], gram[active[r]]
                for j in range(n):
                    g[j] += t * line[j]
            length = _until_next(correlation, g, state, n, level, level - alpha, skip[row], dependent)
            leaving = -1
            for r in range(k):
                reach = -coefficient[active[r]] / h[r] if h[r] != 0 else -1.0
                if 0 < reach < length:
                    length, leaving = reach, r
            for r in range(k):
                coefficient[active[r]] += length * h[r]
            for j in range(n):
                correlation[j] -= length * g[j]
            energy[row] += length * (length - 2 * level) * slope
            taken[row] += 1
            skip[row] = -1
            if leaving >= 0:
                coefficient[active[leaving]] = 0
                state[active[leaving]] = 0
                for j in range(n):
                    if state[j] == 2:
                        state[j] = 0
                skip[row] = active[leaving]
                _remove(factor, active, leaving, k)
                size[row] = k - 1


@compiled
def _join_largest(gram, correlation, factor, active, state, k, capacity, dependent, floor):
    """Add the free column with the largest correlation to the factor; return False if there is none."""
    n = gram.shape[0]
    while k < capacity:
        best, i = floor, -1
        for j in range(n):
            if state[j] == 0 and abs(correlation[j]) > best:
                best, i = abs(correlation[j]), j
        if i < 0:
            return False
        base = k * (k + 1) // 2
        rest = gram[i, i]
        for r in range(k):
            start = r * (r + 1) // 2
            t = gram[i, active[r]]
            for q in range(r):
                t -= factor[base + q] * factor[start + q]
            t /= factor[start + r]
            factor[base + r] = t
            rest -= t * t
        if rest > dependent * gram[i, i]:
            factor[base + k] = np.sqrt(rest)
            active[k] = i
            state[i] = 1
            return True
        state[i] = 2
    return False


@compiled
def _direction(factor, active, correlation, k, h):
    """Compute h = G[I, I]^-1 sign(c_I), and return its inner product with sign(c_I)."""
    for r in range(k):
        start = r * (r + 1) // 2
        t = np.sign(correlation[active[r]])
        for q in range(r):
            t -= factor[start + q] * h[q]
        h[r] = t / factor[start + r]
    slope = 0.0
    for r in range(k):
        slope += h[r] * h[r]
    for r in range(k - 1, -1, -1):
        start = r * (r + 1) // 2
        h[r] /= factor[start + r]
        t = h[r]
        for q in range(r):
            h[q] -= factor[start + q] * t
    return slope


@compiled
def _until_next(correlation, g, state, n, level, length, skipped, dependent):
    """Return the step at which a free column's correlation equals the active ones, at most ``length``."""
    for j in range(n):
        if state[j] == 0 and j != skipped:
            down, up = 1 - g[j], 1 + g[j]
            if down > dependent:
                reach = (level - correlation[j]) / down
                if 0 <= reach < length:
                    length = reach
            if up > dependent:
                reach = (level + correlation[j]) / up
                if 0 <= reach < length:
                    length = reach
    return length


@compiled
def _remove(factor, active, position, k):
    """Remove the column at ``position`` from the factor: drop its row, and rotate the rest to triangular form."""
    for r in range(position, k - 1):
        active[r] = active[r + 1]
        target, source = r * (r + 1) // 2, (r + 1) * (r + 2) // 2
        for q in range(position):
            factor[target + q] = factor[source + q]
    # Row r + 1 has entries up to column r + 1; rotate columns q, q + 1 of all rows below so that it ends at column r.
    for q in range(position, k - 1):
        source = (q + 1) * (q + 2) // 2
        left, right = factor[source + q], factor[source + q + 1]
        size = np.hypot(left, right)
        cosine, sine = left / size, right / size
        for r in range(q, k - 1):
            below = (r + 1) * (r + 2) // 2
            left, right = factor[below + q], factor[below + q + 1]
            factor[below + q] = cosine * left + sine * right
            factor[below + q + 1] = cosine * right - sine * left
    for r in range(position, k - 1):
        target, source = r * (r + 1) // 2, (r + 1) * (r + 2) // 2
        for q in range(position, r + 1):
            factor[target + q] = factor[source + q]
