"""The command ``sparsect code``: sparse codes of large sets of photographs or signals, partition by partition."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from ..backend.checks import InputError, reject, whole_number
from ..backend.devices import place
from ..backend.files import path_name
from ..dictionary import as_dictionary
from ..images.coding import ROWS, Settings
from ..images.coding import code as code_everything
from ..images.settings import METHOD
from ..kernels.thresholding import Kind
from ..sets import Sparse
from ..solvers import METHODS
from .common import NAMES, cluster_options, device_options, for_images, progress_bar

EXAMPLES = """\b
Examples:
  sparsect code photos/ --sparsity 100 --out photo-codes/                  # a file of codes for each photograph
  sparsect code faces.npy --dictionary parts.npz --nonnegative --out face-codes/
  sparsect code patches.zarr --out patch-codes/ --scheduler                # processes on this machine
  sparsect code arrays/ --out array-codes/ --scheduler tcp://10.0.0.1:8786 # .npy files, a Dask cluster
"""


@click.command(epilog=EXAMPLES)
@click.argument("source", metavar="INPUT")
@click.option("--out", metavar="FOLDER", default="codes", show_default=True, help="Where codes are written.")
@click.option(
    "--sparsity",
    "-s",
    type=int,
    help="Maximum number of atoms per signal.  [default: the sparsity for which the dictionary was learned, or a "
    "quarter of the signal's length]",
)
@click.option("--nonnegative", is_flag=True, help="Find codes without negative entries.")
@click.option("--method", "-m", default=METHOD, show_default=True, help=f"One of: {NAMES}.")
@click.option(
    "--dictionary",
    "-d",
    metavar="FILE.npz",
    help="The dictionary: a file or a name that `sparsect atoms` lists.  [default: paper]",
)
@click.option("--stride", type=int, help="Distance between adjacent patches in pixels.  [default: the side of a patch]")
@click.option(
    "--refit/--no-refit", default=True, show_default=True, help="Refit codes by least squares on the selected atoms."
)
@click.option("--max-iter", type=int, default=250, show_default=True, help="Maximum number of iterations.")
@click.option("--rows", type=int, default=ROWS, show_default=True, help="Number of rows of an array in a partition.")
@cluster_options
@device_options
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no summary.")
def code(source: str, out: str, cluster: Any, on_cluster: bool, **options: Any) -> None:
    """Code INPUT with few atoms: photographs in a folder, or .npy files or a Zarr array with one signal per row.

    The codes of each photograph, or of each partition of rows, are written to a separate file, and the settings to
    codes.jsonl. After Ctrl-C, the same command continues.
    """
    dictionary = as_dictionary(options["dictionary"])
    numbers, atoms = dictionary.Phi.shape
    size = options["sparsity"]
    if size is None:
        size = min(dictionary.sparsity or max(1, numbers // 4), atoms)
    if not 0 <= size <= atoms:
        raise reject("--sparsity", size, f"a whole number from 0 to {atoms}")
    solver = for_images(options["method"])
    if options["nonnegative"] and Kind.BOUNDS not in solver.takes:
        able = ", ".join(name for name, kind in METHODS.items() if Kind.BOUNDS in kind.takes)
        raise reject("--method", f"{solver.name!r} with --nonnegative, which it does not take", f"one of {able}")
    if options["stride"] is not None:
        whole_number("--stride", options["stride"], 1)
    whole_number("--max-iter", options["max_iter"], 1)
    settings = Settings(
        solver=solver,
        sparsity=Sparse(size, nonnegative=True) if options["nonnegative"] else size,
        **{name: options[name] for name in ("max_iter", "refit", "stride", "device")},
    )
    if not on_cluster:
        # A device that does not exist is refused before anything is read.
        place(np.zeros(1, dtype=np.float32), options["device"])
    bar = progress_bar(options["quiet"])
    task = bar.add_task("coding", total=None)
    with cluster() as running, bar:
        manifest = code_everything(
            path_name("INPUT", source),
            out,
            dictionary,
            settings,
            rows=options["rows"],
            cluster=running,
            progress=lambda done, total: bar.update(task, completed=done, total=total),
        )
    parts = manifest["parts"].values()
    if not options["quiet"]:
        rows, nonzeros = (sum(part[name] for part in parts) for name in ("rows", "nonzeros"))
        each = f", {nonzeros / rows:.1f} atoms each" if rows else ""
        click.echo(f"{rows} signals in {len(manifest['parts'])} partitions{each}")
        click.echo(f"written: {out}")
    if manifest["failed"]:
        first, reason = next(iter(manifest["failed"].items()))
        raise InputError(f"{len(manifest['failed'])} partitions could not be coded; {first}: {reason}")
