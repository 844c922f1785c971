"""Plots of a problem and its result, of a grid search, and of the atoms of a dictionary."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.arrays import NumpyArray, to_numpy
from ..backend.checks import reject
from ..backend.writing import replacing
from ..dictionary import as_dictionary
from ..dictionary.pictures import atom_tiles
from ..metrics import snr_db
from ..problems import Problem
from ..run.result import Result
from .look import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..tuning import Tuned

# Colours on light paper.
TRUTH, ESTIMATE, LINE = "#999999", COLOURS["blue"][0], COLOURS["vermilion"][0]
PLOT_SUFFIXES = (".png", ".svg", ".pdf")


def check_format(path: str | os.PathLike[str]) -> None:
    """Refuse a file name whose format cannot be drawn.

    Parameters
    ----------
    path : str or path-like
        The picture to write.

    Raises
    ------
    InputError
        If the name does not end in ``.png``, ``.svg`` or ``.pdf``.
    """
    if Path(path).suffix.lower() not in PLOT_SUFFIXES:
        raise reject("plot", f"the file name {os.fspath(path)!r}", f"a name that ends in {', '.join(PLOT_SUFFIXES)}")


def recovery(problem: Problem, result: Result, path: str | os.PathLike[str]) -> None:
    """Draw the first signal, the agreement of all entries, and the recorded measure over the iterations.

    Where the true x is known, estimates are compared with it; elsewhere Phi x is compared with y.

    Parameters
    ----------
    problem : Problem
        The problem, with a batch axis.
    result : Result
        The result of solving it.
    path : str or path-like
        The ``.png``, ``.svg`` or ``.pdf`` file to write; it is written completely or not at all.
    """
    check_format(path)
    figure = new_figure((10, 6.5))
    grid = figure.add_gridspec(2, 2, height_ratios=(1.1, 1))
    x = to_numpy(result.x).reshape(problem.batch, -1)
    _signal(figure.add_subplot(grid[0, :]), problem, x)
    _agreement(figure.add_subplot(grid[1, 0]), problem, x)
    _history(figure.add_subplot(grid[1, 1]), result)
    m, n = (side // (problem.times or 1) for side in problem.operator.shape)
    figure.suptitle(f"{result.method}: {problem.batch} signals, {m}x{n}, s = {result.sparsity}", fontsize=11)
    _write(figure, path)


def _signal(axes: Axes, problem: Problem, x: NumpyArray) -> None:
    """Draw the entries of the first signal."""
    places = np.arange(x.shape[1])
    title = "first signal"
    if problem.x is not None:
        truth = to_numpy(problem.x)
        title += f", SNR {float(snr_db(truth[0], x[0])):.1f} dB"
        axes.vlines(places, 0, _plain(truth[0]), color=TRUTH, linewidth=1.5, label="truth")
    kept = np.flatnonzero(x[0])
    axes.plot(kept, _plain(x[0])[kept], ".", color=ESTIMATE, markersize=5, label="estimate")
    axes.axhline(0, color="black", linewidth=0.5)
    axes.set(xlabel="entry", ylabel="value" if np.isrealobj(x) else "magnitude", title=title, xlim=(-1, x.shape[1]))
    axes.legend(loc="upper right", fontsize=9)


def _agreement(axes: Axes, problem: Problem, x: NumpyArray) -> None:
    """Draw the estimate against the truth, or Phi x against y where the truth is not known."""
    if problem.x is not None:
        given, found = to_numpy(problem.x), x
        axes.set(xlabel="true entry", ylabel="estimated entry", title="all signals, entries that are not zero in both")
    else:
        given, found = to_numpy(problem.y), to_numpy(problem.operator.forward(x))
        axes.set(xlabel="y", ylabel="Phi x", title="all signals, data against fit")
    either = (given != 0) | (found != 0)
    across, up = _plain(given[either])[:20000], _plain(found[either])[:20000]
    ends = [min(across.min(initial=0), up.min(initial=0)), max(across.max(initial=0), up.max(initial=0))]
    axes.plot(ends, ends, color=LINE, linewidth=1)
    axes.plot(across, up, ".", color=ESTIMATE, markersize=2, alpha=0.5, rasterized=True)


def _history(axes: Axes, result: Result) -> None:
    """Draw the first recorded measure, by default the stopping criterion, with one line for each signal."""
    history = result.history
    name = next((name for name in history if name not in ("iteration", "seconds")), "nothing recorded")
    axes.set(xlabel="iteration", ylabel=name.replace("_", " "), title="convergence")
    if name in history and history[name].size:
        values = history[name].reshape(len(history["iteration"]), -1)
        shown = np.where(values > 0, values, np.nan)
        axes.plot(history["iteration"], shown[:, :50], color=ESTIMATE, linewidth=0.8, alpha=0.6)
        if np.isfinite(shown).any():
            axes.set_yscale("log")


def tuning(tuned: Tuned, path: str | os.PathLike[str]) -> None:
    """Draw the error over both stages of a grid search: a curve for one parameter, a map for two.

    Parameters
    ----------
    tuned : Tuned
        The result of :func:`sparsect.tuning.tune`.
    path : str or path-like
        The ``.png``, ``.svg`` or ``.pdf`` file to write; it is written completely or not at all.
    """
    check_format(path)
    figure = new_figure((10, 4.2))
    names = list(tuned.values)
    for index, stage in enumerate(tuned.stages):
        axes = figure.add_subplot(1, len(tuned.stages), index + 1)
        points = np.array([[row["values"][name] for name in names] for row in stage])
        errors = 10 * np.log10([row["error"] for row in stage])
        chosen = [tuned.values[name] for name in names]
        if len(names) == 1:
            axes.plot(points[:, 0], errors, ".-", color=ESTIMATE)
            axes.axvline(chosen[0], color=LINE, linewidth=1)
            axes.set(xlabel=names[0], ylabel="mean squared error of x (dB)")
        else:
            across, up = (np.unique(np.log10(points[:, column])) for column in (0, 1))
            table = errors.reshape(across.size, up.size).T
            shown = axes.pcolormesh(across, up, table, cmap="viridis", shading="nearest")
            axes.plot(*np.log10(chosen), "o", color=LINE, markerfacecolor="none", markersize=10)
            axes.set(xlabel=f"log10 {names[0]}", ylabel=f"log10 {names[1]}")
            figure.colorbar(shown, ax=axes, label="mean squared error of x (dB)")
        axes.set_title(("coarse grid", "fine grid")[index])
    values = ", ".join(f"{name} = {value:g}" for name, value in tuned.values.items())
    figure.suptitle(f"{tuned.method}: {values}", fontsize=11)
    _write(figure, path)


def atoms(dictionary: Any, path: str | os.PathLike[str], sort: str | None = None) -> None:
    """Draw the atoms of a dictionary of square patches.

    Parameters
    ----------
    dictionary : Dictionary, array, str or None
        A dictionary, the matrix Phi, or the name of a file or of a bundled dictionary.
    path : str or path-like
        The ``.png``, ``.svg`` or ``.pdf`` file to write; it is written completely or not at all.
    sort : {'use', 'frequency'}, optional
        Which atoms come first, see :meth:`sparsect.Dictionary.plot`.
    """
    check_format(path)
    known = as_dictionary(dictionary)
    tiles = atom_tiles(known, sort)
    figure = new_figure((12, 12 * tiles.shape[0] / tiles.shape[1]))
    _write(known.plot(sort, figure.add_subplot()), path)


def new_figure(size: tuple[float, float]) -> Any:
    """Make an empty figure that needs no display.

    Parameters
    ----------
    size : tuple of float
        Width and height in inches.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _write(figure: Any, path: str | os.PathLike[str]) -> None:
    """Write a figure; the file is written completely or not at all."""
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=130)


def _plain(values: NumpyArray) -> NumpyArray:
    """Return values that can be drawn: real ones as they are, complex ones by magnitude."""
    return values if np.isrealobj(values) else np.abs(values)
