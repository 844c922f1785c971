"""Colours, markers and lines of figures and pages: a method looks the same everywhere, on light and on dark paper."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

# Each colour on light and on dark paper. All have a contrast of at least 3 with the paper, and any two can be told
# apart with every common kind of colour blindness.
COLOURS = {
    "vermilion": ("#d55e00", "#f07030"),
    "blue": ("#0072b2", "#4ba3e3"),
    "teal": ("#10a496", "#42e0a9"),
    "lavender": ("#a67fe3", "#cabaff"),
    "amber": ("#694303", "#ffbb37"),
    "indigo": ("#4220ba", "#7a5cf5"),
    "ink": ("#1b1b1b", "#f2f2f2"),
    "magenta": ("#a71370", "#be3d85"),
}
# What pages are made of, on light and on dark paper: background, rules, panels, secondary text, links, and shadows.
PAGE = {
    "paper": ("#ffffff", "#16181a"),
    "line": ("#d5d5d5", "#3a3d40"),
    "soft": ("#f4f4f2", "#1f2225"),
    "faint": ("#5c5f62", "#a3a7ab"),
    "best": ("#00618f", "#6cc1ee"),
    "shade": ("#b5b5b5", "#5c6064"),
}
# What is wider than the page is scrolled; a shadow at an edge tells that there is more beyond it.
SCROLLED = """
.wide { overflow-x: auto;
  background: linear-gradient(to right, var(--paper) 40%, transparent) 0 0 / 2.5rem 100% no-repeat local,
  linear-gradient(to left, var(--paper) 40%, transparent) 100% 0 / 2.5rem 100% no-repeat local,
  linear-gradient(to right, var(--shade), transparent) 0 0 / 1rem 100% no-repeat scroll,
  linear-gradient(to left, var(--shade), transparent) 100% 0 / 1rem 100% no-repeat scroll; }
"""
# Outlines of the markers, centred at 0 and about 2 wide, by Matplotlib's names; SVG paths.
MARKERS = {
    "o": "M-1 0a1 1 0 1 0 2 0a1 1 0 1 0-2 0z",
    "s": "M-.9-.9H.9V.9H-.9z",
    "D": "M0-1.2L1.2 0L0 1.2L-1.2 0z",
    "^": "M0-1.1L1.1.9H-1.1z",
    "v": "M0 1.1L1.1-.9H-1.1z",
    "P": "M-.4-1.1H.4V-.4H1.1V.4H.4V1.1H-.4V.4H-1.1V-.4H-.4z",
    "X": "M-.6-1.1L0-.5L.6-1.1L1.1-.6L.5 0L1.1.6L.6 1.1L0 .5L-.6 1.1L-1.1.6L-.5 0L-1.1-.6z",
    "*": "M0-1.3L.32-.44L1.24-.4L.52.17L.76 1.05L0 .54L-.76 1.05L-.52.17L-1.24-.4L-.32-.44z",
    "<": "M-1.1 0L.9-1.1V1.1z",
    ">": "M1.1 0L-.9-1.1V1.1z",
    "p": "M0-1.15L1.09-.36L.68.93H-.68L-1.09-.36z",
    "h": "M0-1.15L1-.58V.58L0 1.15L-1 .58V-.58z",
}
# Dashes of lines, in multiples of their width.
SOLID, DASHED, DOTTED = (), (4.0, 1.6), (1.0, 1.6)


@dataclass(frozen=True)
class Look:
    """How a method is drawn.

    Attributes
    ----------
    colour : str
        Name of the colour, a key of ``COLOURS``.
    marker : str
        Name of the marker, a key of ``MARKERS``.
    filled : bool
        Whether the marker is filled; otherwise only its outline is drawn.
    dashes : tuple of float
        Lengths of dashes and gaps of the line, in multiples of its width; none for a solid line.
    """

    colour: str
    marker: str
    filled: bool = True
    dashes: tuple[float, ...] = SOLID

    @property
    def light(self) -> str:
        """The colour on light paper, as in ``#0072b2``."""
        return COLOURS[self.colour][0]

    @property
    def dark(self) -> str:
        """The colour on dark paper."""
        return COLOURS[self.colour][1]

    @property
    def css(self) -> str:
        """The colour in a style sheet with :func:`variables`, as in ``var(--blue)``."""
        return f"var(--{self.colour})"

    def line(self) -> dict[str, Any]:
        """Return the line style for Matplotlib, on light paper.

        Returns
        -------
        dict
            Keyword arguments for Matplotlib's ``plot``.
        """
        return {
            "color": self.light,
            "linestyle": (0, self.dashes) if self.dashes else "-",
            "marker": self.marker,
            "markerfacecolor": self.light if self.filled else "white",
        }


# Methods that share a colour are relatives or rarely compared; they differ in marker and line.
LOOKS = {
    "difference-map": Look("vermilion", "o"),
    "annealed-difference-map": Look("blue", "s"),
    "admm": Look("teal", "D"),
    "irls": Look("lavender", "^"),
    "omp": Look("amber", "v"),
    "aiht": Look("indigo", "P"),
    "subspace-pursuit": Look("ink", "X"),
    "lars": Look("magenta", "*"),
    "alternating-map": Look("vermilion", "^", False, DASHED),
    "auto": Look("blue", "o", False, DASHED),
    "support-sampler": Look("teal", "s", False, DASHED),
    "vamp": Look("lavender", "v", False, DASHED),
    "ormp": Look("amber", "D", False, DASHED),
    "niht": Look("indigo", "X", False, DASHED),
    "stomp": Look("ink", "*", False, DASHED),
}
# Markers of methods that are not in the package.
OTHERS = "<>ph"


def look(method: str) -> Look:
    """Return how a method is drawn.

    Parameters
    ----------
    method : str
        Name of the method. A method that is not in the package gets a dotted line, one of four markers that no method
        of the package has, and a colour; both follow from its name.

    Returns
    -------
    Look
        Its colour, marker and line.
    """
    if method in LOOKS:
        return LOOKS[method]
    marker, colour = divmod(zlib.crc32(method.encode()) % (len(OTHERS) * len(COLOURS)), len(COLOURS))
    return Look(tuple(COLOURS)[colour], OTHERS[marker], True, DOTTED)


def variables(dark: bool) -> str:
    """Return all colours as the variables of a style sheet: ``--ink: #1b1b1b; --paper: #ffffff; ...``.

    Parameters
    ----------
    dark : bool
        Whether they are those for dark paper.

    Returns
    -------
    str
        The declarations, to be put between the braces of a rule.
    """
    return " ".join(f"--{name}: {pair[dark]};" for name, pair in (COLOURS | PAGE).items())
