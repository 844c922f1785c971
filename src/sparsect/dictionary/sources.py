"""Where do training signals come from? Batches that can be drawn again, so the data need not fit in memory."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import array_api_compat as compat
import numpy as np

from ..arrays import Array, floating, from_numpy, is_numpy, namespace, to_numpy
from ..checks import reject, shown, whole_number
from ..devices import place

# Images from which one batch of patches is drawn; more cost decoding, fewer make batches less alike.
IMAGES_A_BATCH = 16


class Batches(Protocol):
    """Signals in numbered batches: the same number always gives the same batch."""

    batches: int

    def batch(self, index: int) -> Array:
        """(rows, m), one signal a row; may be asked for by another thread than the one that made the source."""


class Source(Batches, Protocol):
    """Training signals in batches, with a name for what they are."""

    size: int

    @property
    def provenance(self) -> dict[str, Any]:
        """What the signals are, in plain values; equal for equal signals."""


class ArraySource:
    """Signals that are already there as rows of an array, taken as they are.

    Parameters
    ----------
    signals : (rows, m)
    batch_size : rows in a batch
    device : where batches are put (see :func:`sparsect.devices.place`); default where the signals are
    """

    BATCH = 10_000

    def __init__(self, signals: Any, batch_size: int = BATCH, device: str | None = None) -> None:
        self._signals = floating("signals", signals, dimensions=(2,))
        self.size = int(self._signals.shape[0])
        if self.size == 0:
            raise reject("signals", f"shape {tuple(self._signals.shape)}", "at least one row")
        self._batch_size = whole_number("batch_size", batch_size, 1)
        self._device = device
        self.batches = -(-self.size // self._batch_size)

    def batch(self, index: int) -> Array:
        """Consecutive rows."""
        start = index * self._batch_size
        return place(self._signals[start : min(start + self._batch_size, self.size), :], self._device)

    @property
    def provenance(self) -> dict[str, Any]:
        """The number of signals and a digest of them."""
        return {"signals": self.size, "batch_size": self._batch_size, "digest": digest([to_numpy(self._signals)])}


class DaskSource:
    """The rows of a Dask array, one batch for each of its chunks of rows; they are computed where they are coded.

    ``signals`` is the array as it is used: of floating-point numbers, its columns in one chunk.
    """

    def __init__(self, signals: Any) -> None:
        if signals.ndim != 2:
            raise reject("signals", f"a Dask array of {signals.ndim} dimensions", "2 dimensions")
        if signals.dtype.kind in "iub":
            signals = signals.astype(np.float64)
        if signals.dtype not in (np.float32, np.float64):
            raise reject("signals", f"a Dask array of {signals.dtype}", "real numbers: float32, float64 or integers")
        self.signals = signals.rechunk({1: -1})
        rows = self.signals.chunks[0]
        if not all(count > 0 for count in rows):
            raise reject("signals", f"chunks of {rows} rows", "chunks of known sizes (compute_chunk_sizes), none empty")
        self.size, self.batches = sum(rows), len(rows)

    def batch(self, index: int) -> Array:
        """The chunk, computed and brought here."""
        return self.checked(self.signals.blocks[index].compute(), index)

    @staticmethod
    def checked(chunk: Any, index: int) -> Array:
        """The chunk once it has been computed, wherever that was."""
        return floating(f"signals, chunk {index}", chunk, dimensions=(2,))

    def delayed(self, index: int) -> Any:
        """The chunk as a task that others can depend on."""
        return self.signals.blocks[index].to_delayed().item()

    @property
    def provenance(self) -> dict[str, Any]:
        """The number of signals, the chunks, and Dask's own name for how they are computed."""
        from dask.base import tokenize

        return {"signals": self.size, "chunks": list(self.signals.chunks[0]), "token": tokenize(self.signals)}


