"""The page of a reconstruction: original, what each method made of it, and the differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dictionary import Dictionary
from ..plots import atom_tiles
from ..report import Page
from .files import resize
from .reconstruct import Reconstruction

Array = np.ndarray[Any, Any]

# Pictures on a page are scaled down to this many pixels on their longer side.
WIDEST = 1280
# Differences are drawn from black at minus this to white at plus this, as in the paper.
DIFFERENCE_SCALE = 0.3


def difference(original: Array, image: Array) -> Array:
    """image - original as an image: 0 is grey, -0.3 black, 0.3 white."""
    return np.clip(0.5 + (image - original) / (2 * DIFFERENCE_SCALE), 0, 1)


def page(
    name: str,
    original: Array,
    dictionary: Dictionary,
    results: dict[str, Reconstruction],
    failures: dict[str, str],
) -> Page:
    """A page about one image; the first of the results is the best."""
    first = next(iter(results.values()))
    m, n = dictionary.Phi.shape
    side, s, patches = dictionary.patch, first.sparsity, first.codes.means.size
    document = Page(f"{name}, {s} atoms a patch")
    document.text(
        f"{original.shape[1]}x{original.shape[0]} pixels, {patches} patches of {side}x{side}, each from at most {s} of "
        f"{n} atoms. Best: {next(iter(results))}, {first.patch_snr_db:.1f} dB on patches without their means, "
        f"{first.snr_db:.1f} dB on the image."
    )
    document.table(
        ["method", "patch SNR (dB)", "image SNR (dB)", "atoms a patch", "ms a patch"],
        [
            [
                method,
                f"{result.patch_snr_db:.2f}",
                f"{result.snr_db:.2f}",
                f"{result.codes.matrix.nnz / patches:.1f}",
                f"{1e3 * result.seconds / patches:.2f}",
            ]
            for method, result in results.items()
        ],
        best=0,
    )
    document.text(
        "Patch SNR: signal-to-noise ratio over all patches with the mean of each removed. Time: coding, with the "
        "factoring of the dictionary left out; runs may have been cut short by a limit of time or iterations."
    )
    for method, reason in failures.items():
        document.text(f"{method} could not be used: {reason}")
    document.section(f"Differences, from black at -{DIFFERENCE_SCALE} to white at +{DIFFERENCE_SCALE}")
    captions = {method: f"{method}, {result.patch_snr_db:.1f} dB" for method, result in results.items()}
    document.pictures(
        [("original", _shown(original))]
        + [(captions[method], _shown(difference(original, result.image))) for method, result in results.items()]
    )
    document.section("Reconstructions")
    document.pictures([(captions[method], _shown(result.image)) for method, result in results.items()])
    document.section("Settings")
    document.table(["method", "settings"], [[method, result.method] for method, result in results.items()])
    document.section("Atoms")
    document.text(f"The {n} atoms of the dictionary, low frequencies first.")
    document.pictures([(f"{m}x{n}", (atom_tiles(dictionary.Phi) + 1) / 2)])
    return document


def _shown(image: Array) -> Array:
    return resize(image, WIDEST) if max(image.shape) > WIDEST else image
