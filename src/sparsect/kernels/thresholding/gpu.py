"""The s largest magnitudes of a row, and the steps of the Difference Map that use them.

The threshold is found by counting how many entries exceed two guesses at a time, one on each side of the value that the
counts so far suggest, so that a few passes over registers are enough. Magnitudes are compared by their bits, which have
the same order: bisection of an interval of bits ends even if entries are equal, tiny or huge.
"""

from __future__ import annotations

from typing import Any

import triton
import triton.language as tl

from ...backend.arrays import Array
from ..gpu_products import store_operand
from ..gpu_rows import launch
from .structure import Structure

# Relative width of the first interval around a guess, and of later ones relative to the entries left inside.
NEARBY, SPREAD = tl.constexpr(0.03), tl.constexpr(0.6)
# Every this many passes, the interval is divided into three equal parts, whatever the counts are.
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
def largest(v, inside, s, guess, n):
    """Return whether each entry is one of the s largest magnitudes (among equal ones, the first), and the threshold.

    ``inside`` is true for n entries, 0 <= s <= n < 2^15; ``guess`` affects the speed but not the result.
    """
    # NaN counts as infinite.
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
        # Where the threshold would be if entries were evenly distributed, and how wrong that may be.
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


@triton.jit
def project_row(
    v, row, j, inside, s, guess, LEVEL, LOW, HIGH, UNITS, MEMBERS, SCRATCH, CHOSEN, LEVELS, COUNTS,
    n: tl.constexpr, BOUNDED: tl.constexpr, SIZE: tl.constexpr, COUNT: tl.constexpr, UNIT_BLOCK: tl.constexpr,
    DEPTH: tl.constexpr, REMEMBER: tl.constexpr,
):  # fmt: skip
    """Return the nearest point of A to a row v.

    If REMEMBER, LEVEL holds the thresholds of the scores of units, DEPTH for each row, from one call to the next. They,
    or the ``guess``, affect the speed but not the result. LOW and HIGH are the bounds if BOUNDED.

    If SIZE > 0, there are COUNT units of up to SIZE entries: UNITS holds the unit of each entry and MEMBERS the entries
    of each unit. Sums over units go through SCRATCH and CHOSEN, with room for n and for COUNT numbers in each row.
    If DEPTH > 1, entries have LEVELS, in each of which COUNTS are kept.
    """
    point = v
    if BOUNDED:
        point = tl.minimum(
            tl.maximum(v, tl.load(LOW + j, mask=inside, other=0)), tl.load(HIGH + j, mask=inside, other=0)
        )
    if SIZE > 0:
        tl.store(SCRATCH + row * n + j, point * (2 * v - point), mask=inside)
        tl.debug_barrier()
        unit = tl.arange(0, UNIT_BLOCK)
        there = unit < COUNT
        energy = tl.zeros((UNIT_BLOCK,), dtype=v.dtype)
        for member in range(SIZE):
            place = tl.load(MEMBERS + unit * SIZE + member, mask=there, other=n)
            energy += tl.load(SCRATCH + row * n + place, mask=there & (place < n), other=0)
        if REMEMBER:
            guess = tl.load(LEVEL + row)
        kept, level = largest(tl.sqrt(tl.maximum(energy, 0)), there, s, guess, COUNT)
        if REMEMBER:
            tl.store(LEVEL + row, level)
        tl.store(CHOSEN + row * COUNT + unit, kept.to(tl.int8), mask=there)
        tl.debug_barrier()
        keep = tl.load(CHOSEN + row * COUNT + tl.load(UNITS + j, mask=inside, other=0), mask=inside, other=0) != 0
    else:
        score = v
        if BOUNDED:
            score = tl.where(point == v, v, tl.sqrt(tl.abs(point)) * tl.sqrt(tl.abs(2 * v - point)))
        if DEPTH > 1:
            own, keep = tl.load(LEVELS + j, mask=inside, other=-1), inside & False
            for depth in range(DEPTH):
                part, place = own == depth, LEVEL + row * DEPTH + depth
                size = tl.sum(part.to(tl.int32), 0)
                if REMEMBER:
                    guess = tl.load(place)
                chosen, level = largest(score, part, tl.load(COUNTS + depth), guess, size)
                if REMEMBER:
                    tl.store(place, level)
                keep = keep | chosen
        else:
            if REMEMBER:
                guess = tl.load(LEVEL + row)
            keep, level = largest(score, inside, s, guess, n)
            if REMEMBER:
                tl.store(LEVEL + row, level)
    return tl.where(keep & inside, point, 0)


