"""How strong the noise in an image is."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from ..backend.arrays import Array, BoolArray
from ..backend.checks import InputError, outside, real_number, reject
from .files import BEYOND_WHITE, colour_and_alpha
from .opponent import to_planes
from .patches import planes

# The least side of an image. Smaller ones would be padded by reflection to the size of a patch, which repeats their
# noise so often that little of it is removed: 1 dB at a side of 1 and 2 dB at 2; it is 4 dB at 3, and 7 dB at 8.
SMALLEST = 3
# Side of the squares in which the noise is measured, and the distance from one to the next.
SIDE, STEP = 16, 4
# The fraction of the squares that are smoother than the one that counts, and what it measures of white noise of norm 1.
SMOOTHER, OF_NOISE = 0.05, 0.894
# Where all squares have sharp edges, as on a checkerboard or a page of small print, most pixels are still flat: if the
# estimate is this many times the median, which measures this of white noise of norm 1, the median counts. The estimate
# for photographs was at most 1.23 times the median.
APART, OF_MEDIAN = 1.3, 0.6745
# Where white is not 1, sigma must be at least this part of what is estimated.
LEAST = 0.1
# Squares in which more pixels than this fraction are clipped or transparent are left out, unless fewer remain.
CLIPPED, FEW = 0.1, 16
# If both colour differences have less than this share of the fine detail of the brightness, they have been smoothed, as
# in JPEG files. Where noise is independent, the share is larger in 99 of 100 photographs even at a sigma of 5 of 255.
SMOOTHED = 0.3


def check_large_enough(name: str, image: Array) -> None:
    """Check that noise can be told from an image.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    image : array, shape (height, width) or (height, width, 3)
        The image.
    """
    height, width = image.shape[:2]
    if min(height, width) < SMALLEST:
        rule = f"have at least {SMALLEST}x{SMALLEST} pixels, to tell noise from it"
        raise reject(name, f"{width}x{height} pixels", rule)


def check_sigma(name: str, sigma: float, image: Array) -> float:
    """Check that a noise level is on the scale of an image.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    sigma : float
        The standard deviation of the noise.
    image : array
        The image, on the scale where white is 1.

    Returns
    -------
    float
        The standard deviation.
    """
    largest = float(np.abs(image).max())
    scale = "on the scale where white is 1"
    if largest > BEYOND_WHITE:
        scale = f"on the scale of the image, which has values up to {largest:g}"
    accepted = f"a positive number, the standard deviation of the noise {scale}"
    sigma = real_number(name, sigma, accepted, 0.0, nonzero=True)
    if sigma > max(1.0, largest):
        of_255 = f" ({sigma:g} of 255 is {sigma / 255:.3g})" if sigma <= 255 else ""
        raise reject(name, f"{sigma:g}", f"{accepted}, so at most {max(1.0, largest):g} here{of_255}")
    if largest > BEYOND_WHITE and sigma < LEAST * (estimate := _estimated(image)[0]):
        raise reject(name, f"{sigma:g}", f"{accepted}; the noise in the image is about {estimate:.2g}")
    return sigma


def estimate_sigma(image: Any) -> float:
    """Estimate the standard deviation of white noise in an image.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, of at least 3x3 pixels. Transparent pixels are left out.

    Returns
    -------
    float
        The estimate, on the scale where white is 1; 0 for an image without noise.

    Notes
    -----
    The estimate is the root mean square of the finest diagonal details in squares of 16x16 pixels, of which the
    smoothest ones count, in which details are noise: their 5th percentile, divided by 0.894, its value for white noise
    of standard deviation 1. It is averaged over the channels. Squares in which more than a tenth of the pixels have the
    smallest or the largest value of the image are left out, because noise is clipped there.

    Where all squares have sharp edges, as on a checkerboard or a page of small print, this is more than 1.3 times the
    median of the absolute details divided by 0.6745, its value for white noise of standard deviation 1. The median
    counts then, with a warning, because it is rough: in print up to twice the truth or more, and in black and white
    half of the truth, because noise is clipped everywhere. Where texture is everywhere, as in photographs of grass, it
    cannot be told from noise, and counts as noise.

    Most JPEG files hold colour at half the resolution of brightness, and a single channel then has less fine noise
    than the brightness. If the colour differences have hardly any fine detail, the estimate is therefore that of the
    brightness, the sum of the channels divided by the square root of 3, in which :func:`denoise` finds its groups. For
    independent noise, both are equal.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal((200, 200))
    >>> round(sparsect.images.estimate_sigma(0.5 + noise), 2)
    0.1
    """
    sigma, smooth = _estimated(image)
    if sigma > 0 and not smooth:
        warnings.warn(
            "The image has sharp edges everywhere, so that the estimate of its noise is rough: give the standard "
            "deviation of the noise if it is known",
            stacklevel=outside(),
        )
    return sigma


def estimate_for(name: str, image: Any) -> float:
    """Estimate the noise in an image for an argument that was not given.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    image : array, shape (height, width) or (height, width, channels)
        The image.

    Returns
    -------
    float
        The estimate.

    Raises
    ------
    InputError
        If the image has no noise, or details so strong that they cannot be noise.
    """
    sigma = estimate_sigma(image)
    if sigma == 0:
        raise InputError(f"`{name}` must be given: the image has no noise from which to estimate it.")
    if sigma > max(1.0, float(np.abs(colour_and_alpha("image", image)[0]).max())):
        raise InputError(f"`{name}` must be given: it cannot be estimated, because details hide the noise.")
    return sigma


def _estimated(image: Any) -> tuple[float, bool]:
    """Estimate the standard deviation of the noise in an image, and tell whether parts of the image are smooth."""
    colour, alpha = colour_and_alpha("image", image)
    check_large_enough("image", colour)
    clear = np.zeros(colour.shape[:2], dtype=bool) if alpha is None else alpha[..., 0] == 0
    channels = planes(colour)
    unusable = [clear | (channel == channel.min()) | (channel == channel.max()) for channel in channels]
    estimates, smooth = zip(*map(_of_plane, channels, unusable), strict=True)
    # Three equal channels are filtered as one.
    if len(channels) == 3 and not (colour == colour[..., :1]).all():
        anywhere = np.any(unusable, axis=0)
        (brightness, bright), *differences = (_of_plane(plane, anywhere) for plane in to_planes(colour))
        if max(difference for difference, _ in differences) < SMOOTHED * brightness:
            return brightness, bright
    return float(np.mean(estimates)), all(smooth)


def _of_plane(plane: Array, unusable: BoolArray) -> tuple[float, bool]:
    """Estimate the noise in one plane, without its unusable pixels, and tell whether parts of the plane are smooth."""
    from scipy.ndimage import uniform_filter

    detail = (plane[:-1, :-1] - plane[1:, :-1] - plane[:-1, 1:] + plane[1:, 1:]).astype(np.float64) / 2
    lost = unusable[:-1, :-1].astype(np.float64)
    energy, squares = _means(detail**2), _means(lost) <= CLIPPED
    pixels = uniform_filter(lost, [min(SIDE, length) for length in lost.shape]) <= CLIPPED
    if np.count_nonzero(squares) < min(FEW, energy.size) or not pixels.any():
        squares, pixels = np.ones_like(squares), np.ones_like(pixels)
    estimate = math.sqrt(np.quantile(energy[squares], SMOOTHER)) / OF_NOISE
    median = float(np.median(np.abs(detail[pixels]))) / OF_MEDIAN
    # In few squares, chance sets them apart.
    rough = energy.size >= FEW and estimate > APART * median
    return (median, False) if rough else (estimate, True)


def _means(values: Array) -> Array:
    """Return the mean over each square, or over the image if that is smaller."""
    sums = np.pad(values, ((1, 0), (1, 0))).cumsum(axis=0).cumsum(axis=1)
    height, width = (min(SIDE, length) for length in values.shape)
    total = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
    return np.maximum(total[::STEP, ::STEP], 0.0) / (height * width)
