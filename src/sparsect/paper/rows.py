"""The rows of an experiment, stored as they are computed, and exported as tables."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import files
from ..backend.arrays import NumpyArray
from ..backend.journal import Journal
from ..backend.writing import replacing

Row = dict[str, Any]


class Rows(Journal[list[Row]]):
    """The file ``rows.jsonl`` in a folder, which holds the rows of finished tasks by the key of each task.

    Parameters
    ----------
    folder : Path
        The folder; it is created if it does not exist.
    settings : dict
        Settings of the experiment. A folder with rows of other settings is refused.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        super().__init__(folder / "rows.jsonl", settings, _finished)

    def ordered(self, keys: Iterable[str]) -> list[Row]:
        """Return all rows in a given order of tasks, which need not be the order of computation.

        Parameters
        ----------
        keys : iterable of str
            Keys of tasks, in order; all other tasks follow, sorted by key.

        Returns
        -------
        list of Row
            The rows.
        """
        order = dict.fromkeys([*keys, *sorted(self.results)])
        return [row for key in order for row in self.results.get(key, ())]

    def export(self, rows: list[Row]) -> None:
        """Write rows to ``table.csv``, with a heading, and to ``table.npz``, with an array for each column.

        Parameters
        ----------
        rows : list of Row
            The rows.
        """
        names = list(dict.fromkeys(name for row in rows for name in row))
        with replacing(self.folder / "table.csv") as temporary, temporary.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)
        files.write_npz(self.folder / "table.npz", {name: _column(row.get(name) for row in rows) for name in names})


def _finished(rows: Any) -> list[Row] | None:
    """Check the rows of a task from a file; those of failed tasks are left out, so that they are tried again."""
    if not isinstance(rows, list) or not all(map(_is_row, rows)):
        raise TypeError("rows are dicts of numbers and strings")
    return None if any("failed" in row for row in rows) else rows


def _is_row(row: Any) -> bool:
    """Whether a value from a file is a dict of numbers and strings, as tables need it."""
    return isinstance(row, dict) and all(isinstance(value, str | float | int | None) for value in row.values())


def _column(values: Iterable[Any]) -> NumpyArray:
    """Convert a column to an array of strings or floats; missing values are empty strings or NaN."""
    column = list(values)
    if any(isinstance(value, str) for value in column):
        return np.array(["" if value is None else str(value) for value in column])
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
