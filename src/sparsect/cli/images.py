"""The commands ``sparsect reconstruct``, ``learn``, ``denoise`` and ``inpaint``."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from .. import images
from ..backend.arrays import Array, on_host
from ..backend.checks import InputError, choice, reject
from ..backend.devices import batch_rows, place
from ..backend.writing import check_writable, replacing
from ..dictionary import ArraySource, Progress, load_dictionary
from ..dictionary import learn as learn_dictionary
from ..images import PatchSource
from ..images.files import check_format
from ..images.samples import FILES as SAMPLES
from ..images.settings import METHOD, WITHIN_NOISE
from ..reporting import plots
from ..reporting.gallery import Outcome, page
from ..solvers import ADMM, METHODS
from ..solvers.base import Solver
from ..solvers.imported import is_own
from .common import NAMES, check_outputs, cluster_options, device_options, for_images, progress_bar, table_of

RECONSTRUCT_EXAMPLES = """\b
Examples:
  sparsect reconstruct                                        # a sample photograph, every method
  sparsect reconstruct cat.jpg --sparsity 100 --method omp --method difference-map --out out/
  sparsect reconstruct coffee -s 50 --stride 10               # another sample, overlapping patches
  sparsect reconstruct large.tif --stride 10 --device cuda    # on a GPU
"""
LEARN_EXAMPLES = """\b
Examples:
  sparsect learn photos/ --atoms 1000 --patch 20 --patches 100000 --out mine.npz
  sparsect learn photos/ --atoms 256 --patch 8 --sparsity 6 --out small.npz --plot atoms.png
  sparsect learn photos/ --objective lp --rounds 45 --out paper.npz          # as in the paper
  sparsect learn photos/ --patches 10000000 --out gpu.npz --device cuda
  sparsect learn photos/ --out here.npz --scheduler                          # processes on this machine
  sparsect learn photos/ --out cluster.npz --scheduler tcp://10.0.0.1:8786   # a Dask cluster
"""
DENOISE_EXAMPLES = """\b
Examples:
  sparsect denoise noisy.png --sigma 25
  sparsect denoise noisy.png --out clean.png --truth original.png
"""
INPAINT_EXAMPLES = """\b
Examples:
  sparsect inpaint torn.png --mask mask.png
  sparsect inpaint torn.png --mask mask.png --out whole.png --truth original.png
