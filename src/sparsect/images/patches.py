"""Cutting an image into patches and assembling it again, with averages where patches overlap."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property

import array_api_compat as compat
import numpy as np

from ..backend.arrays import Array, from_numpy, is_numpy, namespace
from ..backend.checks import reject, whole_number
from ..kernels.groups import starts

# Patches coded together: enough for efficient matrix products, few enough to fit in memory.
BLOCK = 2000


class PatchGrid:
    """Positions of the square patches that cover an image.

    Patches start every ``stride`` pixels. The last row and the last column of patches are moved inwards, so that the
    border is covered without cropping or padding.

    Parameters
    ----------
    shape : tuple of int
        Shape of the image; the first two entries are height and width.
    patch : int
        Side of a patch in pixels.
    stride : int, optional
        Distance between the starts of adjacent patches, at most ``patch``, which is the default.

    Attributes
    ----------
    shape : tuple of int
        Height and width of the image.
    patch : int
        Side of a patch in pixels.
    stride : int
        Distance between the starts of adjacent patches.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> grid = sparsect.images.PatchGrid((50, 70), patch=20)
    >>> grid.count
    12
    >>> plane = np.zeros((50, 70))
    >>> [grid.patches(plane, block).shape for block in grid.blocks(size=8)]
    [(8, 400), (4, 400)]
    """

    def __init__(self, shape: tuple[int, ...], patch: int, stride: int | None = None) -> None:
        height, width = shape[:2]
        self.shape, self.patch = (height, width), patch
        self.stride = whole_number("stride", patch if stride is None else stride, 1, patch)
        if min(height, width) < patch:
            raise reject(
                "image", f"{width}x{height} pixels", f"have at least {patch}x{patch} pixels, the size of a patch"
            )
        down, across = starts(height, patch, self.stride), starts(width, patch, self.stride)
        self._tops, self._lefts = np.repeat(down, across.size), np.tile(across, down.size)

    @property
    def count(self) -> int:
        """Number of patches."""
        return int(self._tops.size)

    def blocks(self, size: int = BLOCK) -> Iterator[slice]:
        """Iterate over the patches in blocks of bounded size.

        Parameters
        ----------
        size : int, optional
            Number of patches in a block.

        Yields
        ------
        slice
            Numbers of the patches of one block.
        """
        for start in range(0, self.count, size):
            yield slice(start, min(start + size, self.count))

    def patches(self, plane: Array, block: slice) -> Array:
        """Copy the patches of a block out of an image plane.

        Parameters
        ----------
        plane : array, shape (height, width)
            The image plane, an array of any supported library.
        block : slice
            Numbers of the patches.

        Returns
        -------
        array, shape (rows, patch * patch)
            One patch per row.
        """
        return cut(plane, from_numpy(self._tops[block], plane), from_numpy(self._lefts[block], plane), self.patch)

    def add(self, total: Array, patches: Array, block: slice) -> None:
        """Add the patches of a block to an image plane, in place.

        Parameters
        ----------
        total : array, shape (height, width)
            The image plane to which the patches are added.
        patches : array, shape (rows, patch * patch)
            One patch per row.
        block : slice
            Numbers of the patches.
        """
        width = self.shape[1]
        pixels, corners = total.reshape(-1), from_numpy(self._tops[block] * width + self._lefts[block], total)
        for pixel in range(self.patch**2):
            # Patches of a grid have distinct corners, so no index occurs twice and += adds every patch.
            down, across = divmod(pixel, self.patch)
            pixels[corners + (down * width + across)] += patches[:, pixel]

    @cached_property
    def cover(self) -> Array:
        """Number of patches that contain each pixel, shape (height, width)."""
        height, width = self.shape
        steps = np.zeros((height + 1, width + 1), dtype=np.float32)
        # Every patch changes the counts at its four corners, and no two patches share one of the same kind.
        for down, across, sign in ((0, 0, 1), (0, self.patch, -1), (self.patch, 0, -1), (self.patch, self.patch, 1)):
            steps[self._tops + down, self._lefts + across] += sign
        return steps.cumsum(axis=0).cumsum(axis=1)[:height, :width]


def patch_count(shape: tuple[int, ...], patch: int, stride: int) -> int:
    """Count the patches of a :class:`PatchGrid` without creating it.

    Parameters
    ----------
    shape : tuple of int
        Shape of the image; the first two entries are height and width.
    patch : int
        Side of a patch in pixels.
    stride : int
        Distance between the starts of adjacent patches.

    Returns
    -------
    int
        Number of patches, 0 if the image is smaller than a patch.
    """
    return math.prod(max(0, -(-(length - patch) // stride) + 1) for length in shape[:2])


def planes(image: Array) -> list[Array]:
    """Split an image into its channels.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image.

    Returns
    -------
    list of arrays, each of shape (height, width)
        The channels; a grey image is its only channel.
    """
    return [image] if image.ndim == 2 else [image[..., channel] for channel in range(image.shape[2])]


def like_image(planes: list[Array], image: Array) -> Array:
    """Assemble channels into an image.

    Parameters
    ----------
    planes : list of arrays, each of shape (height, width)
        The channels.
    image : array, shape (height, width) or (height, width, channels)
        An image whose number of dimensions the result has.

    Returns
    -------
    array, shape (height, width) or (height, width, channels)
        The image.
    """
    return planes[0] if image.ndim == 2 else namespace(planes[0]).stack(planes, axis=-1)


def cut(plane: Array, top: Array, left: Array, side: int) -> Array:
    """Copy square patches out of an image plane.

    Parameters
    ----------
    plane : array, shape (height, width)
        The image plane.
    top, left : array of int, shape (count,)
        First row and first column of each patch.
    side : int
        Side of a patch in pixels.

    Returns
    -------
    array, shape (count, side * side)
        One patch per row.
    """
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
