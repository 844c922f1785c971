"""The commands ``sparsect learn`` and ``atoms``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from .. import images
from ..backend.arrays import on_host
from ..backend.checks import InputError, choice, reject, whole_number
from ..backend.devices import batch_rows, place
from ..backend.files import path_name
from ..backend.writing import check_writable
from ..dictionary import ArraySource, Progress, as_dictionary, list_dictionaries
from ..dictionary import learn as learn_dictionary
from ..dictionary.pictures import SORTS
from ..images import PatchSource
from ..reporting import plots
from ..reporting.atoms import page
from ..solvers import ADMM
from .common import check_outputs, cluster_options, device_options, progress_bar, table_of

LEARN_EXAMPLES = """\b
Examples:
  sparsect learn photos/ --atoms 1000 --patch 20 --patches 100000 --out mine.npz
  sparsect learn photos/ --atoms 256 --patch 8 --sparsity 6 --out small.npz --plot atoms.png
  sparsect learn photos/ --atoms 384 --patch 8 --colour --out colours.npz
  sparsect learn photos/ --objective lp --rounds 45 --out paper.npz          # as in the paper
  sparsect learn photos/ --patches 10000000 --out gpu.npz --device cuda
  sparsect learn photos/ --out here.npz --scheduler                          # processes on this machine
  sparsect learn photos/ --out cluster.npz --scheduler tcp://10.0.0.1:8786   # a Dask cluster
"""
ATOMS_EXAMPLES = """\b
Examples:
  sparsect atoms                                              # the dictionaries of the package
  sparsect atoms 8x8                                          # a page about one of them
  sparsect atoms mine.npz --sort frequency --out mine.html
  sparsect atoms 12x12 --plot twelve.png                      # the atoms alone, as a picture
