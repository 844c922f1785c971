"""Image files of every kind, read and written without loss of depth, alpha channel, orientation or profile."""

import io
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image, ImageCms

from sparsect import InputError, images
from sparsect.images import png16
from sparsect.images.photograph import Photograph, read_photograph

PROFILE = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


def levels_of(dtype, channels, rng, height=9, width=14):
    shape = (height, width) if channels == 1 else (height, width, channels)
    if np.dtype(dtype).kind == "f":
        return (3 * rng.random(shape) - 1).astype(dtype)
    return rng.integers(np.iinfo(dtype).max + 1, size=shape).astype(dtype)


def saved(path, levels):
    """Write a file with another program than the one under test, where there is one."""
    if path.suffix == ".npy":
        np.save(path, levels)
    elif path.suffix == ".tif":
        channels = levels.shape[2] if levels.ndim == 3 else 1
        extra = {"extrasamples": ["unassalpha"], "planarconfig": "contig"} if channels in (2, 4) else {}
        tifffile.imwrite(path, levels, photometric="rgb" if channels >= 3 else "minisblack", **extra)
    elif levels.dtype == np.uint16 and levels.ndim == 3:
        path.write_bytes(png16.encode(levels))
    else:
        Image.fromarray(levels).save(path)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, bool])
@pytest.mark.parametrize("suffix", [".tif", ".png", ".jpg", ".npy"])
def test_one_channel_on_an_axis_of_its_own(suffix, dtype, rng, tmp_path):
    levels = levels_of(np.float32, 1, rng)[..., None]
    np.save(tmp_path / "given.npy", (levels * (1 if dtype == np.float32 else 255)).astype(dtype))
    given, path = read_photograph(tmp_path / "given.npy"), tmp_path / f"again{suffix}"
    if (suffix in (".png", ".jpg") and dtype == np.float32) or (suffix == ".jpg" and dtype == np.uint16):
        with pytest.raises(InputError, match="must be"):
            given.write(path, levels)
        return
    given.write(path, levels)
    again = read_photograph(path)
    assert again.count == 1
    assert again.levels.shape == (levels.shape if suffix == ".npy" else levels.shape[:2])


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [
        (".png", np.uint8),
        (".png", np.uint16),
        (".tif", np.uint8),
        (".tif", np.uint16),
        (".tif", np.float16),
        (".tif", np.float32),
        (".tif", np.float64),
        (".npy", np.uint8),
        (".npy", np.uint16),
        (".npy", np.float16),
        (".npy", np.float32),
        (".npy", np.float64),
    ],
)
def test_comes_back_bit_by_bit(suffix, dtype, channels, rng, tmp_path):
    levels, path = levels_of(dtype, channels, rng), tmp_path / f"given{suffix}"
    saved(path, levels)
    given = read_photograph(path)
    assert given.levels.dtype == dtype
    np.testing.assert_array_equal(given.levels, levels)
    scale = 1 if np.dtype(dtype).kind == "f" else np.iinfo(dtype).max
    single = np.float64 if dtype == np.float64 else np.float32
    given.write(tmp_path / f"again{suffix}", (levels / np.float64(scale)).astype(single))
    again = read_photograph(tmp_path / f"again{suffix}")
    assert again.levels.dtype == dtype
    np.testing.assert_array_equal(again.levels, levels)
    if channels in (1, 3):
        np.testing.assert_allclose(images.read_image(path), levels / scale, atol=1e-6)


@pytest.mark.parametrize(("suffix", "dtype"), [(".png", np.uint8), (".png", np.uint16), (".tif", np.uint16)])
def test_the_colour_profile_stays(suffix, dtype, rng, tmp_path):
    levels = levels_of(dtype, 3, rng)
    Photograph(levels, None, PROFILE).write(tmp_path / f"given{suffix}", levels / np.iinfo(dtype).max)
    given = read_photograph(tmp_path / f"given{suffix}")
    assert given.profile == PROFILE
    # Pillow, too, finds it where it belongs.
    with Image.open(tmp_path / f"given{suffix}") as seen:
        assert seen.info["icc_profile"] == PROFILE


