"""Filters for groups of similar patches of an image: every patch is filtered with its nearest neighbours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import array_api_compat as compat
import numpy as np

from ...backend.arrays import Array, NumpyArray, from_numpy, to_numpy

# Rows of reference patches that one call filters on a CPU, with sums of their own.
STRIP = 8


@dataclass(frozen=True)
class Groups:
    """Which patches of an image make up its groups.

    Parameters
    ----------
    side : int
        Side of a patch in pixels.
    count : int
        Number of patches in a group: the reference patch and those nearest to it.
    stride : int, optional
        Distance between adjacent reference patches in pixels, at most ``side``.
    reach : int, optional
        Largest distance of a patch of a group from its reference patch, in both directions, in pixels.
    shift : int, optional
        Distance of the second reference patch from the border if that is less than ``stride``, in pixels; 0 for none.
    """

    side: int
    count: int
    stride: int = 3
    reach: int = 19
    shift: int = 0

    def strips(self, shape: tuple[int, ...], where: Array | None = None, size: int = STRIP) -> list[Array]:
        """Return the corners of the reference patches, strip by strip.

        Parameters
        ----------
        shape : tuple of int
            Height and width of the image, at least ``side`` each.
        where : array of bool, shape (height, width), optional
            Only patches that contain a marked pixel are references.
        size : int, optional
            Rows of reference patches in a strip.

        Returns
        -------
        list of arrays of int, each of shape (references, 2)
            First row and first column of each reference patch.
        """
        down, across = (starts(length, self.side, self.stride, self.shift) for length in shape)
        chosen = np.ones((down.size, across.size), dtype=bool)
        if where is not None:
            # Marked pixels in a window, from sums over all pixels above and to the left.
            sums = np.pad(np.cumsum(np.cumsum(where, axis=0), axis=1), ((1, 0), (1, 0)))
            below, right = down + self.side, across + self.side
            chosen = (
                sums[np.ix_(below, right)] - sums[np.ix_(below, across)]
                - sums[np.ix_(down, right)] + sums[np.ix_(down, across)]
            ) > 0  # fmt: skip
        strips: list[Array] = []
        for first in range(0, down.size, size):
            rows, columns = np.nonzero(chosen[first : first + size])
            if rows.size:
                strips.append(np.stack([down[first + rows], across[columns]], axis=1))
        return strips

    def are_full(self, shape: tuple[int, ...]) -> bool:
        """Return whether every group has ``count`` patches; in a very small image there are not as many.

        Parameters
        ----------
        shape : tuple of int
            Height and width of the image.

        Returns
        -------
        bool
            True if there are enough patches within reach of each of them.
        """
        down, across = (min(self.reach, length - self.side) + 1 for length in shape)
        return down * across >= self.count


def threshold(image: Array, limit: float, groups: Groups, report: Callable[[int], object]) -> Array:
    """Denoise an image by hard thresholding of groups of similar patches.

    The patches of a group are transformed together, by cosines in both directions of a patch and by the Haar transform
    across the group, and coefficients below ``limit`` are set to zero. Where filtered patches overlap, they are
    averaged with weights inversely proportional to the number of coefficients kept.

    Parameters
    ----------
    image : array, shape (channels, height, width)
        The noisy image, float32, an array of NumPy or torch. Patches are compared in the first channel.
    limit : float
        The threshold; a multiple of the standard deviation of the noise.
    groups : Groups
        The groups; of ``count`` patches, a power of two is used.
    report : callable
        Called with the number of reference patches of each strip that is finished.

    Returns
    -------
    array, shape (channels, height, width)
        The denoised image.
    """
    if _in_torch(image, groups):
        from . import gpu

        return gpu.threshold(image, limit, _cosines(groups.side), groups, report)
    from . import cpu

    settings = (np.float32(limit), _cosines(groups.side), groups.reach, groups.count)
    return from_numpy(_averaged(cpu.threshold, to_numpy(image), settings, groups, report), image)


def wiener(
    image: Array,
    pilot: Array,
    noise: float,
    trust: float,
    groups: Groups,
    report: Callable[[int], object],
    where: Array | None = None,
) -> Array:
    """Denoise an image by Wiener filtering of groups of similar patches, given a first estimate.

    The patches of a group are taken to be samples of one Gaussian, whose covariance C is that of the pilot's patches:
    ``x = mean + C (C + noise I)^-1 (y - mean)``. Overlapping patches are averaged.

    Parameters
    ----------
    image : array, shape (channels, height, width)
        The noisy image, float32, an array of NumPy or torch.
    pilot : array, shape (channels, height, width)
        The first estimate. Patches are compared in its first channel.
    noise : float
        Variance of the noise.
    trust : float
        Weight of the pilot in the mean of a group, from 0 to 1; the rest is the weight of the noisy patches.
    groups : Groups
        The groups.
    report : callable
        Called with the number of reference patches of each strip that is finished.
    where : array of bool, shape (height, width), optional
        Only patches with a marked pixel are references.

    Returns
    -------
    array, shape (channels, height, width)
        The denoised image; ``pilot`` where no patch of a group lies.
    """
    # In single precision, a smaller variance is zero, and a group of equal patches then has no inverse.
    noise = max(noise, float(np.finfo(np.float32).tiny))
    if _in_torch(image, groups):
        from . import gpu

        return gpu.wiener(image, pilot, noise, trust, groups, report, where)
    from . import cpu

    guide = to_numpy(pilot)
    settings = (guide, np.float32(noise), np.float32(trust), groups.side, groups.reach, groups.count)
    return from_numpy(_averaged(cpu.wiener, to_numpy(image), settings, groups, report, where, guide), image)


def _in_torch(image: Array, groups: Groups) -> bool:
    """Whether an image is a torch tensor whose groups are all of one size; the few patches of others are moved."""
    return compat.is_torch_array(image) and groups.are_full(image.shape[1:])


def _averaged(
    kernel: Callable[..., None],
    image: NumpyArray,
    settings: tuple[Any, ...],
    groups: Groups,
    report: Callable[[int], object],
    where: Array | None = None,
    elsewhere: NumpyArray | None = None,
) -> NumpyArray:
    """Run a kernel strip by strip on all cores and average the patches, in an order that is always the same."""
    from ...backend.parallel import side_by_side

    channels, height, width = image.shape
    strips = groups.strips((height, width), where)

    def bounds(strip: Array) -> tuple[int, int]:
        above = max(int(strip[0, 0]) - groups.reach, 0)
        return above, min(int(strip[-1, 0]) + groups.reach + groups.side, height)

    def filtered(number: int) -> tuple[Array, Array]:
        above, below = bounds(strips[number])
        total = np.zeros((channels, below - above, width), dtype=np.float32)
        weight = np.zeros((below - above, width), dtype=np.float32)
        kernel(strips[number], image, *settings, above, total, weight)
        return total, weight

    total, weight = np.zeros_like(image), np.zeros_like(image[0])
    if strips:
        for strip, (part, share) in zip(strips, side_by_side(filtered, len(strips)), strict=True):
            above, below = bounds(strip)
            total[:, above:below] += part
            weight[above:below] += share
            report(len(strip))
    covered = weight > 0
    total /= np.where(covered, weight, np.float32(1))
    return total if elsewhere is None else np.where(covered, total, elsewhere)


def starts(length: int, side: int, stride: int, shift: int = 0) -> Array:
    """Return where patches start that cover a row or column of pixels; the last one is moved inwards.

    Parameters
    ----------
    length : int
        Number of pixels, at least ``side``.
    side : int
        Side of a patch in pixels.
    stride : int
        Distance between the starts of adjacent patches.
    shift : int, optional
        Distance of the second patch from the first if that is less than ``stride``; 0 for none.

    Returns
    -------
    array of int
        The first pixel of each patch.
    """
    return np.unique(np.concatenate([[0], np.arange(shift, length - side + 1, stride), [length - side]]))


def _cosines(side: int) -> Array:
    """Return the orthonormal cosine transform (DCT-II) as a matrix."""
    frequencies, places = np.arange(side)[:, None], np.arange(side)[None, :] + 0.5
    basis = np.cos(np.pi * frequencies * places / side) * np.sqrt(2 / side)
    basis[0] /= np.sqrt(2)
    return basis.astype(np.float32)
