"""An image from few atoms for each patch: code every patch at sparsity s, put the patches together again."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend import files
from ..backend.arrays import (
    Array,
    can_change,
    check_indices,
    compressed_on_host,
    contiguous,
    from_numpy,
    is_numpy,
    namespace,
    to_numpy,
)
from ..backend.checks import InputError, real_number, reject, whole_number, within
from ..backend.devices import place, rows_at_a_time
from ..dictionary import as_dictionary
from ..problems import Problem
from ..run.loop import solve
from ..solvers.base import Solver, device_for
from .files import pixels
from .patches import BLOCK, PatchGrid, like_image, patch_count, planes
from .settings import METHOD, tuned_for_images

Progress = Callable[[int, int], None]

# Sums of larger codes may leave the range of float32, which images are in.
LARGEST_CODE = 1e30


@dataclass(frozen=True)
class Codes:
    """An image as sparse codes: all that is needed, with the dictionary, to see it again.

    Attributes
    ----------
    matrix : SciPy CSR array (patches, n), one patch a row; channels one after the other
    means : (patches,), the mean of each patch
    shape : of the image
    patch, stride : side of a patch, and pixels from one to the next
    """

    matrix: Any
    means: Array
    shape: tuple[int, ...]
    patch: int
    stride: int

    def image(self, dictionary: Any = None) -> Array:
        """The image that the codes stand for: Phi x plus the mean for each patch, averaged where patches overlap."""
        Phi = to_numpy(as_dictionary(dictionary).Phi)
        if Phi.shape != (self.patch**2, self.matrix.shape[1]):
            wanted = f"one of {self.patch**2}x{self.matrix.shape[1]}, as the codes have"
            raise reject("dictionary", f"one of {Phi.shape[0]}x{Phi.shape[1]}", wanted)
        grid = PatchGrid(self.shape, self.patch, self.stride)
        restored = []
        for channel in range(math.prod(self.shape[2:])):
            total = np.zeros(self.shape[:2], dtype=np.float32)
            for block in grid.blocks():
                rows = slice(int(block[0]) + channel * grid.count, int(block[-1]) + 1 + channel * grid.count)
                grid.add(total, self.matrix[rows] @ Phi.T + self.means[rows, None], block)
            restored.append(total / grid.cover)
        return like_image(restored, np.empty(self.shape, dtype=np.bool_))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to an ``.npz`` file that :func:`load_codes` reads back; ``scipy.sparse.load_npz`` reads the matrix."""
        about = {"image_shape": self.shape, "patch": self.patch, "stride": self.stride}
        arrays = files.csr_arrays(self.matrix) | {"means": self.means}
        files.write_npz(path, arrays | {name: np.array(value) for name, value in about.items()})


def load_codes(path: str | os.PathLike[str]) -> Codes:
    """Codes that :meth:`Codes.save` wrote."""
    from scipy.sparse import csr_array

    arrays = files.read_npz(path)
    names = {"shape", "data", "indices", "indptr", "means", "image_shape", "patch", "stride"}
    if not names <= set(arrays):
        raise InputError(f"{path}: not codes of sparsect, {', '.join(sorted(names - set(arrays)))} missing")
    try:
        parts = (arrays["data"], arrays["indices"], arrays["indptr"])
        matrix = csr_array(parts, shape=tuple(int(size) for size in arrays["shape"]))
        check_indices(matrix)
        for name in ("data", "means"):
            if arrays[name].dtype not in (np.float32, np.float64):
                raise ValueError(f"{name} has dtype {arrays[name].dtype}")
            within(name, arrays[name], -LARGEST_CODE, LARGEST_CODE)
        shape = tuple(whole_number("image_shape", size, 1) for size in arrays["image_shape"])
        if len(shape) not in (2, 3):
            raise ValueError(f"an image of {len(shape)} dimensions")
        patch = whole_number("patch", arrays["patch"], 1)
        codes = Codes(matrix, arrays["means"], shape, patch, whole_number("stride", arrays["stride"], 1, patch))
        count = patch_count(shape, codes.patch, codes.stride) * math.prod(shape[2:])
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: damaged codes ({error})") from None
    if matrix.shape[0] != count or codes.means.shape != (count,):
        raise InputError(f"{path}: damaged codes ({matrix.shape[0]} patches for an image of {count})")
    return codes


@dataclass(frozen=True)
class Reconstruction:
    """An image seen through s atoms a patch.

    Attributes
    ----------
    image : of the shape that came in, float32, values from 0 to 1 where the original's are (not clipped)
    snr_db : signal-to-noise ratio of the image
    patch_snr_db : of all patches together with their means removed, which is what the paper's table shows
    codes : see :class:`Codes`
    seconds, setup_seconds : time spent coding, and factoring the dictionary
    method, sparsity : how it was coded
    """

    image: Array
    snr_db: float
    patch_snr_db: float
    codes: Codes
    seconds: float
    setup_seconds: float
    method: str
    sparsity: int


