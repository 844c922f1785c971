"""Run experiments: finished tasks are skipped, new rows are stored, and a failed task is reported in a row."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import as_completed
from typing import Any

from ..backend.checks import ConvergenceWarning
from ..backend.processes import processes
from .contenders import Contender
from .rows import Row, Rows

# Called with the name of the experiment, the current task, the number of finished tasks and of all tasks.
Watcher = Callable[[str, str, int, int], None]


def run(experiment: Any, rows: Rows, contenders: list[Contender], watch: Watcher | None = None) -> list[Row]:
    """Compute the tasks of an experiment that are not finished yet.

    Where time is measured, tasks run one after the other, each with all cores; elsewhere they run in parallel, with one
    process for each core.

    Parameters
    ----------
    experiment : experiment
        An experiment from :func:`experiments`.
    rows : Rows
        Rows of finished tasks, to which those of new tasks are added.
    contenders : list of Contender
        The solvers that take part.
    watch : callable, optional
        Called with the name of the experiment, the current task, the number of finished tasks and of all tasks.

    Returns
    -------
    list of Row
        All rows, in the order of the tasks.
    """
    tasks = dict(experiment.tasks(contenders))
    with rows.writing():
        waiting = {key: arguments for key, arguments in tasks.items() if key not in rows.results}
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
    """Compute tasks one after the other; yield each key with None before the task, and with its rows after it."""
    for key, arguments in waiting.items():
        yield key, None
        yield key, attempt(experiment, key, arguments)


def _side_by_side(experiment: Any, waiting: dict[str, Any]) -> Iterator[tuple[str, list[Row] | None]]:
    """Compute tasks in parallel; yield each key with its rows when the task is finished."""
    if not waiting:
        return
    with processes() as pool:
        submitted = {pool.submit(attempt, experiment, key, arguments): key for key, arguments in waiting.items()}
        for future in as_completed(submitted):
            yield submitted[future], future.result()


def attempt(experiment: Any, key: str, arguments: Any) -> list[Row]:
    """Compute a task; an exception is reported in a row instead of being raised.

    Parameters
    ----------
    experiment : experiment
        The experiment.
    key : str
        Key of the task.
    arguments : tuple
        Arguments of the experiment's ``compute``.

    Returns
    -------
    list of Row
        The rows of the task, or one row with the reason under "failed".
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            rows: list[Row] = experiment.compute(*arguments)
            return rows
    except Exception as error:
        first, *_, last = key.split("|")
        return [{"setting": first, "image": first, "solver": last, "failed": f"{type(error).__name__}: {error}"}]
