"""Reconstruction, denoising and inpainting of a photograph, with pictures on the way."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ... import images
from ...backend.arrays import Array
from ...backend.checks import InputError
from ...images import Codes
from ...images.denoise import Quality
from ...images.files import pixels
from ...images.noise import SMALLEST, estimate_for
from ...images.reconstruct import PartialImage, decibels
from ...reporting.differences import enlarged
from ..pictures import levels, png
from . import PERIOD, Progress, Sender

# The first picture is computed from one pixel in so many, in both directions.
COARSE = 4
# The name of that stage, which no command has.
FIRST = "coarse"


@dataclass(frozen=True)
class Shown:
    """A picture of a run, coarse or final.

    Attributes
    ----------
    method : str
        The method or the stage.
    picture : array of uint8
        The picture.
    png : bytes
        The same as a PNG file.
    difference : bytes
        Its difference from the reference, as a PNG file.
    scale : str
        How much the difference is enlarged, in words.
    seconds : float
        Time spent so far.
    snr_db : float or None
        Quality, if the reference is the truth: the SNR for reconstruction, the PSNR otherwise.
    final : bool
        Whether the method has ended.
    """

    method: str
    picture: Array
    png: bytes
    difference: bytes
    scale: str
    seconds: float
    snr_db: float | None
    final: bool = False


@dataclass(frozen=True)
class Coded:
    """The codes of a reconstruction.

    Attributes
    ----------
    method : str
        The method.
    codes : Codes
        The codes.
    file : bytes
        The same as an ``.npz`` file.
    patch_snr_db : float
        SNR of the patches with their means removed.
    atoms_per_patch : float
        Mean number of atoms that a patch uses.
    """

    method: str
    codes: Codes
    file: bytes
    patch_snr_db: float
    atoms_per_patch: float


@dataclass(frozen=True)
class Failed:
    """A method that could not be used, while others go on.

    Attributes
    ----------
    method : str
        The method.
    reason : str
        Why.
    """

    method: str
    reason: str


class _Pictures:
    """Make the pictures of a run, and measure them against a reference."""

    def __init__(self, send: Sender, reference: Array, measure: Callable[[Array, Array], float] | None) -> None:
        self._send, self._reference, self._measure = send, pixels("reference", reference), measure

    def show(self, method: str, image: Array, seconds: float, final: bool = False) -> None:
        """Send a picture."""
        scale, [(_, difference)] = enlarged([(method, self._reference, image)])
        quality = None if self._measure is None else self._measure(self._reference, image)
        shown = levels(image)
        kept = quality if quality is not None and math.isfinite(quality) else None
        self._send(Shown(method, shown, png(shown), png(difference), scale, seconds, kept, final))


def reconstruct(
    send: Sender, image: Array, methods: Sequence[str], sparsity: int, dictionary: str, stride: int, max_iter: int
) -> None:
    """Reconstruct a picture with several methods, one after the other.

    Parameters
    ----------
    send : callable
        Gets the messages.
    image : array of uint8
        The picture.
    methods : sequence of str
        Names of the methods.
    sparsity : int
        Maximum number of atoms per patch.
    dictionary : str
        Name of a bundled dictionary.
    stride : int
        Distance between adjacent patches.
    max_iter : int
        Maximum number of iterations per patch.
    """
    pictures = _Pictures(send, image, _snr)
    for number, method in enumerate(methods):
        last = 0.0

        def watch(now: PartialImage, method: str = method, number: int = number) -> None:
            nonlocal last
            if time.monotonic() - last < PERIOD:
                return
            pictures.show(method, now.image, now.seconds)
            share = min(now.iteration / max_iter, 1)
            words = f"{method} ({number + 1} of {len(methods)}): iteration {now.iteration}"
            send(Progress(words, (number + share) / len(methods)))
            last = time.monotonic()

        try:
            result = images.reconstruct(
                image, sparsity, method, dictionary=dictionary, stride=stride, max_iter=max_iter, callback=watch
            )
        except InputError as error:
            if len(methods) == 1 or not str(error).startswith("`method`"):
                raise
            send(Failed(method, str(error)))
            continue
        each = result.codes.matrix.nnz / max(result.codes.matrix.shape[0], 1)
        send(Coded(method, result.codes, _saved(result.codes), result.patch_snr_db, each))
        pictures.show(method, result.image, result.seconds, final=True)
        send(Progress(method, (number + 1) / len(methods)))


def denoise(send: Sender, image: Array, reference: Array, known: bool, sigma: float | None, quality: str) -> None:
    """Denoise a picture: a coarse version at once, then the stages of the method.

    Parameters
    ----------
    send : callable
        Gets the messages.
    image : array of uint8
        The picture with noise.
    reference : array of uint8
        The picture to compare with.
    known : bool
        Whether the reference is the truth.
    sigma : float or None
        Standard deviation of the noise; None to estimate it.
    quality : {'fast', 'best'}
        See :func:`sparsect.images.denoise`.
    """
    pictures, begun = _Pictures(send, reference, images.psnr_db if known else None), time.monotonic()
    if sigma is None:
        sigma = estimate_for("Noise assumed", image)
    small = max(image.shape[:2]) // COARSE
    if small >= 16 and min(image.shape[:2]) >= COARSE * SMALLEST:
        # Averages of 4x4 pixels have a quarter of the noise.
        coarse = images.denoise(images.resize(image, small), max(sigma / COARSE, 1e-3), quality="fast")
        pictures.show(FIRST, _enlarged(coarse, image.shape), time.monotonic() - begun, final=True)
    stages: tuple[Quality, ...] = ("fast",) if quality == "fast" else ("fast", "best")
    costs = [0.6, 1.0][: len(stages)]
    for number, stage in enumerate(stages):

        def report(done: int, total: int, number: int = number, stage: Quality = stage) -> None:
            share = (sum(costs[:number]) + costs[number] * done / max(total, 1)) / sum(costs)
            send(Progress(f"quality {stage}", share))

        begun = time.monotonic()
        found = images.denoise(image, sigma, quality=stage, progress=report)
        pictures.show(stage, found, time.monotonic() - begun, final=True)


def inpaint(send: Sender, image: Array, reference: Array, mask: Array, passes: int) -> None:
    """Fill in missing pixels: from every fourth pixel at once, then with few passes, then with all of them.

    Parameters
    ----------
    send : callable
        Gets the messages.
    image : array of uint8
        The picture.
    reference : array of uint8
        The picture without missing pixels.
    mask : array of bool
        True where a pixel is missing.
    passes : int
        Maximum number of alternations.
    """
    pictures = _Pictures(send, reference, lambda truth, image: _psnr_where(mask, truth, image))
    begun = time.monotonic()
    small, torn = image[::COARSE, ::COARSE], mask[::COARSE, ::COARSE]
    if not torn.all():
        filled = _enlarged(images.inpaint(small, torn, passes=1), image.shape)
        missing = mask if image.ndim == 2 else mask[..., None]
        coarse = np.where(missing, filled, image / np.float32(255))
        pictures.show(FIRST, coarse, time.monotonic() - begun, final=True)
    lengths = sorted({1, min(10, passes), passes})
    for number, length in enumerate(lengths):

        def report(done: int, total: int, number: int = number, length: int = length) -> None:
            share = (sum(lengths[:number]) + length * done / max(total, 1)) / sum(lengths)
            send(Progress(f"{length} pass{'es' if length > 1 else ''}", share))

        begun = time.monotonic()
        filled = images.inpaint(image, mask, passes=length, progress=report)
        words = f"{length} pass{'es' if length > 1 else ''}"
        pictures.show(words, filled, time.monotonic() - begun, final=True)


def _saved(codes: Codes) -> bytes:
    """Return the contents of the file of codes."""
    with tempfile.TemporaryDirectory(prefix="sparsect-") as folder:
        path = Path(folder) / "codes.npz"
        codes.save(path)
        return path.read_bytes()


def _snr(truth: Array, image: Array) -> float:
    signal = float((truth.astype(np.float64) ** 2).sum())
    return decibels(signal, float(((truth.astype(np.float64) - image) ** 2).sum()))


def _psnr_where(mask: Array, truth: Array, image: Array) -> float:
    """PSNR over the missing pixels."""
    return images.psnr_db(truth[mask][None], image[mask][None])


def _enlarged(image: Array, shape: tuple[int, ...]) -> Array:
    from PIL import Image

    small: Any = levels(image)
    larger = Image.fromarray(small).resize((shape[1], shape[0]), Image.Resampling.BILINEAR)
    return np.asarray(larger) / np.float32(255)
