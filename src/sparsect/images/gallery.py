"""The page of a reconstruction: original, what each method made of it, and the differences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..checks import reject
from ..dictionary import Dictionary
from ..plots import atom_tiles
from ..report import Page
from .files import pixels, resize
from .reconstruct import Reconstruction

Array = np.ndarray[Any, Any]

# Pictures on a page are scaled down to this many pixels on their longer side.
WIDEST = 1280
# Differences are drawn from black at minus this to white at plus this, as in the paper.
DIFFERENCE_SCALE = 0.3


def difference(original: Array, image: Array) -> Array:
    """image - original as an image: 0 is grey, -0.3 black, 0.3 white."""
    image, original = pixels("image", image), pixels("original", original)
    if image.shape != original.shape:
        raise reject("image", f"shape {image.shape}", f"that of the original, {original.shape}")
    shown: Array = np.clip(0.5 + (image - original) / (2 * DIFFERENCE_SCALE), 0, 1)
    return shown


@dataclass(frozen=True)
class Outcome:
    """What a page shows of one reconstruction: numbers and small pictures, not the image and its codes."""

    settings: str
    sparsity: int
    patches: int
    snr_db: float
    patch_snr_db: float
    atoms_per_patch: float
    ms_per_patch: float
    picture: Array
    difference: Array

    @classmethod
    def of(cls, original: Array, result: Reconstruction) -> Outcome:
        """Boil a reconstruction down."""
        patches = result.codes.means.size
        return cls(
            settings=result.method,
            sparsity=result.sparsity,
            patches=patches,
            snr_db=result.snr_db,
            patch_snr_db=result.patch_snr_db,
            atoms_per_patch=result.codes.matrix.nnz / patches,
            ms_per_patch=1e3 * result.seconds / patches,
            picture=_shown(result.image),
            difference=_shown(difference(original, result.image)),
        )


def page(
    name: str,
    original: Array,
    dictionary: Dictionary,
    outcomes: dict[str, Outcome],
    failures: dict[str, str],
) -> Page:
    """A page about one image; the first of the outcomes is the best."""
    first = next(iter(outcomes.values()))
    m, n = dictionary.Phi.shape
    side, s = dictionary.patch, first.sparsity
    document = Page(f"{name}, {s} atoms a patch")
    document.text(
        f"{original.shape[1]}x{original.shape[0]} pixels, {first.patches} patches of {side}x{side}, each from at most "
        f"{s} of {n} atoms. Best: {next(iter(outcomes))}, {first.patch_snr_db:.1f} dB on patches without their means, "
        f"{first.snr_db:.1f} dB on the image."
    )
    document.table(
        ["method", "patch SNR (dB)", "image SNR (dB)", "atoms a patch", "ms a patch"],
        [
            [
                method,
                f"{outcome.patch_snr_db:.2f}",
                f"{outcome.snr_db:.2f}",
                f"{outcome.atoms_per_patch:.1f}",
                f"{outcome.ms_per_patch:.2f}",
            ]
            for method, outcome in outcomes.items()
        ],
        best=0,
    )
    document.text(
        "Patch SNR: signal-to-noise ratio over all patches with the mean of each removed. Time: coding, with the "
        "factoring of the dictionary left out; runs may have been cut short by a limit of time or iterations."
    )
    for method, reason in failures.items():
        document.text(f"{method} could not be used: {reason}")
    captions = {method: f"{method}, {outcome.patch_snr_db:.1f} dB" for method, outcome in outcomes.items()}
    document.section(f"Differences, from black at -{DIFFERENCE_SCALE} to white at +{DIFFERENCE_SCALE}")
    document.pictures(
        [("original", _shown(original))]
        + [(captions[method], outcome.difference) for method, outcome in outcomes.items()]
    )
    document.section("Reconstructions")
    document.pictures([(captions[method], outcome.picture) for method, outcome in outcomes.items()])
    document.section("Settings")
    document.table(["method", "settings"], [[method, outcome.settings] for method, outcome in outcomes.items()])
    document.section("Atoms")
    document.text(f"The {n} atoms of the dictionary, low frequencies first.")
    document.pictures([(f"{m}x{n}", (atom_tiles(dictionary) + 1) / 2)])
    return document


def _shown(image: Array) -> Array:
    return resize(image, WIDEST) if max(image.shape) > WIDEST else image
