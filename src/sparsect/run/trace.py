"""Measures recorded during a run, and the clock, which stops while they are computed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..backend.arrays import Array, to_numpy
from ..backend.checks import choice, reject, shown, whole_number

# What can be recorded of any solver, besides its stopping criterion.
MEASURES = ("residual_norm", "converged", "support", "x")

Measure = Callable[[Any], Array]


class Clock:
    """A stopwatch that counts the time spent inside ``with clock.running()``.

    Attributes
    ----------
    seconds : float
        The time counted so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time of the ``with`` block.

        Yields
        ------
        None
            Nothing; the time is added to ``seconds`` when the block ends.
        """
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - start


class Trace:
    """The history of the selected measures at the selected iterations.

    Parameters
    ----------
    criterion : str
        The name of the solver's stopping criterion.
    record : iterable of str, mapping of str to callable, or None
        Names among ``MEASURES`` and ``criterion``, or a mapping from names to functions of a snapshot. None stands for
        the stopping criterion alone.
    record_at : int or iterable of int
        The interval between recorded iterations, or the iterations themselves.
    """

    def __init__(
        self, criterion: str, record: Iterable[str] | Mapping[str, Measure] | None, record_at: int | Iterable[int]
    ) -> None:
        self.measures: dict[str, Measure] = {}
        record = criterion if record is None else record
        names = [record] if isinstance(record, str) else _items(record)
        if names is None or not all(isinstance(name, str) for name in names):
            raise reject("record", shown(record), "names of measures, or a mapping from names to functions")
        for name in names:
            if name in ("iteration", "seconds"):
                raise reject("record", repr(name), "another name, since iteration and seconds are always recorded")
            given = record[name] if isinstance(record, Mapping) else None
            if given is None:
                choice("record", name, (criterion, *MEASURES))
            elif not callable(given):
                raise reject("record", f"{shown(given)} for {name!r}", "a function of a snapshot")
            self.measures[name] = given or _attribute("criterion" if name == criterion else name)
        self.period: int | None = None
        self.moments: list[int] = []
        moments = _items(record_at)
        if moments is None:
            self.period = whole_number("record_at", record_at, 1, sys.maxsize)
        else:
            self.moments = sorted({whole_number("record_at", moment, 1, sys.maxsize) for moment in moments})
        self.columns: dict[str, list[Any]] = {name: [] for name in ("iteration", "seconds", *self.measures)}

    def describe(self) -> str:
        """Return a one-line description of what is recorded and when.

        Returns
        -------
        str
            The description; it identifies the recording in a checkpoint.
        """
        return f"{sorted(self.measures)} at {self.period or self.moments}"

    def next_moment(self, iteration: int) -> int:
        """Return the next iteration to record.

        Parameters
        ----------
        iteration : int
            The current iteration.

        Returns
        -------
        int
            The first selected iteration after ``iteration``, or ``sys.maxsize`` if there is none.
        """
        if self.period is not None:
            return iteration - iteration % self.period + self.period if self.measures else sys.maxsize
        return next((moment for moment in self.moments if moment > iteration), sys.maxsize)

    def observe(self, snapshot: Any) -> None:
        """Record a snapshot if its iteration is selected and not yet in the history.

        Parameters
        ----------
        snapshot : Snapshot
            The current state of the run.
        """
        due = snapshot.iteration % self.period == 0 if self.period else snapshot.iteration in self.moments
        if not due or snapshot.iteration in self.columns["iteration"][-1:]:
            return
        row: dict[str, Any] = {name: to_numpy(measure(snapshot)) for name, measure in self.measures.items()}
        for name, value in row.items():
            first = self.columns[name][0] if self.columns[name] else value
            if value.dtype.kind not in "biufc" or value.shape != first.shape:
                received = f"{name!r} of {value.dtype} and shape {value.shape}"
                raise reject("record", received, "yield numbers, always of one shape")
        row |= {"iteration": snapshot.iteration, "seconds": snapshot.seconds}
        for name, value in row.items():
            self.columns[name].append(value)

    def history(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what has been recorded.

        Returns
        -------
        dict of str to array
            One array for each measure and for ``iteration`` and ``seconds``. The first axis of each array runs over
            the recorded iterations.
        """
        return {name: np.array(column) for name, column in self.columns.items()}

    def restore(self, history: Mapping[str, np.ndarray[Any, Any]]) -> None:
        """Replace the history by a saved one.

        Parameters
        ----------
        history : mapping of str to array
            What :meth:`history` returned.
        """
        for name in self.columns:
            self.columns[name] = list(history[name])


def _items(value: Any) -> list[Any] | None:
    """Return the items of an iterable, or None for a scalar, including an array without dimensions."""
    try:
        return list(value)
    except TypeError:
        return None


def _attribute(name: str) -> Measure:
    """Return a measure that reads an attribute of the snapshot."""

    def measure(snapshot: Any) -> Array:
        return getattr(snapshot, name)

    return measure
