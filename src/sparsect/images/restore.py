"""What people do with a dictionary: take the noise out of an image, fill in what is missing."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.arrays import Array, from_numpy, refuse_masked, to_numpy
from ..backend.checks import real_number, reject, whole_number
from ..dictionary import as_dictionary
from ..problems import Problem
from ..recover import check_noise_norm
from ..run.loop import solve
from ..solvers.base import Solver
from .files import as_array, pixels
from .patches import PatchGrid, like_image, planes
from .reconstruct import Progress
from .settings import WITHIN_NOISE, tuned_for_images

# Radius of the noise ball of a patch, in units of the expected norm of its noise.
RADIUS = 1.015
# Inpainting follows patches within balls of this size first and of that size last, and goes further than they say.
INPAINT_FIRST, INPAINT_LAST, INPAINT_STEP = 0.03, 0.005, 1.8

# Brightness and two colour differences, orthonormal, so that noise stays white: natural images vary little in the last
# two, which are then smoothed more.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [0.5, -1, 0.5]], dtype=np.float32)
OPPONENT /= np.linalg.norm(OPPONENT, axis=1, keepdims=True)


def denoise(
    image: Any,
    sigma: float | None = None,
    method: str | Solver = WITHIN_NOISE,
    *,
    dictionary: Any = None,
    stride: int = 3,
    sparsity: int | None = None,
    max_iter: int = 400,
    progress: Progress | None = None,
) -> Array:
    """Remove white noise: code every patch down to the noise ball, average the overlapping codes.

    Parameters
    ----------
    image : (height, width) or (height, width, channels), see :func:`sparsect.images.reconstruct`. Colours are turned
        into brightness and two differences first.
    sigma : standard deviation of the noise, on the scale where white is 1 (25 of 255 is 0.098); default estimated
    method : a method that takes a noise level: omp, ormp, difference-map, alternating-map, vamp
    dictionary : a Dictionary, Phi, or the name of a file; default the bundled one
    stride : pixels from one patch to the next; smaller is better and slower
    sparsity : atoms allowed for each patch; default half the pixels of one
    max_iter : iterations for each patch
    progress : called with the number of patches done and of all

    Returns
    -------
    image : of the same shape, float32
    """
    image = pixels("image", image)
    if sigma is None:
        sigma = estimate_sigma(image)
        if sigma == 0:
            raise reject("sigma", "none, and no noise to estimate it from", "the standard deviation of the noise")
    sigma = real_number("sigma", sigma, "a positive number, the standard deviation of the noise", 0.0, nonzero=True)
    smooth = _Smoother(dictionary, method, image, stride, sparsity, max_iter)
    channels = _to_planes(image)
    everything = smooth.grid.count * len(channels)
    seen = _counted(progress, everything)
    return _to_image([smooth(channel, sigma, seen) for channel in channels], image)


def inpaint(
    image: Any,
    mask: Any,
    method: str | Solver = WITHIN_NOISE,
    *,
    dictionary: Any = None,
    stride: int = 5,
    passes: int = 20,
    sparsity: int | None = None,
    max_iter: int = 400,
    progress: Progress | None = None,
) -> Array:
    """Fill in missing pixels by alternating between two sets: images that agree with what is known, and images whose
    patches are few atoms each, within a ball that shrinks from pass to pass.

        x <- x + 1.8 (smooth(x) - x) where pixels are missing, the known ones elsewhere

    with ``smooth`` as in :func:`denoise`, for a noise level that falls from 0.03 to 0.005. Starts from averages of the
    nearest known pixels.

    Parameters
    ----------
    image : (height, width) or (height, width, channels), see :func:`sparsect.images.reconstruct`; values of missing
        pixels do not matter
    mask : (height, width), true where a pixel is missing
    method : a method that takes a noise level: omp, ormp, difference-map, alternating-map, vamp
    dictionary : a Dictionary, Phi, or the name of a file; default the bundled one
    stride : pixels from one patch to the next; smaller is better and slower
    passes : how often to alternate
    sparsity : atoms allowed for each patch; default half the pixels of one
    max_iter : iterations for each patch
    progress : called with the number of patches done and of all, in all passes

    Returns
    -------
    image : of the same shape, float32; known pixels are what they were
    """
    given = as_array("image", image)
    missing = _mask(mask, given)
    # Zeros of the image's own dtype, which says what white is.
    image = pixels("image", np.where(missing if given.ndim == 2 else missing[..., None], given.dtype.type(0), given))
    passes = whole_number("passes", passes, 1)
    smooth = _Smoother(dictionary, method, image, stride, sparsity, max_iter)
    among = smooth.grid.touching(missing)
    known = _to_planes(image)
    seen = _counted(progress, passes * among.size * len(known))
    channels = [_nearby_averages(channel, missing) for channel in known]
    for sigma in np.geomspace(INPAINT_FIRST, INPAINT_LAST, passes):
        smoothed = [smooth(channel, float(sigma), seen, among) for channel in channels]
        channels = [
            np.where(missing, channel + INPAINT_STEP * (towards - channel), given)
            for channel, towards, given in zip(channels, smoothed, known, strict=True)
        ]
    filled = _to_image(smoothed, image)
    whole: Array = np.where(missing if image.ndim == 2 else missing[..., None], filled, image)
    return whole


class _Smoother:
    """Codes the patches of a plane down to a noise ball and averages what the codes stand for."""

    def __init__(
        self,
        dictionary: Any,
        method: str | Solver,
        image: Array,
        stride: int,
        sparsity: int | None,
        max_iter: int,
    ) -> None:
        self._dictionary = as_dictionary(dictionary)
        m, n = self._dictionary.Phi.shape
        self._sparsity = min(m // 2, n) if sparsity is None else whole_number("sparsity", sparsity, 0, n)
        self._solver, self._max_iter = tuned_for_images(method), max_iter
        check_noise_norm(self._solver, 0.0)
        self.grid = PatchGrid(image.shape, self._dictionary.patch, stride)

    def __call__(self, plane: Array, sigma: float, seen: Callable[[int], None], among: Array | None = None) -> Array:
        """The smoothed plane; zero where none of the patches ``among`` all of them reaches."""
        operator, like = self._dictionary.operator, self._dictionary.Phi
        radius = RADIUS * sigma * math.sqrt(like.shape[0] - 1)
        total, cover = np.zeros_like(plane), np.zeros_like(plane)
        for block in self.grid.blocks(among):
            patches = self.grid.patches(plane, block)
            mean = patches.mean(axis=1, keepdims=True)
            problem = Problem(operator, from_numpy(patches - mean, like), self._sparsity, radius)
            result = solve(problem, self._solver, max_iter=self._max_iter, record=(), check_fit=False)
            self.grid.add(total, to_numpy(operator.forward(result.x)) + mean, block)
            self.grid.add(cover, np.ones_like(patches), block)
            seen(block.size)
        smoothed: Array = total / np.maximum(cover, 1)
        return smoothed


def _to_planes(image: Array) -> list[Array]:
    return planes(image if image.ndim == 2 else image @ OPPONENT.T)


def _to_image(channels: list[Array], image: Array) -> Array:
    whole = like_image(channels, image)
    return whole if image.ndim == 2 else whole @ OPPONENT


def _counted(progress: Progress | None, everything: int) -> Callable[[int], None]:
    """A function that is told of patches as they are done and passes on how many there were so far."""
    done = 0

    def seen(patches: int) -> None:
        nonlocal done
        done += patches
        if progress is not None:
            progress(done, everything)

    return seen


def _nearby_averages(plane: Array, missing: Array) -> Array:
    """Missing pixels replaced by averages of known ones nearby; by the nearest known one where there are too few."""
    from scipy.ndimage import distance_transform_edt, gaussian_filter

    nearest = distance_transform_edt(missing, return_distances=False, return_indices=True)
    filled = np.where(missing, plane[tuple(nearest)], plane)
    weights, values = (~missing).astype(np.float32), np.where(missing, np.float32(0), plane)
    left = missing.copy()
    for width in (1.0, 1.5, 2.2, 3.3, 5.0):
        weight, value = (gaussian_filter(part, width) for part in (weights, values))
        reached = left & (weight > 0.05)
        filled[reached] = value[reached] / weight[reached]
        left &= ~reached
    return filled


def estimate_sigma(image: Any) -> float:
    """Standard deviation of white noise in an image, from the median of its finest diagonal details."""
    image = pixels("image", image)
    details = [
        (plane[:-1, :-1] - plane[1:, :-1] - plane[:-1, 1:] + plane[1:, 1:]) / 2
        for plane in planes(image)
        if min(plane.shape) > 1
    ]
    return float(np.mean([np.median(np.abs(detail)) for detail in details])) / 0.6745 if details else 0.0


def _mask(mask: Any, image: Array) -> Array:
    """The mask as booleans of the image's size, with at least one pixel known."""
    refuse_masked("mask", mask)
    missing = np.asarray(mask)
    if missing.ndim != 2 or missing.shape != image.shape[:2]:
        raise reject("mask", f"shape {missing.shape}", f"that of the image, {image.shape[:2]}")
    if missing.dtype.kind not in "bui":
        raise reject("mask", f"dtype {missing.dtype}", "booleans, true where a pixel is missing")
    missing = missing.astype(bool)
    if missing.all():
        raise reject("mask", "every pixel missing", "at least one known pixel")
    return missing
