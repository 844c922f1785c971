"""How do two images differ?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..backend.arrays import Array
from ..backend.checks import reject
from .files import pixels

# Differences are drawn from black at minus this to white at plus this, as in the paper.
DIFFERENCE_SCALE = 0.3


def difference(original: Array, image: Array) -> Array:
    """image - original as an image: 0 is grey, -0.3 black, 0.3 white."""
    image, original = pixels("image", image), pixels("original", original)
    if image.shape != original.shape:
        raise reject("image", f"shape {image.shape}", f"that of the original, {original.shape}")
    shown: Array = np.clip(0.5 + (image - original) / (2 * DIFFERENCE_SCALE), 0, 1)
    return shown


def psnr_db(truth: Any, estimate: Any) -> float:
    """Peak signal-to-noise ratio of an image whose values go from 0 to 1."""
    truth, estimate = pixels("truth", truth), pixels("estimate", estimate)
    if truth.shape != estimate.shape:
        raise reject("estimate", f"shape {estimate.shape}", f"that of the truth, {truth.shape}")
    error = float(((truth - estimate) ** 2).mean(dtype=np.float64))
    return math.inf if error == 0 else -10 * math.log10(error)
