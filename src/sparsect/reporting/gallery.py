"""The page about the reconstructions of an image: the original, the result of each method, and the differences."""

from __future__ import annotations

from dataclasses import dataclass

from ..backend.arrays import Array
from ..dictionary import Dictionary
from ..images.compare import DIFFERENCE_SCALE, difference
from ..images.files import resize
from ..images.reconstruct import Reconstruction
from .page import Page
from .plots import atom_tiles

# Pictures on a page are scaled down to this many pixels on their longer side.
WIDEST = 1280


@dataclass(frozen=True)
class Outcome:
    """What a page shows of one reconstruction.

    Only numbers and small pictures are kept, because the image and its codes may be large.

    Attributes
    ----------
    settings : str
        The method with its settings.
    sparsity : int
        Number of atoms allowed for each patch.
    patches : int
        Number of patches.
    snr_db : float
        Signal-to-noise ratio of the image, in dB.
    patch_snr_db : float
        Signal-to-noise ratio over all patches with the mean of each removed, in dB.
    atoms_per_patch : float
        Number of atoms used, on average over the patches.
    ms_per_patch : float
        Milliseconds of coding for each patch, on average.
    picture : array
        The reconstructed image, scaled down for the page.
    difference : array
        The difference image, scaled down for the page.
    """

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
        """Summarize a reconstruction.

        Parameters
        ----------
        original : array, shape (height, width) or (height, width, channels)
            The image that was reconstructed.
        result : Reconstruction
            The result of :func:`sparsect.images.reconstruct`.

        Returns
        -------
        Outcome
            The numbers and pictures that the page shows.
        """
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
    """Make the page about the reconstructions of one image.

    Parameters
    ----------
    name : str
        Name of the image, shown in the title.
    original : array, shape (height, width) or (height, width, channels)
        The image.
    dictionary : Dictionary
        The dictionary that the patches were coded with.
    outcomes : dict of str to Outcome
        The outcome of each method, best first.
    failures : dict of str to str
        The reason why a method could not be used, for each such method.

    Returns
    -------
    Page
        The page, not yet written.
    """
    first = next(iter(outcomes.values()))
    m, n = dictionary.Phi.shape
    side, s = dictionary.patch, first.sparsity
    document = Page(f"{name}, {s} atoms per patch")
    document.text(
        f"{original.shape[1]}x{original.shape[0]} pixels, {first.patches} patches of {side}x{side}, each coded with at "
        f"most {s} of {n} atoms. Best: {next(iter(outcomes))}, {first.patch_snr_db:.1f} dB on patches with their means "
        f"removed, {first.snr_db:.1f} dB on the image."
    )
    document.table(
        ["method", "patch SNR (dB)", "image SNR (dB)", "atoms per patch", "ms per patch"],
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
        "Patch SNR: signal-to-noise ratio over all patches, with the mean of each patch removed. Times are those of "
        "coding, without factoring the dictionary. Runs may have ended at a limit on time or iterations."
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
    """Scale an image down to the largest size shown on a page."""
    return resize(image, WIDEST) if max(image.shape) > WIDEST else image
