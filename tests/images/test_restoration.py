"""Denoising and inpainting, on small images."""

import importlib
import io

import numpy as np
import pytest
import skimage
from PIL import Image, ImageDraw, ImageFont

from sparsect import InputError, images

pytestmark = pytest.mark.numerical


def smooth_image(rng, height=40, width=50):
    image = np.cumsum(np.cumsum(rng.standard_normal((height, width)), axis=0), axis=1)
    return ((image - image.min()) / (image.max() - image.min())).astype(np.float32)


@pytest.fixture(scope="module")
def camera():
    return np.ascontiguousarray(images.sample("camera")[150:246, 180:276])


def with_noise(image, sigma, rng):
    return (image + sigma * rng.standard_normal(image.shape)).astype(np.float32)


class TestDenoise:
    @pytest.mark.parametrize("sigma", [0.06, 0.2])
    def test_better_than_non_local_means(self, sigma, camera, rng):
        noisy = with_noise(camera, sigma, rng)
        options = {"patch_size": 5, "patch_distance": 6, "sigma": sigma}
        peers = [skimage.restoration.denoise_nl_means(noisy, h=h * sigma, **options) for h in (0.4, 0.6, 0.8, 1.0)]
        best, fast = (images.psnr_db(camera, images.denoise(noisy, sigma, quality=name)) for name in ("best", "fast"))
        assert fast > max(images.psnr_db(camera, peer) for peer in peers) + 0.3
        assert best > fast - 0.1

    def test_colour_gains_over_its_channels(self, rng):
        image = images.sample("chelsea")[100:180, 120:200]
        noisy = with_noise(image, 0.1, rng)
        together = images.denoise(noisy, 0.1)
        apart = np.stack([images.denoise(noisy[..., channel], 0.1) for channel in range(3)], axis=-1)
        assert images.psnr_db(image, together) > images.psnr_db(image, apart) + 0.5

    @pytest.mark.parametrize("shape", [(3, 30), (5, 7), (9, 40), (3, 4, 3), (11, 8, 1)])
    def test_small_images(self, shape, rng):
        clean = images.denoise(0.5 + 0.1 * rng.standard_normal(shape), 0.1)
        assert clean.shape == shape
        assert np.isfinite(clean).all()

    @pytest.mark.parametrize("shape", [(1, 1), (1, 30), (40, 2), (30, 2, 3)])
    def test_images_from_which_noise_cannot_be_told(self, shape, rng):
        image = 0.5 + 0.1 * rng.standard_normal(shape)
        wanted = rf"image` must have at least 3x3 pixels, to tell noise from it, got {shape[1]}x{shape[0]} pixels"
        for call in (images.estimate_sigma, images.denoise, lambda image: images.denoise(image, 0.1)):
            with pytest.raises(InputError, match=wanted):
                call(image)

    def test_grey_in_three_channels(self, camera, rng):
        noisy = with_noise(camera, 0.1, rng)
        grey = images.denoise(noisy, 0.1, quality="fast")
        colour = images.denoise(np.dstack([noisy] * 3), 0.1, quality="fast")
        np.testing.assert_array_equal(colour, np.dstack([grey] * 3))

    def test_grey_in_three_channels_of_a_gpu_is_filtered_there(self, camera, monkeypatch):
        torch, module = pytest.importorskip("torch"), importlib.import_module("sparsect.images.denoise")
        devices = []
        monkeypatch.setattr(module, "on_host", lambda image: False)
        monkeypatch.setattr(module, "place", lambda planes, device: devices.append(device) or planes)
        for image in (camera, np.dstack([camera] * 3)):
            images.denoise(torch.asarray(image), 0.1, quality="fast")
        assert devices == ["cpu", "cpu"]

    def test_alpha_stays(self, camera, rng):
        noisy, alpha = with_noise(camera, 0.1, rng), rng.random(camera.shape).astype(np.float32)
        for colour in (noisy[..., None], np.stack([noisy] * 3, axis=-1)):
            clean = images.denoise(np.concatenate([colour, alpha[..., None]], axis=-1), 0.1, quality="fast")
            np.testing.assert_array_equal(clean[..., -1], alpha)
            alone = images.denoise(colour, 0.1, quality="fast")
            np.testing.assert_allclose(clean[..., :-1], alone, atol=1e-6)

    def test_a_constant_image_and_almost_no_noise(self, camera):
        np.testing.assert_allclose(images.denoise(np.full((30, 20), 0.3), 0.1), 0.3, atol=1e-5)
        np.testing.assert_allclose(images.denoise(camera, 1e-5), camera, atol=1e-2)
        np.testing.assert_array_equal(images.denoise(np.zeros((20, 20)), 1e-25), 0)

    def test_the_unit_of_sigma(self, camera):
        levels = np.round(255 * camera).astype(np.uint8)
        expected = images.denoise(levels / np.float32(255), 0.1, quality="fast")
        np.testing.assert_allclose(images.denoise(levels, 0.1, quality="fast"), expected, atol=1e-5)
        with pytest.raises(InputError, match=r"where white is 1, so at most 1 here \(25 of 255 is 0.098\), got 25"):
            images.denoise(levels, 25)
        # On another scale, a larger number may be meant.
        far = images.denoise(1000 * camera, 100, quality="fast")
        np.testing.assert_allclose(far / 1000, expected, atol=5e-2)
        with pytest.raises(
            InputError, match=r"on the scale of the image, which has values up to .*; the noise .* is about"
        ):
            images.denoise(255 * camera, 0.1)

    def test_progress_begins_at_once_and_ends_at_the_total(self, camera):
        seen = []
        images.denoise(camera, 0.1, progress=lambda done, total: seen.append((done, total)))
        done, totals = zip(*seen, strict=True)
        assert done[0] == 0
        assert list(done) == sorted(done)
        assert set(totals) == {done[-1]}
        assert len(seen) > 5

    def test_refused(self, camera):
        with pytest.raises(InputError, match=r"sigma` must .*got -1"):
            images.denoise(camera, -1)
        with pytest.raises(InputError, match=r"sigma` must .*got True"):
            images.denoise(camera, True)
        with pytest.raises(InputError, match=r"quality` must be one of .*got 'beste'"):
            images.denoise(camera, 0.1, quality="beste")
        with pytest.raises(InputError, match=r"sigma` must be given: .*no noise from which to estimate it"):
            images.denoise(np.zeros((20, 20)))
        with pytest.raises(InputError, match=r"sigma` must be given: it cannot be estimated"):
            images.denoise(np.indices((64, 64)).sum(axis=0) % 2 * 1.0)


