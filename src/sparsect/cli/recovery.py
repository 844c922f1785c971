"""The commands ``sparsect recover`` and ``sparsect tune``."""

from __future__ import annotations

import dataclasses
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from .. import tuning
from ..backend import files
from ..backend.arrays import to_numpy
from ..backend.checks import InputError, choice, real_number, reject, whole_number
from ..backend.writing import check_writable
from ..metrics import snr_db
from ..operators import as_operator
from ..operators.rows import whitening_matrix
from ..problems import Problem, random_problem
from ..recover import DEFAULT
from ..recover import recover as sparsect_recover
from ..reporting import plots
from ..run import Snapshot
from ..run.result import Result
from ..sets import GroupSparse, JointSparse, SignalSet, Sparse
from ..sets.groups import check_labels, check_length
from ..tuning import Training
from .common import NAMES, check_outputs, configured, device_options, progress_bar

RECOVER_EXAMPLES = """\b
Examples:
  sparsect recover --random 400x1000 --sparsity 150 --snr 20 --plot recovery.png
  sparsect recover --matrix Phi.npy --data y.npy --sparsity 150 --out x.npz
  sparsect recover --matrix study.mat:A --data study.mat:b --sparsity 20 --noise-norm 0.1
  sparsect recover --matrix Phi.csv --data y.csv --sparsity auto --out x-auto.npz
  sparsect recover --matrix Phi.npy --data y.npy --sparsity 20 --nonnegative --out x-nonnegative.npz
  sparsect recover --matrix Phi.npy --data y.npy --sparsity 4 --groups labels.txt --out x-groups.npz
  sparsect recover --matrix Phi.npy --data times.npy --sparsity 5 --joint --out x-joint.npz
  sparsect recover --matrix Phi.npy --data y.npy --sparsity 20 --noise-std deviations.csv --out x-weighted.npz
  sparsect recover --random 400x1000 --sparsity 175 --method difference-map --set beta=0.5
  sparsect recover --random 400x1000 --sparsity 150 --batch 10000 --device cuda
  sparsect recover --random 400x1000 --sparsity 100 --method my_package:MySolver --set step=0.5
"""


TUNE_EXAMPLES = """\b
Examples:
  sparsect tune difference-map --max-iter 500 --plot beta.png
  sparsect tune admm --size 200x400 -s 30 -s 60 --snr 15 --out admm.json
"""


