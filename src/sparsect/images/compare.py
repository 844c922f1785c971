"""Comparison of two images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend.arrays import Array
from ..backend.checks import real_number, reject
from .files import pixels

# A difference of minus this value is drawn black and of plus this value white, as in the paper.
DIFFERENCE_SCALE = 0.3


def difference(original: Array, image: Array, scale: float = DIFFERENCE_SCALE) -> Array:
    """Return the difference of two images as an image that can be displayed.

    The difference ``image - original`` is mapped to grey levels: 0 is mid-grey, ``-scale`` and below is black,
    ``scale`` and above is white.

    Parameters
    ----------
    original : array, shape (height, width) or (height, width, channels)
        The reference image.
    image : array, same shape as ``original``
        The image to compare with it.
    scale : float, optional
        The difference that is drawn white. The default, 0.3, is that of the paper.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The difference, float32, with values from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> original = np.full((2, 2), 0.5)
    >>> shown = sparsect.images.difference(original, original + np.array([[0.0, 0.3], [-0.3, 0.0]]))
    >>> shown.round(2).tolist()
    [[0.5, 1.0], [0.0, 0.5]]
    """
    image, original = pixels("image", image), pixels("original", original)
    if image.shape != original.shape:
        raise reject("image", f"shape {image.shape}", f"have the shape of the original, {original.shape}")
    scale = real_number("scale", scale, "a positive number", 0.0, nonzero=True)
    shown: Array = np.clip(0.5 + (image - original) / (2 * scale), 0, 1)
    return shown


def psnr_db(truth: Any, estimate: Any) -> float:
    """Compute the peak signal-to-noise ratio of an image in decibels.

    Parameters
    ----------
    truth : array, shape (height, width) or (height, width, channels)
        The reference image. Its peak is taken to be 1; 8-bit and 16-bit images are scaled to values from 0 to 1.
    estimate : array, same shape as ``truth``
        The image to compare with it.

    Returns
    -------
    float
        ``-10 log10(mean squared error)``, infinite if the images are equal.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> truth = np.zeros((8, 8))
    >>> round(sparsect.images.psnr_db(truth, truth + 0.1), 2)
    20.0
    """
    truth, estimate = pixels("truth", truth), pixels("estimate", estimate)
    if truth.shape != estimate.shape:
        raise reject("estimate", f"shape {estimate.shape}", f"have the shape of the truth, {truth.shape}")
    error = float(((truth - estimate) ** 2).mean(dtype=np.float64))
    return math.inf if error == 0 else -10 * math.log10(error)
