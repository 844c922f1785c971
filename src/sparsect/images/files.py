"""Reading and writing of image files; pixel values are scaled to the range from 0 to 1."""

from __future__ import annotations

import contextlib
import copy
import os
import threading
import warnings
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import array_api_compat as compat
import numpy as np

from ..backend import files
from ..backend.array_checks import refuse_masked
from ..backend.arrays import Array, namespace, to_numpy
from ..backend.checks import InputError, reject, whole_number
from ..backend.devices import place
from ..backend.writing import replacing
from ..dictionary.sources import digest

if TYPE_CHECKING:
    from PIL import Image

# Formats that are decoded, whatever the extension of the file.
DECODED = ("PNG", "JPEG", "TIFF", "BMP", "WEBP", "GIF")
IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".tif", ".tiff", ".bmp", ".webp")
# Weights of red, green and blue in brightness (ITU-R BT.601).
BRIGHTNESS = np.array([0.299, 0.587, 0.114], dtype=np.float32)
ACCEPTED_SHAPES = "an array of shape (height, width), or with 1 to 4 channels last"
# Upper bound on the length of a side; no image format allows more.
LONGEST_SIDE = 2**31 - 1
# Sums of squares of larger pixel values overflow float32.
LARGEST = 1e15
# Bytes of decoded images that are kept in memory while patches are drawn from a folder.
CACHE_BYTES = 2**30


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
    array = as_array(name, image, anywhere)
    xp = namespace(array)
    if array.dtype in (xp.uint8, xp.uint16):
        array = xp.astype(array, xp.float32) / xp.iinfo(array.dtype).max
    elif not xp.isdtype(array.dtype, ("bool", "real floating")):
        raise reject(name, f"dtype {array.dtype}", "have dtype uint8 or uint16, or floating numbers from 0 to 1")
    with np.errstate(over="ignore", invalid="ignore"):
        array = xp.astype(array, xp.float32, copy=False)
        if array.ndim == 3 and array.shape[2] in (2, 4):
            colour, alpha = array[..., :-1], array[..., -1:]
            array = colour * alpha + (1 - alpha)
    if not bool(xp.all(xp.abs(array) <= LARGEST)):
        raise reject(
            name, f"pixels that are NaN, infinite or beyond {LARGEST:g}", "have finite pixels, preferably from 0 to 1"
        )
    return array[..., 0] if array.ndim == 3 and array.shape[2] == 1 else array


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

    The image is rotated upright according to its EXIF orientation.

    Parameters
    ----------
    path : str or path-like
        A PNG, JPEG, TIFF, BMP, WebP or GIF file with 8 or 16 bits per channel.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The image as float32 with values from 0 to 1; an alpha channel is blended over white.

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
    name = files.path_name("path", path)
    with _opened(name) as photograph:
        from PIL import ImageOps

        # Checked from the header, before decoding: processing takes about 32 bytes per pixel.
        files.check_size(name, 32 * photograph.width * photograph.height)
        upright = ImageOps.exif_transpose(photograph)
        if upright.mode in ("I", "F"):
            raise reject(name, "an image with 32 bits per pixel", "have 8 or 16 bits per pixel")
        if "transparency" in upright.info:
            upright = upright.convert("RGBA")
        elif upright.mode not in ("1", "L", "LA", "RGB", "RGBA") and not upright.mode.startswith("I;16"):
            upright = upright.convert("RGBA" if upright.mode in ("PA", "La", "RGBa") else "RGB")
        array = np.asarray(upright)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        array = array.astype(np.uint16)
    return pixels(name, array)