@click.command(epilog=RECOVER_EXAMPLES)
@click.option(
    "--matrix", metavar="FILE", help=f"Phi (m x n): {files.ARRAY_SUFFIXES}; FILE:NAME selects one of several arrays."
)
@click.option("--data", metavar="FILE", help="y: m numbers, or one signal per row.")
@click.option("--truth", metavar="FILE", help="The true x, to measure the error.")
@click.option("--random", "size", metavar="MxN", help="Solve a random problem of this size instead of reading files.")
@click.option(
    "--sparsity", "-s", metavar="S|auto", required=True, help="Maximum number of nonzeros per signal; auto if unknown."
)
@click.option("--nonnegative", is_flag=True, help="Find x without negative entries.")
@click.option(
    "--groups",
    metavar="FILE",
    help="The group of each entry of x, as whole numbers from 0. --sparsity is then the number of groups.",
)
@click.option(
    "--joint",
    is_flag=True,
    help="Find nonzeros at the same places at all times: y has shape (times, m) or (signals, times, m).",
)
@click.option("--snr", type=float, help="With --random: signal-to-noise ratio of y in dB.  [default: no noise]")
@click.option("--batch", type=int, help="With --random: number of signals.  [default: 10]")
@click.option("--seed", type=int, help="With --random: seed of the random generator.  [default: 0]")
@click.option("--method", "-m", default=DEFAULT, show_default=True, help=f"One of: {NAMES}.")
@click.option("--set", "settings", metavar="NAME=VALUE", multiple=True, help="A setting of the method; repeatable.")
@click.option("--noise-norm", type=float, help="Norm of the noise in each signal, if it is known.")
@click.option(
    "--noise-std",
    metavar="NUMBER|FILE",
    help="Standard deviation of the noise: a number, a file of m numbers, or a file of the covariance matrix (m x m). "
    "--noise-norm and residuals then refer to whitened data.",
)
@click.option("--alpha", type=float, help="Damping of the data projection (Relaxed), instead of a noise norm.")
@click.option("--max-iter", type=int, default=1000, show_default=True, help="Maximum number of iterations.")
@click.option("--max-seconds", type=float, help="Maximum time of the iterations in seconds.")
@click.option("--tol", type=float, help="Tolerance of the stopping criterion, relative to the starting point.")
@click.option("--out", metavar="FILE.npz", help="Write x and the other results to this file.")
@click.option("--plot", metavar="FILE.png", help="Write a plot to this file (.png, .svg or .pdf).")
@click.option("--checkpoint", metavar="FILE.npz", help="Save the run to this file; the same command resumes from it.")
@click.option("--refit", is_flag=True, help="Refit each solution by least squares on its support.")
@click.option("--polish", is_flag=True, help="Exchange columns of each support to lower the residual, then refit.")
@click.option(
    "--scale-columns/--no-scale-columns", default=True, show_default=True, help="Solve with columns scaled to norm 1."
)
@device_options
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar and no table.")
def recover(size: str | None, matrix: str | None, data: str | None, **options: Any) -> None:
    """Find x with at most s nonzeros and Phi x close to y."""
    _check_outputs((matrix, data, *(options[name] for name in ("truth", "groups", "noise_std"))), options)
    options["sparsity"] = _sparsity(options["sparsity"])
    _check_sets(size is not None, options)
    if options["alpha"] is not None and options["noise_norm"] is not None:
        raise InputError("`--alpha` and `--noise-norm` must not be given together.")
    if size is not None:
        if any(name is not None for name in (matrix, data, options["truth"])):
            raise InputError(
                "`--random` must not be given together with files: give `--random`, or `--matrix` and `--data`."
            )
        problem, wanted = _random(size, options), options["sparsity"]
    elif matrix is None or data is None:
        raise InputError("`--matrix` and `--data` must be given together: give both, or `--random MxN`.")
    elif any(options[name] is not None for name in ("snr", "batch", "seed")):
        raise InputError("`--snr`, `--batch` and `--seed` must be used with `--random`, got files.")
    else:
        problem, wanted = _from_files(matrix, data, options)
    solver = configured(options["method"], options["settings"], options["alpha"])
    names = ("max_iter", "max_seconds", "tol", "checkpoint", "refit", "polish", "scale_columns", "device")
    limits = {name: options[name] for name in names} | {"noise_std": _noise_std(options["noise_std"], problem)}
    with _ProgressBar(solver.criterion, options["max_iter"], problem.batch, options["quiet"]) as show:
        # Finding s can take several runs, which one progress bar cannot show.
        several = options["sparsity"] == "auto"
        limits |= {"noise_norm": options["noise_norm"], "callback": None if several else show}
        y = problem.y if problem.times is None else problem.y.reshape(problem.batch, problem.times, -1)
        result = sparsect_recover(problem.Phi, y[0] if problem.single else y, wanted, solver, **limits)
    if options["out"] is not None:
        result.save(options["out"])
    if options["plot"] is not None:
        plots.recovery(problem, result, options["plot"])
    if not options["quiet"]:
        written = [name for name in (options["out"], options["plot"]) if name is not None]
        _report(problem, result, options["noise_std"] is not None, written)


