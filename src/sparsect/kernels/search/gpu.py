"""Several steps of the Difference Map on a batch: two kernels and two products for each, without waiting for the GPU.

Errors of a correction are repaired by the next one, so a few digits are enough. Errors of an image remain, because the
distance of x from the data is computed from it. The precisions of ``gpu_products.py`` are chosen accordingly.
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
from ..thresholding import Structure
from ..thresholding.gpu import advance_row, counts_kept, difference_row, structure_arguments


@triton.jit
def _correct(
    IMAGE, TARGET, VALUES, GAINS, COORDINATES, DISTANCE, relaxation,
    n: tl.constexpr, BLOCK: tl.constexpr, MEASURED: tl.constexpr,
):  # fmt: skip
    """Compute the coordinates of the correction of x, their norm if MEASURED, and their part of the next IMAGE."""
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
    """Compute the coordinates of the corrections w of x and z of f_A(x).

    They follow from the images of P_A(f_B(x)) and of P_A(x) after this step and, of the latter, BEFORE it.
    """
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
    kept: Sequence[Structure],
    averaged: Sequence[bool],
    relaxation: float,
    goal: Array,
    precision: str,
    measured: bool,
    x: Array,
    image: Array,
    sparse: Array,
    criterion: Array,
    taken: Array,
    unchanged: Array,
    total: Array | None = None,
    power: Array | None = None,
    count: Array | None = None,
) -> dict[str, Array]:
    """Take one step for each of ``alphas``, as ``kernels.search.cpu.search`` does, and return the new state by name.

    A row whose criterion reaches its ``goal`` takes no further steps, and its image is not valid afterwards; ``taken``
    counts the steps of each row. ``precision`` is the precision of products. If ``measured``, the criterion includes
    the norm of w, and ``unchanged`` is updated. With several measurements at a time, a row has several parts, to each
    of which the basis applies.
    """
    import torch

    products = Basis(basis, precision)
    scale, (part, rank) = products.scale(x), basis[0].shape
    batch, parts = x.shape[0], x.shape[1] // part
    x, u = x / scale, sparse / scale
    target, image = (products.padded(rows.reshape(-1, rank) / scale) for rows in (target, image))
    criterion, goal, taken, unchanged = criterion / scale, goal / scale, taken.clone(), unchanged.clone()
    point = products.operands(batch * parts, part)
    point[:, :part] = u.reshape(-1, part)
    coordinates, w = torch.empty_like(image, dtype=products.coordinate), torch.empty_like(x, dtype=products.coordinate)
    level, distances = (criterion.new_zeros(batch * each) for each in (len(kept[0].counts), parts))
    arrays, structure = structure_arguments(kept[0], x, scale)
    levels = {each.counts: counts_kept(each, x) for each in kept}
    sums = {"total": x, "power": criterion, "count": criterion}
    if total is not None and power is not None and count is not None:
        sums = {"total": total / scale, "power": power / scale**2, "count": count.clone()}
    with tensor_cores(precision != "float32"):
        for step, alpha in enumerate(alphas):
            around = (target, products.values, products.gains(alpha), coordinates, distances)
            launch(_correct, image, *around, relaxation, MEASURED=measured)
            products.correct(coordinates, w.view(-1, part))
            rows = (level, distances, criterion, goal, taken, unchanged, *sums.values())
            flags: dict[str, Any] = {"COMPARED": measured, "AVERAGED": averaged[step], "LAST": step == len(alphas) - 1}
            numbers = (kept[step].counts[0], relaxation)
            flags |= {"PART": part, "SPLIT": products.split} | structure
            launch(advance_row, x, w, point, u, *rows, *numbers, *arrays, levels[kept[step].counts], **flags)
            products.image(point, image, relaxation, add=True)
    image = image[:, : products.rank].reshape(batch, parts * products.rank)
    after = {"x": x, "image": image.contiguous(), "sparse": u, "criterion": criterion}
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
    """Take ``count`` steps of the map at any beta, and return the new state by name."""
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
    for rows, part in ((slice(0, batch), image), (slice(batch, None), reflected)):
        coordinates[rows] = (products.values * part - target) * gains
    wz, points = x.new_empty((2 * batch, n), dtype=products.coordinate), products.operands(2 * batch, n)
    points[batch:, :n] = sparse
    levels, criterion = x.new_zeros(2 * batch), x.new_zeros(batch)
    with tensor_cores(precision != "float32"):
        for step in range(count):
            flags = {"LAST": step == count - 1}
            products.correct(coordinates, wz)
            rest: tuple[Any, ...] = (points, sparse, levels, criterion, sparsity, beta, batch)
            launch(difference_row, x, wz, *rest, SPLIT=products.split, **flags)
            products.image(points, images)
            rest = (coordinates, target, products.values, gains, image, beta, batch)
            launch(_reflect, images[:batch], before, *rest, **flags)
            images, before = before, images
    after = {"x": x, "sparse": sparse, "criterion": criterion}
    after |= {"image": image[:, : products.rank].contiguous()}
    after |= {"sparse_image": before[batch:, : products.rank].contiguous()}
    return {name: rescaled(value, scale) for name, value in after.items()}
