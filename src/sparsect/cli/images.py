"""The command ``sparsect reconstruct``."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console

from .. import images
from ..backend.arrays import Array
from ..backend.checks import InputError, reject
from ..backend.files import may_be_another_name
from ..backend.writing import replacing
from ..dictionary import as_dictionary
from ..dictionary.store import FEW
from ..images.files import white_of
from ..images.samples import FILES as SAMPLES
from ..images.settings import METHOD, UNSUITED
from ..reporting.gallery import Outcome, page
from ..reporting.page import check_page
from ..solvers import METHODS
from ..solvers.base import Solver
from .common import NAMES, check_overwriting, device_options, for_images, progress_bar, table_of

RECONSTRUCT_EXAMPLES = """\b
Examples:
  sparsect reconstruct                                        # a sample photograph, every method, s = 20, 40, 200
  sparsect reconstruct cat.jpg --sparsity 100 --method omp --method difference-map --out out/
  sparsect reconstruct coffee -s 50 --stride 10               # another sample, overlapping patches
  sparsect reconstruct large.tif --stride 10 --device cuda    # on a GPU
"""

# What is shown without any arguments: few atoms, with which methods differ visibly, and the paper's 200, as parts of
# the 400 numbers of a patch. The last one is the default if the dictionary was not learned for a number of atoms.
DEMO = (1 / 20, 1 / 10, 1 / 2)
# The iterations that the chart of the page shows.
MOMENTS = (1, 3, 10, 30, 100, 300, 1000)

image_option = {
    "dictionary": click.option(
        "--dictionary",
        "-d",
        metavar="FILE.npz",
        help="The dictionary: a file, 8x8, 12x12, 20x20 (for up to 60 atoms per patch) or paper.  [default: paper]",
    ),
    "max_iter": click.option(
        "--max-iter", type=int, default=1000, show_default=True, help="Maximum number of iterations."
    ),
    "quiet": click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no table."),
}


@click.command(epilog=RECONSTRUCT_EXAMPLES)
@click.argument("image", required=False)
@click.option(
    "--sparsity",
    "-s",
    "sparsities",
    type=int,
    multiple=True,
    help="Maximum number of atoms per patch; repeatable.  [default: the sparsity for which the dictionary was learned, "
    "or half the number of pixels; 20, 40 and 200 for the first sample]",
)
@click.option(
    "--method",
    "-m",
    "methods",
    multiple=True,
    help=f"Repeatable; 'all' for all methods that suit images, or one of: {NAMES}.  [default: {METHOD}, all for the "
    "first sample]",
)
@image_option["dictionary"]
@click.option("--stride", type=int, help="Distance between adjacent patches in pixels.  [default: the side of a patch]")
@click.option(
    "--refit/--no-refit", default=True, show_default=True, help="Refit codes by least squares on the selected atoms."
)
@image_option["max_iter"]
@click.option("--seconds-per-patch", type=float, help="Mean time per patch in seconds.  [default: 0.01 with 'all']")
@click.option("--width", type=int, help="Scale the longer side to this many pixels first.  [default: 320 for samples]")
@click.option("--grey", is_flag=True, help="Convert colours to grey first, as is always done for samples.")
@click.option("--out", metavar="FOLDER", help="Output folder.  [default: out/reconstruct-IMAGE]")
@device_options
@image_option["quiet"]
def reconstruct(image: str | None, methods: tuple[str, ...], sparsities: tuple[int, ...], **options: Any) -> None:
    """Reconstruct IMAGE from few atoms per patch; write a table, pictures, difference images, codes and a page.

    IMAGE is a file, or the name of a sample (chelsea, coffee, astronaut, rocket, camera). Without IMAGE, the sample
    chelsea is reconstructed with every method, in grey and 320 pixels wide, the size of the paper's photographs. With
    several values of --sparsity, each has its own folder of pictures and codes. Codes are on the scale of IMAGE; in the
    pictures of floating-point images with values above 1, the largest value is white.
    """
    dictionary = as_dictionary(options["dictionary"])
    numbers, atoms = dictionary.Phi.shape
    learned = dictionary.sparsity or round(DEMO[-1] * numbers)
    usual = [max(1, round(part * numbers)) for part in DEMO] if image is None else [learned]
    sparsities = tuple(dict.fromkeys(sparsities or [min(s, atoms) for s in usual]))
    methods = methods or (("all",) if image is None else (METHOD,))
    all_methods = "all" in methods
    suited = [method for method in METHODS if method not in UNSUITED]
    solvers = _named([*suited, *(one for one in methods if one != "all")] if all_methods else list(methods))
    seconds = options["seconds_per_patch"]
    if seconds is None and all_methods:
        seconds = 0.01
    name, original = _photograph("chelsea" if image is None else image, options["width"], options["grey"])
    white = white_of(original)
    folder = Path(options["out"] or Path("out") / f"reconstruct-{name}")
    folders = {s: folder / f"{s}-atoms" if len(sparsities) > 1 else folder for s in sparsities}
    check_overwriting(
        [image, options["dictionary"]],
        [folder / "original.png"]
        + [
            place / f"{method}{end}"
            for place in folders.values()
            for method in solvers
            for end in (".png", "-difference.png", "-codes.npz")
        ],
    )
    check_page(folder / "index.html")
    outcomes: dict[int, dict[str, Outcome]] = {sparsity: {} for sparsity in sparsities}
    left_out = [method for method in UNSUITED if all_methods and method not in solvers]
    remarks = [f"{method} is left out: {UNSUITED[method]}." for method in left_out]
    bar = progress_bar(options["quiet"])
    task = bar.add_task("", total=None)
    runs = [(sparsity, method) for sparsity in sparsities for method in solvers]
    with bar:
        for number, (sparsity, method) in enumerate(runs):
            first = ", compiled on first use" if sparsity == sparsities[0] else ""
            bar.update(task, description=f"{sparsity} atoms, {method}{first} ({number + 1} of {len(runs)})")

            def advance(done: int, total: int, before: int = number) -> None:
                bar.update(task, completed=before * total + done, total=len(runs) * total)

            try:
                result = images.reconstruct(
                    original,
                    sparsity,
                    solvers[method],
                    dictionary=dictionary,
                    stride=options["stride"],
                    refit=options["refit"],
                    max_iter=options["max_iter"],
                    seconds_per_patch=seconds,
                    record_at=MOMENTS,
                    device=options["device"],
                    progress=advance,
                )
            except InputError as error:
                if len(solvers) == 1 or not str(error).startswith("`method`"):
                    raise
                remarks.append(f"{method} could not be used with {sparsity} atoms: {error}")
                continue
            if len(solvers) > 1 and not result.codes.matrix.nnz:
                remarks.append(f"{method} found no codes with {sparsity} atoms within its limits.")
                continue
            # Images and codes may be large: they are written now, and only what the page shows is kept.
            stem = folders[sparsity] / method
            restored = result.image / white
            images.write_image(f"{stem}.png", np.clip(restored, 0, 1))
            images.write_image(f"{stem}-difference.png", images.difference(original / white, restored))
            result.codes.save(f"{stem}-codes.npz")
            outcomes[sparsity][method] = Outcome.of(result)
    ranked = {
        sparsity: dict(sorted(found.items(), key=lambda item: -item[1].patch_snr_db))
        for sparsity, found in outcomes.items()
        if found
    }
    if not ranked:
        raise InputError(" ".join(remarks))
    images.write_image(folder / "original.png", original / white)
    rows = [
        [str(sparsity), method, f"{result.patch_snr_db:.2f}", f"{result.snr_db:.2f}", f"{result.ms_per_patch:.2f}"]
        for sparsity, found in ranked.items()
        for method, result in found.items()
    ]
    head = ["sparsity", "method", "SNR of patches with means removed (dB)", "SNR of the image (dB)", "ms per patch"]
    with replacing(folder / "results.csv") as temporary, temporary.open("w", newline="") as stream:
        csv.writer(stream).writerows([head, *rows])
    page(name, original, dictionary, ranked, remarks, seconds).write(folder / "index.html")
    if options["quiet"]:
        return
    console = Console()
    limit = "" if seconds is None else f" and {1000 * seconds:g} ms"
    for sparsity in ranked:
        size = f"{original.shape[1]}x{original.shape[0]} pixels"
        title = f"{name}: {size}, at most {sparsity} atoms{limit} per patch"
        lines = [row[1:] for row in rows if row[0] == str(sparsity)]
        console.print(table_of(title, ("method", "patch SNR (dB)", "image SNR (dB)", "ms per patch"), lines))
    for remark in remarks:
        console.print(remark, soft_wrap=True, markup=False)
    console.print("patch SNR: over all patches, with the mean of each patch removed, as in the paper's table")
    console.print(
        f"written: {folder / 'index.html'} (pictures, difference images), with the codes next to it", soft_wrap=True
    )
    if options["dictionary"] is None and image is not None and max(sparsities) <= FEW:
        console.print(f"With up to {FEW} atoms per patch, --dictionary 20x20 is better.", soft_wrap=True)
    advice = "sparsect reconstruct PHOTO.jpg --sparsity 100" if image is None else "sparsect denoise PHOTO.jpg"
    console.print(f"Try next: {advice}", soft_wrap=True)


def _named(methods: list[str]) -> dict[str, Solver]:
    """Return solvers by the names that files and tables use for them."""
    solvers: dict[str, Solver] = {}
    for method in dict.fromkeys(methods):
        solver = for_images(method)
        if solver.name in solvers:
            raise reject("--method", f"two solvers with the name {solver.name!r}", "solvers with different names")
        solvers[solver.name] = solver
    return solvers


def _photograph(image: str, width: int | None, grey: bool) -> tuple[str, Array]:
    """Return name and pixels of a file or a sample; samples are grey, and 320 pixels wide unless a width is given."""
    sampled = image in SAMPLES and not Path(image).exists()
    if not sampled and may_be_another_name(image):
        raise reject("IMAGE", repr(image), f"the name of a file, or one of {', '.join(SAMPLES)}")
    photograph = images.sample(image) if sampled else images.read_image(image)
    if grey or sampled:
        photograph = images.to_gray(photograph)
    if sampled and width is None:
        width = 320
    if width is not None:
        if width < 1:
            raise reject("--width", width, "a whole number of at least 1")
        photograph = images.resize(photograph, width)
    return Path(image).stem, photograph
