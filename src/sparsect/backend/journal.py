"""Journals: results of finished tasks, stored one by one, so that an interrupted run can be continued."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, TypeVar

from . import files
from .checks import reject, shown
from .locks import reserved
from .writing import append_text, check_writable, replacing

Value = TypeVar("Value")
# The name under which the first line holds the settings; it distinguishes a journal from other files.
HEAD = "sparsect journal"
ELSEWHERE = "Remove the file to start over, or write to another file."


class Journal(Generic[Value]):
    """Results of finished tasks in a file of JSON lines: first the settings, then the key and the result of each task.

    A line is appended when a task is finished. If the run is stopped or killed at any moment, only the last line can be
    incomplete, and it is left out.

    Parameters
    ----------
    path : str, path-like or None
        The file; its folder need not exist. None keeps the results in memory only.
    settings : dict
        The settings with which the results are computed. A file with results of other settings is refused.
    finished : callable
        Called with each result in the file. Returns the result, or None if the task must be repeated, and raises
        TypeError, KeyError or ValueError if it is not a valid result.

    Attributes
    ----------
    results : dict of str to object
        The results by the keys of their tasks.

    Raises
    ------
    InputError
        If the file is not a journal, is damaged, cannot be written, or holds results of other settings.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None,
        settings: dict[str, Any],
        finished: Callable[[Any], Value | None],
    ) -> None:
        self._path = None if path is None else Path(path)
        # As they are read from a file, where tuples are lists.
        self._settings: dict[str, Any] = json.loads(json.dumps(settings))
        self._finished = finished
        if self._path is not None:
            check_writable(self._path)
        self.results = self._read()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Reserve the file: within the block results can be added, and no other process can add any.

        Yields
        ------
        None
            Nothing; results are added with :meth:`add`.
        """
        with reserved(self._path):
            # Another process may have added results since the file was last read.
            self.results = self._read()
            if self._path is not None:
                # Without the incomplete line of an interrupted run, and without tasks that are repeated.
                entries = [{HEAD: self._settings}, *self.results.items()]
                with replacing(self._path) as temporary:
                    temporary.write_text("".join(map(_line, entries)), encoding="utf-8")
            yield

    def add(self, key: str, result: Value) -> None:
        """Store the result of a task.

        Parameters
        ----------
        key : str
            The key of the task.
        result : object
            Its result, which can be written as JSON.
        """
        if self._path is not None:
            append_text(self._path, _line((key, result)))
        self.results[key] = result

    def _read(self) -> dict[str, Value]:
        """Read the results of finished tasks; refuse a file that is not a journal with these settings."""
        lines = []
        if self._path is not None and self._path.exists():
            lines = files.read_text(self._path).splitlines(keepends=True)
        if not lines:
            return {}
        try:
            settings = dict(json.loads(lines[0])[HEAD])
        except (ValueError, KeyError, TypeError, RecursionError):
            raise reject(str(self._path), shown(lines[0].rstrip()), "a journal of finished tasks", ELSEWHERE) from None
        results: dict[str, Value] = {}
        for number, line in enumerate(lines[1:], start=2):
            # A last line without a line end was being written when the run was stopped.
            if not line.endswith("\n"):
                continue
            try:
                key, value = json.loads(line)
                result = self._finished(value)
                if not isinstance(key, str):
                    raise TypeError("keys are strings")
            except (ValueError, KeyError, TypeError, RecursionError):
                rule = f"hold the result of a task in line {number}"
                raise reject(str(self._path), shown(line.rstrip()), rule, "Remove that line to continue.") from None
            # The last result of a task counts.
            results.pop(key, None)
            if result is not None:
                results[key] = result
        other = [name for name in settings | self._settings if settings.get(name, ...) != self._settings.get(name, ...)]
        if results and other:
            received = f"other values of {', '.join(other)}"
            raise reject(str(self._path), received, "hold results of the same settings", ELSEWHERE)
        return results


def _line(entry: Any) -> str:
    return json.dumps(entry) + "\n"
