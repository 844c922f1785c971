"""The s largest magnitudes of a row, and the steps of the Difference Map that are built on them.

The threshold is found by counting how many entries exceed two guesses at a time. The guesses straddle the place where
the counts so far say that it is, so that a few passes over registers are enough. Magnitudes are compared by their bits,
whose order is that of the numbers: halving an interval of bits ends even where entries are equal, tiny or huge.
"""

from __future__ import annotations

import triton
import triton.language as tl

from ...backend.arrays import Array
from ..gpu_products import store_operand
from ..gpu_rows import launch

# Width of the first interval around a guess, and of later ones in terms of the entries left inside.
NEARBY, SPREAD = tl.constexpr(0.03), tl.constexpr(0.6)
# Every so many passes the interval is cut in three, whatever the counts say.
PATIENCE = tl.constexpr(6)


@triton.jit
def _bits(number):
    if number.dtype == tl.float64:
        return number.to(tl.int64, bitcast=True)
    else:
        return number.to(tl.int32, bitcast=True)


@triton.jit
def _number(bits):
    if bits.dtype == tl.int64:
        return bits.to(tl.float64, bitcast=True)
    else:
        return bits.to(tl.float32, bitcast=True)


@triton.jit
def largest(v, inside, s, guess, n: tl.constexpr):
    """Whether each entry is one of the s largest magnitudes, of equal ones the first; and the threshold.

    0 < s < n < 2^15; ``inside`` is false beyond the end of the row; ``guess`` decides how soon this ends and no more.
    """
    # What is not a number counts as infinite.
    bits = tl.where(inside, _bits(tl.where(v == v, tl.abs(v), float("inf"))), -1)
    high = tl.max(bits, 0) + 1
    low = high * 0
    at_low, at_high = low.to(tl.int32) + n, low.to(tl.int32)
    first, second = _bits(guess * (1 - NEARBY)), _bits(guess * (1 + NEARBY))
    passes = 0
    while (at_low != s) & (high - low > 1):
        third = tl.maximum((high - low) // 3, 1)
        first = tl.where((first > low) & (first < high), first, low + third)
        second = tl.where((second > low) & (second < high), second, high - third)
        both = tl.sum((bits >= first).to(tl.int32) + ((bits >= second).to(tl.int32) << 16), 0)
        count = both & 0xFFFF
        up, down = (count >= s) & (first > low), (count < s) & (first < high)
        low, at_low = tl.where(up, first, low), tl.where(up, count, at_low)
        high, at_high = tl.where(down, first, high), tl.where(down, count, at_high)
        count = both >> 16
        up, down = (count >= s) & (second > low), (count < s) & (second < high)
        low, at_low = tl.where(up, second, low), tl.where(up, count, at_low)
        high, at_high = tl.where(down, second, high), tl.where(down, count, at_high)
        # Where the threshold would be if entries lay evenly, and how far off that may be.
        left = (at_low - at_high).to(tl.float32)
        share = (at_low - s + 0.5) / left
        width = tl.minimum(0.25, SPREAD / tl.sqrt(left))
        bottom, height = _number(low), _number(high) - _number(low)
        first = _bits(bottom + height * tl.maximum(share - width, 0.5 * share).to(bottom.dtype))
        second = _bits(bottom + height * tl.minimum(share + width, 0.5 + 0.5 * share).to(bottom.dtype))
        passes += 1
        first = tl.where(passes % PATIENCE == PATIENCE - 1, -1, first)
        second = tl.where(passes % PATIENCE == PATIENCE - 1, -1, second)
    keep = bits >= low
    if at_low != s:
        equal = bits == low
        keep = (bits > low) | (equal & (tl.cumsum(equal.to(tl.int32), 0) <= s - at_high))
    return keep, _number(low)


@triton.jit(do_not_specialize=["s"])
def _keep(V, KEPT, s, n: tl.constexpr, BLOCK: tl.constexpr):
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    v = tl.load(V + row * n + j, mask=inside, other=0)
    keep, _ = largest(v, inside, s, tl.sqrt(tl.sum(v * v, 0) / n), n)
    tl.store(KEPT + row * n + j, tl.where(keep, v, 0), mask=inside)


@triton.jit(do_not_specialize=["s"])
def advance_row(
    X, W, POINT, U, LEVEL, DISTANCE, CRITERION, GOAL, TAKEN, UNCHANGED, TOTAL, POWER, COUNT, s, relaxation,
    n: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr, COMPARED: tl.constexpr, AVERAGED: tl.constexpr,
    LAST: tl.constexpr,
):  # fmt: skip
    """One step at beta = 1, in place, of x and all that goes with it, unless its gap has come down to the GOAL.

    POINT holds the point of A as the next product wants it, and if COMPARED tells whether its support has changed. The
    point itself goes to U in the LAST step, and in one that comes down to the goal.
    """
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    goal = tl.load(GOAL + row)
    if tl.load(CRITERION + row) <= goal:
        return
    inside = j < n
    x = tl.load(X + row * n + j, mask=inside, other=0)
    w = tl.load(W + row * n + j, mask=inside, other=0).to(x.dtype)
    place = POINT + row * (3 * n if SPLIT else n) + j
    if COMPARED:
        before = tl.load(place, mask=inside, other=0)
    v = x - 2 * w
    keep, level = largest(v, inside, s, tl.load(LEVEL + row), n)
    tl.store(LEVEL + row, level)
    u = tl.where(keep, v, 0)
    change = relaxation * (u - x + w)
    tl.store(X + row * n + j, x + change, mask=inside)
    store_operand(place, u, inside, n, SPLIT)
    distance = tl.load(DISTANCE + row)
    criterion = tl.sqrt(tl.sum(change * change, 0) + distance * distance)
    tl.store(CRITERION + row, criterion)
    if LAST | (criterion <= goal):
        tl.store(U + row * n + j, u, mask=inside)
    if COMPARED:
        same = tl.sum(((u == 0) != (before == 0)).to(tl.int32), 0) == 0
        tl.store(UNCHANGED + row, tl.where(same, tl.load(UNCHANGED + row) + 1, 0))
    tl.store(TAKEN + row, tl.load(TAKEN + row) + 1)
    if AVERAGED:
        total = tl.load(TOTAL + row * n + j, mask=inside, other=0)
        tl.store(TOTAL + row * n + j, total + u, mask=inside)
        tl.store(POWER + row, tl.load(POWER + row) + tl.sum(u * u, 0))
        tl.store(COUNT + row, tl.load(COUNT + row) + 1)


@triton.jit(do_not_specialize=["s"])
def difference_row(
    X, WZ, POINTS, SPARSE, LEVELS, CRITERION, s, beta, batch,
    n: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """One step of the map at any beta, in place; WZ holds w, then z, of all rows, POINTS P_A(f_B(x)), then P_A(x).

    Of P_A(x) only the support is read, since its values are those of x; it is written to SPARSE in the LAST step.
    """
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    below = batch + row
    x = tl.load(X + row * n + j, mask=inside, other=0)
    w = tl.load(WZ + row * n + j, mask=inside, other=0).to(x.dtype)
    z = tl.load(WZ + below * n + j, mask=inside, other=0).to(x.dtype)
    width: tl.constexpr = 3 * n if SPLIT else n
    chosen = tl.load(POINTS + below * width + j, mask=inside, other=0)
    v = x - (1 + 1 / beta) * w
    keep, level = largest(v, inside, s, tl.load(LEVELS + row), n)
    tl.store(LEVELS + row, level)
    u = tl.where(keep, v, 0)
    store_operand(POINTS + row * width + j, u, inside, n, SPLIT)
    moved = beta * (u + z) - (beta - 1) * tl.where(chosen != 0, x, 0)
    keep, level = largest(moved, inside, s, tl.load(LEVELS + below), n)
    tl.store(LEVELS + below, level)
    sparse = tl.where(keep, moved, 0)
    tl.store(X + row * n + j, moved, mask=inside)
    store_operand(POINTS + below * width + j, sparse, inside, n, SPLIT)
    if LAST:
        tl.store(SPARSE + row * n + j, sparse, mask=inside)
    tl.store(CRITERION + row, tl.sqrt(tl.sum((moved - x) * (moved - x), 0)) / tl.abs(beta))


def keep(v: Array, s: int) -> Array:
    """The s largest magnitudes of every row of v, zero elsewhere; among equal ones the first win. 0 < s < n."""
    import torch

    rows = v.contiguous().reshape(-1, v.shape[-1])
    kept = torch.empty_like(rows)
    launch(_keep, rows, kept, s)
    return kept.reshape(v.shape)


def advance(x: Array, w: Array, before: Array, s: int, relaxation: float) -> tuple[Array, Array, Array, Array]:
    """The step of ``plain.py`` for (batch, n) arrays on a GPU, 0 < s < n."""
    moved, u = x.contiguous().clone(), before.contiguous().clone()
    level, distance, change, goal, taken, unchanged, power = x.new_zeros((7, x.shape[0])).unbind()
    goal -= 1
    rest = (level, distance, change, goal, taken, unchanged, moved, power, power, s, relaxation)
    launch(advance_row, moved, w.contiguous(), u, u, *rest, SPLIT=False, COMPARED=True, AVERAGED=False, LAST=False)
    return u, moved, change, unchanged == 0
