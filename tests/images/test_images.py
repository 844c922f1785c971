"""Patches, files and reconstruction, on small images and a small dictionary."""

import struct
import zlib

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

import sparsect
from sparsect import InputError, images
from sparsect.dictionary import Dictionary
from sparsect.images.patches import PatchGrid

pytestmark = pytest.mark.numerical


def smooth_image(rng, height=40, width=50):
    image = np.cumsum(np.cumsum(rng.standard_normal((height, width)), axis=0), axis=1)
    return ((image - image.min()) / (image.max() - image.min())).astype(np.float32)


@pytest.fixture
def small(rng):
    """Cosines of 8x8 pixels, more than a basis."""
    times, frequencies = np.arange(8) + 0.5, np.arange(11) * 0.75
    one = np.cos(np.pi * times[:, None] * frequencies[None, :] / 8)
    one[:, 1:] -= one[:, 1:].mean(axis=0)
    Phi = np.kron(one, one)[:, 1:]
    return Dictionary((Phi / np.linalg.norm(Phi, axis=0)).astype(np.float32))


class TestPatchGrid:
    @pytest.mark.parametrize(
        ("height", "width", "patch", "stride"), [(8, 8, 8, 8), (21, 34, 8, 8), (21, 34, 8, 3), (9, 8, 5, 1)]
    )
    def test_patches_put_together_are_the_image(self, height, width, patch, stride, rng):
        image = rng.random((height, width))
        grid = PatchGrid(image.shape, patch, stride)
        total = np.zeros_like(image)
        for block in grid.blocks(size=7):
            grid.add(total, grid.patches(image, block), block)
        assert grid.cover.min() >= 1
        np.testing.assert_allclose(total / grid.cover, image)

    def test_patches_are_windows(self, rng):
        image = rng.random((12, 13))
        patches = PatchGrid(image.shape, 5, 4).patches(image, slice(0, 9))
        assert patches.shape == (9, 25)
        np.testing.assert_array_equal(patches[-1].reshape(5, 5), image[7:, 8:])
        np.testing.assert_array_equal(patches[1].reshape(5, 5), image[:5, 4:9])

    def test_errors(self):
        with pytest.raises(InputError, match=r"image` must .*at least 8x8.*got 30x7 pixels"):
            PatchGrid((7, 30), 8)
        with pytest.raises(InputError, match=r"stride` must .*a whole number from 1 to 8.*got 9"):
            PatchGrid((20, 20), 8, 9)


