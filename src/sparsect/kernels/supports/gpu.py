"""Moves of single nonzeros of a support on a GPU, one thread block for each row; see ``cpu.py`` for the formulas.

A thread block keeps c, d and x in registers. H, the support and a vector u are in the memory of the GPU, where all
threads can read them; they wait for each other before and after every change. Numbers are in double precision.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import triton
import triton.language as tl

from ...backend.arrays import Array
from . import Chains, limits

# Triton accepts global constants in this form only.
DEPENDENT, PIVOT, NEGLIGIBLE = (tl.constexpr(value) for value in (limits.DEPENDENT, limits.PIVOT, limits.NEGLIGIBLE))
RENEWED, GAIN, ROUNDING = (tl.constexpr(value) for value in (limits.RENEWED, limits.GAIN, limits.ROUNDING))
LARGEST_SLAB, SMALLEST_RIDGE = (tl.constexpr(value) for value in (limits.LARGEST_SLAB, limits.SMALLEST_RIDGE))
# Columns for each warp, and the largest number of warps. A few rows of the Gram matrix are read at a time: as many as
# have this many entries, but no more than this number; of H, as many as have the same number of entries.
COLUMNS_A_WARP, MOST_WARPS = 128, 16
TILE, MOST_ROWS = 8192, 4
# Swaps are made in groups of rows whose matrices H take at most this many bytes.
GROUP_BYTES = 2**30


@triton.jit
def _entry(values, places, place):
    """Return the entry of a vector in registers."""
    return tl.sum(tl.where(places == place, values, 0.0), 0)


@triton.jit
def _publish(ADDRESS, values, used):
    """Write to memory what all threads read next."""
    tl.debug_barrier()
    tl.store(ADDRESS, values, mask=used)
    tl.debug_barrier()


@triton.jit
def _combine(GRAM, SUPPORT, WEIGHTS, size, j, n: tl.constexpr, ROWS: tl.constexpr):
    """Return the sum of the rows of the Gram matrix at the columns of the support, times WEIGHTS."""
    total = tl.zeros_like(j).to(tl.float64)
    for first in range(0, size, ROWS):
        i = first + tl.arange(0, ROWS)
        column = tl.load(SUPPORT + i, mask=i < size, other=0)
        weight = tl.load(WEIGHTS + i, mask=i < size, other=0.0)
        inside = (i < size)[:, None] & (j < n)[None, :]
        total += tl.sum(weight[:, None] * tl.load(GRAM + column[:, None] * n + j[None, :], mask=inside, other=0.0), 0)
    return total


@triton.jit
def _add_outer(H, U, factor, size, width, i, TALL: tl.constexpr):
    """Add factor u u^T to the leading part of H, which has ``width`` columns."""
    u = tl.load(U + i, mask=i < size, other=0.0)
    for first in range(0, size, TALL):
        q = first + tl.arange(0, TALL)
        inside = (q < size)[:, None] & (i < size)[None, :]
        place = H + q[:, None] * width + i[None, :]
        other = tl.load(U + q, mask=q < size, other=0.0)
        tl.store(place, tl.load(place, mask=inside, other=0.0) + factor * other[:, None] * u[None, :], mask=inside)
    tl.debug_barrier()


@triton.jit
def _insert(
    GRAM, SUPPORT, p, size, H, U, x, c, d, width, i, j,
    n: tl.constexpr, ROWS: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Add the column at position p to the others of the first ``size`` positions; return x, c and d.

    Entry p of x and row and column p of H are zero before.
    """
    k = tl.load(SUPPORT + p)
    own = GRAM + k * n
    u = tl.zeros_like(x)
    for first in range(0, size, TALL):
        q = first + tl.arange(0, TALL)
        others = (q < size) & (q != p)
        products = tl.load(own + tl.load(SUPPORT + q, mask=others, other=0), mask=others, other=0.0)
        inside = others[:, None] & (i < size)[None, :]
        u += tl.sum(products[:, None] * tl.load(H + q[:, None] * width + i[None, :], mask=inside, other=0.0), 0)
    u = tl.where(i == p, 0.0, u)
    _publish(U + i, u, i < size)
    # What is left of column k: G_:k - G_:S u.
    left = tl.load(own + j, mask=j < n, other=0.0) - _combine(GRAM, SUPPORT, U, size, j, n, ROWS)
    distance = tl.maximum(_entry(d, j, k), PIVOT)
    value = _entry(c, j, k) / distance
    u = tl.where(i == p, -1.0, u)
    _publish(U + i, u, i < size)
    _add_outer(H, U, 1 / distance, size, width, i, TALL)
    return x - u * value, c - left * value, d - left * left / distance


