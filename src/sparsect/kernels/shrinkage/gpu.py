"""Several steps of ADMM on a batch: two products and one kernel for each step."""

from __future__ import annotations

import triton
import triton.language as tl

from ...backend.arrays import Array
from ...backend.devices import tensor_cores
from ..gpu_products import Basis, rescaled, store_operand
from ..gpu_rows import launch


@triton.jit
def _shrunk(m, threshold, p, HALF: tl.constexpr):
    magnitude = tl.abs(m)
    ratio = threshold / tl.where(magnitude > 0, magnitude, 1)
    factor = 1 - (ratio * tl.sqrt(ratio) if HALF else tl.exp2((2 - p) * tl.log2(ratio)))
    return tl.where((factor > 0) & (magnitude > 0), m * factor, 0)


@triton.jit
def _shrink(
    Z, POINT, W, START, CODES, NEXT, CRITERION, threshold, p,
    n: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr, HALF: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Update z and the point in place, with w = W - START; the LAST step also writes CODES, NEXT and the criterion."""
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    z = tl.load(Z + row * n + j, mask=inside, other=0).to(tl.float32)
    w = tl.load(W + row * n + j, mask=inside, other=0).to(tl.float32)
    w -= tl.load(START + row * n + j, mask=inside, other=0).to(tl.float32)
    place = POINT + row * (3 * n if SPLIT else n) + j
    moved = z - w
    after = _shrunk(moved, threshold, p, HALF)
    if LAST:
        point = tl.load(place, mask=inside, other=0).to(tl.float32)
        if SPLIT:
            point += tl.load(place + n, mask=inside, other=0).to(tl.float32)
        apart, change = point - w - after, after - z
        tl.store(CRITERION + row, tl.sqrt(tl.sum(apart * apart + change * change, 0)))
        tl.store(NEXT + row * n + j, 2 * after - moved, mask=inside)
        tl.store(CODES + row * n + j, after, mask=inside)
    tl.store(Z + row * n + j, after, mask=inside)
    store_operand(place, 2 * after - moved, inside, n, SPLIT)


@triton.jit
def _operand(POINT, OPERAND, n: tl.constexpr, BLOCK: tl.constexpr, SPLIT: tl.constexpr):
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    point = tl.load(POINT + row * n + j, mask=inside, other=0)
    store_operand(OPERAND + row * (3 * n if SPLIT else n) + j, point, inside, n, SPLIT)


def shrink(
    basis: tuple[Array, Array, Array],
    target: Array,
    mu: float,
    lam: float,
    p: float,
    count: int,
    precision: str,
    z: Array,
    point: Array,
) -> dict[str, Array]:
    """Take ``count`` steps of ADMM, and return the new state by name."""
    import torch

    analysis, synthesis, values = basis
    gains = values / (values * values + mu)
    # Images are needed for corrections only, so the matrix includes the gains and the singular values.
    products = Basis((analysis * (values * gains), synthesis, values), precision)
    scale = products.scale(z, point)
    coordinates = products.padded(target * (gains / scale)).to(products.coordinate)
    operand = products.operands(*z.shape)
    launch(_operand, rescaled(point, 1 / scale), operand, SPLIT=products.split)
    codes, after, criterion = torch.empty_like(z), torch.empty_like(z), z.new_empty(z.shape[0])
    z = (z / scale).to(products.coordinate)
    start, w = torch.empty_like(z), torch.empty_like(z)
    with tensor_cores(precision != "float32"):
        products.correct(coordinates, start)
        for step in range(count):
            products.image(operand, coordinates)
            products.correct(coordinates, w)
            flags = {"SPLIT": products.split, "HALF": p == 0.5, "LAST": step == count - 1}
            launch(_shrink, z, operand, w, start, codes, after, criterion, lam / mu / scale, p, **flags)
    return {name: rescaled(value, scale) for name, value in (("z", codes), ("point", after), ("criterion", criterion))}