@click.command(epilog=TUNE_EXAMPLES)
@click.argument("method")
@click.option("--size", metavar="MxN", default="400x1000", show_default=True, help="Size of the training problems.")
@click.option("--sparsity", "-s", "sparsities", type=int, multiple=True, help="Repeatable.  [default: m/8 to m/2]")
@click.option("--snr", type=float, default=20.0, show_default=True, help="Signal-to-noise ratio of y in dB.")
@click.option(
    "--problems", type=int, default=2, show_default=True, help="Number of training signals for each sparsity."
)
@click.option("--seed", type=int, default=Training.seed, show_default=True, help="First random seed.")
@click.option("--max-iter", type=int, default=300, show_default=True, help="Number of iterations for each problem.")
@click.option("--workers", type=int, help="Number of processes.  [default: one per core]")
@click.option(
    "--out", metavar="FILE.json", default="tuned.json", show_default=True, help="The best values and all points."
)
@click.option("--plot", metavar="FILE.png", help="Write a plot of the grid to this file (.png, .svg or .pdf).")
@click.option("--quiet", "-q", is_flag=True, help="Show no progress bar.")
def tune(method: str, size: str, sparsities: tuple[int, ...], snr: float, out: str, **options: Any) -> None:
    """Find the parameters of METHOD (difference-map, admm or irls) with the least error of x on random problems.

    Computed points are stored next to the output until the search ends. After Ctrl-C, the same command continues.
    """
    choice("METHOD", method, tuning.GRIDS)
    check_outputs(out, ".json", options["plot"])
    m, n = _size("--size", size)
    # The default has as many nonzeros per measurement as the paper's experiments.
    sparsities = sparsities or tuple(sorted({max(1, min(n, round(m * s / 400))) for s in Training.sparsities}))
    training = Training(m, n, sparsities, snr, options["problems"], options["seed"])
    training.draw()
    rows = Path(out).with_suffix(".rows.jsonl")
    bar = progress_bar(options["quiet"])
    task = bar.add_task("grid search", total=None)

    def show(done: int, total: int, least: float) -> None:
        bar.update(task, completed=done, total=total, description=f"least mean squared error {least:.3e}")

    with bar:
        result = tuning.tune(
            method, training, max_iter=options["max_iter"], workers=options["workers"], rows=rows, progress=show
        )
    result.save(out)
    rows.unlink(missing_ok=True)
    if options["plot"] is not None:
        plots.tuning(result, options["plot"])
    values = ", ".join(f"{name} = {value:g}" for name, value in result.values.items())
    click.echo(f"{method}: {values}, mean squared error of x {result.error:.3e}")
    for name in filter(None, (out, options["plot"])):
        click.echo(f"written: {name}")


def _check_outputs(inputs: tuple[str | None, ...], options: dict[str, Any]) -> None:
    """Refuse outputs that cannot be written, or would overwrite an input or each other, before any work is done."""
    outputs = {name: options[name] for name in ("out", "plot", "checkpoint") if options[name] is not None}
    for name, path in outputs.items():
        if name == "plot":
            plots.check_format(path)
        elif Path(path).suffix != ".npz":
            raise reject(f"--{name}", repr(path), "a name that ends in .npz")
        check_writable(path)
    taken = [os.path.realpath(path.rpartition(":")[0] or path) for path in inputs if path is not None]
    taken += [os.path.realpath(path) for path in (*filter(None, inputs), *outputs.values())]
    for name, path in outputs.items():
        if taken.count(os.path.realpath(path)) > 1:
            raise reject(f"--{name}", repr(path), "a file that is not used for something else in the same call")


def _sparsity(text: str) -> int | str:
    """Read --sparsity: a number or 'auto'."""
    if text != "auto" and not re.fullmatch(r"\d{1,9}", text):
        raise reject("--sparsity", repr(text), "a number of at least 0, or auto")
    return text if text == "auto" else int(text)


def _check_sets(random: bool, options: dict[str, Any]) -> None:
    """Refuse sets of x that exclude each other, and random problems with options that describe other signals."""
    sets = [f"`--{name}`" for name in ("nonnegative", "groups", "joint") if options[name] not in (None, False)]
    if len(sets) > 1:
        raise InputError(f"{' and '.join(sets)} must not be given together: x belongs to one of these sets.")
    if random and (sets or options["noise_std"] is not None):
        raise InputError(f"{(*sets, '`--noise-std`')[0]} must be used with `--matrix` and `--data`, got `--random`.")


