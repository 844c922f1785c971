"""The image commands, run as a user would."""

import re
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse
from PIL import Image, ImageDraw, ImageFont

import sparsect
from sparsect import images
from sparsect.images.photograph import Photograph, read_photograph

pytestmark = pytest.mark.slow


@pytest.fixture
def photographs(tmp_path, rng):
    for index in range(3):
        image = np.cumsum(np.cumsum(rng.standard_normal((60, 70)), axis=0), axis=1)
        images.write_image(tmp_path / "photos" / f"{index}.png", (image - image.min()) / (image.max() - image.min()))
    return tmp_path / "photos"


class TestReconstruct:
    def test_the_default_is_what_the_dictionary_was_learned_for(self, called, photographs, tmp_path):
        done = called("reconstruct", "photos/0.png", "--dictionary", "8x8", "--method", "omp", "--out", "out")
        assert done.returncode == 0, done.stderr
        assert "at most 6 atoms" in done.stdout

    def test_one_photograph_two_methods(self, called, photographs, tmp_path):
        arguments = ("photos/0.png", "--sparsity", 20, "--method", "omp", "--method", "niht", "--max-iter", 50)
        done = called("reconstruct", *arguments, "--out", "out")
        assert done.returncode == 0, done.stderr
        assert "patch SNR" in done.stdout
        assert "written: out/index.html" in done.stdout
        assert "Try next: " in done.stdout
        names = {path.name for path in (tmp_path / "out").iterdir()}
        assert names == {"index.html", "original.png", "results.csv"} | {
            f"{method}{suffix}" for method in ("omp", "niht") for suffix in (".png", "-difference.png", "-codes.npz")
        }
        codes = images.load_codes(tmp_path / "out" / "omp-codes.npz")
        seen = images.read_image(tmp_path / "out" / "omp.png")
        np.testing.assert_allclose(np.clip(codes.image(), 0, 1), seen, atol=0.51 / 255)
        assert scipy.sparse.load_npz(tmp_path / "out" / "omp-codes.npz").shape == (12, 1000)
        page = (tmp_path / "out" / "index.html").read_text()
        assert page.count("<img") == 6
        # Nothing is fetched; a picture may spell http by chance.
        assert "http:" not in page
        assert "https:" not in page

    def test_every_method_that_suits_images_with_two_numbers_of_atoms(self, called, photographs, tmp_path):
        arguments = ("photos/0.png", "--method", "all", "-s", 3, "-s", 20, "--max-iter", 20, "--width", 40)
        done = called("reconstruct", *arguments, "--out", "out")
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert "vamp is left out: it is made for random matrices" in done.stdout
        assert "at most 20 atoms and 10 ms per patch" in " ".join(done.stdout.split())
        page = (tmp_path / "out" / "index.html").read_text()
        rows = (tmp_path / "out" / "results.csv").read_text().splitlines()[1:]
        for sparsity in ("3", "20"):
            found = [row.split(",")[1] for row in rows if row.startswith(f"{sparsity},")]
            missing = re.findall(rf"(\S+) found no codes with {sparsity} atoms", done.stdout)
            assert sorted([*found, *missing, "vamp"]) == sorted(sparsect.METHODS)
            assert {path.name for path in (tmp_path / "out" / f"{sparsity}-atoms").iterdir()} == {
                f"{method}{end}" for method in found for end in (".png", "-difference.png", "-codes.npz")
            }
            assert f"<h2>{sparsity} atoms per patch</h2>" in page
        assert "vamp is left out" in page
        assert len(re.findall("Differences, [0-9]+ times enlarged", page)) == 2
        assert page.count("milliseconds per patch</text>") == 2
        assert page.count('<svg class="key"') == len(rows)
        again = called("reconstruct", "photos/0.png", "-m", "vamp", "-s", 3, "--width", 40, "--max-iter", 5, "-q")
        assert again.returncode == 0, again.stderr

    @pytest.mark.parametrize("width", [(), ("--width", 40)])
    def test_floating_point_images_on_another_scale(self, called, photographs, tmp_path, width):
        image = images.read_image(photographs / "0.png")
        for unit in (1, 255):
            np.save(tmp_path / f"{unit}.npy", unit * image)
            arguments = (f"{unit}.npy", *width, "--method", "omp", "-s", 3, "--out", f"of{unit}")
            done = called("reconstruct", *arguments)
            assert done.returncode == 0, done.stderr
        for name in ("original.png", "omp.png", "omp-difference.png"):
            one, other = (images.read_image(tmp_path / folder / name) for folder in ("of1", "of255"))
            # With --width, the largest value is no longer exactly white.
            np.testing.assert_allclose(one, other, atol=0.05 if width else 1.01 / 255)
        codes = [images.load_codes(tmp_path / folder / "omp-codes.npz").image() for folder in ("of1", "of255")]
        np.testing.assert_allclose(255 * codes[0], codes[1], atol=0.1)
        pages = [(tmp_path / folder / "index.html").read_text() for folder in ("of1", "of255")]
        assert abs(len(pages[0]) / len(pages[1]) - 1) < 0.1

    def test_the_photograph_is_not_overwritten(self, called, photographs, tmp_path):
        before = (photographs / "0.png").read_bytes()
        (tmp_path / "original.png").write_bytes(before)
        done = called("reconstruct", "original.png", "--method", "omp", "-s", 3, "--width", 30, "--out", ".")
        assert done.returncode == 2
        assert "would overwrite the input" in done.stderr
        assert (tmp_path / "original.png").read_bytes() == before

    def test_errors(self, called, photographs, tmp_path):
        for arguments, message in (
            (("photos/9.png",), "photos/9.png: no such file"),
            (("nope",), "`IMAGE` must be the name of a file, or one of chelsea, coffee"),
            (("photos/0.png", "-d", "16x16"), "`--dictionary` must be a file, or one of 8x8, 12x12"),
            (("photos/0.png", "--method", "opm"), "Did you mean 'omp'"),
            (("photos/0.png", "--sparsity", 2000), "`--sparsity` must be a whole number from 0 to 1000, got 2000"),
            (("photos/0.png", "--width", 10), "image` must have at least 20x20"),
            (("photos/0.png", "--dictionary", "photos/0.png"), "photos/0.png"),
            (("photos/0.png", "--out", "photos/1.png"), "cannot be written"),
            (("",), "must be the name of a file"),
        ):
            done = called("reconstruct", *arguments)
            assert done.returncode == 2, done.stdout
            assert message in done.stderr
            assert "Traceback" not in done.stderr
        assert not (tmp_path / "out").exists()


