"""Figures of Matplotlib as part of a page: their colours and letters are those of the page, on light and dark paper."""

from __future__ import annotations

import io
import re
from typing import Any

from .look import COLOURS

# Colours that figures have on light paper, and the variables of the page that replace them.
REPLACED = {pair[0]: f"var(--{name})" for name, pair in COLOURS.items()} | {
    "#000000": "var(--ink)",
    "#ffffff": "var(--paper)",
    "#999999": "var(--faint)",
    "#b0b0b0": "var(--line)",
}


def inline(figure: Any) -> str:
    """Return a figure as an SVG element that takes its colours from the page around it.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure, drawn in the colours of :mod:`sparsect.reporting.look` on light paper.

    Returns
    -------
    str
        The element. Its text is text, in the letters of the page.
    """
    import matplotlib

    stream = io.StringIO()
    # With a fixed salt, names inside the element follow from its content: the same figure is always the same text.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "sparsect"}):
        figure.savefig(stream, format="svg", facecolor="none", metadata={"Date": None})
    words = stream.getvalue()
    element = words[words.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", element, flags=re.DOTALL)
    element = re.sub(r" xmlns(:\w+)?=\"[^\"]*\"", "", element, count=2)
    element = re.sub(r"<g id=\"[^\"]*\">", "<g>", element)
    element = re.sub(r"'DejaVu Sans'[^;\"]*", "inherit", element)
    return re.sub("#[0-9a-f]{6}", lambda found: REPLACED.get(found[0], found[0]), element)
