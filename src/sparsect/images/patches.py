"""Image to patches and back: places that cover every pixel, blocks of bounded size, averages where patches overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import array_api_compat as compat
import numpy as np

from ..backend.arrays import Array, from_numpy, is_numpy, namespace
from ..backend.checks import reject, whole_number

# Patches that are coded together: enough for matrix products, few enough for memory.
BLOCK = 2000


class PatchGrid:
    """Places of square patches in an image whose ``shape`` starts with height and width.

    Patches start every ``stride`` pixels; the last row and column of patches are moved inwards, so that the border is
    covered without cropping or padding.
    """

    def __init__(self, shape: tuple[int, ...], patch: int, stride: int | None = None) -> None:
        height, width = shape[:2]
        self.shape, self.patch = (height, width), patch
        self.stride = whole_number("stride", patch if stride is None else stride, 1, patch)
        if min(height, width) < patch:
            raise reject("image", f"{width}x{height} pixels", f"at least {patch}x{patch}, the size of a patch")
        down, across = _starts(height, patch, self.stride), _starts(width, patch, self.stride)
        self._tops, self._lefts = np.repeat(down, across.size), np.tile(across, down.size)

    @property
    def count(self) -> int:
        """Number of patches."""
        return int(self._tops.size)

    def blocks(self, among: Array | None = None, size: int = BLOCK) -> Iterator[Array]:
        """Numbers of all patches, or of those ``among`` them, ``size`` at a time."""
        numbers = np.arange(self.count) if among is None else among
        for start in range(0, numbers.size, size):
            yield numbers[start : start + size]

    def touching(self, pixels: Array) -> Array:
        """Numbers of the patches with a true pixel of a (height, width) array of booleans."""
        touched = [self.patches(pixels, block).any(axis=1) for block in self.blocks()]
        return np.flatnonzero(np.concatenate(touched))

    def patches(self, plane: Array, block: Array) -> Array:
        """(rows, patch^2), the patches of a block, copied out of a (height, width) array of any library."""
        return cut(plane, from_numpy(self._tops[block], plane), from_numpy(self._lefts[block], plane), self.patch)

    def add(self, total: Array, patches: Array, block: Array) -> None:
        """Add the patches of a block to a (height, width) array at their places."""
        width = self.shape[1]
        pixels, corners = total.reshape(-1), from_numpy(self._tops[block] * width + self._lefts[block], total)
        for pixel in range(self.patch**2):
            # Patches of a grid have different corners, so no place comes twice for one pixel of the patch.
            down, across = divmod(pixel, self.patch)
            pixels[corners + (down * width + across)] += patches[:, pixel]

    @cached_property
    def cover(self) -> Array:
        """(height, width), in how many patches each pixel is."""
        down, across = (
            np.bincount((np.unique(starts)[:, None] + np.arange(self.patch)).ravel(), minlength=size)
            for starts, size in zip((self._tops, self._lefts), self.shape, strict=True)
        )
        return np.outer(down, across).astype(np.float32)


def patch_count(shape: tuple[int, ...], patch: int, stride: int) -> int:
    """Number of patches of a :class:`PatchGrid`, without making one."""
    return math.prod(max(0, -(-(length - patch) // stride) + 1) for length in shape[:2])


def planes(image: Array) -> list[Array]:
    """The (height, width) planes of an image: itself if grey, one for each channel if not."""
    return [image] if image.ndim == 2 else [image[..., channel] for channel in range(image.shape[2])]


def like_image(planes: list[Array], image: Array) -> Array:
    """Planes put together again in the shape of ``image``."""
    return planes[0] if image.ndim == 2 else namespace(planes[0]).stack(planes, axis=-1)


def _starts(length: int, patch: int, stride: int) -> Array:
    starts = np.arange(0, length - patch + 1, stride)
    return starts if starts[-1] == length - patch else np.append(starts, length - patch)


def cut(plane: Array, top: Array, left: Array, side: int) -> Array:
    """(places, side^2), square patches of a (height, width) array by their first rows and columns."""
    xp, (height, width) = namespace(plane), plane.shape
    if is_numpy(xp):
        return np.lib.stride_tricks.sliding_window_view(plane, (side, side))[top, left].reshape(-1, side * side)
    if compat.is_torch_array(plane):
        return plane.unfold(0, side, 1).unfold(1, side, 1)[top, left].reshape(-1, side * side)
    steps = from_numpy(np.arange(side), plane)
    corner = top * width + left
    places = corner[:, None, None] + (steps * width)[None, :, None] + steps[None, None, :]
    pixels = xp.reshape(plane, (height * width,))
    return xp.reshape(xp.take(pixels, xp.reshape(places, (-1,)), axis=0), (corner.shape[0], side * side))
