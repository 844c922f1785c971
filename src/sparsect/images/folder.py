"""The photographs in a folder, decoded on access."""

from __future__ import annotations

import copy
import os
import threading
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import files
from ..backend.arrays import Array
from ..backend.checks import InputError, reject, truth_value
from ..backend.devices import place
from ..dictionary.sources import digest
from .files import read_image, to_colour, to_gray
from .photograph import IMAGE_SUFFIXES, opened

# Bytes of decoded images that are kept in memory while patches are drawn from a folder.
CACHE_BYTES = 2**30


class ImageFolder(Sequence[Array]):
    """The image files in a folder and its subfolders, decoded on access.

    Behaves as a sequence of arrays of shape (height, width), or (height, width, 3) for colours. Up to 1 GiB of decoded
    images is kept in memory. Files that are damaged or not images are skipped and reported in ``left_out``.

    Parameters
    ----------
    path : str or path-like
        The folder.
    smallest : int, optional
        Images with a side shorter than this are skipped and reported in ``left_out``.
    device : str, optional
        Device on which decoded images are placed, see :func:`sparsect.backend.devices.place`. By default they stay in
        main memory.
    colour : bool, optional
        Whether images are decoded to red, green and blue; by default, to grey levels.

    Attributes
    ----------
    colour : bool
        Whether images have colours.
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

    def __init__(
        self, path: str | os.PathLike[str], smallest: int = 1, device: str | None = None, colour: bool = False
    ) -> None:
        name = files.path_name("path", path)
        self.colour = truth_value("colour", colour)
        if os.path.isfile(name):
            raise reject(name, "a file", "a folder of photographs")
        if not os.path.isdir(name):
            raise InputError(f"{name}: no such folder")
        inside = Path(name).rglob("*")
        found = sorted(each for each in inside if each.suffix.lower() in IMAGE_SUFFIXES and not each.is_dir())
        self.paths: list[Path] = []
        self.shapes: list[tuple[int, int]] = []
        self.left_out: list[str] = []
        for each in found:
            try:
                with opened(os.fspath(each)) as photograph:
                    width, height = photograph.size
                    if photograph.getexif().get(0x0112, 1) in (5, 6, 7, 8):
                        width, height = height, width
                    if photograph.format != "TIFF":  # some of which another library decodes
                        # A damaged file would end learning when its turn comes. A JPEG is decoded faster when small.
                        photograph.draft("L", (1, 1))
                        photograph.load()
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
                image = read_image(self.paths[index])
                image = to_colour(image) if self.colour else to_gray(image)
                if image.shape[:2] != self.shapes[index]:
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
