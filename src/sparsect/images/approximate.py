"""The loop over the patches of an image: remove the means, code, and assemble the image from the codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..backend.arrays import Array, can_change, contiguous, from_numpy, is_numpy, namespace, to_numpy
from ..backend.devices import place, rows_at_a_time
from ..dictionary import Dictionary
from ..operators import Operator
from ..recover import recover
from ..run import Snapshot
from ..run.result import Result
from ..sets import SignalSet
from ..solvers.base import Solver
from .patches import BLOCK, PatchGrid, like_image, planes


@dataclass(frozen=True)
class CodedPatches:
    """A block of coded patches; each channel of a patch is approximated by its part of Phi x plus its mean.

    Attributes
    ----------
    signals : array, shape (rows, m)
        The patches with their means removed.
    means : array, shape (rows, channels)
        Mean of each patch, or of each channel if the atoms have colours.
    fits : array, shape (rows, m)
        Phi x for each patch.
    result : Result
        The codes x, and the time they took.
    """

    signals: Array
    means: Array
    fits: Array
    result: Result


class PartialPlane:
    """An image plane, or an image in colour, while its patches are coded.

    Parameters
    ----------
    totals : list of array, shape (height, width)
        The sums of all patches coded so far, one array for each channel.
    grid : PatchGrid
        Positions of the patches.
    later : list of tuple
        The means of each block that is not coded yet, shape (rows, channels), and the numbers of its patches.
    running : tuple, optional
        The dictionary's operator, the snapshot of the run that codes the current block, the means of its patches and
        their numbers; None if no patch is coded yet.
    """

    def __init__(
        self,
        totals: list[Array],
        grid: PatchGrid,
        later: list[tuple[Array, slice]],
        running: tuple[Operator, Snapshot, Array, slice] | None = None,
    ) -> None:
        self._totals, self._grid, self._later, self._running = totals, grid, later, running

    @cached_property
    def planes(self) -> list[Array]:
        """The planes, one for each channel; patches that are not coded yet are replaced by their means."""
        xp, side, found = namespace(self._totals[0]), self._grid.patch**2, []
        fits = None if self._running is None else self._running[0].forward(self._running[1].x)
        for number, total in enumerate(self._totals):
            shown = xp.asarray(total, copy=True)
            if self._running is not None and fits is not None:
                _, _, means, block = self._running
                part = fits[:, number * side : (number + 1) * side] + means[:, number : number + 1]
                self._grid.add(shown, part, block)
            for means, block in self._later:
                flat = xp.broadcast_to(means[:, number : number + 1], (means.shape[0], side))
                self._grid.add(shown, flat, block)
            found.append(shown / from_numpy(np.maximum(self._grid.cover, 1), shown))
        return found


def approximate(
    plane: Array,
    grid: PatchGrid,
    dictionary: Dictionary,
    solver: Solver,
    sparsity: int | SignalSet,
    *,
    report: Callable[[CodedPatches], object],
    callback: Callable[[PartialPlane, Snapshot], object] | None = None,
    seconds_per_patch: float | None = None,
    record: Iterable[str] = (),
    **options: Any,
) -> Array:
    """Approximate an image plane, or an image in colour, patch by patch; overlapping patches are averaged.

    Parameters
    ----------
    plane : array, shape (height, width) or (height, width, channels)
        The image plane; an image in colour if the atoms have colours.
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
    callback : callable, optional
        Called after every iteration with the current result and the snapshot of the run. If it returns True, the run of
        the current block stops.
    seconds_per_patch : float, optional
        Time limit per patch. A block is stopped after this time multiplied by the number of its patches.
    record : iterable of str, optional
        The measures recorded in the result of each block.
    **options : Any
        Other options of :func:`sparsect.recover`.

    Returns
    -------
    array, shape of ``plane``
        The approximation, zero where no patch lies.
    """
    xp, operator = namespace(plane), dictionary.operator
    channels = [contiguous(channel) for channel in planes(plane)]
    totals = [xp.zeros_like(channel) for channel in channels]
    blocks = list(grid.blocks(rows_at_a_time(plane, operator.shape, BLOCK)))
    for number_of_block, block in enumerate(blocks):
        patches = [grid.patches(channel, block) for channel in channels]
        averages = [xp.mean(part, axis=1, keepdims=True) for part in patches]
        signals = xp.concat([part - mean for part, mean in zip(patches, averages, strict=True)], axis=1)
        means = xp.concat(averages, axis=1)
        limit = None if seconds_per_patch is None else seconds_per_patch * signals.shape[0]
        if callback is not None:
            later = patch_means(channels, grid, blocks[number_of_block + 1 :])

            def watch(snapshot: Snapshot, means: Array = means, block: slice = block, later: Any = later) -> object:
                return callback(PartialPlane(totals, grid, later, (operator, snapshot, means, block)), snapshot)

            options["callback"] = watch
        result = recover(
            operator, signals, sparsity, solver, max_seconds=limit, record=record, check_fit=False, **options
        )
        fits = operator.forward(result.x)
        for number, total in enumerate(totals):
            part = fits[:, number * grid.patch**2 : (number + 1) * grid.patch**2] + means[:, number : number + 1]
            grid.add(total, part, block)
        report(CodedPatches(signals, means, fits, result))
    cover = from_numpy(np.maximum(grid.cover, 1), plane)
    return like_image([total / cover for total in totals], plane)


def patch_means(channels: list[Array], grid: PatchGrid, blocks: Iterable[slice]) -> list[tuple[Array, slice]]:
    """Compute the means of patches that are not coded yet.

    Parameters
    ----------
    channels : list of array, shape (height, width)
        The planes of the image.
    grid : PatchGrid
        Positions of the patches.
    blocks : iterable of slice
        Numbers of the patches of each block.

    Returns
    -------
    list of tuple
        For each block, the means, shape (rows, channels), and the numbers of its patches.
    """
    xp = namespace(channels[0])
    return [
        (xp.stack([xp.mean(grid.patches(channel, block), axis=1) for channel in channels], axis=1), block)
        for block in blocks
    ]


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