def reconstruct(
    image: Any,
    sparsity: int,
    method: str | Solver = METHOD,
    *,
    dictionary: Any = None,
    stride: int | None = None,
    refit: bool = True,
    max_iter: int = 1000,
    seconds_per_patch: float | None = None,
    device: str | None = None,
    progress: Progress | None = None,
) -> Reconstruction:
    """Code every patch of an image with at most ``sparsity`` atoms and put the image together from the codes.

    Parameters
    ----------
    image : (height, width) or (height, width, channels), an array of NumPy, torch or CuPy; 8 and 16 bits are scaled to
        values from 0 to 1. Channels are coded one by one; an alpha channel is blended over white.
    sparsity : s, atoms allowed for each patch
    method : a name from ``sparsect.METHODS``, with settings tuned for images, or a configured solver
    dictionary : a Dictionary, Phi, or the name of a file; default the bundled one, 1,000 atoms of 20x20 pixels
    stride : pixels from one patch to the next, up to the side of a patch (the default: patches do not overlap, but for
        the last ones at the border). Overlapping patches are averaged.
    refit : least-squares fit on the atoms chosen
    max_iter : iterations for each patch; at least ``sparsity`` for methods that take one atom at a time
    seconds_per_patch : stop a block of patches after this time for each of them, set-up not counted
    device : "cpu", "cuda", or "auto" for a GPU if there is one; default where the image is or, if that is NumPy's, the
        dictionary
    progress : called with the number of patches done and of all

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:60, :60]
    >>> seen = sparsect.images.reconstruct(cat, sparsity=20)
    >>> seen.image.shape, bool(seen.snr_db > 30)
    ((60, 60, 3), True)
    """
    from scipy.sparse import vstack

    image = pixels("image", image, anywhere=True)
    dictionary = as_dictionary(dictionary)
    sparsity = whole_number("sparsity", sparsity, 0, dictionary.Phi.shape[1])
    solver = tuned_for_images(method)
    if seconds_per_patch is not None:
        seconds_per_patch = real_number("seconds_per_patch", seconds_per_patch, "a positive number", 0.0, nonzero=True)
    grid = PatchGrid(image.shape, dictionary.patch, stride)
    if float(image.min()) == float(image.max()):
        raise reject("image", "the same value everywhere, for which no SNR is defined", "an image that varies")
    at_hand, device = is_numpy(namespace(image)), device_for(solver, device)
    if device is None and at_hand and can_change(dictionary.Phi):
        work = from_numpy(image, dictionary.Phi)
    else:
        work = place(image, device)
    dictionary, xp = dictionary.placed_like(work), namespace(work)
    rows = rows_at_a_time(work, dictionary.Phi.shape, BLOCK)
    restored, matrices, means = [], [], []
    error = energy = signal = noise = seconds = setup_seconds = 0.0
    channels = planes(work)
    done, everything = 0, grid.count * len(channels)
    cover = from_numpy(grid.cover, work)
    for channel in map(contiguous, channels):
        total = xp.zeros_like(channel)
        for block in grid.blocks(size=rows):
            patches = grid.patches(channel, block)
            mean = xp.mean(patches, axis=1, keepdims=True)
            signals = patches - mean
            problem = Problem(dictionary.operator, signals, sparsity)
            limit = None if seconds_per_patch is None else seconds_per_patch * block.size
            result = solve(
                problem, solver, max_iter=max_iter, max_seconds=limit, record=(), refit=refit, check_fit=False
            )
            fits = dictionary.operator.forward(result.x)
            grid.add(total, fits + mean, block)
            error += _squares(fits - signals)
            energy += _squares(signals)
            matrices.append(compressed_on_host(result.x))
            means.append(to_numpy(mean)[:, 0])
            seconds += result.seconds
            setup_seconds += result.setup_seconds
            done += block.size
            if progress is not None:
                progress(done, everything)
        found = total / cover
        signal += _squares(channel)
        noise += _squares(found - channel)
        restored.append(found)
    codes = Codes(vstack(matrices, format="csr"), np.concatenate(means), tuple(image.shape), grid.patch, grid.stride)
    whole = like_image(restored, image)
    return Reconstruction(
        image=to_numpy(whole) if at_hand else whole,
        snr_db=decibels(signal, noise),
        patch_snr_db=decibels(energy, error),
        codes=codes,
        seconds=seconds,
        setup_seconds=setup_seconds,
        method=repr(solver),
        sparsity=sparsity,
    )


def _squares(values: Array) -> float:
    """The sum of squares, in double precision; on a CPU without a copy in it."""
    xp = namespace(values)
    if is_numpy(xp):
        return float(np.einsum("ij,ij->", values, values, dtype=np.float64))
    return float(xp.sum(values * values, dtype=xp.float64))


def decibels(energy: float, error: float) -> float:
    """10 log10(energy / error); infinite without error."""
    return math.inf if error == 0 else 10 * math.log10(energy / error)
