"""One tidy table per experiment, written as it is produced: a run that stops goes on where it was."""

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

Row = dict[str, Any]


class Rows:
    """``rows.csv`` in a folder: lines of finished tasks, each task known by its key.

    Parameters
    ----------
    folder : made if it is not there
    settings : what the rows are rows of; a folder that holds rows of something else is refused
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder, self._path, self._words = folder, folder / "rows.csv", json.dumps(settings, sort_keys=True)
        self._record = folder / "settings.json"
        files.check_writable(self._path)
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
        """Rows can be added within the block, while no other process can do so."""
        with files.reserved(self._path):
            # Another process may have added some before.
            self._read()
            with files.replacing(self._record) as temporary:
                temporary.write_text(self._words, encoding="utf-8")
            # What was written last may be half a task: only whole ones are kept.
            with files.replacing(self._path) as temporary:
                temporary.write_text("".join(_lines(key, rows) for key, rows in self._rows.items()), encoding="utf-8")
            yield

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def add(self, key: str, rows: list[Row]) -> None:
        """Keep the rows of one task."""
        files.append_text(self._path, _lines(key, rows))
        self._rows[key] = rows

    def ordered(self, keys: Iterable[str]) -> list[Row]:
        """Every row, tasks in the order of ``keys``, whatever the order in which they were done; others after them."""
        order = dict.fromkeys([*keys, *sorted(self._rows)])
        return [row for key in order for row in self._rows.get(key, ())]

    def export(self, rows: list[Row]) -> None:
        """Write the table as it is usually wanted: ``table.csv`` with a heading, and ``table.npz`` by columns."""
        names = list(dict.fromkeys(name for row in rows for name in row))
        with files.replacing(self.folder / "table.csv") as temporary, temporary.open("w", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(rows)
        files.write_npz(self.folder / "table.npz", {name: _column(row.get(name) for row in rows) for name in names})


def _lines(key: str, rows: list[Row]) -> str:
    """One line: the key and the rows of a task as JSON, so that a line is a task and half a line is none."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerow([key, json.dumps(rows)])
    return stream.getvalue()


def _finished(path: Path) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    # Nothing limits the rows of a task.
    csv.field_size_limit(2**31 - 1)
    lines = files.read_text(path).splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        # A last line without an end was being written when the last run stopped.
        if not line.endswith("\n"):
            continue
        key, rows = _task(line)
        if rows is None:
            raise InputError(f"{path}: damaged, line {number} holds no rows of a task; remove that line to go on")
        # What failed is tried again.
        if not any("failed" in row for row in rows):
            found[key] = rows
    return found


def _task(line: str) -> tuple[str, list[Row] | None]:
    """The key and the rows in a line of a file; None if it is not a line that :func:`_lines` makes."""
    try:
        key, words = next(csv.reader([line]))
        rows = json.loads(words)
    except (ValueError, RecursionError, csv.Error):
        return "", None
    return key, rows if isinstance(rows, list) and all(map(_is_row, rows)) else None


def _is_row(row: Any) -> bool:
    """Whether a value from a file is numbers and words by name, of which tables can be made."""
    return isinstance(row, dict) and all(isinstance(value, str | float | int | None) for value in row.values())


def _column(values: Iterable[Any]) -> np.ndarray[Any, Any]:
    column = list(values)
    if any(isinstance(value, str) for value in column):
        return np.array(["" if value is None else str(value) for value in column])
    return np.array([np.nan if value is None else value for value in column], dtype=np.float64)
