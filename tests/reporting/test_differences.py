"""Differences are drawn on one scale that suits them, and the scale is named."""

import numpy as np
import pytest

from sparsect import images
from sparsect.backend.checks import InputError
from sparsect.reporting.differences import enlarged


@pytest.mark.parametrize(
    ("size", "words", "drawn"),
    [
        (0.05, "8 times enlarged", 0.9),
        (0.2, "2 times enlarged", 0.9),
        (0.3, "not enlarged", 0.8),
        (0.9, "not enlarged", 1.0),
    ],
)
def test_the_scale_follows_from_the_differences(size, words, drawn):
    original = np.zeros((20, 20))
    scale, [(caption, picture)] = enlarged([("found", original, original + size)])
    assert (scale, caption) == (words, "found")
    np.testing.assert_allclose(picture, drawn, atol=1e-6)


def test_neither_few_pixels_nor_one_image_decide_and_all_share_one_scale():
    original, near, far = np.zeros((40, 40)), np.full((40, 40), 0.01), np.full((40, 40), -0.05)
    far[:4, :4] = 1.0
    scale, pictures = enlarged([("near", original, near), ("far", original, far), ("failed", original, original + 1)])
    assert scale == "8 times enlarged"
    near, far, failed = (picture for _, picture in pictures)
    np.testing.assert_allclose(near, 0.58, atol=1e-6)
    np.testing.assert_allclose(far[5:], 0.1, atol=1e-6)
    assert far[0, 0] == 1
    assert (failed == 1).all()


def test_equal_images_are_grey():
    scale, [(_, picture)] = enlarged([("same", np.ones((4, 4)), np.ones((4, 4)))])
    assert scale == "64 times enlarged"
    assert (picture == 0.5).all()


def test_a_scale_that_is_no_positive_number_is_refused():
    for scale in (0, -1, float("nan"), "large"):
        with pytest.raises(InputError, match="`scale` must be a positive number"):
            images.difference(np.ones((4, 4)), np.ones((4, 4)), scale)