def _random(size: str, options: dict[str, Any]) -> Problem:
    """Draw the random problem that the options describe."""
    m, n = _size("--random", size)
    if options["sparsity"] == "auto":
        raise reject("--sparsity", "auto with --random", "a number, because random signals have this many nonzeros")
    batch = 10 if options["batch"] is None else options["batch"]
    files.check_size("--random", 8 * (m * n + 8 * max(batch, 1) * (m + n)))
    drawn = random_problem(m, n, options["sparsity"], options["snr"], batch, options["seed"] or 0)
    return Problem(drawn.Phi, drawn.y, drawn.sparsity, options["noise_norm"], drawn.x)


def _size(option: str, size: str) -> tuple[int, int]:
    """Read a size such as 400x1000."""
    sides = re.fullmatch(r"(\d{1,9})[xX](\d{1,9})", size)
    if sides is None:
        raise reject(option, repr(size), "given as rows x columns, such as 400x1000")
    return int(sides[1]), int(sides[2])


def _from_files(matrix: str, data: str, options: dict[str, Any]) -> tuple[Problem, int | str | SignalSet]:
    """Read a problem from files, and the constraints on x; signals in columns are transposed to rows."""
    Phi = files.read_array(matrix, prefer=("Phi", "A", "matrix"))
    y = _dense(files.read_array(data, prefer=("y", "b", "data")))
    truth = None if options["truth"] is None else _dense(files.read_array(options["truth"], prefer=("x", "truth")))
    if getattr(Phi, "ndim", 2) == 1:
        # One column of a text file is a vector, too.
        Phi = Phi[:, None] if y.shape[-1] == Phi.size else Phi[None, :]
    rows = Phi.shape[0] if getattr(Phi, "ndim", 0) == 2 else 0
    if y.ndim == 2 and y.shape[0] == rows and y.shape[1] != rows:
        of_columns = "times" if options["joint"] else "signals"
        click.echo(f"{data}: {y.shape[1]} {of_columns} in columns, transposed to rows", err=True)
        y = y.T
        truth = truth.T if truth is not None and truth.ndim == 2 and truth.shape[0] != y.shape[0] else truth
    operator = as_operator(Phi)
    most, sparsity = operator.shape[1], options["sparsity"]
    if options["groups"] is None and sparsity != "auto" and sparsity > most:
        raise reject("--sparsity", sparsity, f"at most the number of columns of {matrix}, {most}")
    if options["nonnegative"] and (np.iscomplexobj(y) or np.iscomplexobj(Phi)):
        raise reject("--nonnegative", "complex data", "used with real data")
    wanted = _wanted(options, operator.shape[1])
    known: Any = 0 if wanted == "auto" else wanted
    if getattr(known, "size", None) == "auto":
        known = dataclasses.replace(known, size=0)
    return Problem(operator, y, known, options["noise_norm"], truth), wanted


def _wanted(options: dict[str, Any], n: int) -> int | str | SignalSet:
    """Return the set that contains x, or the number of its nonzeros."""
    if options["groups"] is not None:
        name, labels = f"--groups {options['groups']}", _vector(options["groups"], ("groups", "labels"))
        # Text files and MATLAB have no whole numbers of their own.
        if labels.dtype.kind == "f" and ((labels == np.round(labels)) & (np.abs(labels) < 2**53)).all():
            labels = labels.astype(np.int64)
        labels = check_labels(name, labels)
        check_length(name, labels, n)
        if options["sparsity"] != "auto":
            whole_number("--sparsity", options["sparsity"], 0, int(labels.max()) + 1)
        return GroupSparse(options["sparsity"], labels)
    if options["joint"]:
        return JointSparse(options["sparsity"])
    return Sparse(options["sparsity"], nonnegative=True) if options["nonnegative"] else options["sparsity"]


