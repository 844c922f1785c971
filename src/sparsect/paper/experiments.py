"""The list of experiments: each figure and table of the paper as data, at full length and in a quick version."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .measurements import ErrorAgainstTime, RangeOfBeta, Setting
from .photographs import Reconstructions

# The grid of the paper's first search, with both signs.
BETAS = tuple(round(step / 10, 1) for step in range(-12, 13) if step)


def experiments(folder: Path, quick: bool = False) -> dict[str, Any]:
    """List all experiments.

    Parameters
    ----------
    folder : Path
        Where results are written; pictures of an experiment on photographs go to a subfolder with its name.
    quick : bool, optional
        Whether to use few runs and short times.

    Returns
    -------
    dict of str to experiment
        Each experiment (:class:`ErrorAgainstTime`, :class:`RangeOfBeta` or :class:`Reconstructions`) by its name.
    """
    length: dict[str, Any] = {"runs": 2, "seconds": 1.0} if quick else {}
    at_20_db = [Setting(400, 1000, s, 20.0) for s in (50, 100, 150)]
    timed = [
        ErrorAgainstTime("vary-sparsity", "Figure 1: sparsity", tuple(at_20_db), **length),
        ErrorAgainstTime(
            "vary-noise",
            "Figure 2: noise",
            tuple(Setting(400, 1000, 150, noise) for noise in (30.0, 20.0, 10.0)),
            **length,
        ),
        ErrorAgainstTime(
            "vary-size",
            "Figure 3: size, one nonzero in three",
            (Setting(160, 200, 67, 20.0), Setting(400, 500, 167, 20.0), Setting(800, 1000, 333, 20.0)),
            **length,
        ),
    ]
    few: dict[str, Any] = {"runs": 1, "max_iter": 300} if quick else {}
    betas = RangeOfBeta(
        "beta",
        "The range of beta",
        (Setting(400, 1000, 100, 20.0), Setting(400, 1000, 150, 20.0), Setting(400, 500, 167, 20.0)),
        BETAS[1::2] if quick else BETAS,
        **few,
    )
    limits = (0.01, 0.02) if quick else (0.05, 0.1)
    photographs = [
        Reconstructions(
            "photograph",
            "Table 1 and figure 5: one photograph",
            ("chelsea",),
            (100, 200),
            limits,
            folder / "photograph",
        ),
        Reconstructions(
            "gallery",
            "Figure 6: four photographs",
            ("astronaut", "camera", "coffee", "rocket"),
            (200,),
            limits[-1:],
            folder / "gallery",
        ),
    ]
    listed: list[Any] = [*timed, betas, *photographs]
    return {experiment.name: experiment for experiment in listed}
