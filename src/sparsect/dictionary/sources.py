"""Where do training signals come from? Batches that can be drawn again, so the data need not fit in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..arrays import Array, floating, from_numpy, namespace
from ..checks import reject, whole_number


class Source(Protocol):
    """Training signals in numbered batches: the same number always gives the same batch."""

    size: int
    batches: int

    def batch(self, index: int) -> Array:
        """(rows, m), signals of mean zero."""


class ArraySource:
    """Signals that are already there as rows of an array; the mean of each is removed."""

    def __init__(self, signals: Any, batch_size: int = 10_000) -> None:
        self._signals = floating("signals", signals, dimensions=(2,))
        self.size = int(self._signals.shape[0])
        if self.size == 0:
            raise reject("signals", f"shape {tuple(self._signals.shape)}", "at least one row")
        self._batch_size = whole_number("batch_size", batch_size, 1)
        self.batches = -(-self.size // self._batch_size)

    def batch(self, index: int) -> Array:
        """Consecutive rows."""
        start = index * self._batch_size
        rows = self._signals[start : min(start + self._batch_size, self.size), :]
        return centred(rows)


class PatchSource:
    """Patches at random places of grey images, drawn anew for every batch from a seed of its own.

    Parameters
    ----------
    images : two-dimensional arrays with values from 0 to 1, on any device of one array library
    patch : side of a patch in pixels
    size : number of patches altogether
    rng : seed, a non-negative integer
    batch_size : patches in a batch
    """

    def __init__(self, images: Sequence[Any], patch: int, size: int, rng: int = 0, batch_size: int = 10_000) -> None:
        if not images:
            raise reject("images", "none", "at least one image")
        self._patch = whole_number("patch", patch, 1)
        self._seed = whole_number("rng", rng, 0)
        self.size = whole_number("size", size, 1)
        self._batch_size = min(whole_number("batch_size", batch_size, 1), self.size)
        self.batches = -(-self.size // self._batch_size)
        arrays = [floating(f"images[{index}]", image, dimensions=(2,)) for index, image in enumerate(images)]
        for index, image in enumerate(arrays):
            if min(image.shape) < patch:
                raise reject(f"images[{index}]", f"{tuple(image.shape)} pixels", f"at least {patch} in both directions")
        xp = namespace(*arrays)
        self._pixels = xp.concat([xp.reshape(image, (image.shape[0] * image.shape[1],)) for image in arrays])
        shapes = np.array([image.shape for image in arrays])
        self._widths = shapes[:, 1]
        self._starts = np.concatenate([[0], np.cumsum(shapes.prod(axis=1))[:-1]])
        self._places = (shapes - patch + 1).prod(axis=1)
        self._across = shapes[:, 1] - patch + 1

    def batch(self, index: int) -> Array:
        """Patches drawn with a generator seeded by the source's seed and the number of the batch."""
        rows = min(self._batch_size, self.size - index * self._batch_size)
        generate = np.random.default_rng([self._seed, index])
        edges = np.cumsum(self._places)
        place = generate.integers(edges[-1], size=rows)
        image = np.searchsorted(edges, place, side="right")
        within = place - (edges - self._places)[image]
        row, column = within // self._across[image], within % self._across[image]
        corner = self._starts[image] + row * self._widths[image] + column
        xp, side = namespace(self._pixels), self._patch
        corner, width = (from_numpy(values, self._pixels) for values in (corner, self._widths[image]))
        steps = from_numpy(np.arange(side), self._pixels)
        places = corner[:, None, None] + steps[None, :, None] * width[:, None, None] + steps[None, None, :]
        pixels = xp.take(self._pixels, xp.reshape(places, (rows * side * side,)), axis=0)
        return centred(xp.reshape(pixels, (rows, side * side)))


def centred(rows: Array) -> Array:
    """Every row less its mean."""
    return rows - namespace(rows).mean(rows, axis=-1, keepdims=True)
