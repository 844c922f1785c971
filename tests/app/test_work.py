"""What the workers do to a photograph."""

import contextlib
import io

import numpy as np
import pytest
from PIL import Image

from sparsect import images
from sparsect.app.pictures import levels
from sparsect.app.work import Progress, paper, photograph

CAT = levels(images.sample("chelsea")[100:180, 150:250])


@pytest.fixture
def sent(monkeypatch):
    """Messages of a work; every iteration is shown."""
    monkeypatch.setattr(photograph, "PERIOD", 0.0)
    return []


def shown(sent, method=None):
    return [one for one in sent if isinstance(one, photograph.Shown) and method in (None, one.method)]


@pytest.mark.parametrize("image", [CAT, CAT[..., 0]], ids=["colour", "grey"])
def test_a_reconstruction_gets_better_step_by_step_and_ends_as_the_library_does(sent, image):
    photograph.reconstruct(sent.append, image, ["omp"], 6, "8x8", 8, 50)
    pictures = shown(sent, "omp")
    ratios = [one.snr_db for one in pictures]
    assert ratios == sorted(ratios)
    assert ratios[-1] > ratios[0] + 3
    assert [one.final for one in pictures] == [False] * (len(pictures) - 1) + [True]
    assert [one.seconds for one in pictures] == sorted(one.seconds for one in pictures)
    same = images.reconstruct(image, 6, "omp", dictionary="8x8", max_iter=50)
    np.testing.assert_array_equal(pictures[-1].picture, levels(same.image))
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(pictures[-1].png))), pictures[-1].picture)
    assert ratios[-1] == pytest.approx(same.snr_db, abs=1e-3)
    (coded,) = [one for one in sent if isinstance(one, photograph.Coded)]
    assert (coded.codes.matrix != same.codes.matrix).nnz == 0
    shares = [one.share for one in sent if isinstance(one, Progress)]
    assert shares[-1] == 1


def test_a_method_that_cannot_be_used_does_not_end_the_others(sent, monkeypatch):
    from sparsect.backend.checks import InputError

    def refusing(image, sparsity, method, **options):
        if method == "admm":
            raise InputError("`method` must be another one, got 'admm'.")
        return images.reconstruct(image, sparsity, method, **options)

    monkeypatch.setattr(photograph, "images", type("Images", (), {"reconstruct": staticmethod(refusing)}))
    photograph.reconstruct(sent.append, CAT[..., 0], ["admm", "omp"], 4, "8x8", 8, 20)
    assert photograph.Failed("admm", "`method` must be another one, got 'admm'.") in sent
    assert shown(sent, "omp")[-1].final


@pytest.mark.parametrize("sigma", [None, 0.1])
def test_denoising_shows_a_coarse_picture_first_and_ends_as_the_library_does(sent, sigma):
    noisy = levels(CAT / 255 + 0.1 * np.random.default_rng(0).standard_normal(CAT.shape))
    photograph.denoise(sent.append, noisy, CAT, True, sigma, "best")
    pictures = shown(sent)
    assert [one.method for one in pictures] == ["coarse", "fast", "best"]
    assert pictures[2].snr_db > pictures[0].snr_db
    np.testing.assert_array_equal(pictures[2].picture, levels(images.denoise(noisy, sigma)))
    shares = [one.share for one in sent if isinstance(one, Progress)]
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)


def test_a_reference_that_is_not_the_truth_gives_no_ratio(sent):
    photograph.denoise(sent.append, CAT, CAT, False, 0.05, "fast")
    assert [one.snr_db for one in shown(sent)] == [None, None]


def test_a_narrow_picture_has_no_coarse_version(sent):
    narrow = CAT[:11]
    assert max(narrow.shape) >= 64
    photograph.denoise(sent.append, narrow, narrow, False, 0.05, "fast")
    assert [one.method for one in shown(sent)] == ["fast"]


@pytest.mark.parametrize("image", [CAT, CAT[..., 0]], ids=["colour", "grey"])
def test_inpainting_changes_missing_pixels_only_and_ends_as_the_library_does(sent, image):
    mask = np.zeros(image.shape[:2], bool)
    mask[30:40, 20:80] = True
    photograph.inpaint(sent.append, image, image, mask, 12)
    pictures = shown(sent)
    assert [one.method for one in pictures] == ["coarse", "1 pass", "10 passes", "12 passes"]
    for one in pictures:
        np.testing.assert_array_equal(one.picture[~mask], image[~mask])
    np.testing.assert_array_equal(pictures[-1].picture, levels(images.inpaint(image, mask, passes=12)))


def test_pixels_missing_everywhere_on_the_coarse_grid_are_no_error(sent):
    mask = np.zeros(CAT.shape[:2], bool)
    mask[::4, ::4] = True
    photograph.inpaint(sent.append, CAT, CAT, mask, 1)
    assert [one.method for one in shown(sent)] == ["1 pass"]


@pytest.mark.parametrize(("name", "last"), [("vary-noise", "s = 150, 10 dB, problem 1, omp"), ("beta", "beta = +1.20")])
def test_an_experiment_says_which_problem_it_computes_with_what(monkeypatch, name, last):
    sent = []
    monkeypatch.setattr(paper, "attempt", lambda *arguments: [])
    monkeypatch.setattr(paper, "prepared", lambda *arguments: contextlib.nullcontext())
    paper.compute(sent.append, name, ["omp"], 2, 0.2)
    words = [one.words for one in sent if isinstance(one, Progress)]
    assert words[0].startswith("400x1000, s = 1")
    assert ", problem 0, " in words[0]
    assert words[-1].endswith(last)
