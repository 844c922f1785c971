"""Sampled moves of nonzeros that several measurements have in common, row by row.

The symbols are those of ``cpu.py``. The measurements of a row share S, H and d; each has its own b, x and c. Column k
at position p lowers the squared residuals by the sum over the measurements of |c_k + v_k x_p / H_pp|^2 / D_k.
"""

from __future__ import annotations

import numpy as np

from ...backend.parallel import compiled
from ..pursuit import combine_rows
from .cpu import begin, fit_values, uniform
from .limits import DEPENDENT, LARGEST_SLAB, NEGLIGIBLE, RENEWED, SMALLEST_RIDGE


@compiled
def begin_all(gram, b, support, ridge, H, x, c, d, v):
    """Compute H and d of a support, and x and c of every measurement; return -log det H."""
    volume = begin(gram, b[0], support, ridge, H, x[0], c[0], d, v)
    for t in range(1, b.shape[0]):
        fit_values(gram, b[t], support, H, x[t], c[t], v)
    return volume


@compiled
def drop_all(p, H, x, c, d, v, u):
    """Remove the nonzeros at position p; ``v`` holds conj(G_:S H_:p)."""
    times, s, n = x.shape[0], x.shape[1], d.size
    pivot = H[p, p].real
    for i in range(s):
        u[i] = H[i, p]
    for t in range(times):
        r = x[t, p] / pivot
        for j in range(n):
            c[t, j] += np.conj(v[j]) * r
        for i in range(s):
            x[t, i] -= u[i] * r
    for j in range(n):
        d[j] += (v[j].real * v[j].real + v[j].imag * v[j].imag) / pivot
    for i in range(s):
        for j in range(s):
            H[i, j] -= u[i] * np.conj(u[j]) / pivot


@compiled
def take_all(gram, support, p, k, H, x, c, d, v, u):
    """Put column k at position p, which is free."""
    times, s, n = x.shape[0], support.size, d.size
    support[p] = k
    for i in range(s):
        total = H.dtype.type(0)
        if i != p:
            for j in range(s):
                if j != p:
                    total += H[i, j] * gram[support[j], k]
        u[i] = total
    combine_rows(gram, support, u, s, v)
    D, own = d[k], gram[k]
    for j in range(n):
        v[j] = own[j] - v[j]
    u[p] = -1
    for t in range(times):
        value = c[t, k] / D
        for j in range(n):
            c[t, j] -= np.conj(v[j]) * value
        x[t, p] = 0
        for i in range(s):
            x[t, i] -= u[i] * value
    for j in range(n):
        d[j] -= (v[j].real * v[j].real + v[j].imag * v[j].imag) / D
    for i in range(s):
        for j in range(s):
            H[i, j] += u[i] * np.conj(u[j]) / D


@compiled
def sample(
    first,
    last,
    gram,
    squares,
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
    H,
    x,
    c,
    d,
    ridge,
    moves,
):
    """Move nonzeros at random, as ``cpu.sample`` does, if the measurements of a row have their supports in common.

    Parameters are those of ``cpu.sample``, but b, mean, square, inclusion and c have the shape (batch, times, n), x has
    the shape (batch, times, s), and ``measurements`` is the number at all times together.
    """
    times, n, s = b.shape[1], gram.shape[0], support.shape[1]
    u, v = np.empty(s, b.dtype), np.empty(n, b.dtype)
    weight, distances = np.empty(n), np.empty(n)
    inside, level = np.zeros(n, np.bool_), squares.max()
    for row in range(first, last):
        if energy[row] == 0:
            continue
        chosen = support[row]
        for k in range(n):
            inside[k] = squares[k] == 0
        for i in range(s):
            inside[chosen[i]] = True
        matrix, values, correlation, distance = H[row], x[row], c[row], d[row]
        for sweep in range(heat.size):
            low = variance[row]
            noise = low
            if heat[sweep] > 0:
                low = min(low, hot[row])
                noise = low * np.exp(heat[sweep] * np.log(hot[row] / low))
            damping = max(low / slab[row], SMALLEST_RIDGE * level)
            if moves[row] >= RENEWED or abs(damping - ridge[row]) > 0.2 * ridge[row]:
                ridge[row], moves[row] = damping, 0
                begin_all(gram, b[row], chosen, ridge[row], matrix, values, correlation, distance, v)
            for p in range(s):
                combine_rows(gram, chosen, matrix[:, p].copy(), s, v)
                old, pivot = chosen[p], matrix[p, p].real
                factor, top = half / noise, 0.0
                inside[old] = False
                for k in range(n):
                    weight[k] = 0.0
                    distances[k] = distance[k] + (v[k].real * v[k].real + v[k].imag * v[k].imag) / pivot
                distances[old] = 1 / pivot
                for t in range(times):
                    r = values[t, p] / pivot
                    part = correlation[t]
                    for k in range(n):
                        z = part[k] + np.conj(v[k]) * r
                        weight[k] += z.real * z.real + z.imag * z.imag
                weight[old] = 0.0
                for t in range(times):
                    r = values[t, p] / pivot
                    weight[old] += r.real * r.real + r.imag * r.imag
                for k in range(n):
                    usable = k == old or (not inside[k] and DEPENDENT * squares[k] < distances[k])
                    weight[k] = factor * weight[k] / distances[k] if usable else -1.0
                    top = max(top, weight[k])
                total = 0.0
                # The volume of a column counts once for each measurement, so that it may outweigh a better fit.
                for k in range(n):
                    if weight[k] >= 0 and weight[k] >= top - NEGLIGIBLE:
                        weight[k] = np.exp(weight[k] - top - half * times * np.log(distances[k] / distances[old]))
                        total += weight[k]
                    else:
                        weight[k] = 0.0
                aim, passed, new = uniform(visited[row]) * total, 0.0, -1
                for k in range(n):
                    if weight[k] > 0:
                        passed += weight[k]
                        if new < 0 and passed >= aim:
                            new = k
                        if recorded[sweep]:
                            share, D = weight[k] / total, distances[k]
                            for t in range(times):
                                r = values[t, p] / pivot
                                z = r if k == old else correlation[t, k] + np.conj(v[k]) * r
                                z = z / D
                                mean[row, t, k] += share * z
                                square[row, t, k] += share * (z.real * z.real + z.imag * z.imag + noise / D)
                                inclusion[row, t, k] += share
                new = old if new < 0 else new
                inside[new] = True
                if new != old:
                    drop_all(p, matrix, values, correlation, distance, v, u)
                    take_all(gram, chosen, p, new, matrix, values, correlation, distance, v, u)
                    moves[row] += 1
                visited[row] += 1
            left, size, trace = energy[row], 0.0, 0.0
            for i in range(s):
                trace += matrix[i, i].real
                for t in range(times):
                    value = values[t, i]
                    magnitude = value.real * value.real + value.imag * value.imag
                    left -= (np.conj(value) * b[row, t, chosen[i]]).real + ridge[row] * magnitude
                    size += magnitude
            left = max(left, 0.0)
            if left < least[row]:
                least[row] = left
                best[row] = chosen
            expected = energy[row] / (times * s * level)
            likely = (size / times + low * trace) / s
            slab[row] = min(max(likely, 1e-12 * expected), LARGEST_SLAB * expected)
            if not known:
                likely = (left + low * times * (s - ridge[row] * trace)) / measurements
                if heat[sweep] > 0:
                    likely = least[row] / max(measurements - times * s, 1)
                variance[row] = max(likely, floor[row])
            if recorded[sweep]:
                misfit[row] += left
