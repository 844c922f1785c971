"""The loop over the patches of an image plane: remove the means, code, and assemble the plane from the codes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..backend.arrays import Array, can_change, contiguous, from_numpy, is_numpy, namespace, to_numpy
from ..backend.devices import place, rows_at_a_time
from ..dictionary import Dictionary
from ..recover import recover
from ..run.result import Result
from ..sets import SignalSet
from ..solvers.base import Solver
from .patches import BLOCK, PatchGrid


@dataclass(frozen=True)
class CodedPatches:
    """A block of coded patches; each patch is approximated by Phi x plus its mean.

    Attributes
    ----------
    signals : array, shape (rows, m)
        The patches with their means removed.
    means : array, shape (rows, 1)
        Mean of each patch.
    fits : array, shape (rows, m)
        Phi x for each patch.
    result : Result
        The codes x, and the time they took.
    """

    signals: Array
    means: Array
    fits: Array
    result: Result


def approximate(
    plane: Array,
    grid: PatchGrid,
    dictionary: Dictionary,
    solver: Solver,
    sparsity: int | SignalSet,
    *,
    report: Callable[[CodedPatches], object],
    seconds_per_patch: float | None = None,
    **options: Any,
) -> Array:
    """Approximate an image plane patch by patch; overlapping patches are averaged.

    Parameters
    ----------
    plane : array, shape (height, width)
        The image plane.
    grid : PatchGrid
        Positions of the patches.
    dictionary : Dictionary
        The dictionary, in the array library and on the device of the plane.
    solver : Solver
        The solver that codes.
    sparsity : int or SignalSet
        Maximum number of atoms per patch, or the set that contains the codes.
    report : callable
        Called with the :class:`CodedPatches` of each block.
    seconds_per_patch : float, optional
        Time limit per patch. A block is stopped after this time multiplied by the number of its patches.
    **options : Any
        Other options of :func:`sparsect.recover`.

    Returns
    -------
    array, shape (height, width)
        The approximation, zero where no patch lies.
    """
    xp, operator, plane = namespace(plane), dictionary.operator, contiguous(plane)
    total = xp.zeros_like(plane)
    for block in grid.blocks(rows_at_a_time(plane, operator.shape, BLOCK)):
        patches = grid.patches(plane, block)
        means = xp.mean(patches, axis=1, keepdims=True)
        signals = patches - means
        limit = None if seconds_per_patch is None else seconds_per_patch * signals.shape[0]
        result = recover(operator, signals, sparsity, solver, max_seconds=limit, record=(), check_fit=False, **options)
        fits = operator.forward(result.x)
        grid.add(total, fits + means, block)
        report(CodedPatches(signals, means, fits, result))
    return total / from_numpy(np.maximum(grid.cover, 1), plane)


def placed(image: Array, dictionary: Dictionary, device: str | None = None) -> tuple[Array, Dictionary]:
    """Bring an image and a dictionary to one array library and device.

    Parameters
    ----------
    image : array
        The image, or one plane of it.
    dictionary : Dictionary
        The dictionary.
    device : str, optional
        Where to compute, see :func:`sparsect.backend.devices.place`. The default is the device of the image or, for a
        NumPy image, of the dictionary.

    Returns
    -------
    image : array
        The image there.
    dictionary : Dictionary
        The dictionary there.
    """
    if device is None and is_numpy(namespace(image)) and can_change(dictionary.Phi):
        image = from_numpy(to_numpy(image), dictionary.Phi)
    else:
        image = place(image, device)
    return image, dictionary.placed_like(image)


def counted(progress: Callable[[int, int], object] | None, total: int) -> Callable[[CodedPatches], None]:
    """Report the number of coded patches, for use as ``report`` of one or several calls of :func:`approximate`.

    Parameters
    ----------
    progress : callable or None
        Called as ``progress(done, total)`` after each block.
    total : int
        Number of all patches.

    Returns
    -------
    callable
        A function of a block of coded patches.
    """
    done = 0

    def report(part: CodedPatches) -> None:
        nonlocal done
        done += part.signals.shape[0]
        if progress is not None:
            progress(done, total)

    return report
