"""Inpainting of images: the missing pixels are those for which groups of similar patches fit together best."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..backend.array_checks import refuse_masked
from ..backend.arrays import Array, from_numpy, namespace, to_numpy
from ..backend.checks import reject, whole_number
from ..backend.devices import memory_errors
from ..kernels.groups import Groups, wiener
from .denoise import Report, padded, placed, returned
from .files import as_array, colour_and_alpha
from .opponent import to_image, to_planes

# Noise that the filter of the first and of the last pass removes, relative to the error of the surface from which the
# iteration starts, and the step length: above 1, overrelaxed.
FIRST, LAST, STEP = 0.35, 0.05, 1.8
# In an image from 0 to 1, errors of surfaces count as at most this: more noise gains nothing.
LARGEST = 0.2
# Known pixels at which the surface is tested: those of a grid with this distance, beside those under the moved mask.
TESTED = 5
# Many passes with few groups are better than few passes with many: the reference patches of a pass lie side by side.
# Their borders move by this part of a patch from pass to pass, so that none is used again soon. The mask moves by this
# part of the image.
GROUPS = Groups(8, 32, stride=8, reach=15)
MOVE = (5**0.5 - 1) / 2
# The iteration ends when a pass changes no pixel by more than this. In photographs pixels change in every pass, and
# still gain when they hardly do: a criterion that is met earlier costs up to several dB.
TOLERANCE = 1e-4
# Steps of the conjugate gradient method for the smooth surface from which the iteration starts.
SURFACE_STEPS = 100


def inpaint(
    image: Any,
    mask: Any,
    *,
    passes: int = 50,
    device: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Array:
    """Fill in the missing pixels of an image.

    Alternates between two sets: the images that agree with the known pixels, and the images in which similar patches
    are samples of few-dimensional Gaussians, up to an error that shrinks from pass to pass.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, of any size. 8-bit and 16-bit values are scaled to the range from 0 to 1. The values of missing
        pixels are ignored.
    mask : array of bool, shape (height, width)
        True where a pixel is missing. Whole numbers are accepted as well: 0 where a pixel is known, and one other
        number, such as 255, where it is missing.
    passes : int, optional
        Number of alternations, in which the noise falls by equal factors. More of them take longer and mostly give
        better results. Where nothing changes any more, as in flat images, the iteration ends earlier; in photographs,
        all alternations are made.
    device : {'cpu', 'cuda', 'auto'}, optional
        Where to filter; 'auto' uses a GPU if there is one. The default is the device of the image. The surface from
        which the iteration starts is always computed on a CPU.
    progress : callable, optional
        Called as ``progress(done, total)``, in units of equal duration.

    Returns
    -------
    array
        The completed image, of the same shape, library and device, with the known pixels unchanged: float64 if
        ``image`` is, and float32 otherwise. An alpha channel is returned as it is.

    Notes
    -----
    The iteration starts from a surface with the least sum of squared second differences, limited to the range of the
    known pixels, as the result is. Its errors are measured where pixels are known: at single pixels, and under the
    mask, moved to another part of the image. With e^2 the mean of their fourth powers divided by that of their squares,
    so that large errors count most, one pass is ::

        x <- x + 1.8 (smooth(x) - x)    where pixels are missing,
        x <- image                      elsewhere,

    where ``smooth`` is the Wiener filter of :func:`denoise`, with x as its own pilot, for noise that falls from
    0.35 e to 0.05 e, in each channel with its own e. The result takes the missing pixels from the last ``smooth(x)``.
    The known pixels are first scaled so that their brightness lies between 0 and 1, so that neither exposure nor units
    matter, and e counts as at most 0.2. Reference patches lie side by side, and the grid that they form moves from pass
    to pass.

    Examples
    --------
    >>> import numpy as np
    >>> import sparsect
    >>> image = sparsect.images.sample("camera")[200:260, 200:260]
    >>> mask = np.random.default_rng(0).random(image.shape) < 0.3
    >>> filled = sparsect.images.inpaint(image, mask)
    >>> np.array_equal(filled[~mask], image[~mask])
    True
    >>> sparsect.images.psnr_db(image, filled) > 25
    True
    """
    given = as_array("image", image)
    missing = _mask(mask, given)
    # Zeros in the dtype of the image, because the dtype determines the value of white.
    torn = np.where(missing if given.ndim == 2 else missing[..., None], given.dtype.type(0), given)
    colour, alpha = colour_and_alpha("image", torn, double=True)
    if alpha is not None:
        alpha = colour_and_alpha("image", given[..., -1], double=True)[0][..., None]
    passes = whole_number("passes", passes, 1)
    gaps = padded(missing, GROUPS.side)
    groups = [replace(GROUPS, shift=int(number * MOVE % 1 * GROUPS.stride)) for number in range(passes)]
    report = Report(progress, [(each, 1) for each in groups], gaps.shape, gaps)
    lowest, unit = colour[~missing].min(), np.ptp(colour[~missing]) or colour.dtype.type(1)
    # Brightness, the sum of three channels divided by its norm, is to have values up to 1, too.
    unit *= colour.dtype.type(colour.shape[2] ** 0.5 if colour.ndim == 3 else 1)
    surface = _surface(to_planes(padded(((colour - lowest) / unit).astype(np.float32), GROUPS.side)), gaps)
    errors = _errors(surface, gaps)
    first, last = FIRST * float(errors[0]), LAST * float(errors[0])
    # Scaled to the error of the brightness, every channel has the same noise.
    weights = (errors[0] / errors)[:, None, None]
    smooth = x = placed(weights * surface, image, device)
    if gaps.any():
        xp, unknown = namespace(x), from_numpy(to_numpy(gaps), x)
        still = False
        for number, sigma in enumerate(np.geomspace(first, last, passes)):
            sigma = last if still else sigma
            with memory_errors("image", "a larger image", "smaller, or be completed with device='cpu'"):
                smooth = wiener(x, x, float(sigma) ** 2, 1.0, groups[number], report.of(number), gaps)
            step = xp.where(unknown, STEP * (smooth - x), xp.zeros_like(x))
            x = x + step
            if float(xp.max(xp.abs(step))) <= TOLERANCE:
                if sigma == last:
                    break
                # Nothing changes at this level of noise any more: only the last one is left.
                still = True
    report.end()
    filled = lowest + unit * to_image(to_numpy(smooth) / weights, colour)
    filled = np.clip(filled, colour[~missing].min(axis=0), colour[~missing].max(axis=0))
    whole: Array = np.where(missing if colour.ndim == 2 else missing[..., None], filled, colour)
    return returned(whole, alpha, image)


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


def _surface(planes: Array, missing: Array) -> Array:
    """Replace the missing pixels of each plane by a smooth surface, within the range of its known pixels."""
    surface = np.stack([_flattened(_nearby_averages(plane, missing), missing) for plane in planes])
    known = planes[:, ~missing]
    # At the border of the image, the surface would be continued with the slope of the last known pixels.
    return np.clip(surface, known.min(axis=1)[:, None, None], known.max(axis=1)[:, None, None])


def _errors(surface: Array, missing: Array) -> Array:
    """Return the error of a surface in each channel: that of another one, in place of pixels that are known."""
    moved = np.roll(missing, [int(MOVE * length) for length in missing.shape], (0, 1))
    grid = np.zeros_like(missing)
    grid[::TESTED, ::TESTED] = True
    # Single pixels are easier to fill in than those of wide gaps, and those under a small mask are few.
    tested = [where for where in (moved & ~missing, grid & ~missing) if where.any()]
    if not tested or (moved | grid).all():
        return np.full(len(surface), LARGEST, np.float32)
    squares = (_surface(surface, moved | grid) - surface) ** 2
    # Few large errors at edges matter more than many small ones: each square counts in proportion to itself.
    means = [
        (part**2).mean(axis=1) / np.maximum(part.mean(axis=1), TOLERANCE**2)
        for part in (squares[:, where] for where in tested)
    ]
    # No pixel is worth a smaller change than the tolerance.
    errors: Array = np.clip(np.sqrt(np.max(means, axis=0)), TOLERANCE, LARGEST)
    return errors


def _flattened(x: Array, missing: Array) -> Array:
    """Lower the sum of squared second differences over the missing pixels, by conjugate gradients."""
    residual = np.where(missing, -_bending(x), np.float32(0))
    direction, energy = residual, float(np.vdot(residual, residual))
    enough = 1e-6 * energy
    for _ in range(SURFACE_STEPS):
        if energy <= enough:
            break
        curvature = np.where(missing, _bending(direction), np.float32(0))
        step = np.float32(energy / float(np.vdot(direction, curvature)))
        x, residual = x + step * direction, residual - step * curvature
        energy, before = float(np.vdot(residual, residual)), energy
        direction = residual + np.float32(energy / before) * direction
    return x


def _bending(x: Array) -> Array:
    """Return the gradient of half the sum of squared second differences, mixed ones counted twice."""
    gradient = np.zeros_like(x)
    for along, rows in ((x, gradient), (x.T, gradient.T)):
        bend = along[:-2] - 2 * along[1:-1] + along[2:]
        rows[:-2] += bend
        rows[1:-1] -= 2 * bend
        rows[2:] += bend
    twist = 2 * (x[1:, 1:] - x[1:, :-1] - x[:-1, 1:] + x[:-1, :-1])
    gradient[1:, 1:] += twist
    gradient[1:, :-1] -= twist
    gradient[:-1, 1:] -= twist
    gradient[:-1, :-1] += twist
    return gradient


def _mask(mask: Any, image: Array) -> Array:
    """Return the mask as booleans of the size of the image; at least one pixel must be known."""
    refuse_masked("mask", mask)
    missing = np.asarray(mask)
    if missing.ndim != 2 or missing.shape != image.shape[:2]:
        raise reject("mask", f"shape {missing.shape}", f"have the shape of the image, {image.shape[:2]}")
    if missing.dtype.kind not in "bui":
        raise reject("mask", f"dtype {missing.dtype}", "hold booleans, true where a pixel is missing")
    values = np.unique(missing)
    if missing.dtype.kind != "b" and values.size > 1 and (values.size > 2 or 0 not in values):
        got = f"the values {values[0]} and {values[1]}" if values.size == 2 else f"{values.size} different values"
        raise reject("mask", got, "hold booleans, or 0 where a pixel is known and one other value where it is missing")
    missing = missing.astype(bool)
    if missing.all():
        raise reject("mask", "every pixel missing", "leave at least one pixel known")
    return missing