@pytest.mark.parametrize("turned", [1, 6])
@pytest.mark.parametrize(
    ("suffix", "dtype"),
    [
        (".png", np.uint8),
        (".png", np.uint16),
        (".jpg", np.uint8),
        (".bmp", np.uint8),
        (".tif", np.uint8),
        (".tif", np.uint16),
        (".tif", np.float32),
    ],
)
def test_the_resolution_stays(suffix, dtype, turned, rng, tmp_path):
    levels, path = levels_of(dtype, 3, rng), tmp_path / f"given{suffix}"
    if suffix == ".tif":
        orientation = [(274, "H", 1, turned, True)]
        options = {"resolution": (300, 150), "resolutionunit": "inch", "extratags": orientation, "metadata": None}
        tifffile.imwrite(path, levels, photometric="rgb", **options)
    elif dtype == np.uint16:
        path.write_bytes(png16.encode(levels, None, None, (300, 150)))
    else:
        exif = Image.Exif()
        exif[274] = turned
        Image.fromarray(levels).save(path, dpi=(300, 150), exif=exif)
    given = read_photograph(path)
    upright = (300, 150) if given.levels.shape == levels.shape else (150, 300)
    given.write(tmp_path / f"again{suffix}", given.levels / (1 if dtype == np.float32 else np.iinfo(dtype).max))
    again = read_photograph(tmp_path / f"again{suffix}")
    assert given.resolution == pytest.approx(upright, rel=1e-3)
    assert again.resolution == pytest.approx(upright, rel=1e-3)
    # Pillow, too, finds it where it belongs; it does not read TIFF files of floating-point colours.
    if dtype != np.float32:
        with Image.open(tmp_path / f"again{suffix}") as seen:
            assert seen.info["dpi"] == pytest.approx(upright, rel=1e-3)


def test_a_resolution_that_is_none_is_left_out(rng, tmp_path):
    levels = levels_of(np.uint16, 3, rng)
    for dots, unit, expected in (
        ((0, 1), "inch", None),
        ((3, 2), "none", None),
        ((100, 100), "centimeter", (254, 254)),
    ):
        tifffile.imwrite(tmp_path / "given.tif", levels, photometric="rgb", resolution=dots, resolutionunit=unit)
        assert read_photograph(tmp_path / "given.tif").resolution == expected


@pytest.mark.parametrize("suffix", [".tif", ".jpg", ".png", ".webp"])
def test_what_a_tiff_file_tells_of_itself_stays(suffix, rng, tmp_path):
    levels, exif = levels_of(np.uint8, 3, rng), Image.Exif()
    exif[271], exif[274], exif[33432] = "Maker", 6, "Owner"
    exif[34665] = {36867: "2020:01:01 00:00:00"}
    Image.fromarray(levels).save(tmp_path / "with.jpg", exif=exif.tobytes())
    with Image.open(tmp_path / "with.jpg") as photograph:
        Image.fromarray(levels).save(tmp_path / "given.tif", exif=photograph.info["exif"], dpi=(300, 300))
    given = read_photograph(tmp_path / "given.tif")
    given.write(tmp_path / f"again{suffix}", given.levels / 255)
    with Image.open(tmp_path / f"again{suffix}") as again:
        kept = again.getexif()
        assert again.size == (levels.shape[0], levels.shape[1])
        assert (kept[271], kept[33432], float(kept[282]), kept.get(274, 1)) == ("Maker", "Owner", 300, 1)
        assert kept.get_ifd(34665)[36867] == "2020:01:01 00:00:00"


@pytest.mark.parametrize("description", [None, "the shape= of things"])
def test_tifffile_describes_other_shapes(description, rng, tmp_path):
    levels = levels_of(np.uint8, 3, rng)
    options = {"photometric": "rgb", "planarconfig": "separate", "description": description}
    tifffile.imwrite(tmp_path / "given.tif", np.moveaxis(levels, -1, 0), **options)
    read_photograph(tmp_path / "given.tif").write(tmp_path / "again.tif", levels / 255)
    with tifffile.TiffFile(tmp_path / "again.tif") as again:
        assert again.pages[0].description == (description or "")
        np.testing.assert_array_equal(again.asarray(), levels)


@pytest.mark.parametrize(
    ("suffix", "dtype", "options"),
    [
        (".png", np.uint8, {}),
        (".jpg", np.uint8, {}),
        (".webp", np.uint8, {}),
        (".tif", np.uint8, {}),
        (".gif", np.uint8, {}),
        (".tif", np.uint16, {"compression": "tiff_lzw"}),
    ],
)
def test_memory_is_the_only_limit(suffix, dtype, options, rng, tmp_path, monkeypatch):
    path, levels = tmp_path / f"large{suffix}", levels_of(dtype, 1, rng)
    Image.fromarray(levels).save(path, **options)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", levels.size // 2 - 1)
    assert read_photograph(path).levels.shape[:2] == levels.shape
    assert levels.size // 2 - 1 == Image.MAX_IMAGE_PIXELS
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 1, "SC_PHYS_PAGES": 2 * 32 * levels.size - 1}.get)
    with pytest.raises(InputError, match=r"must fit into half of memory"):
        read_photograph(path)


