"""What people do with a dictionary: take the noise out of an image, fill in what is missing."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..algorithm import Solver
from ..arrays import from_numpy, to_numpy
from ..checks import real_number, reject, whole_number
from ..dictionary import Dictionary, load_dictionary
from ..operators import DenseOperator
from ..problems import Problem
from ..recover import check_noise_norm
from ..solve import solve
from .files import pixels
from .patches import PatchGrid, like_image, planes
from .reconstruct import Progress
from .settings import METHOD, tuned_for_images

Array = np.ndarray[Any, Any]

# Radius of the noise ball of a patch, in units of the expected norm of its noise.
DENOISE_RADIUS = 1.0
# Pixels of a patch that must be known before it is used to fill in the others.
KNOWN_ENOUGH = 0.25

# Brightness and two colour differences, orthonormal, so that noise stays white: natural images vary little in the last
# two, which are then smoothed more.
OPPONENT = np.array([[1, 1, 1], [1, 0, -1], [0.5, -1, 0.5]], dtype=np.float32)
OPPONENT /= np.linalg.norm(OPPONENT, axis=1, keepdims=True)


def denoise(
    image: Any,
    sigma: float | None = None,
    method: str | Solver = METHOD,
    *,
    dictionary: Dictionary | None = None,
    stride: int = 4,
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
    method : a method that takes a noise level: omp, ormp, difference-map, alternating-map
    dictionary : default the bundled one
    stride : pixels from one patch to the next; smaller is better and slower
    sparsity : atoms allowed for each patch; default half the pixels of one
    max_iter : iterations for each patch
    progress : called with the number of patches done and of all

    Returns
    -------
    image : of the same shape, float32
    """
    image = pixels("image", image)
    sigma = estimate_sigma(image) if sigma is None else sigma
    sigma = real_number("sigma", sigma, "a positive number, the standard deviation of the noise", 0.0, nonzero=True)
    dictionary = dictionary or load_dictionary()
    m, n = dictionary.Phi.shape
    sparsity = min(m // 2, n) if sparsity is None else whole_number("sparsity", sparsity, 0, n)
    solver = _solver(method)
    grid = PatchGrid(image.shape, dictionary.patch, stride)
    channels = planes(image if image.ndim == 2 else image @ OPPONENT.T)
    cleaned, done = [], 0
    for channel in channels:
        total = np.zeros(channel.shape, dtype=np.float32)
        for block in grid.blocks():
            patches = grid.patches(channel, block)
            mean = patches.mean(axis=1, keepdims=True)
            signals = from_numpy(patches - mean, dictionary.Phi)
            radius = DENOISE_RADIUS * sigma * math.sqrt(m - 1)
            problem = Problem(dictionary.operator, signals, sparsity, radius)
            result = solve(problem, solver, max_iter=max_iter, record=())
            grid.add(total, to_numpy(dictionary.operator.forward(result.x)) + mean, block)
            done += patches.shape[0]
            if progress is not None:
                progress(done, grid.count * len(channels))
        cleaned.append(total / grid.cover)
    whole = like_image(cleaned, image)
    return whole if image.ndim == 2 else whole @ OPPONENT


def inpaint(
    image: Any,
    mask: Any,
    method: str | Solver = METHOD,
    *,
    dictionary: Dictionary | None = None,
    stride: int | None = None,
    sigma: float = 0.02,
    sparsity: int | None = None,
    max_iter: int = 400,
    progress: Progress | None = None,
) -> Array:
    """Fill in missing pixels: code what is known of every patch, take the rest from the atoms.

    Each patch is coded with the rows of Phi that belong to its known pixels, and with a constant atom for its mean.
    Holes wider than a patch are filled from their edges inwards.

    Parameters
    ----------
    image : (height, width) or (height, width, channels), see :func:`sparsect.images.reconstruct`; values of missing
        pixels do not matter
    mask : (height, width), true where a pixel is missing
    method : a method that takes a noise level: omp, ormp, difference-map, alternating-map
    dictionary : default the bundled one
    stride : pixels from one patch to the next; default half a patch
    sigma : how closely known pixels are followed, as a standard deviation on the scale where white is 1
    sparsity : atoms allowed for each patch; default a quarter of the pixels of one
    max_iter : iterations for each patch
    progress : called with the number of missing pixels filled and of all

    Returns
    -------
    image : of the same shape, float32; known pixels are what they were
    """
    image, missing = pixels("image", image), _mask(mask, image)
    sigma = real_number("sigma", sigma, "a positive number", 0.0, nonzero=True)
    dictionary = dictionary or load_dictionary()
    m, n = dictionary.Phi.shape
    sparsity = min(m // 4, n) if sparsity is None else whole_number("sparsity", sparsity, 0, n)
    solver = _solver(method)
    side = dictionary.patch
    grid = PatchGrid(image.shape, side, max(1, side // 2) if stride is None else stride)
    atoms = np.column_stack([np.full(m, m**-0.5), to_numpy(dictionary.Phi)]).astype(np.float32)
    channels = [np.where(missing, np.float32(0), plane) for plane in planes(image)]
    everything, enough = int(missing.sum()), KNOWN_ENOUGH
    while missing.any():
        totals = [np.zeros_like(channel) for channel in channels]
        cover = np.zeros_like(channels[0])
        for block in grid.blocks():
            holes = grid.patches(missing, block)
            share = 1 - holes.mean(axis=1)
            usable = np.flatnonzero((share < 1) & (share >= enough))
            for patch in usable:
                place = slice(block.start + patch, block.start + patch + 1)
                known = ~holes[patch]
                signals = np.concatenate([grid.patches(channel, place)[:, known] for channel in channels])
                problem = Problem(
                    DenseOperator(atoms[known]), signals, min(sparsity, int(known.sum())), sigma * known.sum() ** 0.5
                )
                fits = solve(problem, solver, max_iter=max_iter, record=()).x @ atoms.T
                for total, fit in zip(totals, fits, strict=True):
                    grid.add(total, fit[None, :], place)
                grid.add(cover, np.ones((1, m), dtype=np.float32), place)
            if progress is not None:
                filled = int((missing & (cover > 0)).sum())
                progress(everything - int(missing.sum()) + filled, everything)
        reached = missing & (cover > 0)
        for channel, total in zip(channels, totals, strict=True):
            channel[reached] = total[reached] / cover[reached]
        missing = missing & ~reached
        # Where no patch knew enough, those that know least are tried next.
        enough = KNOWN_ENOUGH if reached.any() else 1 / m
    return like_image(channels, image)


def estimate_sigma(image: Any) -> float:
    """Standard deviation of white noise in an image, from the median of its finest diagonal details."""
    image = pixels("image", image)
    details = [
        (plane[:-1, :-1] - plane[1:, :-1] - plane[:-1, 1:] + plane[1:, 1:]) / 2
        for plane in planes(image)
        if min(plane.shape) > 1
    ]
    return float(np.mean([np.median(np.abs(detail)) for detail in details])) / 0.6745 if details else 0.0


def psnr_db(truth: Any, estimate: Any) -> float:
    """Peak signal-to-noise ratio of an image whose values go from 0 to 1."""
    truth, estimate = pixels("truth", truth), pixels("estimate", estimate)
    if truth.shape != estimate.shape:
        raise reject("estimate", f"shape {estimate.shape}", f"that of the truth, {truth.shape}")
    error = float(((truth - estimate) ** 2).mean(dtype=np.float64))
    return math.inf if error == 0 else -10 * math.log10(error)


def _solver(method: str | Solver) -> Solver:
    """The method, refused if it cannot be told a noise level."""
    solver = tuned_for_images(method)
    check_noise_norm(solver, 0.0)
    return solver


def _mask(mask: Any, image: Array) -> Array:
    """The mask as booleans of the image's size, with at least one pixel known."""
    missing = np.asarray(mask)
    if missing.shape != image.shape[:2]:
        raise reject("mask", f"shape {missing.shape}", f"that of the image, {image.shape[:2]}")
    if missing.dtype.kind not in "bui":
        raise reject("mask", f"dtype {missing.dtype}", "booleans, true where a pixel is missing")
    missing = missing.astype(bool)
    if missing.all():
        raise reject("mask", "every pixel missing", "at least one known pixel")
    return missing
