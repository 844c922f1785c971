"""Groups of similar patches: the compiled filters against a plain transcription of their formulas."""

import numpy as np
import pytest
from scipy.fft import dctn, idctn

from sparsect.backend import parallel
from sparsect.kernels.groups import Groups, starts, threshold, wiener

pytestmark = pytest.mark.numerical


def quiet(count):
    return None


@pytest.fixture
def image(rng):
    smooth = np.cumsum(np.cumsum(rng.standard_normal((2, 21, 26)), axis=1), axis=2) / 30
    return (smooth + 0.1 * rng.standard_normal(smooth.shape)).astype(np.float32)


def members(guide, top, left, groups):
    """Corners of the patches of a group, nearest first; the reference patch before all others."""
    side, reach = groups.side, groups.reach
    reference = guide[top : top + side, left : left + side]
    found = []
    for row in range(max(top - reach, 0), min(top + reach, guide.shape[0] - side) + 1):
        for column in range(max(left - reach, 0), min(left + reach, guide.shape[1] - side) + 1):
            distance = ((guide[row : row + side, column : column + side] - reference) ** 2).sum()
            found.append((-1.0 if (row, column) == (top, left) else distance, row, column))
    return [place[1:] for place in sorted(found)[: groups.count]]


def haar(count):
    rows = [np.full(count, count**-0.5)]
    size = count
    while size > 1:
        for first in range(0, count, size):
            row = np.zeros(count)
            row[first : first + size // 2], row[first + size // 2 : first + size] = size**-0.5, -(size**-0.5)
            rows.append(row)
        size //= 2
    return np.array(rows)


def averaged(image, guide, groups, method, where=None):
    total, weight, side = np.zeros(image.shape), np.zeros(image.shape[1:]), groups.side
    for strip in groups.strips(image.shape[1:], where):
        for top, left in strip:
            places = members(guide, top, left, groups)
            filtered, factor = method(places)
            for place, patches in zip(places, np.moveaxis(filtered, 1, 0), strict=False):
                window = (slice(place[0], place[0] + side), slice(place[1], place[1] + side))
                total[:, *window] += factor * patches
                weight[window] += factor
    return total, weight


def cut(planes, places, side):
    return np.stack([planes[:, top : top + side, left : left + side] for top, left in places], axis=1).astype(float)


def test_thresholding(image):
    groups, limit = Groups(5, 8, stride=3, reach=6), 0.25

    def method(places):
        coefficients = np.einsum("gm,cmij->cgij", haar(8), dctn(cut(image, places, 5), axes=(2, 3), norm="ortho"))
        kept = np.abs(coefficients) >= limit
        kept[:, 0, 0, 0] = True
        patches = idctn(np.where(kept, coefficients, 0), axes=(2, 3), norm="ortho")
        return np.einsum("gm,cgij->cmij", haar(8), patches), 1 / kept.sum()

    total, weight = averaged(image, image[0], groups, method)
    np.testing.assert_allclose(threshold(image, limit, groups, quiet), total / weight, atol=1e-4)


@pytest.mark.parametrize("trust", [0.0, 0.7])
def test_wiener_filter(image, trust, rng):
    groups, noise = Groups(4, 9, stride=3, reach=5), 0.02
    pilot = (image + 0.05 * rng.standard_normal(image.shape)).astype(np.float32)
    where = np.zeros(image.shape[1:], dtype=bool)
    where[4:9, 6:20] = True

    def method(places):
        y, p = (cut(planes, places, 4).reshape(2, len(places), 16) for planes in (image, pilot))
        mean = trust * p.mean(axis=1, keepdims=True) + (1 - trust) * y.mean(axis=1, keepdims=True)
        covariance = np.stack([np.cov(channel, rowvar=False, bias=True) for channel in p])
        gain = covariance @ np.linalg.inv(covariance + noise * np.eye(16))
        return (mean + (y - mean) @ gain.swapaxes(1, 2)).reshape(2, len(places), 4, 4), 1.0

    total, weight = averaged(image, pilot[0], groups, method, where)
    expected = np.where(weight > 0, total / np.maximum(weight, 1), pilot)
    assert 0 < (weight > 0).mean() < 1
    np.testing.assert_allclose(wiener(image, pilot, noise, trust, groups, quiet, where), expected, atol=1e-4)


def test_few_patches_are_enough(image):
    tiny = np.ascontiguousarray(image[:, :6, :5])
    assert np.isfinite(threshold(tiny, 0.1, Groups(5, 16), quiet)).all()
    # A single patch is its own mean.
    np.testing.assert_allclose(wiener(tiny, tiny, 0.1, 0.0, Groups(5, 1), quiet), tiny, atol=1e-6)


def test_threads_do_not_show(rng, monkeypatch):
    image = rng.random((1, 90, 60)).astype(np.float32)
    groups = Groups(6, 16, reach=7)
    found = []
    for count in (1, 3):
        parallel._pool.cache_clear()
        monkeypatch.setattr(parallel, "threads", lambda count=count: count)
        pilot = threshold(image, 0.3, groups, quiet)
        found.append(wiener(image, pilot, 0.1, 0.5, groups, quiet))
    parallel._pool.cache_clear()
    np.testing.assert_array_equal(*found)


def test_strips_hold_every_patch_once():
    groups = Groups(8, 4, stride=3)
    corners = np.concatenate(groups.strips((100, 41)))
    expected = [(top, left) for top in starts(100, 8, 3) for left in starts(41, 8, 3)]
    assert [tuple(corner) for corner in corners] == expected
    where = np.zeros((100, 41), dtype=bool)
    where[50, 20] = True
    marked = [(top, left) for top, left in expected if top <= 50 < top + 8 and left <= 20 < left + 8]
    assert [tuple(corner) for strip in groups.strips((100, 41), where) for corner in strip] == marked
    assert groups.strips((100, 41), np.zeros((100, 41), dtype=bool)) == []


@pytest.mark.parametrize("shift", range(8))
def test_shifted_patches_cover_the_image(shift):
    for length in (8, 9, 15, 16, 100):
        found = starts(length, 8, 8, shift)
        assert found[0] == 0
        assert found[-1] == length - 8
        assert (np.diff(found) > 0).all()
        assert (np.diff(found) <= 8).all()
        assert shift in found or shift > length - 8
