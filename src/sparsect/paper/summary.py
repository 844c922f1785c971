"""Summaries of rows: curves of the SNR over time, and the SNR at the end of runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backend.arrays import FloatArray
from .rows import Row

LIMITS = ("Bayes-optimal", "state evolution", "support known")


def names(rows: list[Row], column: str) -> list[Any]:
    """List the distinct values of a column in order of first appearance.

    Parameters
    ----------
    rows : list of Row
        The rows of an experiment.
    column : str
        Name of the column.

    Returns
    -------
    list
        The values; failed rows are ignored.
    """
    return list(dict.fromkeys(row[column] for row in rows if column in row and "failed" not in row))


def where(rows: list[Row], **wanted: Any) -> list[Row]:
    """Select rows by the values of columns.

    Parameters
    ----------
    rows : list of Row
        The rows of an experiment.
    **wanted : object
        The value of each column to select by.

    Returns
    -------
    list of Row
        The rows that have all these values and have not failed.
    """
    return [
        row for row in rows if "failed" not in row and all(row.get(name) == value for name, value in wanted.items())
    ]


def at_end(rows: list[Row], setting: str, solver: str) -> FloatArray:
    """Return the SNR of x at the end of every run.

    Parameters
    ----------
    rows : list of Row
        The rows of an experiment.
    setting : str
        Label of the setting.
    solver : str
        Name of the solver.

    Returns
    -------
    array, shape (runs,)
        SNR in dB.
    """
    chosen = where(rows, setting=setting, solver=solver)
    return np.array([row["snr_db"] for row in chosen if solver in LIMITS or row.get("end")])


def curve(rows: list[Row], setting: str, solver: str, times: FloatArray) -> FloatArray:
    """Return the SNR that each run had reached at given times.

    Parameters
    ----------
    rows : list of Row
        The rows of an experiment.
    setting : str
        Label of the setting.
    solver : str
        Name of the solver.
    times : array, shape (times,)
        Times in seconds.

    Returns
    -------
    array, shape (runs, times)
        SNR in dB; NaN before the first estimate of a run.
    """
    runs = []
    for number in names(where(rows, setting=setting, solver=solver), "run"):
        chosen = where(rows, setting=setting, solver=solver, run=number)
        seconds, values = (np.array([row[name] for row in chosen]) for name in ("seconds", "snr_db"))
        last = np.searchsorted(seconds, times, side="right") - 1
        runs.append(np.where(last >= 0, values[np.maximum(last, 0)], np.nan))
    return np.array(runs)


def time_to_reach(rows: list[Row], setting: str, solver: str, level: float) -> float:
    """Return the median time until runs reach a given SNR.

    Parameters
    ----------
    rows : list of Row
        The rows of an experiment.
    setting : str
        Label of the setting.
    solver : str
        Name of the solver.
    level : float
        The SNR to reach, in dB.

    Returns
    -------
    float
        Seconds; infinite where half of the runs never reach it.
    """
    times = []
    for number in names(where(rows, setting=setting, solver=solver), "run"):
        chosen = where(rows, setting=setting, solver=solver, run=number)
        times.append(min((row["seconds"] for row in chosen if row["snr_db"] >= level), default=np.inf))
    return float(np.median(times)) if times else np.inf


def relative_error(snr: Any) -> Any:
    """Convert an SNR in dB to the relative error ||x - estimate|| / ||x||.

    Parameters
    ----------
    snr : float or array
        SNR in dB.

    Returns
    -------
    float or array
        The relative error.
    """
    return 10 ** (-np.asarray(snr) / 20)