class PatchSource:
    """Patches at random places of grey images, each less its mean, drawn anew for every batch from a seed of its own.

    Every batch is drawn from a few images only, so that images which are decoded when asked for
    (:class:`sparsect.images.Folder`) need not all be in memory.

    Parameters
    ----------
    images : two-dimensional arrays with values from 0 to 1, on any device of one array library; or a sequence with
        ``shapes``, ``digest`` and ``on_device`` that gives such an array when asked for one
    patch : side of a patch in pixels
    size : number of patches altogether
    rng : seed, a non-negative integer
    batch_size : patches in a batch
    """

    def __init__(self, images: Sequence[Any], patch: int, size: int, rng: int = 0, batch_size: int = 10_000) -> None:
        try:
            count = len(images)
        except TypeError:  # a number, or an array without dimensions
            count = None
        if count is None or not hasattr(images, "__getitem__") or isinstance(images, str | bytes):
            raise reject("images", f"an object of type {type(images).__name__}", "a list of images, or a Folder")
        if count == 0:
            raise reject("images", "none", "at least one image")
        self._patch = whole_number("patch", patch, 1)
        self._seed = whole_number("rng", rng, 0)
        self.size = whole_number("size", size, 1)
        self._batch_size = min(whole_number("batch_size", batch_size, 1), self.size)
        self.batches = -(-self.size // self._batch_size)
        if not hasattr(images, "shapes"):
            images = [floating(f"images[{index}]", image, dimensions=(2,)) for index, image in enumerate(images)]
        self._images = images
        shapes = np.array(getattr(images, "shapes", None) or [image.shape for image in images])
        for index, shape in enumerate(shapes):
            if min(shape) < patch:
                accepted = f"at least {shown(patch)} in both directions"
                raise reject(f"images[{index}]", f"{shape[0]}x{shape[1]} pixels", accepted)
        self._shapes, self._places = shapes, (shapes - patch + 1).prod(axis=1)

    def batch(self, index: int) -> Array:
        """Patches drawn with a generator seeded by the source's seed and the number of the batch."""
        rows = min(self._batch_size, self.size - index * self._batch_size)
        generate = np.random.default_rng([self._seed, index])
        chosen = np.sort(generate.choice(len(self._places), IMAGES_A_BATCH, p=self._places / self._places.sum()))
        counts = generate.multinomial(rows, np.full(IMAGES_A_BATCH, 1 / IMAGES_A_BATCH))
        parts = []
        # Image by image, so that no more than one need be in memory.
        for number, count in zip(chosen, counts, strict=True):
            image, across = self._images[int(number)], int(self._shapes[number, 1]) - self._patch + 1
            drawn = from_numpy(generate.integers(self._places[number], size=count), image)
            parts.append(cut(image, drawn // across, drawn % across, self._patch))
        xp = namespace(parts[0])
        patches = xp.concat(parts)
        patches -= xp.mean(patches, axis=1, keepdims=True)
        return patches

    def on_device(self, device: str | None) -> PatchSource:
        """The same patches, drawn on a device (see :func:`sparsect.devices.place`)."""
        if device is None:
            return self
        images = self._images
        images = images.on_device(device) if hasattr(images, "on_device") else [place(each, device) for each in images]
        placed = copy.copy(self)
        placed._images = images
        return placed

    @property
    def provenance(self) -> dict[str, Any]:
        """Numbers of images and patches, how they were drawn, and a digest of the images."""
        images = self._images
        return {
            "images": len(images),
            "patches": self.size,
            "patch": self._patch,
            "patches_seed": self._seed,
            "batch_size": self._batch_size,
            "digest": getattr(images, "digest", None) or digest(to_numpy(image) for image in images),
        }


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


def digest(arrays: Iterable[np.ndarray[Any, Any]]) -> str:
    """A short name for the contents of some arrays, the same in every process."""
    hashed = hashlib.blake2b(digest_size=8)
    for array in arrays:
        hashed.update(repr((array.shape, array.dtype.str)).encode())
        hashed.update(np.ascontiguousarray(array).data)
    return hashed.hexdigest()
