"""Experiments of the paper, computed now, row by row."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...paper.contenders import contenders
from ...paper.experiments import experiments
from ...paper.rows import Row
from ...paper.run import attempt
from . import Progress, Sender
from .signal import prepared


@dataclass(frozen=True)
class Computed:
    """The rows of a task.

    Attributes
    ----------
    rows : list of Row
        The rows.
    """

    rows: list[Row]


def compute(send: Sender, name: str, methods: Sequence[str], runs: int, seconds: float) -> None:
    """Compute an experiment on random measurements, shorter than in the paper.

    Parameters
    ----------
    send : callable
        Gets the messages.
    name : str
        Name of the experiment.
    methods : sequence of str
        The solvers.
    runs : int
        Number of problems for each setting.
    seconds : float
        Time limit of a run.
    """
    experiment: Any = experiments(Path(), quick=True)[name]
    limits = {"runs": runs} if name == "beta" else {"runs": runs, "seconds": seconds}
    experiment = dataclasses.replace(experiment, **limits)
    chosen = [one for one in contenders() if one.name in methods]
    with prepared(send, {} if name == "beta" else {one.name: one.measurements for one in chosen}):
        tasks = list(experiment.tasks(chosen))
        for done, (key, arguments) in enumerate(tasks):
            setting, run, what = key.split("|")
            words = f"{setting}, problem {int(run)}, {'beta = ' if name == 'beta' else ''}{what}"
            send(Progress(words, done / len(tasks)))
            send(Computed(attempt(experiment, key, arguments)))
