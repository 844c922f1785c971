"""Reading and writing of image files; pixel values are scaled to the range from 0 to 1."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import array_api_compat as compat
import numpy as np

from ..backend import files
from ..backend.array_checks import refuse_masked
from ..backend.arrays import Array, namespace, to_numpy
from ..backend.checks import reject, whole_number
from ..backend.writing import replacing
from .photograph import IMAGE_SUFFIXES, read_photograph

# Weights of red, green and blue in brightness (ITU-R BT.601).
BRIGHTNESS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
ACCEPTED_SHAPES = "an array of shape (height, width), or with 1 to 4 channels last"
# Upper bound on the length of a side; no image format allows more.
LONGEST_SIDE = 2**31 - 1
# Sums of squares of larger pixel values overflow float32.
LARGEST = 1e15
# Floating-point images with values beyond this are on another scale than that on which white is 1.
BEYOND_WHITE = 2.0
# An image in which this share of all pixels is that bright is not written.
MANY_PIXELS = 0.25


def pixels(name: str, image: Any, anywhere: bool = False) -> Array:
    """Convert an image to float32 with values from 0 to 1.

    8-bit and 16-bit values are scaled to the range from 0 to 1; floating-point values are kept. An alpha channel is
    blended over white, and a single channel is reduced to two dimensions.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    image : array, shape (height, width) or (height, width, channels)
        The image, with 1 to 4 channels.
    anywhere : bool, optional
        If True, torch and CuPy arrays stay in their library and on their device.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The image as float32: a NumPy array or, if ``anywhere`` is True, an array of the image's own library.

    Raises
    ------
    InputError
        If the image has another shape or dtype, or pixels that are not finite.
    """
    array = _scaled(name, image, anywhere)
    if array.ndim == 3 and array.shape[2] in (2, 4):
        colour, alpha = array[..., :-1], array[..., -1:]
        array = _finite(name, colour * alpha + (1 - alpha))
    return array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array


def colour_and_alpha(name: str, image: Any, double: bool = False) -> tuple[Array, Array | None]:
    """Convert an image to float32 with values from 0 to 1, and its alpha channel apart from it.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    image : array, shape (height, width) or (height, width, channels)
        The image, with 1 to 4 channels.
    double : bool, optional
        If True, an image of double precision stays float64.

    Returns
    -------
    colour : array, shape (height, width) or (height, width, 3)
        The image without its alpha channel.
    alpha : array, shape (height, width, 1), or None
        The alpha channel, if there is one.
    """
    array = _scaled(name, image, double=double)
    if array.ndim == 2 or array.shape[2] == 3:
        return array, None
    if array.shape[2] == 1:
        return array[..., 0], None
    colour = array[..., :-1]
    return (colour[..., 0] if colour.shape[2] == 1 else colour), array[..., -1:]


def _scaled(name: str, image: Any, anywhere: bool = False, double: bool = False) -> Array:
    """Convert an image to float32, or leave it float64; 8-bit and 16-bit values are scaled to the range from 0 to 1."""
    array = as_array(name, image, anywhere)
    xp = namespace(array)
    if array.dtype in (xp.uint8, xp.uint16):
        return xp.astype(array, xp.float32) / xp.iinfo(array.dtype).max
    if not xp.isdtype(array.dtype, ("bool", "real floating")):
        raise reject(name, f"dtype {array.dtype}", "have dtype uint8 or uint16, or floating numbers from 0 to 1")
    with np.errstate(over="ignore", invalid="ignore"):
        dtype = xp.float64 if double and array.dtype == xp.float64 else xp.float32
        return _finite(name, xp.astype(array, dtype, copy=False))


def _finite(name: str, array: Array) -> Array:
    xp = namespace(array)
    if not bool(xp.all(xp.abs(array) <= LARGEST)):
        raise reject(
            name, f"pixels that are NaN, infinite or beyond {LARGEST:g}", "have finite pixels, preferably from 0 to 1"
        )
    return array


def white_of(image: Array) -> float:
    """Return the value of an image that is drawn white.

    Parameters
    ----------
    image : array
        The image, as :func:`pixels` returns it.

    Returns
    -------
    float
        1, or the largest value if that is larger, as in floating-point images on another scale.
    """
    return max(1.0, float(image.max()))


def to_gray(image: Any) -> Array:
    """Convert an image to grey levels.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image; an alpha channel is blended over white.

    Returns
    -------
    array, shape (height, width)
        The brightness of the image (ITU-R BT.601 weights of red, green and blue), float32.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")
    >>> cat.shape, sparsect.images.to_gray(cat).shape
    ((300, 451, 3), (300, 451))
    """
    image = pixels("image", image)
    brightness: Array = image if image.ndim == 2 else image @ BRIGHTNESS
    return brightness


def to_colour(image: Any) -> Array:
    """Convert an image to red, green and blue.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image; an alpha channel is blended over white.

    Returns
    -------
    array, shape (height, width, 3)
        The image, float32; a grey image has three equal channels.
    """
    image = pixels("image", image)
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)


def as_array(name: str, image: Any, anywhere: bool = False) -> Array:
    """Convert an image to an array of numbers and check its shape.

    Parameters
    ----------
    name : str
        The argument's name for error messages.
    image : array, shape (height, width) or (height, width, channels)
        The image, or anything that NumPy converts to such an array.
    anywhere : bool, optional
        If True, torch and CuPy arrays stay in their library and on their device.

    Returns
    -------
    array, shape (height, width) or (height, width, channels)
        A NumPy array or, if ``anywhere`` is True, an array of the image's own library; the dtype is unchanged.
    """
    refuse_masked(name, image)
    if compat.is_torch_array(image):
        image = image.detach()
    if anywhere and (compat.is_torch_array(image) or compat.is_cupy_array(image)):
        array = image
    else:
        try:
            array = to_numpy(image) if compat.is_array_api_obj(image) else np.asarray(image)
        except (TypeError, ValueError):
            raise reject(name, f"an object of type {type(image).__name__}", ACCEPTED_SHAPES) from None
        if array.dtype.kind not in "biufc":
            raise reject(name, f"an object of type {type(image).__name__}", f"an array of numbers, {ACCEPTED_SHAPES}")
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 2, 3, 4)):
        raise reject(name, f"shape {tuple(array.shape)}", ACCEPTED_SHAPES)
    if 0 in array.shape:
        raise reject(name, f"shape {tuple(array.shape)}", "have at least one pixel")
    return array


def read_image(path: str | os.PathLike[str]) -> Array:
    """Read an image file.

    The image is rotated upright according to its EXIF orientation. Only the first image of an animation, or of a TIFF
    file with several pages, is read.

    Parameters
    ----------
    path : str or path-like
        A PNG, JPEG, TIFF, BMP, WebP or GIF file with 8 or 16 bits per channel, a TIFF file of floating-point numbers,
        or an ``.npy`` file.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The image as float32 with values from 0 to 1; an alpha channel is blended over white, and floating-point values
        are kept as they are.

    Raises
    ------
    InputError
        If the file is missing, damaged, not an image, or too large for memory.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import sparsect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cat.png")
    ...     sparsect.images.write_image(path, sparsect.images.sample("chelsea"))
    ...     sparsect.images.read_image(path).shape
    (300, 451, 3)
    """
    return pixels(files.path_name("path", path), read_photograph(path).levels)


def write_image(path: str | os.PathLike[str], image: Any) -> None:
    """Write an image file with 8 bits per channel.

    The file is written under a temporary name and then renamed, so that it is never left incomplete.

    Parameters
    ----------
    path : str or path-like
        The file; its extension gives the format (.png, .jpg, .jpeg, .tif, .tiff, .bmp or .webp).
    image : array, shape (height, width) or (height, width, channels)
        The image; floating-point values outside the range from 0 to 1 are clipped.

    Raises
    ------
    InputError
        If the extension is unknown, the file cannot be written, or the image is evidently on another scale, such as
        that from 0 to 255.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import sparsect
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sparsect.images.write_image(os.path.join(folder, "cat.png"), sparsect.images.sample("chelsea"))
    ...     os.listdir(folder)
    ['cat.png']
    """
    from PIL import Image

    check_format(path)
    array = pixels("image", image)
    # Strong noise makes some pixels that bright on any scale.
    if np.mean(array > BEYOND_WHITE) > MANY_PIXELS:
        hint = "Divide it by the value of white, such as 255."
        raise reject("image", f"values up to {white_of(array):g}", "have values from 0 to 1", hint)
    levels = np.round(255 * np.clip(array, 0, 1)).astype(np.uint8)
    with replacing(path) as temporary:
        Image.fromarray(levels).save(temporary)


def check_format(path: str | os.PathLike[str]) -> None:
    """Raise an error if a file name does not have the extension of an image format.

    Parameters
    ----------
    path : str or path-like
        The file name.

    Raises
    ------
    InputError
        If the extension is not that of a supported format.
    """
    name = files.path_name("path", path)
    if Path(name).suffix.lower() not in IMAGE_SUFFIXES:
        raise reject("path", f"the file name {name!r}", f"a name that ends in {', '.join(IMAGE_SUFFIXES)}")


def resize(image: Any, longest: int) -> Array:
    """Scale an image so that its longer side has a given length.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image.
    longest : int
        Length of the longer side in pixels.

    Returns
    -------
    array
        The scaled image, float32, with values clipped to the range from 0 to 1, or to that of the image if it is
        larger. The aspect ratio is kept.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")
    >>> sparsect.images.resize(cat, 100).shape
    (67, 100, 3)
    """
    from PIL import Image

    image = pixels("image", image)
    longest = whole_number("longest", longest, 1, LONGEST_SIDE)
    height, width = image.shape[:2]
    scale = longest / max(height, width)
    files.check_size("image", round(32 * height * scale * width * scale))
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    channels = [image] if image.ndim == 2 else list(np.moveaxis(image, -1, 0))
    scaled = [
        np.asarray(Image.fromarray(np.ascontiguousarray(part)).resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0))
        for part in channels
    ]
    joined = scaled[0] if image.ndim == 2 else np.stack(scaled, axis=-1)
    within: Array = np.clip(joined, min(0.0, float(image.min())), white_of(image))
    return within
