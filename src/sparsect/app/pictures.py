"""Pictures that come from a browser, and pictures that go there."""

from __future__ import annotations

import base64
import io
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np

from .. import images
from ..backend.arrays import Array
from ..backend.checks import InputError, reject
from ..images.files import pixels, white_of
from ..images.photograph import DECODED, opened, read_photograph

# A photograph may have this many pixels; its header tells, before it is decoded.
MOST_PIXELS = 40_000_000
TOO_LARGE = f"A photograph may have at most {MOST_PIXELS // 10**6} megapixels"
# The longer side of what is kept of it.
LONGEST = 2048
DECODING = threading.Lock()


def decoded(data: bytes) -> Array:
    """Decode a photograph from a browser.

    Parameters
    ----------
    data : bytes
        The contents of an image file.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The photograph, float32, with values from 0 to 1, scaled down to at most 2048 pixels on its longer side. If
        there are larger values, as in floating-point images on another scale, the largest one becomes 1.

    Raises
    ------
    InputError
        If it is not an image, damaged, or has too many pixels.
    """
    # The decoders read files; the name is ours, and the file is gone when this returns.
    with tempfile.TemporaryDirectory(prefix="sparsect-") as folder:
        path = os.path.join(folder, "upload")
        Path(path).write_bytes(data)
        try:
            with opened(path) as header:
                width, height = header.size
                if width * height > MOST_PIXELS:
                    raise InputError(f"{TOO_LARGE}, and this one has {width}x{height} pixels.")
            # One after the other: a photograph takes up to half a gigabyte while it is decoded.
            with DECODING:
                photograph = pixels("photograph", read_photograph(path).levels)
                photograph = photograph / white_of(photograph)
                return images.resize(photograph, LONGEST) if max(photograph.shape[:2]) > LONGEST else photograph
        except InputError as error:
            raise InputError(_in_words(error, path)) from None


def _in_words(error: InputError, path: str) -> str:
    """Return what is wrong with a file, without its name, for those who have dropped it on a page."""
    from PIL import Image, UnidentifiedImageError

    # What the decoder had raised.
    match error.__context__:
        case Image.DecompressionBombError():
            return f"{TOO_LARGE}, and this one has many more."
        case UnidentifiedImageError():
            return f"This file is not an image of a kind that can be read: {', '.join(DECODED)}."
        case OSError() | SyntaxError() | ValueError() | EOFError():
            return "This file is a damaged image: it cannot be read to its end."
    return str(error).replace(f"`{path}`", "The image").replace(path, "The image")


def decoded_mask(url: str, shape: tuple[int, ...]) -> Array:
    """Decode a mask that was painted in the browser.

    Parameters
    ----------
    url : str
        A PNG image as a data URL; what is painted is opaque.
    shape : tuple of int
        Height and width that it must have.

    Returns
    -------
    array of bool, shape (height, width)
        True where something is painted.
    """
    from PIL import Image

    kind, _, data = url.partition(",")
    if kind != "data:image/png;base64":
        raise reject("mask", kind[:40], "a PNG image")
    try:
        with Image.open(io.BytesIO(base64.b64decode(data)), formats=["PNG"]) as painted:
            if painted.size != shape[::-1]:
                raise reject("mask", f"{painted.size[0]}x{painted.size[1]} pixels", "have the size of the photograph")
            return np.asarray(painted.convert("RGBA"))[..., 3] > 127
    except (OSError, ValueError, SyntaxError) as error:
        raise InputError(f"The mask cannot be read ({error}).") from None


def levels(image: Array) -> Array:
    """Round an image to 8 bits per channel.

    Parameters
    ----------
    image : array
        The image, with values from 0 to 1; others are clipped.

    Returns
    -------
    array of uint8
        The image.
    """
    rounded: Array = np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)
    return rounded


def png(image: Array) -> bytes:
    """Encode an image.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, 3)
        The image, uint8, or with values from 0 to 1.

    Returns
    -------
    bytes
        The contents of a PNG file.
    """
    from PIL import Image

    stream = io.BytesIO()
    shown = image if image.dtype == np.uint8 else levels(image)
    Image.fromarray(np.ascontiguousarray(shown)).save(stream, "png", compress_level=1)
    return stream.getvalue()


def data_url(image: Array, scale: int = 1) -> str:
    """Return a small image as a URL that contains it.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, 3)
        The image, with values from 0 to 1.
    scale : int, optional
        How many times each pixel is repeated in both directions.

    Returns
    -------
    str
        The URL.
    """
    larger = np.repeat(np.repeat(image, scale, axis=0), scale, axis=1)
    return "data:image/png;base64," + base64.b64encode(png(larger)).decode()


def prepared(photograph: Array, longest: int, grey: bool, noise: float, seed: int) -> tuple[Array, Array]:
    """Make the picture that is worked on: scaled down, grey if asked, with noise added, in 8 bits.

    Parameters
    ----------
    photograph : array, shape (height, width) or (height, width, 3)
        The photograph, with values from 0 to 1.
    longest : int
        The longer side is scaled down to this many pixels.
    grey : bool
        Whether colours are removed.
    noise : float
        Standard deviation of the noise that is added, where white is 1.
    seed : int
        Seed of the noise.

    Returns
    -------
    clean : array of uint8
        The picture without noise.
    given : array of uint8
        The picture with noise.
    """
    image = images.to_gray(photograph) if grey else photograph
    if max(image.shape[:2]) > longest:
        image = images.resize(image, longest)
    clean = levels(image)
    rng = np.random.default_rng(seed)
    given = levels(clean / np.float32(255) + np.float32(noise) * rng.standard_normal(clean.shape, dtype=np.float32))
    return clean, given if noise else clean


def atom_pictures(atoms: Array, side: int, channels: int) -> list[Array]:
    """Scale atoms to pictures, mid-grey at zero.

    Parameters
    ----------
    atoms : array, shape (count, channels * side * side)
        The atoms, one per row.
    side : int
        Side of a patch.
    channels : int
        3 for colours, else 1.

    Returns
    -------
    list of array, shape (side, side) or (side, side, 3)
        The pictures, with values from 0 to 1.
    """
    found: list[Any] = []
    for atom in atoms:
        patch = atom.reshape(channels, side, side)
        shown = 0.5 + 0.5 * patch / max(float(np.abs(patch).max()), 1e-12)
        found.append(shown[0] if channels == 1 else np.moveaxis(shown, 0, -1))
    return found
