"""Figures made from rows; a solver has the same colour, line and marker in all of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..backend.writing import replacing
from ..reporting.look import look
from ..reporting.plots import new_figure
from .rows import Row
from .summary import LIMITS, at_end, curve, names, relative_error, where

# Colours of the figures, which have light paper.
MAIN, SHADE = look("difference-map").light, "#999999"


def style(solver: str) -> dict[str, Any]:
    """Return the line style of a solver.

    Parameters
    ----------
    solver : str
        Name of the solver.

    Returns
    -------
    dict
        Keyword arguments for Matplotlib's ``plot``.
    """
    main = solver == "difference-map"
    return look(solver).line() | {"linewidth": 2.4 if main else 1.3, "markersize": 4.5, "zorder": 3 if main else 2}


def error_against_time(rows: list[Row]) -> Any:
    """Draw the relative error of x against time, one panel for each setting, with mean and range over runs.

    Parameters
    ----------
    rows : list of Row
        Rows of an :class:`ErrorAgainstTime` experiment.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    settings = names(rows, "setting")
    figure = new_figure((12, 4.8))
    timed = [row["seconds"] for row in where(rows) if "seconds" in row]
    times = np.geomspace(max(min(timed), 1e-3), max(timed), 60)
    for index, setting in enumerate(settings):
        axes = figure.add_subplot(1, len(settings), index + 1)
        solvers = [name for name in names(where(rows, setting=setting), "solver") if name not in LIMITS]
        for solver in solvers:
            error = relative_error(curve(rows, setting, solver, times))
            started = ~np.isnan(error).any(axis=0)
            if not started.any():
                continue
            mean = np.exp(np.log(error[:, started]).mean(axis=0))
            axes.plot(times[started], mean, label=solver, markevery=12, **style(solver))
            axes.fill_between(
                times[started],
                error[:, started].min(axis=0),
                error[:, started].max(axis=0),
                color=style(solver)["color"],
                alpha=0.08,
                linewidth=0,
            )
        for name, line in zip(LIMITS, (":", "-.", (0, (1, 4))), strict=True):
            values = at_end(rows, setting, name)
            if values.size:
                level = relative_error(values.mean())
                axes.axhline(level, color="black", linestyle=line, linewidth=1, label=name)
        axes.set(xscale="log", yscale="log", xlabel="seconds, pre-computation included", title=setting)
        if index == 0:
            axes.set_ylabel("relative error of x")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    return figure


def over_beta(rows: list[Row]) -> Any:
    """Draw the SNR of x against beta, one panel for each setting, with mean and range over runs.

    Parameters
    ----------
    rows : list of Row
        Rows of a :class:`RangeOfBeta` experiment.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    settings, betas = names(rows, "setting"), sorted(names(rows, "beta"))
    figure = new_figure((12, 3.8))
    for index, setting in enumerate(settings):
        axes = figure.add_subplot(1, len(settings), index + 1)
        values = [[row["snr_db"] for row in where(rows, setting=setting, beta=beta)] for beta in betas]
        mean, low, high = (np.array([function(part) for part in values]) for function in (np.mean, np.min, np.max))
        axes.fill_between(betas, low, high, color=MAIN, alpha=0.15, linewidth=0)
        axes.plot(betas, mean, color=MAIN, marker="o", markersize=4)
        axes.axvspan(0.1, 0.9, color=SHADE, alpha=0.12, linewidth=0)
        axes.axvspan(-0.9, -0.1, color=SHADE, alpha=0.06, linewidth=0)
        axes.set(xlabel="beta", title=setting)
        if index == 0:
            axes.set_ylabel("SNR of x (dB)")
    return figure


def save(figure: Any, folder: Path, name: str) -> None:
    """Write a figure as PNG and SVG.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    folder : Path
        Where to write it.
    name : str
        Name of the files, without suffix.
    """
    for suffix in ("svg", "png"):
        path = folder / f"{name}.{suffix}"
        with replacing(path) as temporary:
            figure.savefig(temporary, dpi=140)
