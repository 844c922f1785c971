"""What do rows say? Averages over runs, as curves over time and as numbers at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from .rows import Row

Array = np.ndarray[Any, Any]

LIMITS = ("Bayes-optimal", "state evolution", "support known")


def names(rows: list[Row], column: str) -> list[Any]:
    """Different values of a column, in the order in which they first come."""
    return list(dict.fromkeys(row[column] for row in rows if column in row and "failed" not in row))


def where(rows: list[Row], **wanted: Any) -> list[Row]:
    """Rows with the given values, failed ones left out."""
    return [
        row for row in rows if "failed" not in row and all(row.get(name) == value for name, value in wanted.items())
    ]


def at_end(rows: list[Row], setting: str, solver: str) -> Array:
    """SNR of x at the end of every run, in dB."""
    chosen = where(rows, setting=setting, solver=solver)
    return np.array([row["snr_db"] for row in chosen if solver in LIMITS or row.get("end")])


def curve(rows: list[Row], setting: str, solver: str, times: Array) -> Array:
    """(runs, times), the SNR that each run had reached at each time; NaN before its first estimate."""
    runs = []
    for number in names(where(rows, setting=setting, solver=solver), "run"):
        chosen = where(rows, setting=setting, solver=solver, run=number)
        seconds, values = (np.array([row[name] for row in chosen]) for name in ("seconds", "snr_db"))
        last = np.searchsorted(seconds, times, side="right") - 1
        runs.append(np.where(last >= 0, values[np.maximum(last, 0)], np.nan))
    return np.array(runs)


def time_to_reach(rows: list[Row], setting: str, solver: str, level: float) -> float:
    """Median seconds until runs reach an SNR of ``level``; infinite where half of them never do."""
    times = []
    for number in names(where(rows, setting=setting, solver=solver), "run"):
        chosen = where(rows, setting=setting, solver=solver, run=number)
        times.append(min((row["seconds"] for row in chosen if row["snr_db"] >= level), default=np.inf))
    return float(np.median(times)) if times else np.inf


def relative_error(snr: Any) -> Any:
    """||x - estimate|| / ||x|| for an SNR in dB."""
    return 10 ** (-np.asarray(snr) / 20)
