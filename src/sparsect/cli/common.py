"""Parts that several commands share: solvers by name, options for devices and clusters, outputs, progress bars."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import logging
import math
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from ..backend.checks import InputError, choice, reject
from ..backend.devices import PRECISIONS, gpu_options
from ..backend.writing import check_writable
from ..dictionary.cluster import Cluster
from ..images.settings import tuned_for_images
from ..reporting import plots
from ..sets import Relaxed
from ..solvers import METHODS
from ..solvers.base import Solver
from ..solvers.imported import built, imported, is_own

# The help text of --method.
NAMES = ", ".join(METHODS) + "; or package.module:Class, a solver of your own"
# Types that --set can give: how the text is read, and what is accepted.
READERS: dict[Any, tuple[Callable[[str], Any], str]] = {
    float: (float, "a number"),
    int: (int, "a whole number"),
    str: (str, "a word"),
}


def configured(method: str, settings: tuple[str, ...] = (), alpha: float | None = None) -> Solver:
    """Return a solver with its settings.

    Parameters
    ----------
    method : str
        Name of a method, or ``package.module:Class`` for a solver of the user.
    settings : tuple of str, optional
        Settings as ``NAME=VALUE``.
    alpha : float, optional
        Relaxation of the data projection, for solvers that have a data set.

    Returns
    -------
    Solver
        The solver.

    Raises
    ------
    InputError
        If the method, a setting or alpha is not accepted; the message names the option.
    """
    own = is_own(method)
    kind = imported("--method", method) if own else METHODS[choice("--method", method, METHODS)]
    known = _settable(kind)
    chosen: dict[str, Any] = {}
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or name not in known:
            raise reject("--set", repr(setting), f"NAME=VALUE with NAME among: {', '.join(known) or 'none'} ({method})")
        read, accepted = READERS[known[name]]
        try:
            chosen[name] = read(value)
        except ValueError:
            raise reject(f"--set {name}", repr(value), accepted) from None
    if alpha is not None:
        if not any(field.name == "data_set" for field in _fields(kind)):
            raise reject("--alpha", f"{alpha:g} with {method!r}", "used with difference-map or alternating-map")
        chosen["data_set"] = Relaxed(alpha)
    return built("--method", method, kind, **chosen)


def for_images(method: str) -> Solver:
    """Return a solver with settings tuned for image patches, or a solver of the user as it is.

    Parameters
    ----------
    method : str
        Name of a method, or ``package.module:Class`` for a solver of the user.

    Returns
    -------
    Solver
        The solver.
    """
    return configured(method) if is_own(method) else tuned_for_images(choice("--method", method, METHODS))


def _fields(kind: Any) -> tuple[Any, ...]:
    """Return the fields of a dataclass; a solver that is not a dataclass has none."""
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _settable(kind: Any) -> dict[str, Any]:
    """Return the type of each field that --set can give; of a union, the first type that can be read from text."""
    owner = kind if isinstance(kind, type) else type(kind)
    readable = {field.name: [one for one in _types(owner, field) if one in READERS] for field in _fields(kind)}
    return {name: options[0] for name, options in readable.items() if options}


def _types(kind: type, field: Any) -> tuple[Any, ...]:
    """Return the types that a field may have; none if its annotation cannot be resolved.

    Annotations may be types or strings. They are resolved one at a time, because some use names that are imported for
    type checkers only.
    """
    owner = next(base for base in kind.__mro__ if field.name in inspect.get_annotations(base))
    alone = types.SimpleNamespace(__annotations__={field.name: field.type})
    try:
        hint = typing.get_type_hints(alone, vars(sys.modules[owner.__module__]))[field.name]
    except Exception:
        return ()
    return typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)


device_option = click.option(
    "--device", default="cpu", show_default=True, help="cpu, cuda, cuda:1, or auto for a GPU if there is one."
)


def device_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --device, --precision and --memory to a command.

    Parameters
    ----------
    command : callable
        The function of the command. It gets ``device``; precision and memory are in force while it runs.

    Returns
    -------
    callable
        The function with the options.
    """

    @functools.wraps(command)
    def run(*arguments: Any, precision: str | None, memory: float | None, **options: Any) -> None:
        if memory is not None and not 0 < memory < math.inf:
            raise reject("--memory", f"{memory:g}", "a positive number of GiB")
        if precision is not None:
            choice("--precision", precision, PRECISIONS)
        with gpu_options(precision=precision, memory=None if memory is None else memory * 2**30):
            command(*arguments, **options)

    for option in (
        click.option(
            "--memory",
            type=float,
            help="GPU memory in GiB for the signals coded at one time.  [default: 0.8 of the free memory]",
        ),
        click.option("--precision", help=f"Precision of products on a GPU: {', '.join(PRECISIONS)}.  [default: auto]"),
        device_option,
    ):
        run = option(run)
    return run


