"""Training signals from photographs: patches at random places."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.arrays import Array, floating, from_numpy, namespace, to_numpy
from ..backend.checks import reject, shown, whole_number
from ..backend.devices import place
from ..dictionary.sources import digest
from .patches import cut

# Images from which one batch of patches is drawn; more cost decoding, fewer make batches less alike.
IMAGES_A_BATCH = 16


class PatchSource:
    """Patches at random places of grey images, each less its mean, drawn anew for every batch from a seed of its own.

    Every batch is drawn from a few images only, so that images which are decoded when asked for
    (:class:`sparsect.images.ImageFolder`) need not all be in memory.

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
            raise reject("images", f"an object of type {type(images).__name__}", "a list of images, or an ImageFolder")
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
        """The same patches, drawn on a device (see :func:`sparsect.backend.devices.place`)."""
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