@triton.jit(do_not_specialize=["s"])
def _project(
    V, FOUND, s, LOW, HIGH, UNITS, MEMBERS, SCRATCH, CHOSEN, LEVELS, COUNTS,
    n: tl.constexpr, BLOCK: tl.constexpr,
    BOUNDED: tl.constexpr, SIZE: tl.constexpr, COUNT: tl.constexpr, UNIT_BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    v = tl.load(V + row * n + j, mask=inside, other=0)
    guess = tl.sqrt(tl.sum(v * v, 0) / n)
    point = project_row(
        v, row, j, inside, s, guess, V, LOW, HIGH, UNITS, MEMBERS, SCRATCH, CHOSEN, LEVELS, COUNTS,
        n, BOUNDED, SIZE, COUNT, UNIT_BLOCK, DEPTH, False,
    )  # fmt: skip
    tl.store(FOUND + row * n + j, point, mask=inside)


@triton.jit(do_not_specialize=["s"])
def advance_row(
    X, W, POINT, U, LEVEL, DISTANCE, CRITERION, GOAL, TAKEN, UNCHANGED, TOTAL, POWER, AVERAGES, s, relaxation,
    LOW, HIGH, UNITS, MEMBERS, SCRATCH, CHOSEN, LEVELS, COUNTS,
    n: tl.constexpr, BLOCK: tl.constexpr, PART: tl.constexpr, SPLIT: tl.constexpr, COMPARED: tl.constexpr,
    AVERAGED: tl.constexpr, LAST: tl.constexpr,
    BOUNDED: tl.constexpr, SIZE: tl.constexpr, COUNT: tl.constexpr, UNIT_BLOCK: tl.constexpr,
    DEPTH: tl.constexpr,
):  # fmt: skip
    """Take one step at beta = 1 in place, unless the criterion of the row has reached its GOAL.

    POINT holds the point of A as operand of the next product, in parts of PART entries; if COMPARED, its support before
    the step is compared with the new one. The point itself is written to U in the LAST step, and in the step that
    reaches the goal. What describes A is explained in ``project_row``.
    """
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    goal = tl.load(GOAL + row)
    if tl.load(CRITERION + row) <= goal:
        return
    inside = j < n
    x = tl.load(X + row * n + j, mask=inside, other=0)
    w = tl.load(W + row * n + j, mask=inside, other=0).to(x.dtype)
    place = POINT + row * (3 * n if SPLIT else n) + (j // PART * (3 * PART) + j % PART if SPLIT else j)
    if COMPARED:
        before = tl.load(place, mask=inside, other=0)
    v = x - 2 * w
    u = project_row(
        v, row, j, inside, s, goal, LEVEL, LOW, HIGH, UNITS, MEMBERS, SCRATCH, CHOSEN, LEVELS, COUNTS,
        n, BOUNDED, SIZE, COUNT, UNIT_BLOCK, DEPTH, True,
    )  # fmt: skip
    change = relaxation * (u - x + w)
    tl.store(X + row * n + j, x + change, mask=inside)
    store_operand(place, u, inside, PART, SPLIT)
    square = tl.sum(change * change, 0)
    for part in range(n // PART):
        distance = tl.load(DISTANCE + row * (n // PART) + part)
        square += distance * distance
    criterion = tl.sqrt(square)
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
        tl.store(AVERAGES + row, tl.load(AVERAGES + row) + 1)


@triton.jit(do_not_specialize=["s"])
def difference_row(
    X, WZ, POINTS, SPARSE, LEVELS, CRITERION, s, beta, batch,
    n: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Take one step of the map at any beta in place.

    WZ holds w of all rows, then z of all rows; POINTS holds P_A(f_B(x)), then P_A(x). Only the support of P_A(x) is
    read, since its values are those of x. It is written to SPARSE in the LAST step.
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


def structure_arguments(structure: Structure, x: Array, scale: float = 1.0) -> tuple[tuple[Array, ...], dict[str, Any]]:
    """Return the arrays, except the numbers of units kept, and the flags that describe A to the kernels.

    ``scale`` divides the units of the bounds.
    """
    import torch

    layout, arrays = structure.layout, [x] * 7
    flags = {"BOUNDED": structure.bounded, "SIZE": 0, "COUNT": 1, "UNIT_BLOCK": 1, "DEPTH": len(structure.counts)}
    if structure.low is not None and structure.high is not None:
        arrays[:2] = (
            torch.as_tensor(bound / scale, dtype=x.dtype, device=x.device) for bound in (structure.low, structure.high)
        )
    if structure.grouped:
        batch, count = x.shape[0], layout.count
        arrays[2:4] = (layout.like(name, x).to(torch.int32) for name in ("units", "members"))
        arrays[4:6] = torch.empty_like(x), torch.empty((batch, count), dtype=torch.int8, device=x.device)
        flags |= {"SIZE": layout.members.shape[1], "COUNT": count, "UNIT_BLOCK": triton.next_power_of_2(count)}
    if layout.levels is not None:
        arrays[6] = layout.like("levels", x).to(torch.int32)
    return tuple(arrays), flags


def counts_kept(structure: Structure, x: Array) -> Array:
    """Return the number of units kept in each level, on the device of x."""
    import torch

    return torch.as_tensor(structure.counts, dtype=torch.int32, device=x.device)


def project(v: Array, structure: Structure) -> Array:
    """Return the nearest point of A to every row of v; some units are kept, but not all."""
    import torch

    rows = v.contiguous().reshape(-1, v.shape[-1])
    found = torch.empty_like(rows)
    arrays, flags = structure_arguments(structure, rows)
    launch(_project, rows, found, structure.counts[0], *arrays, counts_kept(structure, rows), **flags)
    return found.reshape(v.shape)


def advance(
    x: Array, w: Array, before: Array, structure: Structure, relaxation: float
) -> tuple[Array, Array, Array, Array]:
    """Take the step of ``plain.py`` on (batch, n) arrays on a GPU; some units are kept, but not all."""
    moved, u = x.contiguous().clone(), before.contiguous().clone()
    distance, change, goal, taken, unchanged, power = x.new_zeros((6, x.shape[0])).unbind()
    level = x.new_zeros((x.shape[0], len(structure.counts)))
    goal -= 1
    arrays, flags = structure_arguments(structure, moved)
    rest = (level, distance, change, goal, taken, unchanged, moved, power, power, structure.counts[0], relaxation)
    flags |= {"PART": x.shape[1], "SPLIT": False, "COMPARED": True, "AVERAGED": False, "LAST": False}
    launch(advance_row, moved, w.contiguous(), u, u, *rest, *arrays, counts_kept(structure, x), **flags)
    return u, moved, change, unchanged == 0