class TestFiles:
    def test_comes_back_as_it_was(self, rng, tmp_path):
        for shape in ((9, 12), (9, 12, 3)):
            image = rng.integers(256, size=shape).astype(np.uint8)
            images.write_image(tmp_path / "image.png", image / 255)
            np.testing.assert_allclose(images.read_image(tmp_path / "image.png"), image / 255, atol=1e-6)

    def test_sixteen_bits(self, tmp_path):
        levels = np.array([[0, 1000], [40000, 65535]], dtype=np.uint16)
        Image.fromarray(levels).save(tmp_path / "deep.png")
        np.testing.assert_allclose(images.read_image(tmp_path / "deep.png"), levels / 65535, atol=1e-6)

    def test_alpha_is_blended_over_white(self, tmp_path):
        image = np.zeros((2, 2, 4), dtype=np.uint8)
        image[0, :, 3], image[1, 1] = 255, (255, 0, 0, 51)
        Image.fromarray(image).save(tmp_path / "clear.png")
        blended = images.read_image(tmp_path / "clear.png")
        np.testing.assert_allclose(blended, [[[0] * 3] * 2, [[1] * 3, [1, 0.8, 0.8]]], atol=1e-6)

    def test_palettes_and_upright(self, tmp_path):
        image = np.zeros((4, 6, 3), dtype=np.uint8)
        image[:, 3:] = (255, 0, 0)
        Image.fromarray(image).quantize(4).save(tmp_path / "few.png")
        np.testing.assert_allclose(images.read_image(tmp_path / "few.png"), image / 255, atol=1e-6)
        turned = Image.fromarray(image)
        exif = turned.getexif()
        exif[0x0112] = 6
        turned.save(tmp_path / "turned.jpg", exif=exif)
        assert images.read_image(tmp_path / "turned.jpg").shape == (6, 4, 3)

    def test_files_that_are_no_images(self, tmp_path, rng):
        (tmp_path / "words.png").write_text("not an image")
        with pytest.raises(InputError, match=r"words.png: not an image"):
            images.read_image(tmp_path / "words.png")
        (tmp_path / "empty.png").write_bytes(b"")
        with pytest.raises(InputError, match=r"empty.png: not an image"):
            images.read_image(tmp_path / "empty.png")
        images.write_image(tmp_path / "whole.png", rng.random((50, 50)))
        (tmp_path / "half.png").write_bytes((tmp_path / "whole.png").read_bytes()[:1000])
        with pytest.raises(InputError, match=r"half.png: a damaged image"):
            images.read_image(tmp_path / "half.png")
        with pytest.raises(InputError, match="no such file"):
            images.read_image(tmp_path / "none.png")
        with pytest.raises(InputError, match="must be a regular file, got a folder"):
            images.read_image(tmp_path)

    def test_a_huge_size_is_refused_before_decoding(self, tmp_path):
        Image.new("L", (1, 1)).save(tmp_path / "huge.png")
        data = bytearray((tmp_path / "huge.png").read_bytes())
        data[16:24] = struct.pack(">II", 200_000, 200_000)
        data[29:33] = struct.pack(">I", zlib.crc32(bytes(data[12:29])))
        (tmp_path / "huge.png").write_bytes(bytes(data))
        with pytest.raises(InputError, match=r"huge.png` must fit into half of memory, .*, got arrays of 1192.1 GiB"):
            images.read_image(tmp_path / "huge.png")

    @pytest.mark.parametrize(
        ("image", "message"),
        [
            (np.zeros((0, 5)), "at least one pixel"),
            (np.zeros(5), r"got shape \(5,\)"),
            (np.zeros((5, 5, 7)), "1 to 4 channels"),
            (np.zeros((5, 5), dtype=np.int64), "dtype int64"),
            (np.full((5, 5), np.nan), "NaN, infinite or beyond 1e\\+15"),
            (np.full((5, 5), 1e39), "NaN, infinite or beyond 1e\\+15"),
            (np.full((5, 5, 3), 1e30), "NaN, infinite or beyond 1e\\+15"),
            (np.full((5, 5, 4), 1e30), "NaN, infinite or beyond 1e\\+15"),
            ([[1, 2], [3]], "an object of type list"),
            ("cat.png", "an object of type str"),
        ],
    )
    def test_arrays_that_are_no_images(self, image, message):
        with pytest.raises(InputError, match=f"image` must .*{message}"):
            images.reconstruct(image, 3)

    def test_masked_arrays_are_refused_everywhere(self, small, rng):
        image = smooth_image(rng)
        masked, mask = np.ma.masked_greater(image, 0.5), np.zeros(image.shape, dtype=bool)
        for name, call in {
            "image": [
                lambda: images.reconstruct(masked, 3, dictionary=small),
                lambda: images.denoise(masked, 0.1),
                lambda: images.inpaint(masked, mask),
                lambda: images.to_gray(masked),
                lambda: images.resize(masked, 20),
                lambda: images.write_image("never.png", masked),
                lambda: images.estimate_sigma(masked),
                lambda: images.difference(image, masked),
            ],
            "mask": [lambda: images.inpaint(image, np.ma.masked_array(mask, mask))],
            "truth": [lambda: images.psnr_db(masked, image)],
            "estimate": [lambda: images.psnr_db(image, masked)],
            "original": [lambda: images.difference(masked, image)],
        }.items():
            for one in call:
                with pytest.raises(InputError, match=f"{name}` must .*got a masked array"):
                    one()

    def test_unwritable_and_unknown_formats(self, tmp_path):
        with pytest.raises(InputError, match=r"path` must be a name that ends in .png"):
            images.write_image(tmp_path / "image.xyz", np.zeros((2, 2)))
        (tmp_path / "file").write_text("")
        with pytest.raises(InputError, match="cannot be written"):
            images.write_image(tmp_path / "file" / "image.png", np.zeros((2, 2)))

    @pytest.mark.parametrize("white", [255, 65535])
    def test_values_of_another_scale_are_not_written(self, white, tmp_path):
        image = white * np.linspace(0, 1, 12).reshape(3, 4)
        with pytest.raises(InputError, match=rf"must have values from 0 to 1, got values up to {white}\. Divide"):
            images.write_image(tmp_path / "image.png", image)
        assert not list(tmp_path.iterdir())
        images.write_image(tmp_path / "image.png", image / white)

    def test_bright_pixels_of_strong_noise_are_clipped(self, rng, tmp_path):
        image = 0.5 + rng.standard_normal((30, 30))
        assert image.max() > 2
        images.write_image(tmp_path / "image.png", image)
        assert images.read_image(tmp_path / "image.png").max() == 1

    def test_eight_bits_are_understood_everywhere(self, tmp_path):
        image = np.arange(0, 240, 10, dtype=np.uint8).reshape(4, 6)
        images.write_image(tmp_path / "levels.png", image)
        np.testing.assert_allclose(images.read_image(tmp_path / "levels.png"), image / 255, atol=1e-6)
        np.testing.assert_allclose(images.to_gray(image), image / 255, atol=1e-6)
        assert images.resize(image, 3).max() < 1

    def test_resize_keeps_proportions(self, rng):
        assert images.resize(rng.random((30, 60, 3)).astype(np.float32), 20).shape == (10, 20, 3)
        assert images.resize(np.ones((30, 60), dtype=np.float32), 20).min() == 1

    def test_resize_keeps_the_scale(self, rng):
        image = rng.random((30, 60)).astype(np.float32)
        scaled = images.resize(255 * image, 20)
        assert scaled.max() > 100
        np.testing.assert_allclose(scaled, 255 * images.resize(image, 20), rtol=1e-4)

    def test_resize_to_nothing_that_could_be(self, rng):
        for longest in (0, 2**31, 10**5000):
            with pytest.raises(InputError, match="longest` must"):
                images.resize(rng.random((4, 5)), longest)

    def test_a_difference_needs_one_shape(self, rng):
        with pytest.raises(
            InputError, match=r"image` must have the shape of the original, \(4, 5\), got shape \(5, 4\)"
        ):
            images.difference(rng.random((4, 5)), rng.random((5, 4)))

    def test_samples_are_there(self):
        assert images.sample("chelsea").shape == (300, 451, 3)
        assert images.sample("camera").ndim == 2
        with pytest.raises(InputError, match="Did you mean 'rocket'"):
            images.sample("rockt")


