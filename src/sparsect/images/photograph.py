"""Image files as they are: with their depth, alpha channel, EXIF data and colour profile."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import threading
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend import files
from ..backend.arrays import Array
from ..backend.checks import InputError, reject
from ..backend.writing import replacing
from . import png16

if TYPE_CHECKING:
    from PIL import Image

# Formats that are decoded, whatever the extension of the file.
DECODED = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
# What each format can hold, by extension: the depths, and whether an alpha channel.
DEPTHS = ("uint8", "uint16", "float16", "float32", "float64")
WRITTEN: dict[str, tuple[tuple[str, ...], bool]] = {
    ".png": (("uint8", "uint16"), True),
    ".tif": (DEPTHS, True),
    ".tiff": (DEPTHS, True),
    ".npy": (DEPTHS, True),
    ".webp": (("uint8",), True),
    ".jpg": (("uint8",), False),
    ".jpeg": (("uint8",), False),
    ".bmp": (("uint8",), False),
}
TIFF_SIGNATURES = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
# The TIFF tags of the orientation and of the ICC profile.
ORIENTATION_TAG, PROFILE_TAG = 274, 34675
# Orientations of images that lie on their side.
TURNED = (5, 6, 7, 8)
# Photometric interpretations of deep TIFF files that are read: white is zero, black is zero, red, green and blue.
WHITE_IS_ZERO, PHOTOMETRIC = 0, (0, 1, 2)
# Compressions that tifffile reads with another package only, and the tags that describe a picture, not its storage.
LZW = 5
DESCRIPTIVE_TAGS = (270, 271, 272, 282, 283, 296, 305, 306, 315, 33432, 34665, 34853)
# The description that tifffile writes, of how it stored the array: it does not fit what is written.
DESCRIPTION_TAG, SHAPED = 270, re.compile(r'\{.*"shape":|shape=\(')
# The value of a TIFF file's extra channel that says that colours have been multiplied by alpha.
MULTIPLIED = 1
# The resolutions in dots per inch that every format holds, and the TIFF tags of the resolution and of its unit: 2 is an
# inch, the default, and 3 a centimetre.
RESOLUTIONS = (1, 65535)
RESOLUTION_TAGS, UNIT_TAG, UNITS = (282, 283), 296, {2: 1.0, 3: 2.54}
# Held while Pillow's limit on the size of images, a global variable, is lifted.
LIMIT = threading.Lock()


@dataclass(frozen=True)
class Photograph:
    """The contents of an image file.

    Attributes
    ----------
    levels : array, shape (height, width) or (height, width, channels)
        The pixels as stored, upright, with the alpha channel last: uint8, uint16, bool, or floating-point numbers.
    exif : bytes or None
        EXIF data, without the orientation, because the pixels are upright.
    profile : bytes or None
        ICC profile.
    count : int
        Number of images in the file (frames of an animation, pages of a TIFF file); this is the first one.
    resolution : tuple of float or None
        Dots per inch, horizontally and vertically, if they are known.
    """

    levels: Array
    exif: bytes | None = None
    profile: bytes | None = None
    count: int = 1
    resolution: tuple[float, float] | None = None

    @property
    def depth(self) -> str:
        """How pixels are stored: 'uint8', 'uint16', 'float16', 'float32' or 'float64'."""
        name = str(self.levels.dtype)
        return name if name in DEPTHS else "uint8" if name == "bool" else "float32"

    def check_output(self, path: str | os.PathLike[str]) -> None:
        """Raise an error if a format cannot hold an image like this one.

        Parameters
        ----------
        path : str or path-like
            The file that is to be written.

        Raises
        ------
        InputError
            If the extension is unknown, or pixels or alpha channel would be lost.
        """
        name = files.path_name("path", path)
        alpha = self.levels.ndim == 3 and self.levels.shape[2] in (2, 4)
        fitting = [end for end, (depths, clear) in WRITTEN.items() if self.depth in depths and (clear or not alpha)]
        if Path(name).suffix.lower() not in fitting:
            kind = f"an image of {self.depth} numbers{' with an alpha channel' if alpha else ''}"
            raise reject("--out", repr(name), f"a name that ends in {', '.join(fitting)} for {kind}")

    def write(self, path: str | os.PathLike[str], image: Array) -> None:
        """Write another image with the depth, EXIF data, profile and resolution of this one.

        The file is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The file; its extension gives the format.
        image : array, shape (height, width) or (height, width, channels)
            The image, with values from 0 to 1. Values outside are clipped, unless the depth is that of floating-point
            numbers.
        """
        self.check_output(path)
        suffix, depth = Path(path).suffix.lower(), np.dtype(self.depth)
        levels = image
        if depth.kind == "u":
            levels = np.round(np.iinfo(depth).max * np.clip(levels.astype(np.float64), 0, 1))
        levels = levels.astype(depth)
        if levels.ndim == 3 and levels.shape[2] == 1 and suffix != ".npy":
            levels = levels[..., 0]
        with replacing(path) as temporary:
            if suffix == ".npy":
                with temporary.open("wb") as stream:
                    np.save(stream, levels)
            elif suffix == ".png" and depth == np.uint16:
                temporary.write_bytes(png16.encode(levels, self.exif, self.profile, self.resolution))
            elif suffix in (".tif", ".tiff") and depth != np.uint8:
                _write_tiff(temporary, levels, self.profile, self.resolution)
            else:
                from PIL import Image

                about: dict[str, Any] = {"exif": self.exif, "icc_profile": self.profile, "dpi": self.resolution}
                # Exact: colours under transparent pixels are kept.
                lossless = {"lossless": True, "exact": True}
                quality: dict[str, Any] = {"quality": 95} if suffix in (".jpg", ".jpeg") else lossless
                about |= quality if suffix in (".jpg", ".jpeg", ".webp") else {}
                Image.fromarray(levels).save(temporary, **{key: value for key, value in about.items() if value})


def read_photograph(path: str | os.PathLike[str]) -> Photograph:
    """Read an image file without changing its depth.

    Parameters
    ----------
    path : str or path-like
        A PNG, JPEG, TIFF, BMP, WebP, GIF or ``.npy`` file.

    Returns
    -------
    Photograph
        The contents of the file.

    Raises
    ------
    InputError
        If the file is missing, damaged, not an image, or too large for memory.
    """
    name = files.path_name("path", path)
    if Path(name).suffix.lower() == ".npy":
        levels = files.read_array(name)
        return Photograph(levels.astype(levels.dtype.newbyteorder("="), copy=False))
    deep = _read_deep_tiff(name)
    if deep is not None:
        return deep
    with _of_any_size(), opened(name) as photograph:
        from PIL import ImageOps

        # Checked from the header, before decoding: processing takes about 32 bytes per pixel.
        files.check_size(name, 32 * photograph.width * photograph.height)
        turned, profile = photograph.getexif().get(0x0112, 1), photograph.info.get("icc_profile")
        resolution = _resolution(photograph.info.get("dpi"), turned)
        # The further images of a JPEG file from a camera are previews.
        count = 1 if photograph.format == "MPO" else getattr(photograph, "n_frames", 1)
        upright = ImageOps.exif_transpose(photograph)
        exif = _described(photograph) if photograph.format == "TIFF" else upright.getexif()
        exif = exif.tobytes() if exif else None
        with open(name, "rb") as stream:
            if png16.is_deep(stream.read(29)):
                stream.seek(0)
                levels = png16.decode(name, stream.read())
                levels = levels[..., 0] if levels.shape[2] == 1 else levels
                return Photograph(_upright(levels, turned), exif, profile, count, resolution)
        if upright.mode in ("I", "F"):
            raise reject(name, "an image with 32 bits per pixel", "have 8 or 16 bits per pixel")
        if "transparency" in upright.info:
            if upright.mode.startswith("I;16"):
                raise reject(name, "a transparent grey level in an image of 16 bits", "have an alpha channel instead")
            upright = upright.convert("RGBA")
        elif upright.mode not in ("1", "L", "LA", "RGB", "RGBA") and not upright.mode.startswith("I;16"):
            # The profile describes the colours before they are converted.
            profile = None if upright.mode in ("CMYK", "LAB") else profile
            upright = upright.convert("RGBA" if upright.mode in ("PA", "La", "RGBa") else "RGB")
        levels = np.asarray(upright)
    if levels.dtype.kind == "u" and levels.dtype.itemsize == 2:
        levels = levels.astype(np.uint16)
    return Photograph(levels, exif, profile, count, resolution)


def _read_deep_tiff(name: str) -> Photograph | None:
    """Read a TIFF file of 16-bit or floating-point numbers, which Pillow reads in grey only; None for other files."""
    import tifffile

    files.check_regular(name)
    try:
        with open(name, "rb") as stream:
            if stream.read(4) not in TIFF_SIGNATURES:
                return None
        with warnings.catch_warnings(), tifffile.TiffFile(name) as file:
            warnings.simplefilter("ignore")
            pages: Any = file.pages
            page = pages[0]
            if page.dtype is None or page.dtype in (np.bool_, np.uint8):
                return None
            files.check_size(name, 32 * page.imagewidth * page.imagelength)
            if page.dtype.kind != "f" and page.dtype != np.uint16:
                rule = "have unsigned numbers of 8 or 16 bits, or floating-point numbers"
                raise reject(name, f"an image of {page.dtype} numbers", rule)
            if page.photometric not in PHOTOMETRIC:
                raise reject(
                    name, f"the colours {page.photometric.name}", "be grey, or have red, green and blue channels"
                )
            by_pillow = page.compression == LZW and not _reads_lzw()
            levels: Any = _read_grey(name, page) if by_pillow else page.asarray()
            turned, profile = (page.tags.valueof(tag) for tag in (ORIENTATION_TAG, PROFILE_TAG))
            count = sum(not other.is_reduced for other in pages)
            unit = UNITS.get(page.tags.valueof(UNIT_TAG, default=2))
            dots = [page.tags.valueof(tag) for tag in RESOLUTION_TAGS]
            resolution = None
            if unit and all(dots):
                resolution = _resolution([unit * above / below for above, below in dots], turned or 1)
    except InputError:
        raise
    except OSError as error:
        raise InputError(f"{name}: cannot be read ({error.strerror or error}).") from None
    except Exception as error:  # the decoder raises errors of many types for damaged files
        raise InputError(f"{name}: a damaged image ({error})") from None
    if page.planarconfig == 2 and levels.ndim == 3:
        levels = np.moveaxis(levels, 0, -1)
    levels = levels.astype(levels.dtype.newbyteorder("="), copy=False)
    if page.photometric == WHITE_IS_ZERO:
        levels = (1 if levels.dtype.kind == "f" else np.iinfo(levels.dtype).max) - levels
    if MULTIPLIED in page.extrasamples:
        levels = _divided_by_alpha(levels)
    return Photograph(_upright(levels, turned or 1), None, profile, count, resolution)


def _reads_lzw() -> bool:
    """Whether tifffile has the package that it needs for LZW."""
    return importlib.util.find_spec("imagecodecs") is not None


def _read_grey(name: str, page: Any) -> Array:
    """Read a grey image with LZW compression, which Pillow does; it reads no deep colours."""
    if page.samplesperpixel > 1 or page.photometric == WHITE_IS_ZERO:
        what = f"{page.bitspersample} bits per channel with LZW compression"
        raise reject(name, what, "have another compression, such as deflate", "Or call: pip install imagecodecs")
    with _of_any_size(), opened(name) as photograph:
        return np.asarray(photograph).astype(page.dtype)


def _described(photograph: Image.Image) -> Any:
    """Return the EXIF data of a TIFF file, without the tags that say how pixels are stored, and the orientation."""
    exif = photograph.getexif()
    for tag in set(exif) - set(DESCRIPTIVE_TAGS):
        del exif[tag]
    if SHAPED.match(str(exif.get(DESCRIPTION_TAG, ""))):
        del exif[DESCRIPTION_TAG]
    return exif


def _divided_by_alpha(levels: Array) -> Array:
    """Undo the multiplication of colours by alpha; where alpha is zero, colours are zero."""
    white = 1 if levels.dtype.kind == "f" else np.iinfo(levels.dtype).max
    colour, alpha = levels[..., :-1] / np.float64(white), levels[..., -1:] / np.float64(white)
    colour = np.divide(colour, alpha, out=np.zeros_like(colour), where=alpha > 0)
    if levels.dtype.kind == "u":
        colour = np.round(white * np.minimum(colour, 1))
    return np.concatenate([colour.astype(levels.dtype), levels[..., -1:]], axis=-1)


def _write_tiff(path: Path, levels: Array, profile: bytes | None, resolution: tuple[float, float] | None) -> None:
    import tifffile

    channels = levels.shape[2] if levels.ndim == 3 else 1
    options: dict[str, Any] = {"photometric": "rgb" if channels >= 3 else "minisblack", "metadata": None}
    if channels in (2, 4):
        options |= {"extrasamples": ["unassalpha"], "planarconfig": "contig"}
    if resolution:
        options |= {"resolution": resolution, "resolutionunit": "inch"}
    tifffile.imwrite(path, levels, iccprofile=profile, **options)


def _resolution(dots: Any, orientation: int) -> tuple[float, float] | None:
    """Return the dots per inch of the upright image; None if they are not known or no resolution."""
    with contextlib.suppress(TypeError, ValueError, ZeroDivisionError):
        across, down = (float(number) for number in dots)
        if all(RESOLUTIONS[0] <= number <= RESOLUTIONS[1] for number in (across, down)):
            return (down, across) if orientation in TURNED else (across, down)
    return None


def _upright(levels: Array, orientation: int) -> Array:
    """Rotate and mirror pixels according to their EXIF orientation."""
    if orientation in TURNED:
        levels = levels.swapaxes(0, 1)
    if orientation in (2, 3, 6, 7):
        levels = levels[:, ::-1]
    if orientation in (3, 4, 7, 8):
        levels = levels[::-1]
    return np.ascontiguousarray(levels)


@contextlib.contextmanager
def _of_any_size() -> Iterator[None]:
    """Lift Pillow's limit on the number of pixels where memory is the limit; one thread at a time."""
    from PIL import Image

    with LIMIT:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = limit


@contextlib.contextmanager
def opened(name: str) -> Iterator[Image.Image]:
    """Open an image file and read its header; errors are converted to InputError.

    Parameters
    ----------
    name : str
        Name of the file.

    Yields
    ------
    PIL.Image.Image
        The image, not yet decoded.
    """
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            files.check_regular(name)
            with Image.open(name, formats=DECODED) as photograph:
                yield photograph
    except InputError:
        raise
    except FileNotFoundError:
        raise InputError(f"{name}: no such file") from None
    except (IsADirectoryError, PermissionError) as error:
        raise InputError(f"{name}: cannot be read ({error.strerror}).") from None
    except Image.DecompressionBombError:
        # Pillow's limit is twice the size from which it warns.
        most = 2 * (Image.MAX_IMAGE_PIXELS or 0) // 10**6
        raise InputError(f"{name}: too large (more than {most} megapixels)") from None
    except UnidentifiedImageError:
        raise InputError(f"{name}: not an image ({', '.join(IMAGE_SUFFIXES)})") from None
    except MemoryError:
        raise InputError(f"{name}: does not fit into memory") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"{name}: a damaged image ({error})") from None