@triton.jit
def _begin(
    GRAM, SUPPORT, s, H, U, b, squares, ridge, width, i, j,
    n: tl.constexpr, ROWS: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Compute H, x, c and d of a support, to which columns are added one by one; return x, c and d."""
    tl.debug_barrier()
    for first in range(0, s, TALL):
        q = first + tl.arange(0, TALL)
        place = H + q[:, None] * width + i[None, :]
        tl.store(place, 0.0, mask=(q < s)[:, None] & (i < s)[None, :])
    tl.debug_barrier()
    x, c, d = tl.zeros_like(i).to(tl.float64), b, squares + ridge
    for p in range(s):
        x, c, d = _insert(GRAM, SUPPORT, p, p + 1, H, U, x, c, d, width, i, j, n, ROWS, TALL)
    return x, c, d


@triton.jit
def _move(
    GRAM, SUPPORT, p, k, s, H, U, x, c, d, v, width, i, j,
    n: tl.constexpr, ROWS: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    """Exchange the column at position p for column k, where v = G_:S H_:p; return x, c and d."""
    u = tl.load(H + p * width + i, mask=i < s, other=0.0)
    pivot = _entry(u, i, p)
    r = _entry(x, i, p) / pivot
    _publish(U + i, u, i < s)
    _add_outer(H, U, -1 / pivot, s, width, i, TALL)
    _publish(SUPPORT + i, k, i == p)
    x = tl.where(i == p, 0.0, x - u * r)
    return _insert(GRAM, SUPPORT, p, s, H, U, x, c + v * r, d + v * v / pivot, width, i, j, n, ROWS, TALL)


@triton.jit
def _taken(SUPPORT, s, squares, j):
    """Return whether columns are not to be chosen: those of the support, and those that are zero."""
    taken = squares == 0
    for position in range(s):
        taken = taken | (j == tl.load(SUPPORT + position))
    return taken


@triton.jit
def _uniform(number):
    """Return the random number from 0 to 1 that belongs to a whole number (SplitMix64)."""
    z = (number + 1).to(tl.uint64) * 0x9E3779B97F4A7C15
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB
    return (z ^ (z >> 31)).to(tl.float64) * 2.0**-64


@triton.jit(do_not_specialize=["measurements", "sweeps", "s"])
def _sample(
    GRAM, SQUARES, HEAT, RECORDED, B, ENERGY, HOT, FLOOR,
    VISITED, SUPPORT, VARIANCE, SLAB, LEAST, BEST, MEAN, SQUARE, INCLUSION, MISFIT, H, X, C, D, RIDGE, MOVES,
    U, measurements, sweeps, s, KNOWN: tl.constexpr,
    n: tl.constexpr, BLOCK: tl.constexpr, SIDE: tl.constexpr, ROWS: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    row, i, j = tl.program_id(0).to(tl.int64), tl.arange(0, SIDE), tl.arange(0, BLOCK)
    SUPPORT, U, H = SUPPORT + row * s, U + row * s, H + row * s * s
    here, energy = row * n + j, tl.load(ENERGY + row)
    squares = tl.load(SQUARES + j, mask=j < n, other=0.0)
    level = tl.max(squares, 0)
    c, d = tl.load(C + here, mask=j < n, other=0.0), tl.load(D + here, mask=j < n, other=0.0)
    x = tl.load(X + row * s + i, mask=i < s, other=0.0)
    variance, slab, ridge = tl.load(VARIANCE + row), tl.load(SLAB + row), tl.load(RIDGE + row)
    least, misfit, moves = tl.load(LEAST + row), tl.load(MISFIT + row), tl.load(MOVES + row)
    visited, hot = tl.load(VISITED + row), tl.load(HOT + row)
    taken = _taken(SUPPORT, s, squares, j)
    for sweep in range(tl.where(energy == 0, 0, sweeps)):
        heat, recorded = tl.load(HEAT + sweep), tl.load(RECORDED + sweep)
        low = tl.where(heat > 0, tl.minimum(variance, hot), variance)
        noise = tl.where(heat > 0, low * tl.exp(heat * tl.log(hot / low)), low)
        damping = tl.maximum(low / slab, SMALLEST_RIDGE * level)
        renewed = (moves >= RENEWED) | (tl.abs(damping - ridge) > 0.2 * ridge)
        ridge, moves = tl.where(renewed, damping, ridge), tl.where(renewed, 0, moves)
        if renewed:
            b = tl.load(B + here, mask=j < n, other=0.0)
            x, c, d = _begin(GRAM, SUPPORT, s, H, U, b, squares, ridge, s, i, j, n, ROWS, TALL)
        for p in range(s):
            v = _combine(GRAM, SUPPORT, H + p * s, s, j, n, ROWS)
            old, pivot = tl.load(SUPPORT + p), tl.load(H + p * s + p)
            r, own = _entry(x, i, p) / pivot, j == old
            taken = taken & ~own
            # The squared distance of each column from the others of the support, and its correlation with what they
            # leave.
            distance, z = tl.where(own, 1 / pivot, d + v * v / pivot), tl.where(own, r, c + v * r)
            allowed = own | (~taken & (distance > DEPENDENT * squares) & (j < n))
            distance = tl.where(allowed, distance, 1.0)
            fit = tl.where(allowed, 0.5 / noise * z * z / distance, -1.0)
            top = tl.max(fit, 0)
            weight = tl.where(allowed & (fit >= top - NEGLIGIBLE), tl.exp(fit - top) / tl.sqrt(distance), 0.0)
            total = tl.sum(weight, 0)
            passed = (weight > 0) & (tl.cumsum(weight, 0) >= _uniform(visited) * total)
            new = tl.min(tl.where(passed, j, n), 0).to(tl.int64)
            new = tl.where(new < n, new, old)
            if recorded:
                share, value, chosen = weight / total, z / distance, weight > 0
                tl.store(MEAN + here, tl.load(MEAN + here, mask=chosen, other=0.0) + share * value, mask=chosen)
                power = share * (value * value + noise / distance)
                tl.store(SQUARE + here, tl.load(SQUARE + here, mask=chosen, other=0.0) + power, mask=chosen)
                tl.store(INCLUSION + here, tl.load(INCLUSION + here, mask=chosen, other=0.0) + share, mask=chosen)
            taken = taken | (j == new)
            if new != old:
                x, c, d = _move(GRAM, SUPPORT, p, new, s, H, U, x, c, d, v, s, i, j, n, ROWS, TALL)
            moves += (new != old).to(tl.int64)
            visited += 1
        # The squared residual, and the variances that are most likely now.
        support = tl.load(SUPPORT + i, mask=i < s, other=0)
        fitted = tl.sum(x * tl.load(B + row * n + support, mask=i < s, other=0.0), 0)
        size, trace = tl.sum(x * x, 0), tl.sum(tl.load(H + i * s + i, mask=i < s, other=0.0), 0)
        left = tl.maximum(energy - fitted - ridge * size, 0.0)
        tl.store(BEST + row * s + i, support, mask=i < tl.where(left < least, s, 0))
        least = tl.minimum(left, least)
        expected = energy / (s * level)
        slab = tl.minimum(tl.maximum((size + low * trace) / s, 1e-12 * expected), LARGEST_SLAB * expected)
        if not KNOWN:
            likely = (left + low * (s - ridge * trace)) / measurements
            likely = tl.where(heat > 0, least / tl.maximum(measurements - s, 1), likely)
            variance = tl.maximum(likely, tl.load(FLOOR + row))
        misfit += tl.where(recorded, left, 0.0)
    tl.store(C + here, c, mask=j < n)
    tl.store(D + here, d, mask=j < n)
    tl.store(X + row * s + i, x, mask=i < s)
    tl.store(VARIANCE + row, variance)
    tl.store(SLAB + row, slab)
    tl.store(RIDGE + row, ridge)
    tl.store(LEAST + row, least)
    tl.store(MISFIT + row, misfit)
    tl.store(MOVES + row, moves)
    tl.store(VISITED + row, visited)


@triton.jit(do_not_specialize=["width", "limit"])
def _swap(
    GRAM, SQUARES, RIDGE, B, ENERGY, SUPPORT, COUNTS, SWAPS, OPTIMAL, H, U, width, limit,
    n: tl.constexpr, BLOCK: tl.constexpr, SIDE: tl.constexpr, ROWS: tl.constexpr, TALL: tl.constexpr,
):  # fmt: skip
    row, i, j = tl.program_id(0).to(tl.int64), tl.arange(0, SIDE), tl.arange(0, BLOCK)
    SUPPORT, U, H = SUPPORT + row * width, U + row * width, H + row * width * width
    energy, ridge = tl.load(ENERGY + row), tl.load(RIDGE)
    s = tl.where(energy == 0, 0, tl.load(COUNTS + row)).to(tl.int32)
    squares = tl.load(SQUARES + j, mask=j < n, other=0.0)
    b = tl.load(B + row * n + j, mask=j < n, other=0.0)
    taken = _taken(SUPPORT, s, squares, j)
    x, c, d = _begin(GRAM, SUPPORT, s, H, U, b, squares, ridge, width, i, j, n, ROWS, TALL)
    # Positions are looked at in turn, until none of them in a row gives an improvement.
    p, unimproved, swaps = s * 0, s * 0, s * 0
    while (unimproved < s) & (swaps <= limit):
        v = _combine(GRAM, SUPPORT, H + p * width, s, j, n, ROWS)
        old, pivot = tl.load(SUPPORT + p), tl.load(H + p * width + p)
        r = _entry(x, i, p) / pivot
        support = tl.load(SUPPORT + i, mask=i < s, other=0)
        fitted = tl.sum(x * tl.load(B + row * n + support, mask=i < s, other=0.0), 0)
        level = r * r * pivot + GAIN * tl.maximum(energy - fitted, 0.0) + ROUNDING * energy
        distance, z = d + v * v / pivot, c + v * r
        allowed = ~taken & (distance > DEPENDENT * squares) & (j < n)
        gain = tl.where(allowed, z * z / tl.where(allowed, distance, 1.0), -1.0)
        top = tl.max(gain, 0)
        better = top > level
        swaps += better.to(tl.int32)
        unimproved = tl.where(better, 1, unimproved + 1)
        if better & (swaps <= limit):
            new = tl.min(tl.where(gain == top, j, n), 0).to(tl.int64)
            taken = (taken & (j != old)) | (j == new)
            if swaps % RENEWED == 0:
                _publish(SUPPORT + i, new, i == p)
                x, c, d = _begin(GRAM, SUPPORT, s, H, U, b, squares, ridge, width, i, j, n, ROWS, TALL)
            else:
                x, c, d = _move(GRAM, SUPPORT, p, new, s, H, U, x, c, d, v, width, i, j, n, ROWS, TALL)
        p = (p + 1) % s
    tl.store(SWAPS + row, tl.minimum(swaps, limit))
    tl.store(OPTIMAL + row, swaps <= limit)


def _sizes(n: int, s: int) -> dict[str, Any]:
    """Return the launch parameters for n columns and supports of s."""
    block, side = triton.next_power_of_2(n), triton.next_power_of_2(s)
    rows, warps = min(MOST_ROWS, max(1, TILE // block)), min(max(1, block // COLUMNS_A_WARP), MOST_WARPS)
    tall = min(side, rows * block // side)
    return {"n": n, "BLOCK": block, "SIDE": side, "ROWS": rows, "TALL": tall, "num_warps": warps}


def sample(
    gram: Array, squares: Array, b: Array, energy: Array, measurements: int, known: bool, heat: Array, recorded: Array,
    hot: Array, floor: Array, chains: Chains,
) -> None:  # fmt: skip
    """Move nonzeros at random, as ``kernels.supports.cpu.sample`` does; the arrays of ``chains`` are changed."""
    import torch

    (batch, s), sweeps = chains.support.shape, len(heat)
    steps = (torch.from_numpy(array).to(b.device) for array in (heat, recorded))
    arrays = (getattr(chains, field.name) for field in fields(chains))
    settings = (gram, squares, *steps, b, energy, hot, floor)
    if not (batch and sweeps):
        return
    with torch.cuda.device(b.device):
        _sample[(batch,)](
            *settings, *arrays, torch.empty_like(chains.x), measurements, sweeps, s, KNOWN=known, **_sizes(len(gram), s)
        )


def swap(
    gram: Array, squares: Array, ridge: Array, b: Array, energy: Array, support: Array, counts: Array, limit: int
) -> tuple[Array, Array]:
    """Exchange columns of ``support``, as ``kernels.supports.cpu.swap`` does, and return swaps and whether optimal."""
    import torch

    batch, s = support.shape
    swaps, optimal = torch.zeros_like(counts), torch.ones_like(counts, dtype=torch.bool)
    group = max(1, min(batch, GROUP_BYTES // (8 * max(s, 1) ** 2)))
    H, u = (b.new_empty((group, *shape)) for shape in ((s, s), (s,)))
    for first in range(0, batch if s else 0, group):
        arrays = [array[first : first + group] for array in (b, energy, support, counts, swaps, optimal)]
        with torch.cuda.device(b.device):
            _swap[(len(arrays[0]),)](gram, squares, ridge, *arrays, H, u, s, limit, **_sizes(len(gram), s))
    return swaps, optimal