"""

# The methods that take a noise level.
WITHIN_NOISE_NAMES = "omp, ormp, difference-map, alternating-map, vamp; or package.module:Class."

image_option = {
    "dictionary": click.option(
        "--dictionary", "-d", metavar="FILE.npz", help="The dictionary.  [default: the bundled one]"
    ),
    "max_iter": click.option(
        "--max-iter", type=int, default=1000, show_default=True, help="Maximum number of iterations."
    ),
    "quiet": click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no table."),
}


@click.command(epilog=RECONSTRUCT_EXAMPLES)
@click.argument("image", required=False)
@click.option("--sparsity", "-s", type=int, default=200, show_default=True, help="Maximum number of atoms per patch.")
@click.option(
    "--method",
    "-m",
    "methods",
    multiple=True,
    help=f"Repeatable; 'all', or one of: {NAMES}.  [default: {METHOD}, all for the first sample]",
)
@image_option["dictionary"]
@click.option("--stride", type=int, help="Distance between adjacent patches in pixels.  [default: the side of a patch]")
@click.option(
    "--refit/--no-refit", default=True, show_default=True, help="Refit codes by least squares on the selected atoms."
)
@image_option["max_iter"]
@click.option("--seconds-per-patch", type=float, help="Mean time per patch in seconds.  [default: 0.02 with 'all']")
@click.option("--width", type=int, help="Scale the longer side to this many pixels first.  [default: 320 for samples]")
@click.option("--grey", is_flag=True, help="Convert colours to grey first, as is always done for samples.")
@click.option("--out", metavar="FOLDER", help="Output folder.  [default: out/reconstruct-IMAGE]")
@device_options
@image_option["quiet"]
def reconstruct(image: str | None, methods: tuple[str, ...], sparsity: int, **options: Any) -> None:
    """Reconstruct IMAGE from few atoms per patch; write a table, pictures, difference images, codes and a page.

    IMAGE is a file, or the name of a sample (chelsea, coffee, astronaut, rocket, camera). Without IMAGE, the sample
    chelsea is reconstructed with every method, in grey and 320 pixels wide, the size of the paper's photographs.
    """
    methods = methods or (("all",) if image is None else (METHOD,))
    all_methods = "all" in methods
    solvers = _named([*METHODS, *filter(is_own, methods)] if all_methods else list(methods))
    seconds = options["seconds_per_patch"]
    if seconds is None and all_methods:
        seconds = 0.02
    name, original = _photograph("chelsea" if image is None else image, options["width"], options["grey"])
    dictionary = load_dictionary(options["dictionary"])
    folder = Path(options["out"] or Path("out") / f"reconstruct-{name}")
    _check_overwriting(
        [image, options["dictionary"]],
        [folder / f"{stem}.png" for stem in ("original", *solvers, *(f"{method}-difference" for method in solvers))]
        + [folder / f"{method}-codes.npz" for method in solvers],
    )
    check_writable(folder / "index.html")
    outcomes: dict[str, Outcome] = {}
    failures: dict[str, str] = {}
    bar = progress_bar(options["quiet"])
    task = bar.add_task("")
    with bar:
        for number, (method, solver) in enumerate(solvers.items()):
            bar.update(task, description=f"{method} ({number + 1} of {len(solvers)})", completed=0, total=None)
            try:
                result = images.reconstruct(
                    original,
                    sparsity,
                    solver,
                    dictionary=dictionary,
                    stride=options["stride"],
                    refit=options["refit"],
                    max_iter=options["max_iter"],
                    seconds_per_patch=seconds,
                    device=options["device"],
                    progress=lambda done, total: bar.update(task, completed=done, total=total),
                )
            except InputError as error:
                if len(solvers) == 1 or not str(error).startswith("`method`"):
                    raise
                failures[method] = str(error)
                continue
            # Images and codes may be large: they are written now, and only what the page shows is kept.
            images.write_image(folder / f"{method}.png", result.image)
            images.write_image(folder / f"{method}-difference.png", images.difference(original, result.image))
            result.codes.save(folder / f"{method}-codes.npz")
            outcomes[method] = Outcome.of(original, result)
    ranked = dict(sorted(outcomes.items(), key=lambda item: -item[1].patch_snr_db))
    images.write_image(folder / "original.png", original)
    rows = [
        [method, f"{result.patch_snr_db:.2f}", f"{result.snr_db:.2f}", f"{result.ms_per_patch:.2f}"]
        for method, result in ranked.items()
    ]
    head = ["method", "SNR of patches with means removed (dB)", "SNR of the image (dB)", "ms per patch"]
    with replacing(folder / "results.csv") as temporary, temporary.open("w", newline="") as stream:
        csv.writer(stream).writerows([head, *rows])
    page(name, original, dictionary, ranked, failures).write(folder / "index.html")
    if options["quiet"]:
        return
    title = f"{name}: {original.shape[1]}x{original.shape[0]} pixels, {sparsity} atoms per patch"
    console = Console()
    console.print(table_of(title, ("method", "patch SNR (dB)", "image SNR (dB)", "ms per patch"), rows))
    for method, reason in failures.items():
        console.print(f"{method}: {reason}", soft_wrap=True, markup=False)
    console.print("patch SNR: over all patches, with the mean of each patch removed, as in the paper's table")
    console.print(
        f"written: {folder / 'index.html'} (pictures, difference images), with the codes next to it", soft_wrap=True
    )
    advice = "sparsect reconstruct PHOTO.jpg --sparsity 100" if image is None else "sparsect denoise PHOTO.jpg"
    console.print(f"Try next: {advice}", soft_wrap=True)


@click.command(epilog=LEARN_EXAMPLES)
@click.argument("folder")
@click.option("--atoms", type=int, default=1000, show_default=True, help="Number of atoms to learn.")
@click.option("--patch", type=int, default=20, show_default=True, help="Side of a patch in pixels.")
@click.option(
    "--patches", type=int, default=100_000, show_default=True, help="Number of patches drawn from the photographs."
)
@click.option(
    "--sparsity",
    "-s",
    type=int,
    help="Maximum number of nonzeros per code.  [default: a tenth of the pixels of a patch]",
)
@click.option(
    "--objective",
    default="l0",
    show_default=True,
    help="l0: codes with at most --sparsity nonzeros; lp: codes with a penalty, as in the paper.",
)
@click.option("--nonnegative-codes", is_flag=True, help="Codes without negative entries.")
@click.option("--nonnegative-atoms", is_flag=True, help="Atoms without negative entries.")
@click.option("--rounds", type=int, default=45, show_default=True, help="Number of rounds of coding and updating.")
@click.option("--mu", type=float, help="Weight of the constraint, for lp.  [default: 2]")
@click.option(
    "--lam", type=float, help="Weight of the penalty, for lp.  [default: proportional to the size of the patches]"
)
@click.option(
    "--validation", metavar="FOLDER", help="Photographs that are not used for training, to report the error on."
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random generator.")
@click.option("--about", metavar="TEXT", help="Description of the photographs, stored with the dictionary.")
@click.option("--batch-size", type=int, help="Number of patches in a batch.  [default: 10,000; 200,000 on a GPU]")
@click.option("--out", metavar="FILE.npz", default="dictionary.npz", show_default=True, help="The dictionary.")
@click.option("--plot", metavar="FILE.png", help="Write a plot of the atoms to this file (.png, .svg or .pdf).")
@cluster_options
@device_options
@image_option["quiet"]
def learn(folder: str, atoms: int, patch: int, out: str, cluster: Any, on_cluster: bool, **options: Any) -> None:
    """Learn a dictionary from the photographs in FOLDER.

    The dictionary is written after every round. After Ctrl-C, the same command continues; a larger --rounds
    continues a finished run.
    """
    check_outputs(out, ".npz", options["plot"])
    objective, sparsity = choice("--objective", options["objective"], ("l0", "lp")), options["sparsity"]
    if objective == "lp" and (sparsity or options["nonnegative_codes"] or options["nonnegative_atoms"]):
        raise InputError("`--sparsity` and `--nonnegative-...` must be used with `--objective l0`, got lp.")
    if objective == "l0" and options["lam"] is not None:
        raise InputError("`--mu` and `--lam` must be used with `--objective lp`, got l0.")
    if objective == "l0" and sparsity is None:
        sparsity = min(max(1, patch**2 // 10), atoms)
    if (options["mu"] is None) != (options["lam"] is None):
        raise InputError("`--mu` and `--lam` must be given together, got one of them.")
    coder = None if options["mu"] is None else ADMM(mu=options["mu"], lam=options["lam"])
    # On a cluster the workers use the device, not this process.
    device = "cpu" if on_cluster else options["device"]
    # A device that does not exist is refused before the photographs are read.
    on_cpu = on_host(place(np.zeros(1, dtype=np.float32), device)) and options["device"] == device
    photographs = images.ImageFolder(folder, smallest=patch, device=device)
    for reason in photographs.left_out:
        click.echo(f"sparsect: skipped {reason}", err=True)
    batch = options["batch_size"]
    if batch is None:
        batch = ArraySource.BATCH if on_cpu else batch_rows(patch**2)
    source = PatchSource(photographs, patch, options["patches"], rng=options["seed"], batch_size=batch)
    validation = None
    if options["validation"] is not None:
        held_out = images.ImageFolder(options["validation"], smallest=patch, device=device)
        validation = PatchSource(held_out, patch, 5000, rng=options["seed"])
    bar = progress_bar(options["quiet"])
    task = bar.add_task("coding", total=options["rounds"])
    # The first round of this run.
    begun: list[int] = []

    def show(step: Progress) -> None:
        rounds = step.dictionary.rounds
        if not begun:
            begun.append(step.round)
        error = f", error {rounds[-1]['error']:.1%}, {rounds[-1]['nonzeros']:.1f} atoms" if rounds else ""
        part = f", batch {step.batch} of {step.batches}" if step.batch < step.batches else ""
        bar.update(task, completed=step.round - 1, description=f"round {step.round} of {step.rounds}{error}{part}")

    with cluster() as running, bar:
        dictionary = learn_dictionary(
            source,
            atoms,
            sparsity=sparsity,
            objective=objective,
            nonnegative_codes=options["nonnegative_codes"],
            nonnegative_atoms=options["nonnegative_atoms"],
            coder=coder,
            rounds=options["rounds"],
            rng=options["seed"],
            validation=validation,
            checkpoint=out,
            progress=show,
            about=options["about"],
            cluster=running,
        )
    if options["plot"] is not None:
        plots.atoms(dictionary, options["plot"])
    if options["quiet"]:
        return
    console = Console()
    console.print(_rounds(dictionary.rounds, begun[0] - 1 if begun else len(dictionary.rounds)))
    console.print(f"{source.size} patches of {len(photographs)} photographs")
    for name in filter(None, (out, options["plot"])):
        console.print(f"written: {name}", soft_wrap=True)
    console.print(f"Try next: sparsect reconstruct PHOTO.jpg --dictionary {out}", soft_wrap=True)


@click.command(epilog=DENOISE_EXAMPLES)
@click.argument("image")
@click.option("--sigma", type=float, help="Standard deviation of the noise, if white is 255.  [default: estimated]")
@click.option("--method", "-m", default=WITHIN_NOISE, show_default=True, help=WITHIN_NOISE_NAMES)
@image_option["dictionary"]
@click.option("--stride", type=int, default=3, show_default=True, help="Distance between adjacent patches in pixels.")
@image_option["max_iter"]
@click.option("--out", metavar="FILE.png", help="The denoised image.  [default: IMAGE-denoised.png]")
@click.option("--truth", metavar="FILE", help="The image without noise, to measure the error.")
@image_option["quiet"]
def denoise(image: str, sigma: float | None, **options: Any) -> None:
    """Remove white noise from IMAGE: code patches to within the noise level, and average where they overlap."""
    noisy, out, truth = _restoration(image, "denoised", options)
    if sigma is not None and not sigma > 0:
        raise reject("--sigma", f"{sigma:g}", "a positive number, on the scale where white is 255")
    if sigma is None:
        sigma = 255 * images.estimate_sigma(noisy)
        if sigma == 0:
            raise reject("--sigma", "None, and the image has no noise from which to estimate it", "a number")
        if not options["quiet"]:
            click.echo(f"noise estimated: sigma {sigma:.1f} of 255")
    _restore(images.denoise, (noisy, sigma / 255), truth, out, options)


@click.command(epilog=INPAINT_EXAMPLES)
@click.argument("image")
@click.option(
    "--mask", metavar="FILE", required=True, help="An image of the same size, white where pixels are missing."
)
@click.option("--method", "-m", default=WITHIN_NOISE, show_default=True, help=WITHIN_NOISE_NAMES)
@image_option["dictionary"]
@click.option("--stride", type=int, default=5, show_default=True, help="Distance between adjacent patches in pixels.")
@image_option["max_iter"]
@click.option("--out", metavar="FILE.png", help="The completed image.  [default: IMAGE-inpainted.png]")
@click.option("--truth", metavar="FILE", help="The image without missing pixels, to measure the error.")
@image_option["quiet"]
def inpaint(image: str, **options: Any) -> None:
    """Fill in the pixels of IMAGE that are white in --mask."""
    torn, out, truth = _restoration(image, "inpainted", options)
    missing = images.to_gray(images.read_image(options["mask"])) > 0.5
    _restore(images.inpaint, (torn, missing), truth, out, options)


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


def _restoration(image: str, suffix: str, options: dict[str, Any]) -> tuple[Array, str, Array | None]:
    """Return the image, the output file and the true image, if any; bad input is refused before any work is done."""
    given = images.read_image(image)
    out = options["out"] or f"{Path(image).with_suffix('')}-{suffix}.png"
    check_format(out)
    check_writable(out)
    _check_overwriting([image, options.get("mask"), options["truth"], options["dictionary"]], [Path(out)])
    truth = None if options["truth"] is None else images.read_image(options["truth"])
    if truth is not None and truth.shape != given.shape:
        raise reject("--truth", f"an image of shape {truth.shape}", f"have the shape of the image, {given.shape}")
    return given, out, truth


def _check_overwriting(inputs: list[str | None], outputs: list[Path]) -> None:
    """Refuse outputs that would replace an input."""
    taken = {os.path.realpath(name) for name in inputs if name is not None}
    for path in outputs:
        if os.path.realpath(path) in taken:
            raise reject("--out", f"a place where the input {path} would be overwritten", "another place")


def _restore(
    function: Callable[..., Array], given: tuple[Array, Any], truth: Array | None, out: str, options: dict[str, Any]
) -> None:
    """Restore an image with ``function``, show progress, write the result and print its PSNR if the truth is known."""
    bar = progress_bar(options["quiet"])
    task = bar.add_task("patches")
    with bar:
        restored = function(
            *given,
            for_images(options["method"]),
            dictionary=load_dictionary(options["dictionary"]),
            stride=options["stride"],
            max_iter=options["max_iter"],
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    images.write_image(out, restored)
    if options["quiet"]:
        return
    if truth is not None:
        before, after = images.psnr_db(truth, given[0]), images.psnr_db(truth, np.clip(restored, 0, 1))
        click.echo(f"PSNR {before:.2f} dB before, {after:.2f} dB after")
    click.echo(f"written: {out}")


def _rounds(rounds: list[dict[str, float]], earlier: int) -> Table:
    """Tabulate about ten rounds, including the first and the last; after resuming, also all new rounds."""
    resumed = 0 < earlier < len(rounds)
    places = np.linspace(0, (earlier if resumed else len(rounds)) - 1, 10)
    shown = sorted({round(place) for place in places} | set(range(earlier, len(rounds)) if resumed else ()))
    rows = [[str(index + 1), *(_number(name, rounds[index][name]) for name in rounds[0])] for index in shown]
    return table_of("learning", ("round", *(name.replace("_", " ") for name in rounds[0])), rows)


def _number(name: str, value: float) -> str:
    """Format a number of a round: errors in per cent."""
    return f"{value:.2%}" if name.endswith("error") else f"{value:.1f}"
