"""The commands ``sparsect denoise`` and ``inpaint``."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import click
import numpy as np

from .. import images
from ..backend.arrays import Array
from ..backend.checks import choice, reject
from ..backend.devices import place
from ..backend.files import path_name
from ..backend.writing import check_writable
from ..images.denoise import QUALITIES, Quality
from ..images.files import colour_and_alpha, white_of
from ..images.noise import check_large_enough, check_sigma, estimate_for
from ..images.photograph import WRITTEN, Photograph, read_photograph
from ..reporting.page import check_page
from ..reporting.restoration import page
from .common import check_overwriting, device_option, progress_bar

DENOISE_EXAMPLES = """\b
Examples:
  sparsect denoise noisy.png                                  # the noise is estimated
  sparsect denoise noisy.png --sigma 25/255 --truth original.png
  sparsect denoise scan.tif --out clean.tif --quality fast    # 16 bits stay 16 bits
  sparsect denoise large.png --device cuda                    # on a GPU
"""
INPAINT_EXAMPLES = """\b
Examples:
  sparsect inpaint torn.png --mask mask.png
  sparsect inpaint torn.png --mask mask.png --out whole.png --truth original.png
"""
# Extensions of pictures that can be read.
READ = ("", ".gif", *WRITTEN)
# A true image is refused if its values are this many times those of the image, or the other way round.
FAR = 2.0
# A mask is refused if more than the first share of its pixels is grey, farther from black and white than the second
# number, or less than the third share is black or white to within the fourth number: it is a photograph.
GREY_SHARE, GREY, PURE_SHARE, PURE = 0.2, 0.1, 0.45, 0.02
# It is also refused if a larger share of its pixels, and more than a few, are as far from black and white as the third
# number and have no grey pixel beside them: those of smooth edges form lines, and those of a photograph that is mostly
# missing are scattered. The largest share of drawn masks was 0.002, and the smallest of such photographs 0.0055.
SCATTERED_SHARE, FEW_SCATTERED, FAR_FROM_PURE = 0.004, 4, 0.2

shared_options = (
    device_option,
    click.option(
        "--page/--no-page",
        default=True,
        show_default=True,
        help="Also write a page with both images, named like --out but ending in .html.",
    ),
    click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and print nothing."),
)


def _with_shared_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(shared_options):
        command = option(command)
    return command


@click.command(epilog=DENOISE_EXAMPLES)
@click.argument("image")
@click.option(
    "--sigma",
    metavar="NUMBER",
    help="Standard deviation of the noise, where white is 1; may be a fraction: 25/255.  [default: estimated]",
)
@click.option("--quality", default="best", show_default=True, help=f"One of: {', '.join(QUALITIES)}.")
@click.option(
    "--out",
    metavar="FILE",
    help="The denoised image.  [default: IMAGE-denoised, in the same format; .png for JPEG]",
)
@click.option("--truth", metavar="FILE", help="The image without noise, to measure the error.")
@_with_shared_options
def denoise(image: str, sigma: str | None, quality: str, **options: Any) -> None:
    """Remove white noise from IMAGE: filter every patch together with similar patches.

    The result has the format, depth, alpha channel and colour profile of IMAGE.
    If the folder has another picture of the same name, the result's name includes the extension of IMAGE:
    cat.jpg-denoised.png.
    """
    choice("--quality", quality, tuple(QUALITIES))
    given, out, truth = _opened(image, "denoised", [options["truth"]], options)
    colour, _ = colour_and_alpha(image, given.levels)
    check_large_enough(image, colour)
    name = "--sigma"
    level = estimate_for(name, given.levels) if sigma is None else check_sigma(name, _number(sigma), colour)
    of_white = f" ({255 * level:.1f} of 255)" if level <= 1 else ""
    words = f"sigma {level:.4g}{of_white}{', estimated' if sigma is None else ''}, quality {quality}"
    if sigma is None and not options["quiet"]:
        click.echo(f"noise estimated: sigma {level:.4f}{of_white}")

    def restore(**reporting: Any) -> Array:
        return images.denoise(
            given.levels, level, quality=cast(Quality, quality), device=options["device"], **reporting
        )

    _restore(restore, given, None, truth, (image, out, words), options)


@click.command(epilog=INPAINT_EXAMPLES)
@click.argument("image")
@click.option(
    "--mask",
    metavar="FILE",
    required=True,
    help="An image of the same size, white where pixels are missing, grey at smooth edges.",
)
@click.option(
    "--passes",
    type=int,
    default=50,
    show_default=True,
    help="Passes over the image; more passes take longer and mostly give better results.",
)
@click.option(
    "--out",
    metavar="FILE",
    help="The completed image.  [default: IMAGE-inpainted, in the same format; .png for JPEG]",
)
@click.option("--truth", metavar="FILE", help="The image without missing pixels, to measure the error.")
@_with_shared_options
def inpaint(image: str, mask: str, passes: int, **options: Any) -> None:
    """Fill in the pixels of IMAGE that are white in --mask; all others stay as they are (in a JPEG file, nearly so).

    Grey pixels at smooth edges of --mask are filled in, too, unless they are less than a tenth white.

    The result has the format, depth, alpha channel and colour profile of IMAGE.
    If the folder has another picture of the same name, the result's name includes the extension of IMAGE:
    cat.jpg-inpainted.png.
    """
    missing = _missing(mask)
    given, out, truth = _opened(image, "inpainted", [mask, options["truth"]], options, missing)

    def restore(**reporting: Any) -> Array:
        return images.inpaint(given.levels, missing, passes=passes, device=options["device"], **reporting)

    words = f"{missing.mean():.1%} of the pixels missing"
    _restore(restore, given, missing, truth, (image, out, words), options)


def _opened(
    image: str, suffix: str, others: list[str | None], options: dict[str, Any], missing: Array | None = None
) -> tuple[Photograph, Path, Array | None]:
    """Return the image, the output file and the true image, if any; bad input is refused before any work is done.

    Missing pixels that are NaN become zeros.
    """
    place(np.zeros(1, dtype=np.float32), options["device"])
    given = read_photograph(path_name("IMAGE", image))
    if missing is not None and given.levels.dtype.kind == "f" and given.levels.shape[:2] == missing.shape:
        gaps = np.isnan(given.levels) & (missing if given.levels.ndim == 2 else missing[..., None])
        given = dataclasses.replace(given, levels=np.where(gaps, given.levels.dtype.type(0), given.levels))
    if given.count > 1:
        raise reject(image, f"{given.count} frames or pages", "hold one image only")
    out = Path(options["out"] or _beside(Path(image), suffix))
    given.check_output(out)
    written = [out, out.with_suffix(".html")] if options["page"] else [out]
    check_overwriting([image, *others], written)
    check_writable(out)
    if options["page"]:
        check_page(out.with_suffix(".html"), "With --no-page, no page is written.")
    truth = None
    if options["truth"] is not None:
        truth = colour_and_alpha("--truth", read_photograph(path_name("--truth", options["truth"])).levels)[0]
    colour = colour_and_alpha(image, given.levels)[0]
    if truth is not None and truth.shape != colour.shape:
        raise reject("--truth", f"an image of shape {truth.shape}", f"have the shape of the image, {colour.shape}")
    if truth is not None:
        largest, here = (float(np.abs(part).max()) for part in (truth, colour))
        if max(largest, here) > FAR * max(1.0, min(largest, here)):
            raise reject("--truth", f"values up to {largest:g}", f"have the scale of the image, values up to {here:g}")
    return given, out, truth


def _beside(source: Path, suffix: str) -> Path:
    """Return where a restored picture is written by default: no two pictures of a folder have the same place."""
    own = source.suffix.lower()
    # JPEG would damage the result.
    end = source.suffix if own in WRITTEN and own not in (".jpg", ".jpeg") else ".png"
    others = [source.with_suffix(case) for other in READ if other != own for case in (other, other.upper())]
    name = source.name if any(other.is_file() for other in others) else source.stem
    return source.with_name(f"{name}-{suffix}{end}")


def _number(text: str) -> float:
    """Read a number or a fraction."""
    try:
        above, _, below = text.partition("/")
        return float(above) / float(below) if below else float(text)
    except (ValueError, ZeroDivisionError):
        raise reject("--sigma", repr(text), "a number or a fraction, such as 0.1 or 25/255") from None


def _missing(mask: str) -> Array:
    """Read a mask; it must be black and white, except for a few pixels at the edges, which are missing, too."""
    colour, alpha = colour_and_alpha("--mask", read_photograph(path_name("--mask", mask)).levels)
    wanted = "an image in black and white, white where pixels are missing"
    if alpha is not None and alpha.min() < 1:
        raise reject("--mask", "an image with transparent pixels", f"{wanted}, without transparency")
    brightness = images.to_gray(colour)
    distance = np.minimum(brightness, 1 - brightness)
    grey, pure = float((distance > GREY).mean()), float((distance <= PURE).mean())
    if grey > GREY_SHARE or pure < PURE_SHARE:
        raise reject("--mask", f"an image in which {1 - pure:.0%} of the pixels are neither black nor white", wanted)
    scattered = _scattered(distance)
    if scattered > max(FEW_SCATTERED, SCATTERED_SHARE * distance.size):
        raise reject(
            "--mask", f"an image with {scattered} scattered grey pixels, which looks like a photograph", wanted
        )
    if not (brightness > 0.5).any():
        raise reject("--mask", "an image without white pixels", "white (255 or 65535) where pixels are missing")
    # Grey pixels at smooth edges are partly covered, and so they are missing, too.
    missing: Array = brightness > GREY
    return missing


def _scattered(distance: Array) -> int:
    """Count the pixels far from black and white without a grey neighbour, given how far each pixel is from them."""
    near = np.pad(distance > GREY, 1)
    around = sum(
        near[1 + down : near.shape[0] - 1 + down, 1 + across : near.shape[1] - 1 + across].astype(np.uint8)
        for down in (-1, 0, 1)
        for across in (-1, 0, 1)
    )
    return int(np.count_nonzero((distance > FAR_FROM_PURE) & (around == 1)))


def _restore(
    restore: Callable[..., Array],
    given: Photograph,
    missing: Array | None,
    truth: Array | None,
    names: tuple[str, Path, str],
    options: dict[str, Any],
) -> None:
    """Restore an image, show progress, write the result and its page, and print the PSNR if the truth is known."""
    image, out, words = names
    bar, start = progress_bar(options["quiet"]), time.perf_counter()
    task = bar.add_task(Path(image).name)
    with bar:
        restored = restore(progress=lambda done, total: bar.update(task, completed=done, total=total))
    words += f"; {time.perf_counter() - start:.1f} s"
    torn = "" if missing is None else " (before: with missing pixels black)"
    given.write(out, restored)
    before, after = (colour_and_alpha("image", part)[0] for part in (given.levels, restored))
    if missing is not None:
        before = np.where(missing if before.ndim == 2 else missing[..., None], np.float32(0), before)
    if truth is not None:
        # The file that was written has these values.
        stored = (
            [before, after] if given.levels.dtype.kind == "f" else [np.clip(part, 0, 1) for part in (before, after)]
        )
        peak = white_of(truth)
        quality = [images.psnr_db(truth / peak, part / peak) for part in stored]
        words = f"PSNR {quality[0]:.2f} dB before, {quality[1]:.2f} dB after{torn}; {words}"
    if options["page"]:
        unit = np.float32(white_of(before))
        scaled_truth = None if truth is None else truth / unit
        words += "; values below 0 are shown as black" if min(before.min(), after.min()) < 0 else ""
        page(Path(image).name, words, before / unit, after / unit, scaled_truth).write(out.with_suffix(".html"))
    if options["quiet"]:
        return
    if truth is not None:
        click.echo(words.partition(";")[0])
    click.echo(f"written: {out}" + (f" and {out.with_suffix('.html')}" if options["page"] else ""))
