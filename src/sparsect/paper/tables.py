"""Tables made from rows: the SNR of every solver in every setting, for the report and the terminal."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.arrays import FloatArray
from .rows import Row
from .summary import LIMITS, at_end, names, where


def snr_table(name: str, rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Make the table of an experiment.

    Parameters
    ----------
    name : str
        Name of the experiment.
    rows : list of Row
        The rows of an experiment.

    Returns
    -------
    head : list of str
        Headings of the columns.
    lines : list of list of str
        Cells of each line: "failed" where every run has failed, and empty where no run is finished.
    """
    return {"beta": _over_beta, "photograph": _photographs, "gallery": _photographs}.get(name, _measurements)(rows)


def _measurements(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Tabulate the SNR of x at the end of the time limit: mean and standard deviation over runs."""
    settings = names(rows, "setting")
    solvers = [solver for solver in names(rows, "solver") if solver not in LIMITS]
    lines = [
        [solver, *(_spread(at_end(rows, setting, solver)) or _failed(rows, setting, solver) for setting in settings)]
        for solver in (*solvers, *LIMITS)
    ]
    return ["SNR (dB)", *settings], lines if solvers else []


def _over_beta(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Tabulate the SNR of x after the last iteration: mean and standard deviation over runs."""
    settings = names(rows, "setting")
    lines = [
        [f"beta = {beta:+.1f}", *(_spread(_snr(rows, setting=setting, beta=beta)) for setting in settings)]
        for beta in sorted(names(rows, "beta"))
    ]
    return ["SNR (dB)", *settings], lines


def _photographs(rows: list[Row]) -> tuple[list[str], list[list[str]]]:
    """Tabulate the SNR over all patches, before and after a least-squares refit."""
    columns = [
        {"image": image, "sparsity": sparsity, "limit": limit}
        for image in names(rows, "image")
        for sparsity in names(rows, "sparsity")
        for limit in names(rows, "limit")
    ]
    head = ["SNR (dB), plain / refitted"]
    head += ["{image}, s = {sparsity}, {limit:g} s".format(**column) for column in columns]
    lines = [
        [solver, *(_plain_and_refitted(where(rows, solver=solver, **column)) for column in columns)]
        for solver in names(rows, "solver")
    ]
    return head, lines


def _plain_and_refitted(rows: list[Row]) -> str:
    return f"{rows[-1]['snr_db']:.1f} / {rows[-1]['refitted_snr_db']:.1f}" if rows else "failed"


def _snr(rows: list[Row], **wanted: Any) -> FloatArray:
    return np.array([row["snr_db"] for row in where(rows, **wanted)])


def _spread(values: FloatArray) -> str:
    """Format mean and standard deviation; one value has no deviation."""
    if values.size > 1:
        return f"{values.mean():.1f} ± {values.std():.1f}"
    return f"{values[0]:.1f}" if values.size else ""


def _failed(rows: list[Row], setting: str, solver: str) -> str:
    tried = any("failed" in row and (row["setting"], row["solver"]) == (setting, solver) for row in rows)
    return "failed" if tried else ""