"""
# Headings of the table of rounds.
COLUMNS = {
    "error": "training error",
    "nonzeros": "nonzeros per code",
    "validation_error": "held-out error",
    "validation_nonzeros": "held-out nonzeros",
    "remembered": "patches in memory",
}


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
    help="Maximum number of nonzeros per code.  [default: a tenth of the length of a patch]",
)
@click.option(
    "--objective",
    default="l0",
    show_default=True,
    help="l0: codes with at most --sparsity nonzeros; lp: codes with a penalty, as in the paper.",
)
@click.option("--colour", is_flag=True, help="Learn patches with red, green and blue instead of grey ones.")
@click.option("--nonnegative-codes", is_flag=True, help="Learn with codes that have no negative entries.")
@click.option("--nonnegative-atoms", is_flag=True, help="Learn atoms that have no negative entries.")
@click.option(
    "--rounds",
    type=int,
    show_default="45, or 20 with few patches",
    help="Number of rounds of coding and updating.",
)
@click.option("--mu", type=float, help="Weight of the constraint, for lp.  [default: 2]")
@click.option(
    "--lam", type=float, help="Weight of the penalty, for lp.  [default: proportional to the size of the patches]"
)
@click.option(
    "--validation",
    metavar="FOLDER",
    help="Photographs for the held-out error.  [default: one patch in 20, held out, if there are many]",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the random generator.")
@click.option("--about", metavar="TEXT", help="Description of the photographs, stored with the dictionary.")
@click.option("--batch-size", type=int, help="Number of patches in a batch.  [default: 10,000; 200,000 on a GPU]")
@click.option("--out", metavar="FILE.npz", default="dictionary.npz", show_default=True, help="Output file.")
@click.option("--plot", metavar="FILE.png", help="Write a plot of the atoms to this file (.png, .svg or .pdf).")
@cluster_options
@device_options
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no table.")
def learn(folder: str, atoms: int, patch: int, out: str, cluster: Any, on_cluster: bool, **options: Any) -> None:
    """Learn a dictionary from the photographs in FOLDER.

    The dictionary is written after every round. After Ctrl-C, the same command continues. A larger --rounds
    continues a finished run if it adds passes over all patches; there is one such pass for every eight rounds.

    The table shows relative errors and mean numbers of nonzeros. The held-out error is measured on patches that are not
    used for training; the dictionary with the smallest held-out error is kept. Most rounds learn from mini-batches and
    keep statistics of earlier patches in memory; the table shows the number of these patches, 0 for a round over all
    patches.
    """
    if atoms > whole_number("--patches", options["patches"], 1):
        raise reject("--atoms", atoms, f"at most the number of patches, {options['patches']}")
    # A patch of one pixel is zero without its mean.
    whole_number("--patch", patch, 2)
    check_outputs(out, ".npz", options["plot"])
    colour = options["colour"]
    numbers = (3 if colour else 1) * patch**2
    objective, sparsity = choice("--objective", options["objective"], ("l0", "lp")), options["sparsity"]
    if objective == "lp" and (sparsity or options["nonnegative_codes"] or options["nonnegative_atoms"]):
        raise InputError("`--sparsity` and `--nonnegative-...` must be used with `--objective l0`, got lp.")
    if objective == "l0" and options["lam"] is not None:
        raise InputError("`--mu` and `--lam` must be used with `--objective lp`, got l0.")
    if objective == "l0" and sparsity is None:
        sparsity = min(max(1, numbers // 10), atoms)
    if (options["mu"] is None) != (options["lam"] is None):
        raise InputError("`--mu` and `--lam` must be given together, got one of them.")
    coder = None if options["mu"] is None else ADMM(mu=options["mu"], lam=options["lam"])
    # On a cluster the workers use the device, not this process.
    device = "cpu" if on_cluster else options["device"]
    # A device that does not exist is refused before the photographs are read.
    on_cpu = on_host(place(np.zeros(1, dtype=np.float32), device)) and options["device"] == device
    photographs = images.ImageFolder(path_name("FOLDER", folder), smallest=patch, device=device, colour=colour)
    for reason in photographs.left_out:
        click.echo(f"sparsect: skipped {reason}", err=True)
    batch = options["batch_size"]
    if batch is None:
        batch = ArraySource.BATCH if on_cpu else batch_rows(numbers)
    source = PatchSource(photographs, patch, options["patches"], rng=options["seed"], batch_size=batch)
    validation = None
    if options["validation"] is not None:
        others = path_name("--validation", options["validation"])
        held_out = images.ImageFolder(others, smallest=patch, device=device, colour=colour)
        validation = PatchSource(held_out, patch, 5000, rng=options["seed"])
    bar = progress_bar(options["quiet"])
    task = bar.add_task("drawing patches", total=None)
    # The first round of this run, and when it began.
    begun: list[int] = []
    start = time.monotonic()

    def show(step: Progress) -> None:
        rounds = step.dictionary.rounds
        if not begun:
            begun.append(step.round)
        error = f", error {rounds[-1].get('validation_error', rounds[-1]['error']):.1%}" if rounds else ""
        speed = f", {step.coded / max(time.monotonic() - start, 1e-9):,.0f} patches/s"
        words = f"round {step.round} of {step.rounds}{error}{speed}"
        bar.update(task, completed=step.coded, total=step.coded + step.left, description=words)

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
    console.print(f"Try next: sparsect atoms {out}", soft_wrap=True)


@click.command(epilog=ATOMS_EXAMPLES)
@click.argument("name", metavar="[DICTIONARY]", required=False)
@click.option("--sort", help=f"Which atoms come first: {' or '.join(SORTS)}.  [default: use, if that is known]")
@click.option("--out", metavar="FILE.html", help="The page.  [default: out/atoms-DICTIONARY.html]")
@click.option("--plot", metavar="FILE.png", help="Write a plot of the atoms to this file (.png, .svg or .pdf).")
def atoms(name: str | None, sort: str | None, out: str | None, plot: str | None) -> None:
    """Show the atoms of DICTIONARY, a file or a name, on a page; without it, list the dictionaries in the package.

    The page shows all atoms, how often each one is used, the error of each round of learning, and the origin of the
    dictionary.
    """
    if name is None:
        Console().print(_listed())
        return
    if sort is not None:
        choice("--sort", sort, SORTS)
    dictionary = as_dictionary(name, "DICTIONARY")
    out = out or str(Path("out") / f"atoms-{Path(name).stem}.html")
    if Path(out).suffix not in (".html", ".htm"):
        raise reject("--out", repr(out), "a name that ends in .html")
    if plot is not None:
        plots.check_format(plot)
        check_writable(plot)
    check_writable(out)
    page(Path(name).stem, dictionary, sort).write(out)
    if plot is not None:
        plots.atoms(dictionary, plot, sort)
    for written in filter(None, (out, plot)):
        click.echo(f"written: {written}")


def _listed() -> Table:
    """Tabulate the dictionaries of the package."""
    rows = []
    for name, dictionary in list_dictionaries().items():
        side, source = dictionary.patch, dictionary.provenance
        nonzeros = dictionary.rounds[-1]["validation_nonzeros"]
        numbers = [f"{dictionary.Phi.shape[1]:,}", f"{side}x{side}", f"{nonzeros:.0f}", f"{source['patches']:,}"]
        rows.append([name, *numbers, source["about"]])
    head = ("name", "atoms", "pixels", "nonzeros", "patches", "learned from")
    return table_of("dictionaries of the package, and nonzeros of their codes while learning", head, rows)


def _rounds(rounds: list[dict[str, float]], earlier: int) -> Table:
    """Tabulate about ten rounds, including the first and the last; after resuming, also all new rounds."""
    resumed = 0 < earlier < len(rounds)
    places = np.linspace(0, (earlier if resumed else len(rounds)) - 1, 10)
    shown = sorted({round(place) for place in places} | set(range(earlier, len(rounds)) if resumed else ()))
    rows = [[str(index + 1), *(_number(name, rounds[index][name]) for name in rounds[0])] for index in shown]
    return table_of("learning", ("round", *(COLUMNS.get(name, name) for name in rounds[0])), rows)


def _number(name: str, value: float) -> str:
    """Format a number of a round: errors in per cent."""
    return f"{value:.2%}" if name.endswith("error") else f"{value:.1f}"
