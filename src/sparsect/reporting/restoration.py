"""The page about a restored image: before and after under a slider, details, and the difference."""

from __future__ import annotations

import numpy as np

from ..backend.arrays import Array
from .differences import enlarged
from .gallery import shown
from .page import Page

# Side of the square details in pixels, and how many times they are enlarged.
DETAIL, ENLARGED = 96, 3


def page(name: str, words: str, before: Array, after: Array, truth: Array | None = None) -> Page:
    """Make the page about one restored image.

    Parameters
    ----------
    name : str
        Name of the image, shown in the title.
    words : str
        What was done, in one line.
    before : array, shape (height, width) or (height, width, 3)
        The image as it was.
    after : array, same shape
        The restored image.
    truth : array, same shape, optional
        The image without noise or damage.

    Returns
    -------
    Page
        The page, not yet written.
    """
    document = Page(name)
    document.text(f"{before.shape[1]}x{before.shape[0]} pixels; {words}.")
    images = {"before": before, "after": after} | ({} if truth is None else {"truth": truth})
    document.slider([(caption, shown(image)) for caption, image in images.items()])
    document.section("Details, enlarged")
    document.text(f"The {DETAIL} pixels around the place that has changed most, and the centre of the image.")
    for top, left in (_changed_most(before, after), tuple((length - DETAIL) // 2 for length in before.shape[:2])):
        rows, columns = (slice(max(start, 0), max(start, 0) + DETAIL) for start in (top, left))
        document.pictures(
            [(caption, np.kron(image[rows, columns], _block(image))) for caption, image in images.items()]
        )
    document.section("Differences")
    pairs = [("after minus before", before)] + ([] if truth is None else [("after minus truth", truth)])
    drawn = [enlarged([(caption, shown(other), shown(after))]) for caption, other in pairs]
    document.pictures([(f"{caption}, {scale}", picture) for scale, [(caption, picture)] in drawn])
    return document


def _block(image: Array) -> Array:
    return np.ones((ENLARGED, ENLARGED, *[1] * (image.ndim - 2)), dtype=np.float32)


def _changed_most(before: Array, after: Array) -> tuple[int, int]:
    """Return the corner of the square, among those on a grid, in which the images differ most."""
    change = np.abs(after - before) if before.ndim == 2 else np.abs(after - before).mean(axis=2)
    places = [
        (top, left)
        for top in range(0, max(change.shape[0] - DETAIL, 0) + 1, DETAIL // 2)
        for left in range(0, max(change.shape[1] - DETAIL, 0) + 1, DETAIL // 2)
    ]
    return max(places, key=lambda place: change[place[0] : place[0] + DETAIL, place[1] : place[1] + DETAIL].sum())