def _noise_std(path: str | None, problem: Problem) -> Any:
    """Read and check the noise of each measurement, or a number for all of them."""
    if path is None:
        return None
    try:
        number = float(path)
    except ValueError:
        if files.may_be_another_name(path):
            raise reject("--noise-std", repr(path), "a positive number or a file") from None
    else:
        return real_number("--noise-std", number, "a positive number or a file", low=0.0, nonzero=True)
    noise_std = _vector(path, ("noise_std", "std", "covariance"))
    whitening_matrix(f"--noise-std {path}", noise_std, problem.y.shape[1] // (problem.times or 1))
    return noise_std


def _vector(path: str, prefer: tuple[str, ...]) -> Any:
    """Read an array; a matrix with one row or one column is a vector."""
    array = _dense(files.read_array(path, prefer=prefer))
    return array.ravel() if array.ndim == 2 and array.shape.count(1) == 1 else array


def _dense(array: Any) -> Any:
    """Convert a sparse array to a dense one."""
    return array.toarray() if hasattr(array, "toarray") else array


class _ProgressBar:
    """A progress bar that is a callback of the iteration."""

    def __init__(self, criterion: str, total: int, batch: int, quiet: bool) -> None:
        self._criterion, self._batch, self._shown_at = criterion.replace("_", " "), batch, 0.0
        self._bar = progress_bar(quiet)
        self._task = self._bar.add_task("iterations", total=total)

    def __enter__(self) -> Callable[[Snapshot], bool] | None:
        """Return the callback, or None where no bar is shown: solvers can then take many steps at once."""
        self._bar.start()
        return None if self._bar.disable else self._show

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def _show(self, run: Snapshot) -> bool:
        now = time.monotonic()
        if now - self._shown_at > 0.1:
            self._shown_at = now
            median, converged = float(np.median(to_numpy(run.criterion))), int(run.converged.sum())
            text = f"{self._criterion} {median:.2e}, {converged}/{self._batch} converged"
            self._bar.update(self._task, completed=run.iteration, description=text)
        return False


def _report(problem: Problem, result: Result, whitened: bool, written: list[str]) -> None:
    """Print a table with a line for each signal (at most twenty) and the names of the files written."""
    x, y_norm = result.x.reshape(problem.batch, -1), np.linalg.norm(problem.y, axis=1)
    columns: dict[str, list[str]] = {"signal": [str(row) for row in range(problem.batch)]}
    if problem.x is not None:
        columns["SNR of x (dB)"] = [f"{value:.2f}" for value in snr_db(problem.x, x)]
    # The expected norm of whitened noise is the root of the number of measurements.
    name, scale = ("noise", problem.y.shape[1] ** 0.5) if whitened else ("||y||", np.where(y_norm > 0, y_norm, 1))
    columns[f"residual / {name}"] = [f"{value:.2e}" for value in np.atleast_1d(result.residual_norm) / scale]
    if result.gap is not None:
        columns["gap"] = [f"{value:.2e}" for value in np.atleast_1d(result.gap)]
    columns["iterations"] = [str(value) for value in np.atleast_1d(result.n_iter)]
    if result.stable is not None:
        columns["support stable"] = ["yes" if value else "no" for value in np.atleast_1d(result.stable)]
    if result.sparsity == "auto":
        support = result.support.reshape(problem.batch, problem.times or 1, -1).any(axis=1)
        columns["nonzeros"] = [str(value) for value in support.sum(axis=1)]
    columns["converged"] = ["yes" if value else "no" for value in np.atleast_1d(result.converged)]
    table = Table(title=result.method)
    for name in columns:
        table.add_column(name, justify="right")
    for line in list(zip(*columns.values(), strict=True))[:20]:
        table.add_row(*line)
    console = Console()
    console.print(table)
    if problem.batch > 20:
        console.print(f"... and {problem.batch - 20} more")
    if problem.x is not None:
        console.print(f"mean SNR of x {float(np.mean(snr_db(problem.x, x))):.2f} dB")
    console.print(f"{result.seconds:.2f} s iterating, {result.setup_seconds:.2f} s factoring Phi")
    for name in written:
        console.print(f"written: {name}", soft_wrap=True)
