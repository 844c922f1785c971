"""Experiments on photographs: table 1 of the paper with its difference images, and its gallery of four photographs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.arrays import FloatArray
from ..dictionary import load_dictionary
from ..images import difference, resize, sample, to_gray, write_image
from ..images.approximate import CodedPatches, approximate
from ..images.patches import PatchGrid
from ..images.reconstruct import decibels
from ..operators.least_squares import refit
from .contenders import Contender
from .rows import Row

# The paper's photographs were 320x240 or 240x320.
LONGER, SHORTER = 320, 240


@dataclass(frozen=True)
class Reconstructions:
    """The SNR that every solver reaches on photographs, cut into patches of 20x20, within a time limit per patch.

    All patches of a photograph are coded together, so a limit of t seconds per patch allows t times the number of
    patches for the photograph. The dictionary is factored before the time starts.

    Parameters
    ----------
    name : str
        Name of the experiment.
    title : str
        Title in the report.
    images : tuple of str
        Names of sample photographs.
    sparsities : tuple of int
        Numbers of atoms allowed for each patch.
    limits : tuple of float
        Time limits in seconds per patch.
    folder : Path
        Where pictures are written.
    max_iter : int, optional
        Limit of the iterations.
    timed : bool, optional
        Whether time is measured, so that tasks must run one after the other.
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
        """List the tasks.

        Parameters
        ----------
        contenders : list of Contender
            The solvers that take part.

        Yields
        ------
        key : str
            Name of the task.
        arguments : tuple
            Arguments of :meth:`compute`.
        """
        for image in self.images:
            for sparsity in self.sparsities:
                for contender in contenders:
                    yield f"{image}|{sparsity}|{contender.name}", (image, sparsity, contender)

    def compute(self, image: str, sparsity: int, contender: Contender) -> list[Row]:
        """Code a photograph with one solver within each time limit, and write pictures of the last result.

        Parameters
        ----------
        image : str
            Name of a sample photograph.
        sparsity : int
            Number of atoms allowed for each patch.
        contender : Contender
            The solver.

        Returns
        -------
        list of Row
            A row for each limit, with the SNR before and after a least-squares refit.
        """
        pixels = photograph(image)
        dictionary = load_dictionary("paper")
        operator, grid = dictionary.operator, PatchGrid(pixels.shape, dictionary.patch)
        operator.pseudo_inverse, operator.gram_matrix  # noqa: B018
        rows = []
        for limit in self.limits:
            parts: list[CodedPatches] = []
            limits: dict[str, Any] = {"max_iter": self.max_iter, "seconds_per_patch": limit}
            whole = approximate(pixels, grid, dictionary, contender.images, sparsity, report=parts.append, **limits)
            # A photograph of this size is one block.
            (part,) = parts
            refitted = operator.forward(refit(operator, part.signals, part.result.x))
            row: Row = {"image": image, "sparsity": sparsity, "solver": contender.name, "limit": limit}
            for name, fits in (("snr_db", part.fits), ("refitted_snr_db", refitted)):
                row[name] = decibels(float((part.signals**2).sum()), float(((fits - part.signals) ** 2).sum()))
                if not np.isfinite(row[name]):
                    raise ArithmeticError("an estimate that is not a number")
            rows.append(row | {"ms_per_patch": 1e3 * part.result.seconds / grid.count})
        stem = self.folder / f"{image}-{sparsity}-{contender.name}"
        # A poor estimate may be far outside of this range.
        write_image(f"{stem}.png", np.clip(whole, 0, 1))
        write_image(f"{stem}-difference.png", difference(pixels, whole))
        return rows


@lru_cache(maxsize=4)
def photograph(name: str) -> FloatArray:
    """Return a sample photograph in grey, cropped around its centre to 4:3 or 3:4 and scaled as in the paper.

    Parameters
    ----------
    name : str
        Name of the sample.

    Returns
    -------
    array, shape (240, 320) or (320, 240)
        The pixels.
    """
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