class TestSigma:
    def test_is_estimated(self, rng):
        noisy = with_noise(smooth_image(rng, 100, 120), 0.1, rng)
        assert images.estimate_sigma(noisy) == pytest.approx(0.1, rel=0.1)

    def test_agrees_with_scikit_image(self, rng):
        pytest.importorskip("pywt")
        noisy = with_noise(images.sample("astronaut"), 0.1, rng)
        expected = skimage.restoration.estimate_sigma(noisy, average_sigmas=True, channel_axis=-1)
        assert images.estimate_sigma(noisy) == pytest.approx(expected, rel=0.05)

    @pytest.mark.parametrize("sigma", [4, 12, 40])
    def test_texture_does_not_count(self, sigma, rng):
        """Half of the picture is a pattern as fine as noise."""
        clean = np.full((160, 160), 0.5)
        clean[:, 80:] += 0.2 * rng.choice([-1.0, 1.0], (160, 80))
        noisy = np.round(255 * clean + sigma * rng.standard_normal(clean.shape)).astype(np.uint8)
        assert 255 * images.estimate_sigma(noisy) == pytest.approx(sigma, rel=0.12)

    @pytest.mark.parametrize("sigma", [2, 10])
    def test_sharp_edges_everywhere(self, sigma, rng):
        board = 0.2 + 0.6 * ((np.indices((120, 120)) // 8).sum(axis=0) % 2)
        drawn = Image.new("L", (120, 120), 220)
        for top in range(0, 120, 12):
            ImageDraw.Draw(drawn).text((2, top), "The quick brown fox jumps over it", 30, ImageFont.load_default(10))
        for clean, most in ((board, 1.15), (np.asarray(drawn) / 255, 2.5)):
            noisy = with_noise(clean, sigma / 255, rng)
            with pytest.warns(UserWarning, match="sharp edges everywhere") as warned:
                found = images.denoise(noisy, quality="fast")
            assert [warning.filename for warning in warned] == [__file__]
            assert images.psnr_db(clean, found) > images.psnr_db(clean, noisy) + 2
            with pytest.warns(UserWarning, match="sharp edges everywhere"):
                estimate = 255 * images.estimate_sigma(np.dstack([noisy] * 3))
            assert 0.95 * sigma < estimate < most * sigma
        # Without noise, nothing is rough.
        assert images.estimate_sigma(np.float32(board > 0.5)) == 0

    def test_black_and_white_with_clipped_noise(self, rng):
        board = (np.indices((120, 120)) // 8).sum(axis=0) % 2
        clipped = np.round(255 * np.clip(with_noise(board, 10 / 255, rng), 0, 1)).astype(np.uint8)
        with pytest.warns(UserWarning, match="sharp edges everywhere"):
            assert 4 < 255 * images.estimate_sigma(clipped) < 10

    def test_clipped_and_transparent_pixels_do_not_count(self, rng):
        noise = rng.standard_normal((200, 160))
        half_black = np.where(np.arange(200)[:, None] < 120, 0.0, 0.5) + np.zeros((200, 160))
        clipped = np.clip(np.round(255 * half_black + 25 * noise), 0, 255).astype(np.uint8)
        framed = np.where(half_black == 0, 0, clipped).astype(np.uint8)
        cut_out = np.dstack([framed] * 3 + [np.where(half_black == 0, 0, 255).astype(np.uint8)])
        for image in (clipped, framed, cut_out):
            assert 255 * images.estimate_sigma(image) == pytest.approx(25, rel=0.08)

    def test_noise_that_a_jpeg_file_has_smoothed_in_colour(self, rng):
        """The brightness of JPEG files has weights of its own, so that more noise is left in it than in one channel."""
        clean = images.sample("chelsea")
        noisy = np.round(255 * np.clip(with_noise(clean, 0.1, rng), 0, 1)).astype(np.uint8)
        found = {}
        for subsampling in (0, 1, 2):
            stream = io.BytesIO()
            Image.fromarray(noisy).save(stream, "jpeg", quality=95, subsampling=subsampling)
            found[subsampling] = images.estimate_sigma(np.asarray(Image.open(stream)))
        assert found[0] == pytest.approx(images.estimate_sigma(noisy), rel=0.05)
        brightness = 0.1 * np.sqrt(3) * np.linalg.norm([0.299, 0.587, 0.114])
        assert [found[1], found[2]] == pytest.approx([brightness] * 2, rel=0.08)

    def test_psnr_is_that_of_scikit_image(self, rng):
        clean = rng.random((20, 30, 3))
        noisy = clean + 0.1 * rng.standard_normal(clean.shape)
        expected = skimage.metrics.peak_signal_noise_ratio(clean, noisy, data_range=1)
        assert images.psnr_db(clean, noisy) == pytest.approx(expected, abs=1e-4)


class TestInpaint:
    def test_better_than_biharmonic(self, camera, rng):
        scratch = np.zeros(camera.shape, dtype=bool)
        scratch[np.arange(90), np.arange(90)] = scratch[np.arange(90), np.arange(90) + 1] = True
        scratch[:, 40:43] = True
        for missing in (rng.random(camera.shape) < 0.5, scratch):
            torn = np.where(missing, np.float32(0), camera)
            whole = images.inpaint(torn, missing)
            np.testing.assert_array_equal(whole[~missing], camera[~missing])
            peer = skimage.restoration.inpaint_biharmonic(torn, missing)
            assert images.psnr_db(camera, whole) > images.psnr_db(camera, peer)

    def test_smooth_pictures_stay_smooth(self, rng):
        down, across = np.mgrid[:80, :80]
        image = 0.5 + 0.25 * np.sin(across / 7) * np.cos(down / 9) + 0.2 * np.sin((down + across) ** 2 / 3000)
        image = with_noise(image, 0.001, rng)
        missing = rng.random(image.shape) < 0.8
        peer = skimage.restoration.inpaint_biharmonic(image, missing)
        # With the noise of ordinary photographs, it is 3 dB worse.
        assert images.psnr_db(image, images.inpaint(image, missing)) > images.psnr_db(image, peer) + 2

    def test_colour(self, rng):
        image = images.sample("chelsea")[100:160, 120:180]
        missing = rng.random(image.shape[:2]) < 0.4
        whole = images.inpaint(np.where(missing[..., None], np.nan, image), missing)
        np.testing.assert_array_equal(whole[~missing], image[~missing])
        assert images.psnr_db(image, whole) > 32

    def test_grey_in_three_channels(self, camera, rng):
        camera, missing = camera[:60, :60], rng.random((60, 60)) < 0.5
        colour = images.inpaint(np.dstack([camera] * 3), missing)
        np.testing.assert_allclose(colour, np.dstack([images.inpaint(camera, missing)] * 3), atol=1e-4)

    def test_passes_that_change_nothing_are_left_out(self, rng):
        reports = []
        image = np.full((40, 40), 0.5)
        images.inpaint(image, rng.random((40, 40)) < 0.3, passes=50, progress=lambda *done: reports.append(done))
        # Two passes, the first with the most noise and the second with the least, and the end.
        assert reports[-2][0] < 0.05 * reports[-1][0]
        assert reports[-1][0] == reports[-1][1]

    def test_more_passes_are_all_made_and_better(self, camera, rng):
        missing, found, calls = rng.random(camera.shape) < 0.8, [], []
        for passes in (2, 8, 24):
            calls.append([])
            whole = images.inpaint(camera, missing, passes=passes, progress=lambda done, total: calls[-1].append(done))
            found.append(images.psnr_db(camera, whole))
        assert found[0] + 0.1 < found[1] < found[2]
        # Each pass reports its strips, in addition to the beginning and the end.
        assert all(len(reported) - 2 >= passes for passes, reported in zip((2, 8, 24), calls, strict=True))

    @pytest.mark.parametrize("channels", [(), (3,)])
    def test_missing_borders_have_values_of_known_pixels(self, channels, rng):
        slopes = np.linspace(0.2, 0.8, 40).reshape(-1, *np.ones_like(channels)) * rng.choice([-1, 1], channels)
        image = np.broadcast_to(slopes, (30, 40, *channels))
        missing = np.zeros((30, 40), dtype=bool)
        missing[:, -8:] = missing[:2] = True
        whole, known = images.inpaint(image, missing), image[~missing]
        np.testing.assert_array_equal(whole[~missing], known)
        assert (whole >= known.min(axis=0)).all()
        assert (whole <= known.max(axis=0)).all()

    def test_borders_missing_beside_edges(self):
        """Continued with the slope of the last known pixels, they had values up to twice that of white."""
        image = images.sample("camera")[80:208, 180:308]
        missing = np.zeros(image.shape, dtype=bool)
        missing[:, -3:] = missing[:2] = True
        assert images.psnr_db(image, images.inpaint(image, missing)) > 27

    def test_a_hole_wider_than_a_patch_is_filled(self, rng):
        image = smooth_image(rng)
        mask = np.zeros(image.shape, dtype=bool)
        mask[5:35, 10:40] = True
        whole = images.inpaint(np.where(mask, np.float32(0), image), mask)
        assert np.isfinite(whole).all()
        assert np.abs(whole - image)[mask].mean() < 0.3

    @pytest.mark.parametrize("place", [(3, 4), (1, 1)])
    def test_one_known_pixel_is_enough_to_end(self, place, rng):
        image, mask = smooth_image(rng, 16, 16), np.ones((16, 16), dtype=bool)
        mask[place] = False
        passes = []
        whole = images.inpaint(np.where(mask, np.nan, image), mask, progress=lambda *seen: passes.append(seen))
        np.testing.assert_allclose(whole, image[place], atol=0.05)
        # Nothing changes, so the second pass is not needed.
        assert passes[-1][0] == passes[-1][1] > 2 * passes[1][0]
        assert len(passes) < 6

    @pytest.mark.parametrize("shape", [(1, 2), (3, 3), (9, 9, 1), (2, 30, 3)])
    def test_any_size(self, shape, rng):
        image, mask = rng.random(shape), np.zeros(shape[:2], dtype=bool)
        mask[0, 1] = True
        whole = images.inpaint(image, mask)
        assert whole.shape == shape
        assert np.isfinite(whole).all()

    @pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.uint16])
    def test_white_is_one(self, dtype, rng):
        white = True if dtype is np.bool_ else np.iinfo(dtype).max
        whole = images.inpaint(np.full((16, 16), white, dtype), rng.random((16, 16)) < 0.3)
        np.testing.assert_allclose(whole, 1, atol=0.05)

    @pytest.mark.parametrize(("unit", "offset"), [(255, 0), (2.01, 0), (0.125, 0), (1e-30, 0), (1, 1e4), (-1, 1)])
    def test_neither_units_nor_offsets_matter(self, unit, offset, camera, rng):
        camera, missing = camera[:60, :60], rng.random((60, 60)) < 0.5
        expected = images.psnr_db(camera, images.inpaint(camera, missing))
        found = images.inpaint((unit * camera + offset).astype(np.float32), missing).astype(np.float64)
        assert images.psnr_db(camera, (found - offset) / unit) == pytest.approx(expected, abs=0.02)

    @pytest.mark.parametrize("channels", [(), (4,)])
    def test_double_precision_stays(self, channels, rng):
        image, missing = 1e9 + rng.random((20, 30, *channels)), rng.random((20, 30)) < 0.3
        whole = images.inpaint(image, missing)
        assert whole.dtype == np.float64
        np.testing.assert_array_equal(whole[~missing], image[~missing])
        assert np.abs(whole - image).max() < 2

    def test_nothing_missing_changes_nothing(self, rng):
        image = smooth_image(rng)
        np.testing.assert_array_equal(images.inpaint(image, np.zeros(image.shape, bool)), image)

    def test_alpha_stays(self, rng):
        image = np.stack([smooth_image(rng), rng.random((40, 50)).astype(np.float32)], axis=-1)
        whole = images.inpaint(image, rng.random((40, 50)) < 0.3)
        np.testing.assert_array_equal(whole[..., 1], image[..., 1])

    def test_refused(self, rng):
        image = smooth_image(rng)
        for mask, message in (
            (np.ones(image.shape, bool), "got every pixel missing"),
            (np.ones((3, 3), bool), "got shape"),
            (np.zeros(image.shape), "got dtype float64"),
            (np.round(255 * image).astype(np.uint8), "different values"),
            ((image > 0.5) + 1, "0 where a pixel is known .*, got the values 1 and 2"),
        ):
            with pytest.raises(InputError, match=rf"mask` must .*{message}"):
                images.inpaint(image, mask)
        with pytest.raises(InputError, match=r"image` must .*got an object of type NoneType"):
            images.inpaint(None, np.zeros(image.shape, bool))
