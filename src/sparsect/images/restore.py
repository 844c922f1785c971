"""Image restoration with a dictionary: denoising and inpainting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..backend.array_checks import refuse_masked
from ..backend.arrays import Array, to_numpy
from ..backend.checks import real_number, reject, whole_number
from ..dictionary import as_dictionary
from ..solvers.base import Solver
from .approximate import CodedPatches, approximate, counted, placed
from .files import as_array, pixels
from .patches import PatchGrid, like_image, planes
from .settings import WITHIN_NOISE, tuned_for_images

# Radius of the noise ball of a patch, in units of the expected norm of its noise.
RADIUS = 1.015
# Noise level of the first and of the last inpainting pass, and the step length: above 1, the steps are overrelaxed.
INPAINT_FIRST, INPAINT_LAST, INPAINT_STEP = 0.03, 0.005, 1.8

# Brightness and two colour differences. The transform is orthonormal, so that white noise stays white. Natural images
# vary little in the colour differences, which are therefore smoothed more.
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
    progress: Callable[[int, int], object] | None = None,
) -> Array:
    """Remove white noise from an image.

    Every patch is coded up to a residual within the noise ball, and the overlapping approximations are averaged.
    Colours are first transformed to brightness and two colour differences.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, see :func:`sparsect.images.reconstruct`.
    sigma : float, optional
        Standard deviation of the noise, on the scale where white is 1 (25 of 255 is 0.098). By default it is estimated
        by :func:`estimate_sigma`.
    method : str or Solver, optional
        A method that takes a noise level: 'omp', 'ormp', 'difference-map', 'alternating-map' or 'vamp', or such a
        solver, configured.
    dictionary : Dictionary, array or str, optional
        A :class:`sparsect.Dictionary`, an array Phi, or the name of a file. The default is the bundled dictionary.
    stride : int, optional
        Distance between the starts of adjacent patches in pixels. A smaller stride gives better results and takes
        longer.
    sparsity : int, optional
        Maximum number of atoms per patch. The default is half the number of pixels of a patch.
    max_iter : int, optional
        Maximum number of iterations per patch.
    progress : callable, optional
        Called as ``progress(done, total)`` with the number of coded patches and of all patches.

    Returns
    -------
    array
        The denoised image, float32, of the same shape; an alpha channel is blended over white.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> clean = sparsect.images.sample("camera")[200:260, 200:260]
    >>> noisy = clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)
    >>> denoised = sparsect.images.denoise(noisy, sigma=0.1, stride=10)
    >>> sparsect.images.psnr_db(clean, denoised) > sparsect.images.psnr_db(clean, noisy) + 3
    True
    """
    image = pixels("image", image)
    if sigma is None:
        sigma = estimate_sigma(image)
        if sigma == 0:
            raise reject(
                "sigma",
                "None, and the image has no noise from which to estimate it",
                "the standard deviation of the noise",
            )
    sigma = real_number("sigma", sigma, "a positive number, the standard deviation of the noise", 0.0, nonzero=True)
    smooth = _Smoother(dictionary, method, image, stride, sparsity, max_iter)
    channels = _to_planes(image)
    report = counted(progress, smooth.grid.count * len(channels))
    return _to_image([smooth(channel, sigma, report) for channel in channels], image)


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
    progress: Callable[[int, int], object] | None = None,
) -> Array:
    """Fill in the missing pixels of an image.

    Alternates between two sets: the images that agree with the known pixels, and the images whose patches are
    combinations of few atoms each, up to an error within a ball that shrinks from pass to pass.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, see :func:`sparsect.images.reconstruct`. The values of missing pixels are ignored.
    mask : array of bool, shape (height, width)
        True where a pixel is missing.
    method : str or Solver, optional
        A method that takes a noise level: 'omp', 'ormp', 'difference-map', 'alternating-map' or 'vamp', or such a
        solver, configured.
    dictionary : Dictionary, array or str, optional
        A :class:`sparsect.Dictionary`, an array Phi, or the name of a file. The default is the bundled dictionary.
    stride : int, optional
        Distance between the starts of adjacent patches in pixels. A smaller stride gives better results and takes
        longer.
    passes : int, optional
        Number of alternations.
    sparsity : int, optional
        Maximum number of atoms per patch. The default is half the number of pixels of a patch.
    max_iter : int, optional
        Maximum number of iterations per patch.
    progress : callable, optional
        Called as ``progress(done, total)`` with the number of coded patches and of all patches, over all passes.

    Returns
    -------
    array
        The completed image, float32, of the same shape, with the known pixels unchanged; an alpha channel is blended
        over white.

    Notes
    -----
    The iteration starts from averages of the nearest known pixels. One pass is ::

        x <- x + 1.8 (smooth(x) - x)    where pixels are missing,
        x <- image                      elsewhere,

    with ``smooth`` as in :func:`denoise`, for a noise level that falls from 0.03 to 0.005. The result takes the missing
    pixels from the last ``smooth(x)``.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> image = sparsect.images.sample("camera")[200:260, 200:260]
    >>> mask = np.random.default_rng(0).random(image.shape) < 0.3
    >>> filled = sparsect.images.inpaint(image, mask, stride=10, passes=3)
    >>> np.array_equal(filled[~mask], image[~mask])
    True
    >>> sparsect.images.psnr_db(image, filled) > 20
    True
    """
    given = as_array("image", image)
    missing = _mask(mask, given)
    # Zeros in the dtype of the image, because the dtype determines the value of white.
    image = pixels("image", np.where(missing if given.ndim == 2 else missing[..., None], given.dtype.type(0), given))
    passes = whole_number("passes", passes, 1)
    smooth = _Smoother(dictionary, method, image, stride, sparsity, max_iter, missing)
    known = _to_planes(image)
    report = counted(progress, passes * smooth.grid.count * len(known))
    channels = [_nearby_averages(channel, missing) for channel in known]
    for sigma in np.geomspace(INPAINT_FIRST, INPAINT_LAST, passes):
        smoothed = [smooth(channel, float(sigma), report) for channel in channels]
        channels = [
            np.where(missing, channel + INPAINT_STEP * (towards - channel), given)
            for channel, towards, given in zip(channels, smoothed, known, strict=True)
        ]
    filled = _to_image(smoothed, image)
    whole: Array = np.where(missing if image.ndim == 2 else missing[..., None], filled, image)
    return whole


class _Smoother:
    """Codes patches of image planes up to an error within the noise ball: all, or those with missing pixels."""

    def __init__(
        self,
        dictionary: Any,
        method: str | Solver,
        image: Array,
        stride: int,
        sparsity: int | None,
        max_iter: int,
        missing: Array | None = None,
    ) -> None:
        self._dictionary = as_dictionary(dictionary)
        m, n = self._dictionary.Phi.shape
        self._sparsity = min(m // 2, n) if sparsity is None else whole_number("sparsity", sparsity, 0, n)
        self._solver, self._max_iter = tuned_for_images(method), max_iter
        grid = PatchGrid(image.shape, self._dictionary.patch, stride)
        self.grid = grid if missing is None else grid.touching(missing)

    def __call__(self, plane: Array, sigma: float, report: Callable[[CodedPatches], None]) -> Array:
        """Return the smoothed plane, zero where no patch of the grid lies."""
        plane, dictionary = placed(plane, self._dictionary)
        radius = RADIUS * sigma * math.sqrt(dictionary.Phi.shape[0] - 1)
        limits: dict[str, Any] = {"noise_norm": radius, "max_iter": self._max_iter}
        return to_numpy(
            approximate(plane, self.grid, dictionary, self._solver, self._sparsity, report=report, **limits)
        )


def _to_planes(image: Array) -> list[Array]:
    return planes(image if image.ndim == 2 else image @ OPPONENT.T)


def _to_image(channels: list[Array], image: Array) -> Array:
    whole = like_image(channels, image)
    return whole if image.ndim == 2 else whole @ OPPONENT


def _nearby_averages(plane: Array, missing: Array) -> Array:
    """Replace missing pixels by averages of known pixels nearby, or by the nearest one where these are too few."""
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
    """Estimate the standard deviation of white noise in an image.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image.

    Returns
    -------
    float
        The estimate, on the scale where white is 1; 0 for an image that is only one pixel high or wide.

    Notes
    -----
    The estimate is the median absolute value of the finest diagonal details of each channel, divided by 0.6745, the
    value of that median for a standard normal distribution, and averaged over the channels.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> noise = 0.1 * np.random.default_rng(0).standard_normal((200, 200))
    >>> round(sparsect.images.estimate_sigma(0.5 + noise), 2)
    0.1
    """
    image = pixels("image", image)
    details = [
        (plane[:-1, :-1] - plane[1:, :-1] - plane[:-1, 1:] + plane[1:, 1:]) / 2
        for plane in planes(image)
        if min(plane.shape) > 1
    ]
    return float(np.mean([np.median(np.abs(detail)) for detail in details])) / 0.6745 if details else 0.0


def _mask(mask: Any, image: Array) -> Array:
    """Return the mask as booleans of the size of the image; at least one pixel must be known."""
    refuse_masked("mask", mask)
    missing = np.asarray(mask)
    if missing.ndim != 2 or missing.shape != image.shape[:2]:
        raise reject("mask", f"shape {missing.shape}", f"have the shape of the image, {image.shape[:2]}")
    if missing.dtype.kind not in "bui":
        raise reject("mask", f"dtype {missing.dtype}", "hold booleans, true where a pixel is missing")
    missing = missing.astype(bool)
    if missing.all():
        raise reject("mask", "every pixel missing", "leave at least one pixel known")
    return missing