@pytest.mark.parametrize("dtype", [np.uint16, np.float32])
def test_deep_grey_tiff_with_lzw(dtype, rng, tmp_path):
    levels = levels_of(dtype, 1, rng)
    Image.fromarray(levels).save(tmp_path / "lzw.tif", compression="tiff_lzw")
    given = read_photograph(tmp_path / "lzw.tif").levels
    assert given.dtype == dtype
    np.testing.assert_array_equal(given, levels)


def test_numbers_with_the_most_significant_byte_first(rng, tmp_path):
    levels = levels_of(np.uint16, 3, rng)
    np.save(tmp_path / "given.npy", levels.astype(">u2"))
    np.testing.assert_array_equal(images.read_image(tmp_path / "given.npy"), (levels / 65535).astype(np.float32))


def test_colours_of_transparent_pixels_stay(rng, tmp_path):
    levels = levels_of(np.uint8, 4, rng)
    levels[:5, :, 3] = 0
    Photograph(levels).write(tmp_path / "clear.webp", levels / 255)
    with Image.open(tmp_path / "clear.webp") as again:
        np.testing.assert_array_equal(np.asarray(again), levels)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_upright_as_pillow_turns_it(orientation, rng, tmp_path):
    from PIL import ImageOps

    levels = levels_of(np.uint8, 3, rng)
    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = orientation, "maker"
    Image.fromarray(levels).save(tmp_path / "turned.png", exif=exif)
    with Image.open(tmp_path / "turned.png") as seen:
        expected = np.asarray(ImageOps.exif_transpose(seen))
    given = read_photograph(tmp_path / "turned.png")
    np.testing.assert_array_equal(given.levels, expected)
    tifffile.imwrite(
        tmp_path / "turned.tif", 257 * levels.astype(np.uint16), photometric="rgb", metadata=None,
        extratags=[(274, "H", 1, orientation, True)],
    )  # fmt: skip
    np.testing.assert_array_equal(read_photograph(tmp_path / "turned.tif").levels, 257 * expected.astype(np.uint16))
    given.write(tmp_path / "again.png", given.levels / 255)
    with Image.open(tmp_path / "again.png") as again:
        assert again.getexif().get(0x010F) == "maker"
        assert again.getexif().get(0x0112, 1) == 1
        np.testing.assert_array_equal(np.asarray(again), expected)


def test_white_is_zero(rng, tmp_path):
    for dtype, white in ((np.uint8, 255), (np.uint16, 65535), (np.float32, 1)):
        levels = np.abs(levels_of(dtype, 1, rng))
        tifffile.imwrite(tmp_path / "negative.tif", levels, photometric="miniswhite")
        np.testing.assert_array_equal(read_photograph(tmp_path / "negative.tif").levels, white - levels)


def test_colours_multiplied_by_alpha(rng, tmp_path):
    alpha = np.array([[0, 1000], [40_000, 65_535]], dtype=np.uint16)
    colour = levels_of(np.uint16, 3, rng, 2, 2)
    premultiplied = np.round(colour * (alpha[..., None] / 65_535)).astype(np.uint16)
    given = np.concatenate([premultiplied, alpha[..., None]], axis=-1)
    tifffile.imwrite(tmp_path / "clear.tif", given, photometric="rgb", extrasamples=["assocalpha"])
    found = read_photograph(tmp_path / "clear.tif").levels
    np.testing.assert_array_equal(found[..., 3], alpha)
    assert (found[0, 0, :3] == 0).all()
    np.testing.assert_allclose(found[0, 1, :3], colour[0, 1], atol=33)  # of 65 levels that alpha has left
    np.testing.assert_allclose(found[1, :, :3], colour[1], atol=1)


def test_images_of_a_file_are_counted(rng, tmp_path):
    frames = [Image.fromarray(levels_of(np.uint8, 3, rng)) for _ in range(3)]
    for name in ("moving.gif", "moving.png", "moving.webp", "pages.tif"):
        frames[0].save(tmp_path / name, save_all=True, append_images=frames[1:])
        assert read_photograph(tmp_path / name).count == 3
        frames[0].save(tmp_path / name)
        assert read_photograph(tmp_path / name).count == 1
    deep = levels_of(np.uint16, 3, rng)
    with tifffile.TiffWriter(tmp_path / "deep.tif") as file:
        file.write(deep, photometric="rgb")
        file.write(deep, photometric="rgb")
        file.write(deep[::2, ::2], photometric="rgb", subfiletype=1)  # a preview
    assert read_photograph(tmp_path / "deep.tif").count == 2
    # Cameras put previews behind the photograph. Pillow before 11.3 writes more than one of them wrongly.
    frames[0].save(tmp_path / "camera.jpg", "MPO", save_all=True, append_images=frames[1:2])
    assert read_photograph(tmp_path / "camera.jpg").count == 1


