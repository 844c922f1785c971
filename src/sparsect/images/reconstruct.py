"""Image reconstruction from few atoms per patch: code every patch at sparsity s and assemble the patches."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..backend import files
from ..backend.array_checks import check_indices
from ..backend.arrays import Array, NumpyArray, contiguous, is_numpy, namespace, to_numpy
from ..backend.checks import InputError, real_number, reject, whole_number, within
from ..backend.csr import compressed_on_host
from ..dictionary import as_dictionary
from ..run import Snapshot
from ..sets import JointSparse, SignalSet
from ..sets.own import as_structure
from ..solvers.base import Solver, device_for
from .approximate import CodedPatches, PartialPlane, approximate, counted, patch_means, placed
from .files import pixels
from .patches import PatchGrid, like_image, patch_count, planes
from .settings import METHOD, tuned_for_images

# Sums of larger codes may overflow float32, the dtype of images.
LARGEST_CODE = 1e30


@dataclass(frozen=True)
class Codes:
    """Sparse codes of an image: together with the dictionary, all that is needed to compute the image.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array, shape (patches, n)
        The codes, one patch per row, channel after channel; if the atoms have colours, patches of all channels.
    means : array, shape (patches,) or (patches, 3)
        Mean of each patch, or of each of its channels if the atoms have colours.
    shape : tuple of int
        Shape of the image.
    patch : int
        Side of a patch in pixels.
    stride : int
        Distance between the starts of adjacent patches in pixels.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:40, :40, 0]
    >>> codes = sparsect.images.reconstruct(cat, sparsity=5, method="omp").codes
    >>> codes.matrix.shape, codes.image().shape
    ((4, 1000), (40, 40))
    """

    matrix: Any
    means: Array
    shape: tuple[int, ...]
    patch: int
    stride: int

    def image(self, dictionary: Any = None) -> Array:
        """Compute the image from the codes.

        Each patch is Phi x plus its mean; overlapping patches are averaged.

        Parameters
        ----------
        dictionary : Dictionary, array or str, optional
            The dictionary with which the image was coded: a :class:`sparsect.Dictionary`, an array Phi, or the name
            of a file. The default is the bundled dictionary.

        Returns
        -------
        array
            The image, float32, of shape ``self.shape``.
        """
        Phi, joint = to_numpy(as_dictionary(dictionary).Phi), self.means.ndim == 2
        wanted = (math.prod(self.means.shape[1:]) * self.patch**2, self.matrix.shape[1])
        if Phi.shape != wanted:
            raise reject("dictionary", f"shape {Phi.shape}", f"have shape {wanted}, to match the codes")
        grid = PatchGrid(self.shape, self.patch, self.stride)
        restored: list[Array] = []
        for channel in range(math.prod(self.shape[2:])):
            total = np.zeros(self.shape[:2], dtype=np.float32)
            atoms = Phi[channel * self.patch**2 : (channel + 1) * self.patch**2] if joint else Phi
            for block in grid.blocks():
                first = 0 if joint else channel * grid.count
                rows = slice(block.start + first, block.stop + first)
                means = self.means[rows, channel] if joint else self.means[rows]
                grid.add(total, self.matrix[rows] @ atoms.T + means[:, None], block)
            restored.append(total / grid.cover)
        return like_image(restored, np.empty(self.shape, dtype=np.bool_))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the codes to an ``.npz`` file.

        :func:`load_codes` reads the file, and ``scipy.sparse.load_npz`` reads the matrix from it.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        about = {"image_shape": self.shape, "patch": self.patch, "stride": self.stride}
        arrays = files.csr_arrays(self.matrix) | {"means": self.means}
        files.write_npz(path, arrays | {name: np.array(value) for name, value in about.items()})


def load_codes(path: str | os.PathLike[str]) -> Codes:
    """Read codes from a file written by :meth:`Codes.save`.

    Parameters
    ----------
    path : str or path-like
        The ``.npz`` file.

    Returns
    -------
    Codes
        The codes.

    Raises
    ------
    InputError
        If the file cannot be read, holds something else, or is damaged.

    Examples
    --------
    >>> import os
    >>> import tempfile
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:40, :40, 0]
    >>> codes = sparsect.images.reconstruct(cat, sparsity=5, method="omp").codes
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cat.npz")
    ...     codes.save(path)
    ...     sparsect.images.load_codes(path).shape
    (40, 40)
    """
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
        joint = codes.means.ndim == 2
        count = patch_count(shape, codes.patch, codes.stride) * (1 if joint else math.prod(shape[2:]))
    except (ValueError, TypeError) as error:
        raise InputError(f"{path}: damaged codes ({error})") from None
    if matrix.shape[0] != count or codes.means.shape != ((count, *shape[2:]) if joint else (count,)):
        raise InputError(f"{path}: damaged codes ({matrix.shape[0]} patches for an image of {count})")
    return codes


@dataclass(frozen=True)
class Reconstruction:
    """Result of :func:`reconstruct`.

    Attributes
    ----------
    image : array
        The reconstruction, float32, in the shape of the input and on the scale where white is 1. It is not clipped, so
        that values may lie slightly outside the range of the original.
    snr_db : float
        Signal-to-noise ratio of the image in decibels.
    patch_snr_db : float
        Signal-to-noise ratio of all patches together, with their means removed, as in the table of the paper.
    codes : Codes
        The sparse codes of the patches.
    seconds : float
        Time spent on coding.
    setup_seconds : float
        Time spent on factoring the dictionary.
    method : str
        The solver and its settings.
    sparsity : int
        Maximum number of atoms per patch.
    history : dict of str to array
        The ``iteration``, ``seconds`` and ``patch_snr_db`` after each recorded iteration; the last entry is the end of
        the run, and the only one if nothing was recorded. Patches that have finished before an iteration keep
        their last codes, and the time is that of all patches together.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:40, :40, 0]
    >>> result = sparsect.images.reconstruct(cat, sparsity=5, method="omp")
    >>> type(result).__name__, result.sparsity, result.image.shape
    ('Reconstruction', 5, (40, 40))
    """

    image: Array
    snr_db: float
    patch_snr_db: float
    codes: Codes
    seconds: float
    setup_seconds: float
    method: str
    sparsity: int
    history: dict[str, NumpyArray]


def reconstruct(
    image: Any,
    sparsity: int | SignalSet,
    method: str | Solver = METHOD,
    *,
    dictionary: Any = None,
    stride: int | None = None,
    refit: bool = True,
    max_iter: int = 1000,
    seconds_per_patch: float | None = None,
    record_at: Sequence[int] = (),
    device: str | None = None,
    progress: Callable[[int, int], object] | None = None,
    callback: Callable[[PartialImage], object] | None = None,
) -> Reconstruction:
    """Code every patch of an image with at most ``sparsity`` atoms and assemble the image from the codes.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image, an array of NumPy, torch or CuPy. 8-bit and 16-bit values are scaled to the range from 0 to 1.
        Channels are coded separately, unless the atoms have colours; an alpha channel is blended over white.
    sparsity : int or SignalSet
        Maximum number s of atoms per patch, or the set that contains the codes, such as
        ``sets.Sparse(s, nonnegative=True)``.
    method : str or Solver, optional
        A name from ``sparsect.METHODS``, which is used with settings tuned for images, or a configured solver. Codes
        approximate patches, so the default, 'annealed-difference-map', stands for
        ``AnnealedDifferenceMap("approximation")`` here, unlike in :func:`sparsect.recover`.
    dictionary : Dictionary, array or str, optional
        A :class:`sparsect.Dictionary`, an array Phi, the name of a file, or that of a bundled dictionary. The default
        is 'paper', 1,000 atoms of 20x20 pixels; with up to 60 atoms per patch, '20x20' has a smaller error.
    stride : int, optional
        Distance between the starts of adjacent patches in pixels, at most the side of a patch. The default is the side
        of a patch, so that only the last patches at the border overlap others. Overlapping patches are averaged.
    refit : bool, optional
        If True, debias the codes: refit the coefficients by least squares on the selected atoms.
    max_iter : int, optional
        Maximum number of iterations per patch. Methods that select one atom at a time need at least ``sparsity``.
    seconds_per_patch : float, optional
        Time limit per patch. A block of patches is stopped after this time multiplied by the number of its patches;
        setup time is not counted.
    record_at : sequence of int, optional
        Iterations after which the signal-to-noise ratio of the patches is recorded. The time for that is not counted.
    device : {'cpu', 'cuda', 'auto'}, optional
        Where to compute; 'auto' uses a GPU if there is one. The default is the device of the image or, for a NumPy
        image, of the dictionary.
    progress : callable, optional
        Called as ``progress(done, total)`` with the number of coded patches and of all patches.
    callback : callable, optional
        Called with a :class:`PartialImage` after every iteration, to watch the image improve. If it returns True, the
        current block of patches is left as it is.

    Returns
    -------
    Reconstruction
        The image, its signal-to-noise ratio, and the codes.

    Raises
    ------
    InputError
        If the image is constant, so that no signal-to-noise ratio is defined, or smaller than a patch.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:60, :60]
    >>> result = sparsect.images.reconstruct(cat, sparsity=20, method="ormp")
    >>> result.image.shape, result.snr_db > 30
    ((60, 60, 3), True)
    """
    image = pixels("image", image, anywhere=True)
    dictionary = as_dictionary(dictionary)
    if isinstance(sparsity, JointSparse):
        raise reject("sparsity", repr(sparsity), "a set that each patch is in by itself")
    most = as_structure(sparsity, dictionary.Phi.shape[1]).size
    solver = tuned_for_images(method)
    if seconds_per_patch is not None:
        seconds_per_patch = real_number("seconds_per_patch", seconds_per_patch, "a positive number", 0.0, nonzero=True)
    grid = PatchGrid(image.shape, dictionary.patch, stride)
    if float(image.min()) == float(image.max()):
        raise reject("image", "the same value everywhere, for which no SNR is defined", "an image that varies")
    work, dictionary = placed(image, dictionary, device_for(solver, device))
    channels = [contiguous(plane) for plane in planes(work)]
    coloured = dictionary.channels > 1
    if coloured and len(channels) != dictionary.channels:
        raise reject("image", "grey levels with a dictionary of patches in colour", "an image in colour")
    parts = [work] if coloured else channels
    coded = _Coded(counted(progress, grid.count * len(parts)), coloured)
    limits: dict[str, Any] = {"max_iter": max_iter, "seconds_per_patch": seconds_per_patch, "refit": refit}
    limits |= {"record": ("residual_norm",), "record_at": record_at}
    restored: list[Array] = []
    for part in parts:
        if callback is not None:
            limits["callback"] = _watching(callback, image, restored, channels, grid, coded)
        found = approximate(part, grid, dictionary, solver, sparsity, report=coded.add, **limits)
        restored += planes(found)
    signal = sum(map(_squares, channels))
    noise = sum(_squares(plane - channel) for plane, channel in zip(restored, channels, strict=True))
    whole = like_image(restored, image)
    return Reconstruction(
        image=to_numpy(whole) if is_numpy(namespace(image)) else whole,
        snr_db=decibels(signal, noise),
        patch_snr_db=decibels(coded.energy, coded.error),
        codes=coded.codes(image.shape, grid),
        seconds=coded.seconds,
        setup_seconds=coded.setup_seconds,
        method=repr(solver),
        sparsity=most,
        history=coded.history(),
    )


def _watching(
    callback: Callable[[PartialImage], object],
    image: Array,
    restored: list[Array],
    channels: list[Array],
    grid: PatchGrid,
    coded: _Coded,
) -> Callable[[PartialPlane, Snapshot], object]:
    """Return the callback of the channels that follow ``restored``; channels not yet begun are shown by their means."""
    before = list(restored)

    def watch(part: PartialPlane, snapshot: Snapshot) -> object:
        def planes_so_far() -> list[Array]:
            shown = [*before, *part.planes]
            for channel in channels[len(shown) :]:
                totals = [namespace(channel).zeros_like(channel)]
                shown += PartialPlane(totals, grid, patch_means([channel], grid, grid.blocks())).planes
            return shown

        return callback(PartialImage(snapshot.iteration, coded.seconds + snapshot.seconds, image, planes_so_far))

    return watch


class PartialImage:
    """An image while its patches are coded, as seen by the ``callback`` of :func:`reconstruct`.

    Parameters
    ----------
    iteration : int
        The number of iterations of the current block of patches.
    seconds : float
        The time spent on coding so far.
    like : array
        An image of the wanted shape, in the wanted array library.
    planes : callable
        Returns the channels.

    Attributes
    ----------
    iteration : int
        The number of iterations of the current block of patches.
    seconds : float
        The time spent on coding so far.

    Examples
    --------
    >>> import sparsect
    >>> cat = sparsect.images.sample("chelsea")[:40, :40, 0]
    >>> shapes = []
    >>> result = sparsect.images.reconstruct(
    ...     cat, sparsity=5, method="omp", callback=lambda partial: shapes.append(partial.image.shape)
    ... )
    >>> len(shapes), shapes[0]
    (5, (40, 40))
    """

    def __init__(self, iteration: int, seconds: float, like: Array, planes: Callable[[], list[Array]]) -> None:
        self.iteration, self.seconds = iteration, seconds
        self._like, self._planes = like, planes

    @cached_property
    def image(self) -> Array:
        """The image so far, float32; patches that are not coded yet are replaced by their means."""
        whole = like_image(self._planes(), self._like)
        return to_numpy(whole) if is_numpy(namespace(self._like)) else whole


class _Coded:
    """The stored data of the coded patches of an image: codes, means, and sums over all patches."""

    def __init__(self, report: Callable[[CodedPatches], None], coloured: bool) -> None:
        self._report, self._coloured = report, coloured
        self._matrices: list[Any] = []
        self._means: list[Array] = []
        self._runs: list[NumpyArray] = []
        self.error = self.energy = self.seconds = self.setup_seconds = 0.0

    def add(self, part: CodedPatches) -> None:
        error = _squares(part.fits - part.signals)
        self.error += error
        self.energy += _squares(part.signals)
        self._matrices.append(compressed_on_host(part.result.x))
        self._means.append(to_numpy(part.means) if self._coloured else to_numpy(part.means)[:, 0])
        run = part.result.history
        last = max(int(to_numpy(part.result.n_iter).max()), *run["iteration"], 0)
        errors = [float((left.astype(np.float64) ** 2).sum()) for left in run["residual_norm"]]
        columns = [*run["iteration"], last], [*run["seconds"], part.result.seconds], [*errors, error]
        self._runs.append(np.array(columns))
        self.seconds += part.result.seconds
        self.setup_seconds += part.result.setup_seconds
        self._report(part)

    def history(self) -> dict[str, NumpyArray]:
        """Return the records of all blocks together; a block that has ended keeps its last values."""
        moments = np.unique(np.concatenate([run[0] for run in self._runs]))
        places = [(np.searchsorted(run[0], moments, side="right") - 1).clip(min=0) for run in self._runs]
        _, seconds, errors = np.sum([run[:, place] for run, place in zip(self._runs, places, strict=True)], axis=0)
        values = np.array([decibels(self.energy, error) for error in errors])
        return {"iteration": moments.astype(np.int64), "seconds": seconds, "patch_snr_db": values}

    def codes(self, shape: tuple[int, ...], grid: PatchGrid) -> Codes:
        from scipy.sparse import vstack

        matrix = vstack(self._matrices, format="csr")
        return Codes(matrix, np.concatenate(self._means), tuple(shape), grid.patch, grid.stride)


def _squares(values: Array) -> float:
    """Sum of squares in double precision, on a CPU without a copy in double precision."""
    xp = namespace(values)
    if is_numpy(xp):
        return float(np.einsum("ij,ij->", values, values, dtype=np.float64))
    return float(xp.sum(values * values, dtype=xp.float64))


def decibels(energy: float, error: float) -> float:
    """Convert a ratio of energies to decibels.

    Parameters
    ----------
    energy : float
        Energy of the signal.
    error : float
        Energy of the error.

    Returns
    -------
    float
        ``10 log10(energy / error)``, infinite if the error is zero.
    """
    return math.inf if error == 0 else 10 * math.log10(energy / error)
