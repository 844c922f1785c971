"""Differences of images, enlarged so that they can be seen."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..backend.arrays import Array
from ..images.compare import difference

# Of the pixels of a typical difference, this share may lie beyond black and white.
BEYOND = 0.05
LARGEST = 64


def enlarged(pairs: Sequence[tuple[str, Array, Array]]) -> tuple[str, list[tuple[str, Array]]]:
    """Draw differences of images on one scale that is chosen for the median of them.

    Parameters
    ----------
    pairs : sequence of (str, array, array)
        Caption, reference and image of each difference.

    Returns
    -------
    scale : str
        The scale in words, such as "8 times enlarged".
    pictures : list of (str, array)
        The caption and the pixels of each difference, with values from 0 to 1; no difference is mid-grey.
    """
    sizes = [np.quantile(np.abs(image - original), 1 - BEYOND) for _, original, image in pairs]
    most = max(float(np.median(sizes)), 0.5 / LARGEST)
    # A power of two, so that pages about different images can be compared.
    times = 2 ** max(0, int(np.floor(np.log2(0.5 / most))))
    words = f"{times} times enlarged" if times > 1 else "not enlarged"
    return words, [(caption, difference(original, image, 0.5 / times)) for caption, original, image in pairs]