class TestLearn:
    OPTIONS = ("--patch", 6, "--atoms", 40, "--patches", 2000, "--objective", "lp")
    LIMITED = ("--patch", 6, "--atoms", 40, "--patches", 2000)

    def test_learns_for_a_sparsity(self, called, photographs, tmp_path):
        arguments = ("learn", "photos", *self.LIMITED, "--rounds", 3)
        done = called(*arguments, "--out", "mine.npz", "--nonnegative-codes", "--sparsity", 2)
        assert done.returncode == 0, done.stderr
        for heading in ("training error", "held-out error", "patches in memory"):
            assert re.search(r"[\s\S]*".join(heading.split()), done.stdout)
        mine = sparsect.load_dictionary(tmp_path / "mine.npz")
        assert max(numbers["nonzeros"] for numbers in mine.rounds) <= 2
        assert called(*arguments, "--out", "other.npz", "--quiet").returncode == 0
        other = sparsect.load_dictionary(tmp_path / "other.npz")
        assert 2 < max(numbers["nonzeros"] for numbers in other.rounds) <= 3

    def test_colours_and_pages(self, called, photographs, tmp_path):
        arguments = ("--atoms", 30, "--patch", 4, "--patches", 1500, "--rounds", 2, "--out", "colours.npz")
        done = called("learn", "photos", "--colour", *arguments)
        assert done.returncode == 0, done.stderr
        assert sparsect.load_dictionary(tmp_path / "colours.npz").Phi.shape == (48, 30)
        done = called("atoms", "colours.npz", "--out", "colours.html", "--plot", "colours.svg")
        assert done.returncode == 0, done.stderr
        page = (tmp_path / "colours.html").read_text()
        for words in (
            "30 atoms of 4x4x3 pixels",
            "those used most first",
            "Use of atoms",
            "Error of each round",
            "fewer nonzeros in early",
        ):
            assert words in page
        assert "<td>sparsity</td><td>4</td>" in page
        assert "<td>max coherence 0.95</td>" in page
        assert "Online(" not in page
        assert (tmp_path / "colours.svg").exists()
        listed = called("atoms").stdout
        for name in ("8x8", "12x12", "20x20", "paper", "10,000,000"):
            assert name in listed
        for wrong, message in (
            (("--sort", "size"), "--sort` must be one of 'use', 'frequency'"),
            (("--out", "x.png"), "--out` must be a name that ends in .html"),
        ):
            done = called("atoms", "8x8", *wrong)
            assert done.returncode == 2
            assert message in done.stderr

    def test_learns_and_goes_on(self, called, photographs, tmp_path):
        arguments = ("learn", "photos", *self.OPTIONS, "--validation", "photos")
        done = called(*arguments, "--rounds", 2, "--out", "mine.npz", "--plot", "atoms.png")
        assert done.returncode == 0, done.stderr
        assert "held-out" in done.stdout
        assert (tmp_path / "atoms.png").read_bytes().startswith(b"\x89PNG")
        assert called(*arguments, "--rounds", 4, "--out", "mine.npz").returncode == 0
        assert called(*arguments, "--rounds", 4, "--out", "other.npz", "--quiet").returncode == 0
        mine, other = (sparsect.load_dictionary(tmp_path / name) for name in ("mine.npz", "other.npz"))
        np.testing.assert_array_equal(mine.Phi, other.Phi)
        assert (mine.Phi.shape, len(mine.rounds)) == ((36, 40), 4)
        done = called("reconstruct", "photos/1.png", "-s", 10, "--dictionary", "mine.npz", "--out", "out", "-q")
        assert (done.returncode, done.stdout) == (0, "")
        done = called(*arguments, "--seed", 7, "--rounds", 5, "--out", "mine.npz")
        assert done.returncode == 2
        assert "mine.npz: was learned with other values of" in done.stderr

    def test_the_table_has_all_rounds_after_resuming(self, called, photographs):
        def rounds(last):
            done = called("learn", "photos", *self.OPTIONS, "--rounds", last, "--out", "mine.npz")
            assert done.returncode == 0, done.stderr
            return [int(number) for number in re.findall(r"^│ (\d+) ", done.stdout, re.MULTILINE)]

        assert rounds(12) == [1, 2, 3, 5, 6, 7, 8, 10, 11, 12]
        assert rounds(15) == [1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15]
        assert {1, 15} < set(rounds(15)) < set(range(1, 16))

    def test_interrupted_between_rounds(self, started, photographs, tmp_path):
        process = started("learn", "photos", *self.OPTIONS, "--rounds", 100_000, "--out", "mine.npz")
        while not (tmp_path / "mine.npz").exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 130
        assert errors.strip().startswith("sparsect: stopped")
        assert len(sparsect.load_dictionary(tmp_path / "mine.npz").rounds) >= 1
        assert {path.name for path in tmp_path.iterdir()} == {"mine.npz", "photos"}

    def test_errors(self, called, photographs):
        for arguments, message in (
            (("nowhere",), "nowhere: no such folder"),
            (("photos/0.png",), "`photos/0.png` must be a folder of photographs, got a file"),
            (("photos", "--patch", 65), "no photograph that can be used"),
            (("photos", "--out", "mine.txt"), "a name that ends in .npz"),
            (("photos", "--mu", 1), "must be given together"),
            (("photos", "--mu", 1, "--lam", 1), "must be used with `--objective lp`"),
            (("photos", "--objective", "lp", "-s", 3), "must be used with `--objective l0`"),
            (("photos", "--objective", "l1"), "`--objective` must be one of"),
            (("photos", "--patch", 6, "-s", 37), "a whole number from 1 to 36"),
            (("photos", "--atoms", 0), "`--atoms` must be a whole number of at least 1, got 0"),
            (("photos", "--seed", -1), "`--seed` must be a whole number of at least 0, got -1"),
            (("photos", "--patches", 0), "`--patches` must be a whole number of at least 1, got 0"),
            (("photos", "--patch", 1), "`--patch` must be a whole number of at least 2, got 1"),
            (("",), "`FOLDER` must be the name of a file, got an empty text"),
            (("photos", "--validation", ""), "`--validation` must be the name of a file"),
            (("photos", "--atoms", 101, "--patches", 100), "must be at most the number of patches, 100, got 101"),
        ):
            done = called("learn", *arguments)
            assert done.returncode == 2, done.stdout
            assert message in done.stderr


