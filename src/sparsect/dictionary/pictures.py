"""Pictures of the atoms of a dictionary of patches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ..backend.arrays import IntArray, NumpyArray, to_numpy
from ..backend.checks import choice, reject

if TYPE_CHECKING:
    from .store import Dictionary

SORTS = ("use", "frequency")
# Okabe-Ito colours, which colour-blind readers can distinguish.
TRAINING, HELD_OUT = "#0072B2", "#D55E00"


def atom_order(dictionary: Dictionary, sort: str | None = None) -> IntArray:
    """Sort the atoms of a dictionary of patches.

    Parameters
    ----------
    dictionary : Dictionary
        The dictionary.
    sort : {'use', 'frequency'}, optional
        Which atoms come first: those used most, or those of low mean frequency. The default is 'use' if that is known.

    Returns
    -------
    array of int, shape (n,)
        The numbers of the atoms.
    """
    if sort is None:
        sort = "frequency" if dictionary.usage is None else "use"
    if choice("sort", sort, SORTS) == "use":
        if dictionary.usage is None:
            raise reject("sort", "'use' for a dictionary that does not tell it", "'frequency'")
        return np.argsort(-dictionary.usage, kind="stable")
    patches = _patches(dictionary)
    power = np.sum(np.abs(np.fft.fft2(patches)) ** 2, axis=1)
    frequency = np.abs(np.fft.fftfreq(patches.shape[-1]))
    radius = np.hypot(frequency[:, None], frequency[None, :])
    return np.argsort((power * radius).sum(axis=(1, 2)) / power.sum(axis=(1, 2)), kind="stable")


def atom_tiles(dictionary: Dictionary, sort: str | None = None) -> NumpyArray:
    """Arrange all atoms side by side, with a dark line between them.

    Parameters
    ----------
    dictionary : Dictionary
        A dictionary of square patches, grey or in colour.
    sort : {'use', 'frequency'}, optional
        Which atoms come first, see :func:`atom_order`.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        One image of all atoms, row by row; each atom is scaled to values from -1 to 1.
    """
    patches = _patches(dictionary)
    count, channels, side, _ = patches.shape
    across = math.ceil(math.sqrt(1.6 * count))
    tiles = np.full((math.ceil(count / across) * (side + 1) + 1, across * (side + 1) + 1, channels), -1.0)
    for place, atom in enumerate(atom_order(dictionary, sort)):
        top, left = (1 + (side + 1) * part for part in divmod(place, across))
        scaled = patches[atom] / np.abs(patches[atom]).max()
        tiles[top : top + side, left : left + side] = np.moveaxis(scaled, 0, -1)
    return tiles if channels > 1 else tiles[..., 0]


def plot(dictionary: Dictionary, sort: str | None, axes: Any) -> Any:
    """Plot atoms, their use, and the error of each round, see :meth:`Dictionary.plot`.

    Parameters
    ----------
    dictionary : Dictionary
        The dictionary.
    sort : {'use', 'frequency'} or None
        Which atoms come first.
    axes : matplotlib.axes.Axes or None
        Where to plot the atoms, alone; None for a new figure of everything.

    Returns
    -------
    matplotlib.figure.Figure
        The figure.
    """
    tiles = atom_tiles(dictionary, sort)
    if axes is None:
        from matplotlib import pyplot

        panels = [
            panel
            for panel, known in ((draw_use, dictionary.usage is not None), (draw_errors, dictionary.rounds))
            if known
        ]
        height = 12 * tiles.shape[0] / tiles.shape[1]
        figure = pyplot.figure(figsize=(12, height + (2.6 if panels else 0)), layout="constrained")
        grid = figure.add_gridspec(
            1 + bool(panels), max(1, len(panels)), height_ratios=[height, 2.6][: 1 + bool(panels)]
        )
        axes = figure.add_subplot(grid[0, :])
        for place, panel in enumerate(panels):
            panel(figure.add_subplot(grid[1, place]), dictionary)
    if tiles.ndim == 2:
        axes.imshow(tiles, cmap="gray", vmin=-1, vmax=1, interpolation="nearest")
    else:
        axes.imshow((tiles + 1) / 2, interpolation="nearest")
    axes.set_axis_off()
    return axes.figure


def draw_use(axes: Any, dictionary: Dictionary) -> None:
    """Draw how often atoms are used, those used most first.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    dictionary : Dictionary
        The dictionary; its usage is known.
    """
    assert dictionary.usage is not None
    axes.plot(100 * np.sort(dictionary.usage)[::-1], color=TRAINING)
    axes.set(xlabel="atom", ylabel="signals that use it (%)", title="use of atoms", yscale="log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")


def draw_errors(axes: Any, dictionary: Dictionary) -> None:
    """Draw the error of each round.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Where to draw.
    dictionary : Dictionary
        The dictionary, with at least one round.
    """
    for name, label, colour in (("error", "training", TRAINING), ("validation_error", "held out", HELD_OUT)):
        if name in dictionary.rounds[0]:
            errors = [100 * numbers[name] for numbers in dictionary.rounds]
            axes.plot(
                range(1, len(errors) + 1), errors, color=colour, label=label, marker="." if len(errors) < 60 else ""
            )
    axes.set(xlabel="round", ylabel="relative error (%)", title="error of each round")
    axes.legend(fontsize=9)


def _patches(dictionary: Dictionary) -> NumpyArray:
    """Return the atoms as patches, shape (n, channels, side, side)."""
    side, Phi = dictionary.patch, to_numpy(dictionary.Phi)
    return Phi.T.reshape(Phi.shape[1], dictionary.channels, side, side)
