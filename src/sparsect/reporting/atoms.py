"""The page about a dictionary: its atoms, their use, the error of each round, and where it is from."""

from __future__ import annotations

import re

import numpy as np

from ..backend.arrays import Array
from ..dictionary import Dictionary
from ..dictionary.pictures import atom_tiles, draw_errors, draw_use
from .page import Page
from .plots import new_figure

# The least width in pixels of the picture of all atoms, so that each one can be seen.
WIDEST = 1600
# A setting in the text of a call, whose value may be a call itself.
SETTING = re.compile(r"(\w+)=((?:[^,()]|\([^()]*\))+)")


def page(name: str, dictionary: Dictionary, sort: str | None = None) -> Page:
    """Make the page about a dictionary of patches.

    Parameters
    ----------
    name : str
        Name of the dictionary, for the title.
    dictionary : Dictionary
        The dictionary.
    sort : {'use', 'frequency'}, optional
        Which atoms come first, see :meth:`sparsect.Dictionary.plot`.

    Returns
    -------
    Page
        The page, not yet written.
    """
    side, n = dictionary.patch, dictionary.Phi.shape[1]
    colour = "x3" if dictionary.channels > 1 else ""
    document = Page(f"{name}: {n} atoms of {side}x{side}{colour} pixels")
    first = "use" if sort is None and dictionary.usage is not None else sort or "frequency"
    order = {"use": "those used most first", "frequency": "low frequencies first"}[first]
    document.text(f"All atoms, {order}, row by row, each one scaled to the range from black to white.")
    document.picture(f"{n} atoms", atom_picture(dictionary, sort))
    for heading, caption, draw, known in (
        (
            "Use of atoms",
            "Share of the signals that use each atom, those used most first.",
            draw_use,
            dictionary.usage is not None,
        ),
        (
            "Error of each round",
            "Relative error of the codes after each round of learning." + _on_fewer_nonzeros(dictionary.rounds),
            draw_errors,
            bool(dictionary.rounds),
        ),
    ):
        if known:
            figure = new_figure((5.4, 3.2))
            axes = figure.add_subplot()
            draw(axes, dictionary)
            axes.set_title("")
            document.section(heading)
            document.chart(caption, caption, figure)
    if dictionary.provenance:
        document.section("Where it is from")
        # The settings of mini-batches are stored as they are written in Python.
        entries = {"sparsity": dictionary.sparsity}
        entries |= {"settings" if key == "online" else key: value for key, value in dictionary.provenance.items()}
        rows = [[key.replace("_", " "), _words(value)] for key, value in entries.items() if value is not None]
        document.table(["entry", "value"], rows, words=True)
    return document


def _on_fewer_nonzeros(rounds: list[dict[str, float]]) -> str:
    """Explain the first training errors where mini-batches were coded with fewer nonzeros than later signals."""
    if not rounds or not rounds[0].get("remembered") or rounds[0]["nonzeros"] >= rounds[-1]["nonzeros"]:
        return ""
    return " Codes of training signals have fewer nonzeros in early rounds: their error is larger, and falls in steps."


def _words(value: object) -> str:
    """Write a value for readers: the entries of a dict, and the other settings of ``Online(...)`` that are in use."""
    if isinstance(value, str) and value.startswith("Online("):
        value = {name: each for name, each in SETTING.findall(value) if each not in ("None", "False")}
        value.pop("sparsity", None)
    if not isinstance(value, dict):
        return str(value)
    return ", ".join(f"{name.replace('_', ' ')} {each}" for name, each in value.items())


def atom_picture(dictionary: Dictionary, sort: str | None = None) -> Array:
    """Draw all atoms side by side, large enough that each one can be seen.

    Parameters
    ----------
    dictionary : Dictionary
        A dictionary of square patches.
    sort : {'use', 'frequency'}, optional
        Which atoms come first, see :meth:`sparsect.Dictionary.plot`.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The picture, with values from 0 to 1.
    """
    tiles = (atom_tiles(dictionary, sort) + 1) / 2
    scale = max(1, round(WIDEST / tiles.shape[1]))
    enlarged: Array = np.repeat(np.repeat(tiles, scale, axis=0), scale, axis=1)
    return enlarged
