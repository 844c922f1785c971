"""Denoising of images: groups of similar patches are thresholded, then filtered with the result of the thresholding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import array_api_compat as compat
import numpy as np

from ..backend.arrays import Array, from_numpy, on_host, to_numpy
from ..backend.checks import choice
from ..backend.devices import memory_errors, place
from ..kernels.groups import Groups, threshold, wiener
from .files import colour_and_alpha
from .noise import check_large_enough, check_sigma, estimate_for
from .opponent import to_image, to_planes

# Threshold of the first step in standard deviations, and the noise from which its patches are larger.
LIMIT, STRONG = 2.7, 35 / 255
# The Wiener filters: side of their patches, the share of the variance of the noise that they assume (the pilot has lost
# detail), and the weight of the pilot in the means of groups. Tuned on photographs that no benchmark uses.
FILTERS = ((8, 0.7, 0.6), (7, 0.8, 0.9))
Quality = Literal["fast", "best"]
QUALITIES: dict[str, int] = {"fast": 1, "best": 2}
# Relative duration of a reference patch in the thresholding and in a filter, for reports of progress.
COST = (3, 5)


def denoise(
    image: Any,
    sigma: float | None = None,
    *,
    quality: Quality = "best",
    device: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Array:
    """Remove white noise from an image.

    Every patch is filtered together with the patches most similar to it, see the Notes.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, of at least 3x3 pixels. 8-bit and 16-bit values are scaled to the range from 0 to 1.
    sigma : float, optional
        Standard deviation of the noise, on the scale where white is 1, whatever the dtype of the image: 25 of 255 is
        ``25 / 255``. By default it is estimated by :func:`estimate_sigma`.
    quality : {'best', 'fast'}, optional
        Whether to filter twice, or only once, which takes about 60 % of the time.
    device : {'cpu', 'cuda', 'auto'}, optional
        Where to compute; 'auto' uses a GPU if there is one. The default is the device of the image.
    progress : callable, optional
        Called as ``progress(done, total)``, in units of equal duration.

    Returns
    -------
    array
        The denoised image, float32, of the same shape, library and device. An alpha channel is returned as it is.

    Notes
    -----
    A group consists of a patch and the patches nearest to it in the Euclidean norm, within 19 pixels in both
    directions. In each step, patches are filtered in all groups in which they occur, and averaged.

    1. Each group of 16 patches is transformed by an orthonormal transform (cosines in both directions of a patch, Haar
       across the group), and coefficients below 2.7 ``sigma`` are set to zero, as in the first step of BM3D [1]_.
    2. Each group of 32 patches, found in the first estimate, is filtered by the Wiener filter for a Gaussian with the
       mean and covariance of the same patches of the first estimate [2]_. 'best' repeats this with the second estimate.

    Colours are transformed to brightness and two colour differences; groups are found in the brightness. The noise of
    different channels must be independent, or ``sigma`` must be its level in the brightness, as an estimated ``sigma``
    is. Three equal channels count as one.

    The result does not depend on the number of threads, and on a GPU it is the same up to rounding. Memory is needed
    for about eight copies of the image, and for one to two gigabytes more on a GPU.

    References
    ----------
    .. [1] K. Dabov, A. Foi, V. Katkovnik and K. Egiazarian, "Image denoising by sparse 3-D transform-domain
       collaborative filtering", IEEE Transactions on Image Processing 16, 2007.
    .. [2] M. Lebrun, A. Buades and J.-M. Morel, "A nonlocal Bayesian image denoising algorithm", SIAM Journal on
       Imaging Sciences 6, 2013.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> clean = sparsect.images.sample("camera")[200:260, 200:260]
    >>> noisy = clean + 0.1 * np.random.default_rng(0).standard_normal(clean.shape)
    >>> denoised = sparsect.images.denoise(noisy, sigma=0.1)
    >>> sparsect.images.psnr_db(clean, denoised) > sparsect.images.psnr_db(clean, noisy) + 6
    True
    """
    colour, alpha = colour_and_alpha("image", image)
    check_large_enough("image", colour)
    sigma = estimate_for("sigma", image) if sigma is None else check_sigma("sigma", sigma, colour)
    filters = FILTERS[: QUALITIES[choice("quality", quality, tuple(QUALITIES))]]
    # Grey in three channels has the same noise in all of them, and not that of three.
    equal = colour.ndim == 3 and bool((colour == colour[..., :1]).all())
    plane = colour[..., 0] if equal else colour
    peak = max(1.0, float(np.abs(colour).max()))
    first = Groups(8 if sigma < STRONG * peak else 10, 16)
    steps = [Groups(side, 32) for side, _, _ in filters]
    noisy = placed(to_planes(padded(plane, first.side)), image, device)
    report = Report(progress, [(first, COST[0]), *((step, COST[1]) for step in steps)], noisy.shape[1:])
    with memory_errors("image", "a larger image", "smaller, or be denoised with device='cpu'"):
        found = threshold(noisy, LIMIT * sigma, first, report.of(0))
        for number, (groups, (_, share, trust)) in enumerate(zip(steps, filters, strict=True)):
            found = wiener(noisy, found, share * sigma**2, trust, groups, report.of(number + 1))
    restored = to_image(to_numpy(found), plane)
    return returned(np.repeat(restored[..., None], 3, axis=-1) if equal else restored, alpha, image)


class Report:
    """Progress over several steps, in units of equal duration.

    Parameters
    ----------
    progress : callable or None
        Called as ``progress(done, total)``, for the first time before anything is done.
    steps : list of (Groups, int)
        The groups of each step, and the relative duration of a reference patch.
    shape : tuple of int
        Height and width of the image.
    where : array of bool, shape (height, width), optional
        Only patches with a marked pixel are references.
    """

    def __init__(
        self,
        progress: Callable[[int, int], object] | None,
        steps: list[tuple[Groups, int]],
        shape: tuple[int, ...],
        where: Array | None = None,
    ) -> None:
        self._progress, self._costs, self._done = progress, [cost for _, cost in steps], 0
        counts = {groups: sum(map(len, groups.strips(shape, where))) for groups, _ in steps} if progress else {}
        self._total = sum(cost * counts.get(groups, 0) for groups, cost in steps)
        self._add(0)

    def of(self, step: int) -> Callable[[int], None]:
        """Return the function to which a step reports finished reference patches.

        Parameters
        ----------
        step : int
            Number of the step.

        Returns
        -------
        callable
            A function of the number of patches.
        """
        return lambda patches: self._add(self._costs[step] * patches)

    def _add(self, amount: int) -> None:
        self._done += amount
        if self._progress is not None:
            self._progress(self._done, self._total)

    def end(self) -> None:
        """Report that the remaining steps are not needed."""
        self._add(self._total - self._done)


def placed(planes: Array, image: Any, device: str | None) -> Array:
    """Move the planes of an image to where they are filtered.

    Parameters
    ----------
    planes : array, shape (channels, height, width)
        The planes, an array of NumPy.
    image : array
        The image as it was given.
    device : str or None
        The device asked for. By default, an image on a GPU is filtered there.

    Returns
    -------
    array
        The planes, an array of NumPy, or of torch on a GPU.
    """
    if device is None and compat.is_torch_array(image) and not on_host(image):
        device = str(image.device)
    return place(planes, device)


def returned(found: Array, alpha: Array | None, image: Any) -> Array:
    """Put an alpha channel back, and return an image in the shape and array library of another.

    Parameters
    ----------
    found : array, shape (height, width) or (height, width, 3)
        The image, an array of NumPy.
    alpha : array, shape (height, width, 1), or None
        Its alpha channel.
    image : array
        The image as it was given.

    Returns
    -------
    array
        The image with its alpha channel, on the device on which ``image`` is.
    """
    whole = found if alpha is None else np.concatenate([found.reshape(*alpha.shape[:2], -1), alpha], axis=-1)
    whole = whole.reshape(np.shape(image))
    return from_numpy(to_numpy(whole), image) if compat.is_array_api_obj(image) else whole


def padded(image: Array, side: int) -> Array:
    """Extend an image by reflection at the bottom and on the right, if it is smaller than a patch.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image.
    side : int
        Side of a patch in pixels.

    Returns
    -------
    array
        The image with at least ``side`` rows and columns.
    """
    missing = [(0, max(side - length, 0)) for length in image.shape[:2]]
    return np.pad(image, [*missing, *[(0, 0)] * (image.ndim - 2)], mode="symmetric")