class TestFolder:
    def test_numbers_and_slices(self, tmp_path, rng):
        for name in "abc":
            images.write_image(tmp_path / f"{name}.png", rng.random((4, 5)))
        folder = images.ImageFolder(tmp_path)
        np.testing.assert_array_equal(folder[-1], folder[2])
        assert len(folder[:2]) == 2

    def test_finds_photographs_and_leaves_out_the_rest(self, tmp_path, rng, monkeypatch):
        (tmp_path / "deeper").mkdir()
        for name, shape in (("a.png", (20, 30)), ("deeper/b.jpg", (25, 20, 3)), ("tiny.png", (5, 40))):
            images.write_image(tmp_path / name, rng.random(shape))
        (tmp_path / "broken.jpg").write_bytes(b"\xff\xd8nothing")
        whole = (tmp_path / "deeper" / "b.jpg").read_bytes()
        (tmp_path / "cut.jpg").write_bytes(whole[: -len(whole) // 3])
        (tmp_path / "notes.txt").write_text("no photograph")
        monkeypatch.setattr("sparsect.images.folder.CACHE_BYTES", 100)
        folder = images.ImageFolder(tmp_path, smallest=10)
        assert [path.name for path in folder.paths] == ["a.png", "b.jpg"]
        assert [image.shape for image in folder] == folder.shapes == [(20, 30), (25, 20)]
        assert len(folder.left_out) == 3
        assert any("cut.jpg: a damaged image" in reason for reason in folder.left_out)
        assert folder.digest == images.ImageFolder(tmp_path, smallest=10).digest
        (tmp_path / "a.png").write_bytes((tmp_path / "tiny.png").read_bytes())
        assert folder.digest != images.ImageFolder(tmp_path, smallest=3).digest

    def test_nothing_to_use(self, tmp_path):
        with pytest.raises(InputError, match="no photograph that can be used"):
            images.ImageFolder(tmp_path)
        with pytest.raises(InputError, match="no such folder"):
            images.ImageFolder(tmp_path / "none")


class TestReconstruct:
    def test_all_atoms_give_the_image_back(self, small, rng):
        image = smooth_image(rng)
        seen = images.reconstruct(image, 120, "ormp", dictionary=small)
        np.testing.assert_allclose(seen.image, image, atol=1e-3)
        assert seen.patch_snr_db > 50

    @pytest.mark.parametrize("stride", [None, 5])
    def test_colour_is_grey_three_times(self, stride, small, rng):
        channels = [smooth_image(rng) for _ in range(3)]
        options = {"dictionary": small, "stride": stride}
        together = images.reconstruct(np.stack(channels, axis=-1), 10, **options)
        for channel, image in enumerate(channels):
            alone = images.reconstruct(image, 10, **options)
            np.testing.assert_allclose(together.image[..., channel], alone.image, atol=1e-6)

    def test_the_numbers_are_what_they_say(self, small, rng):
        image = smooth_image(rng)
        seen = images.reconstruct(image, 4, "omp", dictionary=small)
        grid = PatchGrid(image.shape, 8)
        patches = grid.patches(image, slice(0, grid.count)).astype(np.float64)
        signals = patches - patches.mean(axis=1, keepdims=True)
        fits = seen.codes.matrix @ small.Phi.T
        expected = 10 * np.log10((signals**2).sum() / ((signals - fits) ** 2).sum())
        assert seen.patch_snr_db == pytest.approx(expected, abs=1e-3)
        assert seen.snr_db == pytest.approx(float(sparsect.snr_db(image.ravel(), seen.image.ravel())), abs=1e-3)
        assert np.diff(seen.codes.matrix.indptr).max() <= 4
        codes = sparsect.recover(small.Phi, signals.astype(np.float32), 4, "omp").x
        np.testing.assert_allclose(seen.codes.matrix.toarray(), codes, atol=1e-3)

    @pytest.mark.parametrize("block", [1000, 11])
    def test_the_history_is_what_shorter_runs_reach(self, block, small, rng, monkeypatch):
        monkeypatch.setattr("sparsect.images.approximate.BLOCK", block)
        image = np.stack([smooth_image(rng) for _ in range(3)], axis=-1)
        options = {"method": "omp", "dictionary": small}
        seen = images.reconstruct(image, 6, record_at=(1, 2, 4), **options)
        assert seen.history["iteration"].tolist() == [1, 2, 4, 6]
        for iteration, found in zip(seen.history["iteration"], seen.history["patch_snr_db"], strict=True):
            shorter = images.reconstruct(image, int(iteration), **options)
            assert found == pytest.approx(shorter.patch_snr_db, abs=1e-3)
            assert len(shorter.history["seconds"]) == 1
        assert (np.diff(seen.history["seconds"]) > 0).all()
        assert seen.history["seconds"][-1] == pytest.approx(seen.seconds)

    def test_blocks_do_not_show(self, small, rng, monkeypatch):
        image = smooth_image(rng)
        whole = images.reconstruct(image, 5, dictionary=small, stride=3).image
        monkeypatch.setattr("sparsect.images.approximate.BLOCK", 11)
        np.testing.assert_allclose(images.reconstruct(image, 5, dictionary=small, stride=3).image, whole, atol=1e-6)

    def test_codes_are_kept_and_decoded(self, small, rng, tmp_path):
        image = np.stack([smooth_image(rng) for _ in range(3)], axis=-1)
        seen = images.reconstruct(image, 6, dictionary=small, stride=5)
        seen.codes.save(tmp_path / "codes.npz")
        codes = images.load_codes(tmp_path / "codes.npz")
        np.testing.assert_allclose(codes.image(small), seen.image, atol=1e-5)
        matrix = scipy.sparse.load_npz(tmp_path / "codes.npz")
        assert (matrix != seen.codes.matrix).nnz == 0
        with pytest.raises(InputError, match=r"dictionary` must have shape \(64, 120\).*got shape \(400, 1000\)"):
            codes.image()

    def test_damaged_codes(self, small, rng, tmp_path):
        images.reconstruct(smooth_image(rng), 3, dictionary=small).codes.save(tmp_path / "codes.npz")
        with np.load(tmp_path / "codes.npz") as file:
            arrays = dict(file)
        damages = [
            {"means": arrays["means"][:-1]},
            {"means": arrays["means"].astype(np.complex64)},
            {"data": np.full_like(arrays["data"], np.nan)},
            {"data": np.full(arrays["data"].shape, 1e300)},
            {"data": arrays["data"].astype(np.float16)},
            {"indices": arrays["indices"] + 1000},
            {"image_shape": np.array([10**9, 10**9])},
            {"image_shape": np.array([*arrays["image_shape"], 1, 1])},
            {"image_shape": arrays["image_shape"] + 0.5},
            {"patch": np.array(0)},
            {"stride": np.array(0)},
            {"stride": np.array([1, 2])},
        ]
        for damage in damages:
            np.savez(tmp_path / "other.npz", **arrays | damage)
            with pytest.raises(InputError, match=r"other.npz: damaged codes"):
                images.load_codes(tmp_path / "other.npz")
        np.savez(tmp_path / "other.npz", x=np.ones(3))
        with pytest.raises(InputError, match=r"other.npz: not codes of sparsect"):
            images.load_codes(tmp_path / "other.npz")

    def test_a_time_limit_stops_early(self, small, rng):
        image = smooth_image(rng)
        options = {"method": sparsect.DifferenceMap(), "dictionary": small, "max_iter": 10**6}
        seen = images.reconstruct(image, 5, seconds_per_patch=1e-3, **options)
        assert 0 < seen.seconds < 5

    def test_refused(self, small, rng):
        with pytest.raises(InputError, match=r"image` must .*got the same value everywhere"):
            images.reconstruct(np.full((30, 30), 0.5), 3, dictionary=small)
        with pytest.raises(InputError, match=r"image` must .*at least 8x8.*got 1x1 pixels"):
            images.reconstruct(np.array([[0.5]]), 3, dictionary=small)
        with pytest.raises(InputError, match=r"sparsity` must .*got 121"):
            images.reconstruct(smooth_image(rng), 121, dictionary=small)
        with pytest.raises(InputError, match=r"dictionary` must .*got columns that are zero"):
            images.reconstruct(smooth_image(rng), 2, dictionary=np.zeros((64, 3)))
        with pytest.raises(InputError, match="must have atoms that are square patches"):
            images.reconstruct(smooth_image(rng), 2, dictionary=Dictionary(np.eye(6, dtype=np.float32)))


class TestWatchingAReconstruction:
    """The callback of reconstruct."""

    @pytest.mark.parametrize("shape", [(40, 60), (40, 60, 3)])
    def test_images_on_the_way_end_at_the_result_and_do_not_change_it(self, shape):
        cat = images.sample("chelsea")[:40, :60]
        cat = cat if len(shape) == 3 else cat[..., 0]
        seen = []
        result = images.reconstruct(cat, 5, "omp", callback=lambda now: seen.append((now.seconds, now.image)))
        np.testing.assert_array_equal(result.image, images.reconstruct(cat, 5, "omp").image)
        assert len(seen) == 5 * (1 if cat.ndim == 2 else 3)
        assert [seconds for seconds, _ in seen] == sorted(seconds for seconds, _ in seen)
        np.testing.assert_allclose(seen[-1][1], result.image, atol=1e-6)

    def test_channels_that_are_not_begun_are_shown_by_the_means_of_their_patches(self):
        cat = images.sample("chelsea")[:40, :60]
        seen = []
        images.reconstruct(cat, 3, "omp", callback=lambda now: seen.append(now.image))
        blue = cat[..., 2].reshape(2, 20, 3, 20).mean(axis=(1, 3)).repeat(20, axis=0).repeat(20, axis=1)
        np.testing.assert_allclose(seen[0][..., 2], blue, atol=1e-6)

    def test_it_can_stop_the_run(self):
        cat = images.sample("chelsea")[:40, :60, 0]
        result = images.reconstruct(cat, 9, "omp", callback=lambda now: now.iteration == 4)
        assert result.codes.matrix.nnz == 4 * 6