def write_image(path: str | os.PathLike[str], image: Any) -> None:
    """Write an image file with 8 bits per channel.

    The file is written under a temporary name and then renamed, so that it is never left incomplete.

    Parameters
    ----------
    path : str or path-like
        The file; its extension gives the format (.png, .jpg, .jpeg, .tif, .tiff, .bmp or .webp).
    image : array, shape (height, width) or (height, width, channels)
        The image; floating-point values outside the range from 0 to 1 are clipped.

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
    levels = np.round(255 * np.clip(pixels("image", image), 0, 1)).astype(np.uint8)
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
        raise reject("image", f"the file name {name!r}", f"a name that ends in {', '.join(IMAGE_SUFFIXES)}")


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
        The scaled image, float32, with values clipped to the range from 0 to 1. The aspect ratio is kept.

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
    joined: Array = np.clip(scaled[0] if image.ndim == 2 else np.stack(scaled, axis=-1), 0, 1)
    return joined


class ImageFolder(Sequence[Array]):
    """The image files in a folder and its subfolders, decoded to grey levels on access.

    Behaves as a sequence of arrays of shape (height, width). Up to 1 GiB of decoded images is kept in memory.

    Parameters
    ----------
    path : str or path-like
        The folder.
    smallest : int, optional
        Images with a side shorter than this are skipped and reported in ``left_out``.
    device : str, optional
        Device on which decoded images are placed, see :func:`sparsect.backend.devices.place`. By default they stay in
        main memory.

    Attributes
    ----------
    paths : list of Path
        The files in use.
    shapes : list of tuple of int
        Height and width of each image.
    left_out : list of str
        The skipped files, each with the reason.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import sparsect
    >>> with tempfile.TemporaryDirectory() as path:
    ...     for name in ("chelsea", "camera"):
    ...         sparsect.images.write_image(os.path.join(path, f"{name}.png"), sparsect.images.sample(name))
    ...     folder = sparsect.images.ImageFolder(path)
    ...     len(folder), folder[1].shape
    (2, (300, 451))
    """

    def __init__(self, path: str | os.PathLike[str], smallest: int = 1, device: str | None = None) -> None:
        name = files.path_name("path", path)
        if not os.path.isdir(name):
            raise InputError(f"{name}: no such folder")
        inside = Path(name).rglob("*")
        found = sorted(each for each in inside if each.suffix.lower() in IMAGE_SUFFIXES and not each.is_dir())
        self.paths: list[Path] = []
        self.shapes: list[tuple[int, int]] = []
        self.left_out: list[str] = []
        for each in found:
            try:
                with _opened(os.fspath(each)) as photograph:
                    width, height = photograph.size
                    if photograph.getexif().get(0x0112, 1) in (5, 6, 7, 8):
                        width, height = height, width
            except InputError as error:
                self.left_out.append(str(error))
                continue
            if min(width, height) < smallest:
                self.left_out.append(f"{each}: {width}x{height} pixels, smaller than a patch")
                continue
            self.paths.append(each)
            self.shapes.append((height, width))
        if not self.paths:
            reason = f" ({self.left_out[0]})" if self.left_out else ""
            accepted = f"hold photographs of at least {smallest}x{smallest} pixels ({', '.join(IMAGE_SUFFIXES)})"
            raise reject(name, f"no photograph that can be used{reason}", accepted)
        self._device = device
        self._clear_cache()

    def _clear_cache(self) -> None:
        # Locked, because several threads draw patches.
        self._lock, self._decoded = threading.Lock(), OrderedDict[int, Any]()

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        index = range(len(self))[index]
        with self._lock:
            if index not in self._decoded:
                image = to_gray(read_image(self.paths[index]))
                if image.shape != self.shapes[index]:
                    raise InputError(f"{self.paths[index]}: its size differs from the size in its header")
                self._decoded[index] = place(image, self._device)
                while len(self._decoded) > 1 and sum(kept.nbytes for kept in self._decoded.values()) > CACHE_BYTES:
                    self._decoded.popitem(last=False)
            self._decoded.move_to_end(index)
            return self._decoded[index]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle: absolute paths and shapes, without the decoded images."""
        state = {name: value for name, value in self.__dict__.items() if name not in ("_decoded", "_lock")}
        return state | {"paths": [path.absolute() for path in self.paths]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ |= state
        self._clear_cache()

    def on_device(self, device: str | None) -> ImageFolder:
        """Return the same images, to be placed on a device after decoding.

        Parameters
        ----------
        device : str or None
            The device, see :func:`sparsect.backend.devices.place`.

        Returns
        -------
        ImageFolder
            A copy of this folder that decodes to ``device``.
        """
        placed = copy.copy(self)
        placed._device = device
        return placed

    @property
    def digest(self) -> str:
        """Hexadecimal digest of the bytes of all files."""
        return digest(np.fromfile(path, dtype=np.uint8) for path in self.paths)


@contextlib.contextmanager
def _opened(name: str) -> Iterator[Image.Image]:
    """Open an image file and read its header; errors are converted to InputError."""
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
    except Image.DecompressionBombError as error:
        raise InputError(f"{name}: too large ({error})") from None
    except UnidentifiedImageError:
        raise InputError(f"{name}: not an image ({', '.join(IMAGE_SUFFIXES)})") from None
    except MemoryError:
        raise InputError(f"{name}: does not fit into memory") from None
    except (OSError, SyntaxError, ValueError, EOFError) as error:
        raise InputError(f"{name}: a damaged image ({error})") from None
