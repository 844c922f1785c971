"""Many steps of the Difference Map on a batch: two kernels and two products each, and no look at the host.

A correction is needed to few digits, since the next one mends what it leaves; an image says how far x is from agreeing
with the data, and what it gets wrong stays wrong. Hence the precisions of ``products.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from ...backend.arrays import Array
from ...backend.devices import tensor_cores
from ..gpu_products import Basis, rescaled
from ..gpu_rows import launch
from ..thresholding.gpu import advance_row, difference_row


@triton.jit
def _correct(
    IMAGE, TARGET, VALUES, GAINS, COORDINATES, DISTANCE, relaxation,
    n: tl.constexpr, BLOCK: tl.constexpr, MEASURED: tl.constexpr,
):  # fmt: skip
    """Coordinates of the correction of x, and their norm if MEASURED; IMAGE becomes what the next one has of them."""
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    image = tl.load(IMAGE + row * n + j, mask=inside, other=0)
    target = tl.load(TARGET + row * n + j, mask=inside, other=0)
    values, gains = tl.load(VALUES + j, mask=inside, other=0), tl.load(GAINS + j, mask=inside, other=0)
    coordinates = (values * image - target) * gains
    tl.store(COORDINATES + row * n + j, coordinates, mask=inside)
    tl.store(IMAGE + row * n + j, (1 - relaxation) * image + relaxation * coordinates, mask=inside)
    if MEASURED:
        tl.store(DISTANCE + row, tl.sqrt(tl.sum(coordinates * coordinates, 0)))


@triton.jit
def _reflect(
    IMAGES, BEFORE, COORDINATES, TARGET, VALUES, GAINS, IMAGE, beta, batch,
    n: tl.constexpr, BLOCK: tl.constexpr, LAST: tl.constexpr,
):  # fmt: skip
    """Coordinates of the corrections w of x and z of f_A(x), from the images of P_A(f_B) and P_A(x), now and BEFORE."""
    row, j = tl.program_id(0).to(tl.int64), tl.arange(0, BLOCK)
    inside = j < n
    below = batch + row
    point = tl.load(IMAGES + row * n + j, mask=inside, other=0)
    sparse = tl.load(IMAGES + below * n + j, mask=inside, other=0)
    before = tl.load(BEFORE + below * n + j, mask=inside, other=0)
    z = tl.load(COORDINATES + below * n + j, mask=inside, other=0).to(point.dtype)
    target = tl.load(TARGET + row * n + j, mask=inside, other=0)
    values, gains = tl.load(VALUES + j, mask=inside, other=0), tl.load(GAINS + j, mask=inside, other=0)
    image = beta * (point + z) - (beta - 1) * before
    tl.store(COORDINATES + row * n + j, (values * image - target) * gains, mask=inside)
    reflected = (1 - 1 / beta) * sparse + image / beta
    tl.store(COORDINATES + below * n + j, (values * reflected - target) * gains, mask=inside)
    if LAST:
        tl.store(IMAGE + row * n + j, image, mask=inside)


def search(
    basis: tuple[Array, Array, Array],
    target: Array,
    alphas: Sequence[float],
    kept: Sequence[int],
    averaged: Sequence[bool],
    relaxation: float,
    goal: Array,
    precision: str,
    measured: bool,
    x: Array,
    image: Array,
    sparse: Array,
    gap: Array,
    taken: Array,
    unchanged: Array,
    total: Array | None = None,
    power: Array | None = None,
    count: Array | None = None,
) -> dict[str, Array]:
    """``kernels.search.search`` on a GPU: as many steps as there are ``alphas``, and what the state then is, by name.

    A row whose gap comes down to its ``goal`` takes no more of them, as its own ``taken`` says; its image is then of no
    use. ``precision`` is that of products; if ``measured``, the gap takes in the norm of w, and ``unchanged`` counts.
    """
    import torch

    products = Basis(basis, precision)
    scale = products.scale(x)
    x, u, target, image = x / scale, sparse / scale, products.padded(target / scale), products.padded(image / scale)
    gap, goal, taken, unchanged = gap / scale, goal / scale, taken.clone(), unchanged.clone()
    point = products.operands(*x.shape)
    point[:, : x.shape[1]] = u
    coordinates, w = torch.empty_like(image, dtype=products.coordinate), torch.empty_like(x, dtype=products.coordinate)
    level, distance = torch.zeros_like(gap), torch.zeros_like(gap)
    sums = {"total": x, "power": gap, "count": gap}
    if total is not None and power is not None and count is not None:
        sums = {"total": total / scale, "power": power / scale**2, "count": count.clone()}
    with tensor_cores(precision != "float32"):
        for step, alpha in enumerate(alphas):
            around = (target, products.values, products.gains(alpha), coordinates, distance)
            launch(_correct, image, *around, relaxation, MEASURED=measured)
            products.correct(coordinates, w)
            rows = (level, distance, gap, goal, taken, unchanged, *sums.values())
            flags = {"COMPARED": measured, "AVERAGED": averaged[step], "LAST": step == len(alphas) - 1}
            launch(advance_row, x, w, point, u, *rows, kept[step], relaxation, SPLIT=products.split, **flags)
            products.image(point, image, relaxation, add=True)
    after = {"x": x, "image": image[:, : products.rank].contiguous(), "sparse": u, "gap": gap}
    after = {name: rescaled(value, scale) for name, value in after.items()}
    if total is not None:
        after |= {"total": rescaled(sums["total"], scale), "power": rescaled(sums["power"], scale**2)}
        after |= {"count": sums["count"]}
    return after | {"taken": taken, "unchanged": unchanged}


def differ(
    basis: tuple[Array, Array, Array],
    target: Array,
    alpha: float,
    sparsity: int,
    beta: float,
    count: int,
    precision: str,
    x: Array,
    image: Array,
    sparse: Array,
    sparse_image: Array,
) -> dict[str, Array]:
    """``count`` steps of the map at any beta, and what the state then is, by name."""
    import torch

    products = Basis(basis, precision)
    (batch, n), scale, gains = x.shape, products.scale(x), products.gains(alpha)
    x, sparse, target, image = (
        x / scale,
        sparse / scale,
        products.padded(target / scale),
        products.padded(image / scale),
    )
    images, before = (image.new_empty((2 * batch, image.shape[1])) for _ in range(2))
    before[batch:] = products.padded(sparse_image / scale)
    coordinates = torch.empty_like(images, dtype=products.coordinate)
    reflected = (1 - 1 / beta) * before[batch:] + image / beta
    for rows, seen in ((slice(0, batch), image), (slice(batch, None), reflected)):
        coordinates[rows] = (products.values * seen - target) * gains
    wz, points = x.new_empty((2 * batch, n), dtype=products.coordinate), products.operands(2 * batch, n)
    points[batch:, :n] = sparse
    levels, gap = x.new_zeros(2 * batch), x.new_zeros(batch)
    with tensor_cores(precision != "float32"):
        for step in range(count):
            flags = {"LAST": step == count - 1}
            products.correct(coordinates, wz)
            rest: tuple[Any, ...] = (points, sparse, levels, gap, sparsity, beta, batch)
            launch(difference_row, x, wz, *rest, SPLIT=products.split, **flags)
            products.image(points, images)
            rest = (coordinates, target, products.values, gains, image, beta, batch)
            launch(_reflect, images[:batch], before, *rest, **flags)
            images, before = before, images
    seen = {"image": image[:, : products.rank], "sparse_image": before[batch:, : products.rank]}
    after = {"x": x, "sparse": sparse, "gap": gap} | {name: value.contiguous() for name, value in seen.items()}
    return {name: rescaled(value, scale) for name, value in after.items()}