def cluster_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options --scheduler, --workers and --tls to a command.

    Parameters
    ----------
    command : callable
        The function of the command. It gets ``cluster``, a function that returns a context manager of the cluster (of
        None without --scheduler), and ``on_cluster``, whether --scheduler is given.

    Returns
    -------
    callable
        The function with the options.
    """

    @functools.wraps(command)
    def run(*arguments: Any, scheduler: str | None, workers: int | None, tls: Any, **options: Any) -> None:
        if scheduler is None and (workers is not None or tls is not None):
            raise InputError("`--workers` and `--tls` must be used with `--scheduler`.")
        if scheduler and workers is not None:
            raise InputError("`--workers` must be used with `--scheduler` without an address, got an address.")
        if scheduler == "" and tls is not None:
            raise InputError("`--tls` must be used with a tls:// address, got none.")

        @contextlib.contextmanager
        def cluster() -> Iterator[Cluster | None]:
            if scheduler is None:
                yield None
                return
            # Dask's log is silenced: errors report what happens to workers.
            with contextlib.suppress(ImportError):
                import distributed  # noqa: F401, its own levels are set when it is imported
            for name in [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]:
                logging.getLogger(name).setLevel(logging.CRITICAL)
            with Cluster(scheduler or None, workers=workers, tls=tls, device=options["device"]) as running:
                if not options["quiet"]:
                    click.echo(f"Dask's dashboard: {running.dashboard}", err=True)
                    if not running.threads:
                        click.echo("sparsect: there are no workers yet; waiting for them", err=True)
                yield running

        command(*arguments, cluster=cluster, on_cluster=scheduler is not None, **options)

    for option in (
        click.option("--tls", nargs=3, metavar="CA CERT KEY", help="Files for the encryption of tls:// addresses."),
        click.option(
            "--workers",
            type=int,
            help="Number of local processes, if --scheduler has no address.  [default: one per core]",
        ),
        click.option(
            "--scheduler",
            metavar="[ADDRESS]",
            is_flag=False,
            flag_value="",
            help="Compute on the Dask cluster with this address; without an address, on local processes.",
        ),
    ):
        run = option(run)
    return run


def check_outputs(out: str, suffix: str, plot: str | None) -> None:
    """Refuse outputs with a wrong suffix and outputs that cannot be written, before any work is done.

    Parameters
    ----------
    out : str
        The output file.
    suffix : str
        The suffix that it must have.
    plot : str or None
        The picture, if any.
    """
    if Path(out).suffix != suffix:
        raise reject("--out", repr(out), f"a name that ends in {suffix}")
    check_writable(out)
    if plot is not None:
        plots.check_format(plot)
        check_writable(plot)


def check_overwriting(inputs: Iterable[str | None], outputs: Iterable[Path]) -> None:
    """Refuse outputs that would replace an input.

    Parameters
    ----------
    inputs : iterable of str or None
        The files that are read; None stands for none.
    outputs : iterable of Path
        The files that are written.
    """
    taken = {os.path.realpath(name) for name in inputs if name is not None}
    for path in outputs:
        if os.path.realpath(path) in taken:
            raise reject("--out", f"a name whose output would overwrite the input {path}", "another name")


def table_of(title: str, head: Sequence[str], lines: list[list[str]]) -> Table:
    """Make a table for the terminal, with the first column aligned left and the others aligned right.

    Parameters
    ----------
    title : str
        Title of the table.
    head : sequence of str
        Headings of the columns.
    lines : list of list of str
        Cells of each line.

    Returns
    -------
    rich.table.Table
        The table.
    """
    table = Table(title=title)
    for number, words in enumerate(head):
        table.add_column(words, justify="right" if number else "left")
    for line in lines:
        table.add_row(*line)
    return table


def progress_bar(quiet: bool) -> Progress:
    """Make a progress bar, which is shown on terminals only.

    Parameters
    ----------
    quiet : bool
        Whether to hide it on terminals as well.

    Returns
    -------
    rich.progress.Progress
        The progress bar.
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=quiet or not console.is_terminal)
