"""The filters of groups of similar patches in torch, for thousands of reference patches at a time.

Overlapping patches are summed in double precision: a GPU adds them in any order, and differences between orders vanish
when the averages are rounded to single precision.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from ...backend.devices import tensor_cores
from .cpu import RIDGE

# Reference patches that are filtered at a time, which take about a gigabyte.
REFERENCES = 2**14


def threshold(image: Any, limit: float, cosines: Any, groups: Any, report: Any) -> Any:
    """Keep the coefficients of each group that exceed ``limit``, and average the patches."""
    cosines = torch.as_tensor(cosines, device=image.device)
    cosines = torch.kron(cosines, cosines)
    haar = _haar(2 ** int(math.log2(groups.count)), image)

    def filtered(corners):
        tops, lefts = (part[:, : haar.shape[0]] for part in _match(image[0], corners, groups))
        coefficients = haar @ _cut(image, tops, lefts, groups.side) @ cosines.T
        kept = coefficients.abs() >= limit
        kept[:, :, 0, 0] = True
        patches = haar.T @ torch.where(kept, coefficients, 0) @ cosines
        # The variance of the estimate is proportional to the number of coefficients kept.
        return tops, lefts, patches, 1 / kept.sum((0, 2, 3)).to(image.dtype)

    return _averaged(filtered, image, groups, report)


def wiener(image: Any, pilot: Any, noise: float, trust: float, groups: Any, report: Any, where: Any = None) -> Any:
    """Filter each group with the mean and covariance of the same group of ``pilot``, and average the patches."""

    def filtered(corners):
        tops, lefts = _match(pilot[0], corners, groups)
        # One channel at a time, to save memory.
        pairs = zip(image, pilot, strict=True)
        patches = torch.stack([_filtered(*pair, tops, lefts, noise, trust, groups.side) for pair in pairs])
        return tops, lefts, patches, torch.ones_like(tops[:, 0], dtype=image.dtype)

    return _averaged(filtered, image, groups, report, where, pilot)


def _filtered(plane, pilot, tops, lefts, noise, trust, side):
    """Return the filtered patches Y P' (P P' + noise I)^-1 P, where Y and P are groups without their means."""
    group, guess = (_cut(each[None], tops, lefts, side)[0] for each in (plane, pilot))
    middle = guess.mean(1, keepdim=True)
    mean = torch.lerp(group.mean(1, keepdim=True), middle, trust)
    group, guess = group - mean, guess - middle
    gram = guess @ guess.mT
    diagonal = gram.diagonal(dim1=1, dim2=2)
    diagonal += noise * gram.shape[1] + RIDGE * diagonal.sum(1, keepdim=True)
    factor = torch.linalg.cholesky_ex(gram).L
    return torch.cholesky_solve(guess @ group.mT, factor).mT @ guess + mean


def _averaged(filtered, image, groups, report, where=None, elsewhere=None):
    """Filter groups, as many as memory allows at a time, and average the patches."""
    height, width = image.shape[1:]
    # The last plane has the sums of the weights.
    total = torch.zeros((image.shape[0] + 1, height * width), dtype=torch.float64, device=image.device)
    rows = max(1, REFERENCES * groups.stride // width)
    with tensor_cores(False):
        for corners in groups.strips((height, width), where, rows):
            tops, lefts, patches, weight = filtered(torch.as_tensor(corners, device=image.device))
            patches = torch.cat([patches, torch.ones_like(patches[:1])]) * weight[:, None, None]
            pixels = torch.arange(groups.side, device=image.device)
            places = (tops * width + lefts)[..., None, None] + pixels[:, None] * width + pixels
            total.index_add_(1, places.flatten(), patches.flatten(1).double())
            report(len(corners))
    total = total.reshape(-1, height, width)
    covered = total[-1] > 0
    averages = (total[:-1] / torch.where(covered, total[-1], 1)).to(image.dtype)
    return averages if elsewhere is None else torch.where(covered, averages, elsewhere)


def _match(guide, corners, groups):
    """Find the patches of ``guide`` nearest to each reference patch, nearest first; return their corners."""
    (tops, row), (lefts, column) = (torch.unique(corners[:, axis], return_inverse=True) for axis in (0, 1))
    pixels, across = torch.arange(groups.side, device=guide.device), 2 * groups.reach + 1
    first, last = int(tops[0]), int(tops[-1]) + groups.side
    # Beyond the image, everything is infinitely far away.
    around = torch.nn.functional.pad(guide, [groups.reach] * 4, value=math.inf)
    distances = guide.new_empty((len(corners), across, across))
    for down in range(across):
        # Squared differences of all pixels from those a given number of rows below, and any number of columns beside.
        shifted = around[first + down : last + down].unfold(1, guide.shape[1], 1)
        squares = (shifted - guide[first:last, None]) ** 2
        sums = squares[(tops - first)[:, None] + pixels].sum(1)[..., lefts[:, None] + pixels].sum(-1)
        distances[:, down] = sums[row, :, column]
    distances[:, groups.reach, groups.reach] = -1  # the reference patch comes first
    nearest = distances.flatten(1).topk(groups.count, largest=False).indices
    steps = torch.stack([nearest // across, nearest % across]) - groups.reach
    return corners[:, :1] + steps[0], corners[:, 1:] + steps[1]


def _cut(image, tops, lefts, side):
    """Return patches of every channel, of shape (channels, references, count, side * side)."""
    return image.unfold(1, side, 1).unfold(2, side, 1)[:, tops, lefts].flatten(-2)


def _haar(count, like):
    """Return the orthonormal Haar transform as a matrix; its first row is constant."""
    if count == 1:
        return like.new_ones((1, 1))
    sums = torch.kron(_haar(count // 2, like), like.new_ones((1, 2)))
    differences = torch.kron(torch.eye(count // 2, device=like.device), like.new_tensor([[1.0, -1.0]]))
    return torch.cat([sums, differences]) * math.sqrt(0.5)
