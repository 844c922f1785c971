"""Pictures that come from a browser."""

import base64
import io
import struct
import tempfile
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from sparsect import images
from sparsect.app import pictures
from sparsect.backend.checks import InputError


def bomb(width, height):
    """A PNG file of a few hundred bytes that claims to have many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 1000)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def encoded(image, kind="png"):
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, kind)
    return stream.getvalue()


NOISE = encoded(np.random.default_rng(0).integers(0, 256, (90, 90)).astype(np.uint8))


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files, which must be empty afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def test_floating_point_pictures_on_another_scale(temporary, rng):
    image = rng.random((20, 30)).astype(np.float32)
    stream = io.BytesIO()
    tifffile.imwrite(stream, 200 * image)
    np.testing.assert_allclose(pictures.decoded(stream.getvalue()), image / image.max(), rtol=1e-5)


def test_a_bomb_of_100_megapixels_is_refused_before_it_is_decoded(temporary, monkeypatch):
    monkeypatch.setattr(pictures, "read_photograph", lambda path: pytest.fail("decoded"))
    with pytest.raises(InputError, match=r"at most 40 megapixels, and this one has 10000x10000 pixels\."):
        pictures.decoded(bomb(10000, 10000))


def test_a_bomb_beyond_what_the_decoder_allows_is_refused(temporary):
    with pytest.raises(InputError, match=r"at most 40 megapixels, and this one has many more\."):
        pictures.decoded(bomb(60000, 60000))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not an image of a kind that can be read: PNG, JPEG"),
        (b"not a picture", "not an image of a kind that can be read: PNG, JPEG"),
        (NOISE[:2000], "a damaged image"),
    ],
    ids=["empty", "words", "cut"],
)
def test_damaged_files_are_refused_without_telling_where_they_were(temporary, data, words):
    with pytest.raises(InputError, match=f"^This file is {words}") as error:
        pictures.decoded(data)
    assert str(temporary) not in str(error.value)


def test_a_photograph_is_decoded_and_scaled_down(temporary):
    levels = np.random.default_rng(0).integers(0, 256, (40, 3000, 3)).astype(np.uint8)
    assert pictures.decoded(encoded(levels)).shape == (27, 2048, 3)
    small = levels[:, :50]
    np.testing.assert_array_equal(pictures.decoded(encoded(small)), small / np.float32(255))


def url(image):
    return "data:image/png;base64," + base64.b64encode(encoded(image)).decode()


def test_what_is_painted_is_the_mask():
    painted = np.zeros((6, 8, 4), np.uint8)
    painted[2:4, 3:7, 3] = 255
    mask = pictures.decoded_mask(url(painted), (6, 8))
    assert mask.sum() == 8
    assert mask[2:4, 3:7].all()


@pytest.mark.parametrize("given", ["", "data:image/png;base64,AAAA", "data:text/html,x", "file:///etc/passwd"])
def test_masks_that_are_not_pictures_are_refused(given):
    with pytest.raises(InputError):
        pictures.decoded_mask(given, (6, 8))


def test_a_mask_of_another_size_is_refused():
    with pytest.raises(InputError, match="have the size of the photograph"):
        pictures.decoded_mask(url(np.zeros((6, 9, 4), np.uint8)), (6, 8))


def test_the_prepared_picture_is_what_its_file_holds():
    clean, given = pictures.prepared(images.sample("coffee"), 64, grey=False, noise=0.1, seed=0)
    assert clean.shape == given.shape == (43, 64, 3)
    assert 0.07 < np.std(given / 255 - clean / 255) < 0.1
    np.testing.assert_array_equal(np.asarray(Image.open(io.BytesIO(pictures.png(given)))), given)
    again = pictures.prepared(images.sample("coffee"), 64, grey=True, noise=0.0, seed=0)
    assert again[0].shape == (43, 64)
    assert again[0] is again[1]
