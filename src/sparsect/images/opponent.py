"""Brightness and colour differences, the planes in which images are filtered."""

from __future__ import annotations

import numpy as np

from ..backend.arrays import Array

# Brightness and two colour differences. The transform is orthonormal, so that white noise stays white.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [0.5, -1, 0.5]], dtype=np.float32)
OPPONENT /= np.linalg.norm(OPPONENT, axis=1, keepdims=True)


def to_planes(image: Array) -> Array:
    """Return brightness and colour differences of an image.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, 3)
        The image.

    Returns
    -------
    array, shape (1, height, width) or (3, height, width)
        The planes, contiguous.
    """
    return np.ascontiguousarray(image[None] if image.ndim == 2 else np.moveaxis(image @ OPPONENT.T, -1, 0))


def to_image(found: Array, image: Array) -> Array:
    """Undo :func:`to_planes`, and crop the padding at the bottom and on the right.

    Parameters
    ----------
    found : array, shape (1, height, width) or (3, height, width)
        The planes.
    image : array, shape (height, width) or (height, width, 3)
        An image of the wanted shape.

    Returns
    -------
    array
        The image, float32.
    """
    found = found[:, : image.shape[0], : image.shape[1]]
    return np.ascontiguousarray(found[0] if image.ndim == 2 else np.moveaxis(found, 0, -1) @ OPPONENT)