class TestDeepPNG:
    @pytest.mark.parametrize("method", range(5))
    def test_every_filter(self, method, rng):
        """Rows filtered here by the formulas of the specification, byte by byte."""
        levels = levels_of(np.uint16, 3, rng, height=4, width=5)
        plain = levels.astype(">u2").tobytes()
        width, step, rows = 30, 6, b""
        for row in range(4):
            line = [method]
            for place in range(width):
                left = plain[row * width + place - step] if place >= step else 0
                above = plain[(row - 1) * width + place] if row else 0
                corner = plain[(row - 1) * width + place - step] if row and place >= step else 0
                paeth = min((left, above, corner), key=lambda value: abs(left + above - corner - value))
                guess = (0, left, above, (left + above) // 2, paeth)[method]
                line.append((plain[row * width + place] - guess) % 256)
            rows += bytes(line)
        whole = png16.encode(levels)
        start = whole.index(b"IDAT")
        length = int.from_bytes(whole[start - 4 : start], "big")
        packed = zlib.compress(rows)
        check = zlib.crc32(b"IDAT" + packed).to_bytes(4, "big")
        data = whole[: start - 4] + len(packed).to_bytes(4, "big") + b"IDAT" + packed + check
        data += whole[start + 8 + length :]
        np.testing.assert_array_equal(png16.decode("file", data), levels)

    def test_pillow_reads_what_is_written(self, rng):
        levels = levels_of(np.uint16, 3, rng)
        seen = np.asarray(Image.open(io.BytesIO(png16.encode(levels))))
        np.testing.assert_allclose(seen, levels / 257, atol=1)

    def test_damaged_files(self, rng, tmp_path):
        data = png16.encode(levels_of(np.uint16, 3, rng))
        (tmp_path / "cut.png").write_bytes(data[:200])
        with pytest.raises(InputError, match=r"cut.png: a damaged image"):
            read_photograph(tmp_path / "cut.png")


class TestRefused:
    def test_formats_that_would_lose_something(self, rng, tmp_path):
        deep = Photograph(levels_of(np.uint16, 3, rng))
        with pytest.raises(InputError, match=r"--out` must .*\.png, \.tif, \.tiff, \.npy for an image of uint16"):
            deep.check_output(tmp_path / "small.jpg")
        with pytest.raises(InputError, match=r"\.webp for an image of uint8 numbers with an alpha channel"):
            Photograph(levels_of(np.uint8, 4, rng)).check_output("clear.jpg")
        with pytest.raises(InputError, match=r"for an image of float32 numbers"):
            Photograph(levels_of(np.float32, 1, rng)).check_output("real.png")

    def test_colours_that_are_not_red_green_and_blue(self, rng, tmp_path):
        tifffile.imwrite(tmp_path / "inks.tif", levels_of(np.uint16, 4, rng), photometric="separated")
        with pytest.raises(InputError, match=r"inks.tif` must be grey, or have red, green and blue .*got .*SEPARATED"):
            read_photograph(tmp_path / "inks.tif")

    @pytest.mark.parametrize("channels", [1, 3])
    def test_a_transparent_colour_of_16_bits(self, channels, rng, tmp_path):
        data = png16.encode(levels_of(np.uint16, channels, rng))
        label = b"tRNS" + bytes(2 * channels)
        chunk = (2 * channels).to_bytes(4, "big") + label + zlib.crc32(label).to_bytes(4, "big")
        start = data.index(b"IDAT") - 4
        (tmp_path / "clear.png").write_bytes(data[:start] + chunk + data[start:])
        with pytest.raises(InputError, match=r"clear.png.* a transparent (colour|grey level)"):
            read_photograph(tmp_path / "clear.png")

    def test_numbers_that_are_no_pixels(self, tmp_path):
        for dtype in ("int8", "int16", "int32"):
            tifffile.imwrite(tmp_path / "counts.tif", np.zeros((4, 5), dtype))
            with pytest.raises(InputError, match=rf"counts.tif` must have unsigned numbers .*, got .* {dtype} numbers"):
                read_photograph(tmp_path / "counts.tif")
        np.save(tmp_path / "counts.npy", np.zeros((4, 5), dtype=np.int32))
        with pytest.raises(InputError, match=r"counts.npy` must have dtype uint8"):
            images.read_image(tmp_path / "counts.npy")
