"""Run experiments: skip what is done, keep what comes, show a failed solver in its row and go on."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from typing import Any

from ..backend.checks import ConvergenceWarning
from ..backend.processes import processes
from .contenders import Contender
from .rows import Row, Rows

# Told: the experiment, what is being done, tasks done and all of them.
Watcher = Callable[[str, str, int, int], None]


def run(experiment: Any, rows: Rows, contenders: list[Contender], watch: Watcher | None = None) -> list[Row]:
    """Compute the tasks that ``rows`` does not hold yet; all rows, in order.

    Where time is measured tasks run one after the other and alone, with all cores; elsewhere side by side, one process
    for each core.
    """
    tasks = dict(experiment.tasks(contenders))
    with rows.writing():
        waiting = {key: arguments for key, arguments in tasks.items() if key not in rows}
        done = len(tasks) - len(waiting)
        for key, result in (_one_by_one if experiment.timed else _side_by_side)(experiment, waiting):
            if watch is not None:
                watch(experiment.name, key.replace("|", ", "), done, len(tasks))
            if result is not None:
                rows.add(key, result)
                done += 1
        table = rows.ordered(tasks)
        rows.export(table)
    return table


def _one_by_one(experiment: Any, waiting: dict[str, Any]) -> Iterator[tuple[str, list[Row] | None]]:
    for key, arguments in waiting.items():
        yield key, None
        yield key, attempt(experiment, key, arguments)


def _side_by_side(experiment: Any, waiting: dict[str, Any]) -> Iterator[tuple[str, list[Row] | None]]:
    if not waiting:
        return
    with processes() as pool:
        submitted = {pool.submit(attempt, experiment, key, arguments): key for key, arguments in waiting.items()}
        for future in as_completed(submitted):
            yield submitted[future], future.result()


def attempt(experiment: Any, key: str, arguments: Any) -> list[Row]:
    """The rows of a task, or one row that says why there are none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows: list[Row] = experiment.compute(*arguments)
            return rows
    except Exception as error:
        first, *_, last = key.split("|")
        return [{"setting": first, "image": first, "solver": last, "failed": f"{type(error).__name__}: {error}"}]
