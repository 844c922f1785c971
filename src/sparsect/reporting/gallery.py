"""The page about the reconstructions of an image: the original, the result of each method, and the differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.arrays import Array, NumpyArray
from ..dictionary import Dictionary
from ..images.files import resize, white_of
from ..images.reconstruct import Reconstruction
from .atoms import atom_picture
from .differences import enlarged
from .look import look
from .page import Page
from .plots import new_figure

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
    curve : array, shape (2, moments)
        Milliseconds for each patch, and the patch SNR reached until then.
    picture : array
        The reconstructed image, scaled down for the page, on the scale of the original.
    """

    settings: str
    sparsity: int
    patches: int
    snr_db: float
    patch_snr_db: float
    atoms_per_patch: float
    ms_per_patch: float
    curve: NumpyArray
    picture: Array

    @classmethod
    def of(cls, result: Reconstruction) -> Outcome:
        """Summarize a reconstruction.

        Parameters
        ----------
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
            curve=np.array([1e3 * result.history["seconds"] / patches, result.history["patch_snr_db"]]),
            picture=shown(result.image),
        )


def page(
    name: str,
    original: Array,
    dictionary: Dictionary,
    found: dict[int, dict[str, Outcome]],
    remarks: Iterable[str],
    seconds_per_patch: float | None = None,
) -> Page:
    """Make the page about the reconstructions of one image.

    Parameters
    ----------
    name : str
        Name of the image, shown in the title.
    original : array, shape (height, width) or (height, width, channels)
        The image; values up to 1 or, if it is larger, up to its largest value are shown.
    dictionary : Dictionary
        The dictionary that the patches were coded with.
    found : dict of int to dict of str to Outcome
        For each number of atoms per patch, the outcome of each method, best first.
    remarks : iterable of str
        Sentences on methods that are missing.
    seconds_per_patch : float, optional
        The limit on the mean time per patch, if there was one.

    Returns
    -------
    Page
        The page, not yet written.
    """
    first = next(iter(next(iter(found.values())).values()))
    n, side = dictionary.Phi.shape[1], dictionary.patch
    document = Page(f"{name}, {_listed(found)} atoms per patch")
    document.text(
        f"{original.shape[1]}x{original.shape[0]} pixels, {first.patches} patches of {side}x{side}, each coded with at "
        f"most {_listed(found, 'or')} of {n} atoms."
    )
    if seconds_per_patch is not None:
        document.text(f"The time limit of a method was {1e3 * seconds_per_patch:g} ms per patch.")
    for remark in remarks:
        document.text(remark)
    for sparsity, outcomes in found.items():
        if len(found) > 1:
            document.section(f"{sparsity} atoms per patch")
        _at_one_sparsity(document, shown(original), outcomes)
    document.section("How to read this page")
    document.points(
        [
            "Patch SNR: signal-to-noise ratio over all patches, with the mean of each patch removed.",
            "Times are those of coding, without factoring the dictionary. Runs end when they have converged or at a "
            "limit on time or iterations; one iteration of an expensive method may take longer than the limit.",
            "A chart follows each run to its end. Methods that plan with the time they have would be better with less "
            "of it than their lines are on the way.",
        ]
    )
    document.section("Settings")
    methods = {method: outcome for outcomes in found.values() for method, outcome in outcomes.items()}
    document.table(
        ["method", "settings"], [[method, outcome.settings] for method, outcome in methods.items()], words=True
    )
    document.section("Atoms")
    document.picture(f"The {n} atoms of the dictionary, low frequencies first", atom_picture(dictionary, "frequency"))
    return document


def _at_one_sparsity(document: Page, original: Array, outcomes: dict[str, Outcome]) -> None:
    """Add what the methods have found with one number of atoms per patch: pictures, chart, table, differences."""
    best, first = next(iter(outcomes.items()))
    white = white_of(original)
    original = original / white
    document.text(
        f"Best: {best}, {first.patch_snr_db:.1f} dB on patches with their means removed, {first.snr_db:.1f} dB on the "
        "image."
    )
    captions = {method: f"{method}, {outcome.patch_snr_db:.1f} dB" for method, outcome in outcomes.items()}
    pictures = [(captions[method], outcome.picture / white) for method, outcome in outcomes.items()]
    with document.beside():
        document.slider([("original", original), *pictures])
        document.chart(
            "Patch SNR against time, from the first iterations to the end of each run; lines as in the table.",
            "Patch SNR of each method against milliseconds per patch; the table has the values at the end.",
            _snr_against_time(outcomes),
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
        methods=outcomes,
    )
    scale, differences = enlarged([(caption, original, picture) for caption, picture in pictures])
    document.subsection(f"Differences, {scale}")
    document.pictures(differences)


def _snr_against_time(outcomes: dict[str, Outcome]) -> Any:
    """Draw the patch SNR of each method against time."""
    figure = new_figure((4.8, 4.2))
    axes = figure.add_subplot()
    for method, outcome in reversed(outcomes.items()):
        axes.plot(*outcome.curve, **look(method).line(), linewidth=1.4, markersize=5.5)
    axes.set(xscale="log", xlabel="milliseconds per patch", ylabel="patch SNR (dB)")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.grid(color="#b0b0b0", linewidth=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    return figure


def _listed(numbers: Iterable[int], joint: str = "and") -> str:
    """Format numbers as words: 20, 40 and 200."""
    *others, last = map(str, numbers)
    return f"{', '.join(others)} {joint} {last}" if others else last


def shown(image: Array) -> Array:
    """Scale an image down to the largest size shown on a page.

    Parameters
    ----------
    image : array, shape (height, width) or (height, width, channels)
        The image.

    Returns
    -------
    array
        The image, at most 1280 pixels on its longer side.
    """
    return resize(image, WIDEST) if max(image.shape) > WIDEST else image