class TestRestore:
    def test_denoise(self, called, photographs, tmp_path, rng):
        image = images.read_image(photographs / "0.png")
        images.write_image(tmp_path / "noisy.png", image + 25 / 255 * rng.standard_normal(image.shape))
        done = called("denoise", "noisy.png", "--truth", "photos/0.png")
        assert done.returncode == 0, done.stderr
        assert re.search(r"noise estimated: sigma 0.0?[019]\d+ \(2\d.\d of 255\)", done.stdout)
        before, after = _psnr(done.stdout)
        assert after > before + 5
        assert images.read_image(tmp_path / "noisy-denoised.png").shape == image.shape
        page = (tmp_path / "noisy-denoised.html").read_text()
        assert 'type="range"' in page
        assert page.count("<img") == 11
        assert "after minus truth, 4 times enlarged" in page
        # Nothing is fetched; a picture may spell http by chance.
        assert "http:" not in page
        assert "https:" not in page

    def test_pictures_of_the_same_name(self, called, tmp_path, rng):
        image, arguments = rng.random((30, 40)), ("--sigma", 0.1, "--quality", "fast", "-q")
        for name in ("cat.png", "cat.JPG", "cat.tif", "cat.png", "dog.jpg"):
            images.write_image(tmp_path / name, image)
            done = called("denoise", name, *arguments)
            assert (done.returncode, done.stderr) == (0, "")
        # The first one was alone.
        outputs = ("cat-denoised.png", "cat.JPG-denoised.png", "cat.tif-denoised.tif", "cat.png-denoised.png")
        pages = {Path(name).with_suffix(".html").name for name in (*outputs, "dog-denoised.png")}
        given = {"cat.png", "cat.JPG", "cat.tif", "dog.jpg"}
        assert {path.name for path in tmp_path.iterdir()} == {*given, *outputs, "dog-denoised.png", *pages}
        before = (tmp_path / "dog-denoised.png").stat().st_mtime_ns
        assert called("denoise", "dog.jpg", *arguments).returncode == 0
        assert (tmp_path / "dog-denoised.png").stat().st_mtime_ns > before

    def test_depth_and_alpha_stay(self, called, tmp_path, rng):
        levels = rng.integers(20_000, 40_000, size=(30, 40, 4)).astype(np.uint16)
        Photograph(levels).write(tmp_path / "deep.png", levels / 65535)
        done = called("denoise", "deep.png", "--sigma", "1/10", "--quality", "fast", "--no-page", "-q")
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        clean = read_photograph(tmp_path / "deep-denoised.png").levels
        assert clean.dtype == np.uint16
        np.testing.assert_array_equal(clean[..., 3], levels[..., 3])
        assert clean[..., :3].std() < levels[..., :3].std() / 2
        assert not (tmp_path / "deep-denoised.html").exists()

    def test_floating_point_files(self, called, tmp_path, rng):
        np.save(tmp_path / "scan.npy", (40 + 3 * rng.standard_normal((30, 30))).astype(np.float32))
        done = called("denoise", "scan.npy", "--sigma", 3, "--out", "clean.tif")
        assert done.returncode == 0, done.stderr
        clean = read_photograph(tmp_path / "clean.tif").levels
        assert clean.dtype == np.float32
        assert abs(clean.mean() - 40) < 1
        assert clean.std() < 1

    def test_floating_point_images_on_another_scale(self, called, photographs, tmp_path, rng):
        image = images.read_image(tmp_path / "photos/0.png")
        noisy, found = image + 0.1 * rng.standard_normal(image.shape), []
        for unit in (1, 256):
            np.save(tmp_path / f"truth{unit}.npy", np.float32(unit * image))
            np.save(tmp_path / f"noisy{unit}.npy", np.float32(unit * noisy))
            done = called("denoise", f"noisy{unit}.npy", "--sigma", 0.1 * unit, "--truth", f"truth{unit}.npy")
            found.append(_psnr(done.stdout))
        # White is the largest value of the truth where that is above 1.
        above = 20 * np.log10(image.max())
        np.testing.assert_allclose(np.add(found[1], above), found[0], atol=0.1)
        for noisy, truth in ((1, 256), (256, 1)):
            done = called("denoise", f"noisy{noisy}.npy", "--sigma", 0.1 * noisy, "--truth", f"truth{truth}.npy")
            assert (done.returncode, "must have the scale of the image" in done.stderr) == (2, True)

    def test_missing_pixels_that_are_no_numbers(self, called, photographs, tmp_path, rng):
        image = images.read_image(tmp_path / "photos/1.png")
        mask = rng.random(image.shape) < 0.2
        images.write_image(tmp_path / "mask.png", mask.astype(np.float32))
        # Values that single precision does not hold.
        image = image + 1e-12 * rng.random(image.shape)
        np.save(tmp_path / "torn.npy", np.where(mask, np.nan, image))
        done = called("inpaint", "torn.npy", "--mask", "mask.png", "--no-page", "-q")
        assert (done.returncode, done.stderr) == (0, "")
        found = np.load(tmp_path / "torn-inpainted.npy")
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found[~mask], image[~mask])
        assert np.isfinite(found).all()

    def test_inpaint(self, called, photographs, tmp_path, rng):
        image = images.read_image(photographs / "1.png")
        mask = rng.random(image.shape) < 0.3
        images.write_image(tmp_path / "mask.png", mask.astype(float))
        images.write_image(tmp_path / "torn.png", np.where(mask, 0, image))
        done = called("inpaint", "torn.png", "--mask", "mask.png", "--truth", "photos/1.png")
        assert done.returncode == 0, done.stderr
        before, after = _psnr(done.stdout)
        assert after > before + 10
        assert "dB after (before: with missing pixels black)\n" in done.stdout
        found = images.read_image(tmp_path / "torn-inpainted.png")
        np.testing.assert_array_equal(found[~mask], image[~mask])
        assert (tmp_path / "torn-inpainted.html").exists()

    def test_only_pages_of_sparsect_are_replaced(self, called, photographs, tmp_path):
        (tmp_path / "index.html").write_text("<!doctype html><title>mine</title>")
        arguments = ("denoise", "photos/0.png", "--sigma", 0.1, "--quality", "fast", "--out", "index.png")
        for refused in (arguments, ("reconstruct", "photos/0.png", "--method", "omp", "-s", 3, "--out", ".")):
            done = called(*refused)
            assert done.returncode == 2, done.stdout
            assert "would overwrite index.html, which sparsect has not written" in done.stderr
        assert (tmp_path / "index.html").read_text() == "<!doctype html><title>mine</title>"
        assert {path.name for path in tmp_path.iterdir()} == {"photos", "index.html"}
        assert called(*arguments, "--no-page").returncode == 0
        (tmp_path / "index.html").unlink()
        for _ in range(2):
            assert called(*arguments).returncode == 0
        assert "mine" not in (tmp_path / "index.html").read_text()

    def test_a_torn_photograph_is_no_mask(self, called, photographs, tmp_path, rng):
        camera = images.sample("camera")[::4, ::4]
        images.write_image(tmp_path / "camera.png", camera)
        for share in (0.8, 0.98):
            missing = rng.random(camera.shape) < share
            images.write_image(tmp_path / "mask.png", missing.astype(float))
            for fill in (0, 1, rng.random(camera.shape) < 0.5):
                images.write_image(tmp_path / "torn.png", np.where(missing, fill, camera))
                for image in ("mask.png", "torn.png"):
                    done = called("inpaint", image, "--mask", "torn.png")
                    assert done.returncode == 2, done.stdout
                    assert "looks like a photograph" in done.stderr

    def test_masks_with_smooth_edges(self, called, tmp_path, rng):
        image = images.sample("camera")[:64, :96]
        images.write_image(tmp_path / "image.png", image)
        drawn = Image.new("L", (4 * 96, 4 * 64))
        for width in (4, 8, 20):
            ImageDraw.Draw(drawn).line([tuple(place) for place in rng.uniform(0, 300, (3, 2))], 255, width)
        strokes = np.asarray(drawn.resize((96, 64), Image.Resampling.BOX)) / 255
        scattered = (rng.random(image.shape) < 0.3).astype(float)
        words = Image.new("L", (96, 64))
        ImageDraw.Draw(words).text((3, 20), "The quick brown fox", 255, ImageFont.load_default(14))
        for mask in (strokes, 1 - strokes, scattered, np.asarray(words) / 255):
            for name in ("mask.png", "mask.jpg"):
                images.write_image(tmp_path / name, mask)
                done = called("inpaint", "image.png", "--mask", name, "--passes", 1, "--no-page", "-q")
                assert (done.returncode, done.stderr) == (0, "")

    def test_partly_covered_pixels_are_filled_in(self, called, tmp_path):
        image = images.sample("camera")[:64, :96]
        words = Image.new("L", (4 * 96, 4 * 64))
        ImageDraw.Draw(words).text((12, 80), "The quick brown", 255, ImageFont.load_default(48))
        cover = np.asarray(words.resize((96, 64), Image.Resampling.BOX)) / 255
        images.write_image(tmp_path / "mask.png", cover)
        images.write_image(tmp_path / "torn.png", cover + (1 - cover) * image)
        done = called("inpaint", "torn.png", "--mask", "mask.png", "--no-page", "-q")
        assert (done.returncode, done.stderr) == (0, "")
        faint = (cover > 0.15) & (cover < 0.45)
        torn, whole = (images.read_image(tmp_path / name) for name in ("torn.png", "torn-inpainted.png"))
        assert np.abs(whole - image)[faint].mean() < 0.5 * np.abs(torn - image)[faint].mean()
        np.testing.assert_array_equal(whole[cover < 0.09], torn[cover < 0.09])

    def test_errors(self, called, photographs, tmp_path):
        images.write_image(tmp_path / "small.png", np.eye(9))
        images.write_image(tmp_path / "line.png", np.eye(1, 30))
        images.write_image(tmp_path / "board.png", np.indices((30, 30)).sum(axis=0) % 2 * 1.0)
        images.write_image(tmp_path / "mask.png", np.eye(60, 70))
        images.write_image(tmp_path / "black.png", np.zeros((9, 9)))
        # A photograph of which two thirds are nearly white.
        pale = np.where(np.arange(900).reshape(30, 30) % 3, 0.93, 1.0)
        images.write_image(tmp_path / "pale.png", pale)
        strokes = np.zeros((9, 9, 4), dtype=np.uint8)
        strokes[4] = 255
        Image.fromarray(strokes).save(tmp_path / "strokes.png")
        frame = Image.new("RGB", (9, 9))
        frame.save(tmp_path / "moving.gif", save_all=True, append_images=[Image.new("RGB", (9, 9), "white")])
        for arguments, message in (
            (("denoise", "photos/0.png", "--sigma", -3), "--sigma` must be a positive number"),
            (("denoise", "photos/0.png", "--sigma", 25), "25 of 255 is 0.098"),
            (("denoise", "photos/0.png", "--sigma", "25/x"), "a number or a fraction"),
            (("denoise", "photos/0.png", "--quality", "good"), "--quality` must be one of"),
            (("denoise", "photos/0.png", "--out", "photos/0.png"), "would overwrite the input"),
            (("denoise", "photos/0.png", "--out", "clean.txt"), "a name that ends in .png"),
            (("denoise", "photos/0.png", "--truth", "photos/1.png", "--out", "photos/1.png"), "would overwrite the"),
            (("denoise", "moving.gif"), "moving.gif` must hold one image only, got 2 frames or pages"),
            (("denoise", "line.png"), "`line.png` must have at least 3x3 pixels, to tell noise from it, got 30x1"),
            (("denoise", "board.png"), "`--sigma` must be given: it cannot be estimated"),
            (("denoise", "photos/0.png", "--device", "tpu"), "device` must be 'auto', 'cpu', 'cuda'"),
            (("denoise", ""), "`IMAGE` must be the name of a file, got an empty text"),
            (("inpaint", "photos/0.png", "--mask", ""), "`--mask` must be the name of a file"),
            (("code", ""), "`INPUT` must be the name of a file"),
            (("denoise", "."), "must be a regular file, got a folder"),
            (("inpaint", "photos/0.png", "--mask", "small.png"), "`--mask` must have the shape of the image"),
            (("inpaint", "photos/0.png", "--mask", "mask.png", "--passes", 0), "`--passes` must be a whole number"),
            (("atoms", "nope"), "`DICTIONARY` must be a file, or one of 8x8"),
            (("inpaint", "photos/0.png", "--mask", "black.png"), "got an image without white pixels"),
            (("inpaint", "photos/0.png", "--mask", "photos/1.png"), "of the pixels are neither"),
            (("inpaint", "photos/0.png", "--mask", "pale.png"), "67% of the pixels are neither"),
            (("inpaint", "photos/0.png", "--mask", "strokes.png"), "got an image with transparent pixels"),
            (("inpaint", "photos/0.png", "--mask", "small.png", "--out", "small.png"), "would overwrite the input"),
        ):
            done = called(*arguments)
            assert done.returncode == 2, done.stdout
            assert message in done.stderr
            assert "Traceback" not in done.stderr


def _psnr(output):
    """The two numbers of the line that compares with the truth."""
    words = next(line for line in output.splitlines() if line.startswith("PSNR")).split()
    return float(words[1]), float(words[4])
