"""Experiments on photographs: the paper's table 1 with its difference images, and its gallery of four."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..dictionary import load_dictionary
from ..images import difference, resize, sample, to_gray, write_image
from ..images.patches import PatchGrid
from ..images.reconstruct import decibels
from ..operators.least_squares import refit
from ..problems import Problem
from ..run.loop import solve
from .contenders import Contender
from .rows import Row

Array = np.ndarray[Any, Any]

# The paper's photographs were 320x240 or 240x320.
LONGER, SHORTER = 320, 240


@dataclass(frozen=True)
class Reconstructions:
    """Every solver on photographs, patch by patch of 20x20, with a limit of seconds for each patch.

    All patches of a photograph are coded together, so a limit of t seconds a patch is one of t times their number for
    the photograph; the dictionary has been factored before.
    """

    name: str
    title: str
    images: tuple[str, ...]
    sparsities: tuple[int, ...]
    limits: tuple[float, ...]
    folder: Path
    max_iter: int = 3000
    timed: bool = True

    def tasks(self, contenders: list[Contender]) -> Iterator[tuple[str, Any]]:
        """Key and arguments of every task."""
        for image in self.images:
            for sparsity in self.sparsities:
                for contender in contenders:
                    yield f"{image}|{sparsity}|{contender.name}", (image, sparsity, contender)

    def compute(self, image: str, sparsity: int, contender: Contender) -> list[Row]:
        """Rows of one task: a run within each limit, its SNR plain and refitted; the last one also as pictures."""
        pixels = photograph(image)
        dictionary = load_dictionary()
        dictionary.operator.row_space, dictionary.operator.gram_matrix  # noqa: B018
        grid = PatchGrid(pixels.shape, dictionary.patch)
        everything = np.arange(grid.count)
        patches = grid.patches(pixels, everything)
        means = patches.mean(axis=1, keepdims=True)
        problem = Problem(dictionary.operator, patches - means, sparsity)
        rows, energy = [], float((problem.y**2).sum())
        for limit in self.limits:
            seconds = limit * problem.batch
            result = solve(problem, contender.images, max_iter=self.max_iter, max_seconds=seconds, record=())
            row: Row = {"image": image, "sparsity": sparsity, "solver": contender.name, "limit": limit}
            for name, code in (("snr_db", result.x), ("refitted_snr_db", refit(problem.operator, problem.y, result.x))):
                row[name] = decibels(energy, float(((problem.operator.forward(code) - problem.y) ** 2).sum()))
                if not np.isfinite(row[name]):
                    raise ArithmeticError("an estimate that is not a number")
            rows.append(row | {"ms_per_patch": 1e3 * result.seconds / problem.batch})
        whole = np.zeros_like(pixels)
        grid.add(whole, problem.operator.forward(result.x) + means, everything)
        whole /= grid.cover
        stem = self.folder / f"{image}-{sparsity}-{contender.name}"
        write_image(f"{stem}.png", whole)
        write_image(f"{stem}-difference.png", difference(pixels, whole))
        return rows


@lru_cache(maxsize=4)
def photograph(name: str) -> Array:
    """A sample, grey, cropped in the middle to 4:3 or 3:4 and scaled as in the paper."""
    pixels = to_gray(sample(name))
    height, width = pixels.shape
    upright = height > width
    pixels = pixels.T if upright else pixels
    height, width = pixels.shape
    across = min(width, height * LONGER // SHORTER)
    down = across * SHORTER // LONGER
    top, left = (height - down) // 2, (width - across) // 2
    scaled = resize(np.ascontiguousarray(pixels[top : top + down, left : left + across]), LONGER)
    return np.ascontiguousarray(scaled.T if upright else scaled)
