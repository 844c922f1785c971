"""Training signals from images: patches at random positions."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..backend.array_checks import floating
from ..backend.arrays import Array, from_numpy, namespace, to_numpy
from ..backend.checks import reject, shown, whole_number
from ..backend.devices import place
from ..dictionary.sources import digest
from .patches import cut, planes

# Number of images from which a batch is drawn. More images take longer to decode; with fewer, batches differ more.
IMAGES_PER_BATCH = 16


class PatchSource:
    """Patches at random positions of images, with the mean of each channel of a patch removed.

    Every batch is drawn with its own seed, from a few images only, so that images that are decoded on access
    (:class:`sparsect.images.ImageFolder`) need not all be in memory.

    Parameters
    ----------
    images : sequence of arrays
        Arrays of shape (height, width), or (height, width, 3) for colours, with values from 0 to 1, all of one array
        library; or a sequence with the attributes ``shapes``, ``colour``, ``digest`` and ``on_device`` that returns
        such arrays on access.
    patch : int
        Side of a patch in pixels.
    size : int
        Total number of patches.
    rng : int, optional
        Seed, a non-negative integer.
    batch_size : int, optional
        Number of patches in a batch.

    Attributes
    ----------
    size : int
        Total number of patches.
    batches : int
        Number of batches.
    colour : bool
        Whether patches have colours: they are then rows of the red, the green and the blue pixels, one after the other.

    Examples
    --------
    >>> import sparsect
    >>> camera = sparsect.images.sample("camera")
    >>> source = sparsect.images.PatchSource([camera], patch=8, size=500, batch_size=200)
    >>> source.batches, source.batch(0).shape
    (3, (200, 64))
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
            images = [floating(f"images[{index}]", image, dimensions=(2, 3)) for index, image in enumerate(images)]
            for index, image in enumerate(images):
                if image.ndim != images[0].ndim or image.shape[2:] not in ((), (3,)):
                    accepted = "be grey like the first one" if images[0].ndim == 2 else "have three channels"
                    raise reject(f"images[{index}]", f"shape {tuple(image.shape)}", accepted)
        self._images = images
        self.colour = getattr(images, "colour", False) if hasattr(images, "shapes") else images[0].ndim == 3
        shapes = np.array(getattr(images, "shapes", None) or [image.shape[:2] for image in images])
        for index, shape in enumerate(shapes):
            if min(shape) < patch:
                accepted = f"have at least {shown(patch)} in both directions"
                raise reject(f"images[{index}]", f"{shape[0]}x{shape[1]} pixels", accepted)
        self._shapes, self._places = shapes, (shapes - patch + 1).prod(axis=1)

    def batch(self, index: int) -> Array:
        """Draw one batch of patches.

        The random generator is seeded with the seed of the source and the number of the batch, so that a batch is the
        same each time it is drawn.

        Parameters
        ----------
        index : int
            Number of the batch, from 0.

        Returns
        -------
        array, shape (rows, patch * patch) or (rows, 3 * patch * patch)
            One patch per row, each channel with zero mean.
        """
        rows = min(self._batch_size, self.size - index * self._batch_size)
        generate = np.random.default_rng([self._seed, index])
        chosen = np.sort(generate.choice(len(self._places), IMAGES_PER_BATCH, p=self._places / self._places.sum()))
        counts = generate.multinomial(rows, np.full(IMAGES_PER_BATCH, 1 / IMAGES_PER_BATCH))
        parts = []
        # Image by image, so that at most one image has to be in memory.
        for number, count in zip(chosen, counts, strict=True):
            image, across = self._images[int(number)], int(self._shapes[number, 1]) - self._patch + 1
            drawn = from_numpy(generate.integers(self._places[number], size=count), image)
            corners = drawn // across, drawn % across
            parts.append([cut(plane, *corners, self._patch) for plane in planes(image)])
        xp = namespace(parts[0][0])
        channels = [xp.concat(list(channel)) for channel in zip(*parts, strict=True)]
        centred = [channel - xp.mean(channel, axis=1, keepdims=True) for channel in channels]
        return xp.concat(centred, axis=1) if self.colour else centred[0]

    def on_device(self, device: str | None) -> PatchSource:
        """Return the same patches, to be drawn on a device.

        Parameters
        ----------
        device : str or None
            The device, see :func:`sparsect.backend.devices.place`; None returns the source itself.

        Returns
        -------
        PatchSource
            The source with its images on ``device``.
        """
        if device is None:
            return self
        images = self._images
        images = images.on_device(device) if hasattr(images, "on_device") else [place(each, device) for each in images]
        placed = copy.copy(self)
        placed._images = images
        return placed

    @property
    def provenance(self) -> dict[str, Any]:
        """Numbers of images and patches, the sampling settings, and a digest of the images."""
        images = self._images
        return {
            "images": len(images),
            "patches": self.size,
            "patch": self._patch,
            "patches_seed": self._seed,
            "batch_size": self._batch_size,
            **({"colour": True} if self.colour else {}),
            "digest": getattr(images, "digest", None) or digest(to_numpy(image) for image in images),
        }
