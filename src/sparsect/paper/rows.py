"""The rows of an experiment, written as they are computed, so that an interrupted run can be continued."""

from __future__ import annotations

import contextlib
import csv
import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..backend import files
from ..backend.checks import InputError
from ..backend.locks import reserved
from ..backend.writing import append_text, check_writable, replacing

Row = dict[str, Any]


class Rows:
    """The file ``rows.csv`` in a folder, which holds the rows of finished tasks by the key of each task.

    Parameters
    ----------
    folder : Path
        The folder; it is created if it does not exist.
    settings : dict
        Settings of the experiment. A folder with rows of other settings is refused.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self._path, self._words = folder, folder / "rows.csv", json.dumps(settings, sort_keys=True)
        self._record = folder / "settings.json"
        check_writable(self._path)
        self._rows: dict[str, list[Row]] = {}
        self._read()

    def _read(self) -> None:
        if self._record.exists() and files.read_text(self._record) != self._words:
            raise InputError(
                f"{self.folder}: holds rows of an experiment with other settings; remove it or give another --out"
            )
        if self._path.exists():
            self._rows = _finished(self._path)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Reserve the file: within the block rows can be added, and no other process can add any.

        Yields
        ------
        None
            Nothing; rows are added with :meth:`add`.
        """
        with reserved(self._path):
            # Another process may have added rows since the file was last read.
            self._read()
            with replacing(self._record) as temporary:
                temporary.write_text(self._words, encoding="utf-8")
            # The last line may be incomplete if a run was interrupted: only complete tasks are kept.
            with replacing(self._path) as temporary:
                temporary.write_text("".join(_lines(key, rows) for key, rows in self._rows.items()), encoding="utf-8")
            yield

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def add(self, key: str, rows: list[Row]) -> None:
        """Store the rows of a task.

        Parameters
        ----------
        key : str
            Key of the task.
        rows : list of Row
            Its rows.
        """
        append_text(self._path, _lines(key, rows))
        self._rows[key] = rows

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
        order = dict.fromkeys([*keys, *sorted(self._rows)])
        return [row for key in order for row in self._rows.get(key, ())]

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


def _lines(key: str, rows: list[Row]) -> str:
    """Format a task as one line, the key and the rows as JSON, so that an incomplete line is an incomplete task."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([key, json.dumps(rows)])
    return stream.getvalue()


def _finished(path: Path) -> dict[str, list[Row]]:
    """Read the rows of all finished tasks from a file."""
    found: dict[str, list[Row]] = {}
    # A task may have any number of rows, and the default limit of a field is 128 KiB.
    csv.field_size_limit(2**31 - 1)
    lines = files.read_text(path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        # A last line without a line end was being written when the run was interrupted.
        if not line.endswith("\n"):
            continue
        key, rows = _task(line)
        if rows is None:
            raise InputError(f"{path}: damaged, line {number} holds no rows of a task; remove that line to go on")
        # Failed tasks are left out, so that they are tried again.
        if not any("failed" in row for row in rows):
            found[key] = rows
    return found


def _task(line: str) -> tuple[str, list[Row] | None]:
    """Read key and rows from a line; rows are None if the line is not in the format of :func:`_lines`."""
    try:
        key, words = next(csv.reader([line]))
        rows = json.loads(words)
    except (ValueError, RecursionError, csv.Error):
        return "", None
    return key, rows if isinstance(rows, list) and all(map(_is_row, rows)) else None


def _is_row(row: Any) -> bool:
    """Whether a value from a file is a dict of numbers and strings, as tables need it."""
    return isinstance(row, dict) and all(isinstance(value, str | float | int | None) for value in row.values())


def _column(values: Iterable[Any]) -> np.ndarray[Any, Any]:
    """Convert a column to an array of strings or floats; missing values are empty strings or NaN."""
    column = list(values)
    if any(isinstance(value, str) for value in column):
        return np.array(["" if value is None else str(value) for value in column])
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
