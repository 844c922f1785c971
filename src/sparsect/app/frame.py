"""The frame around every page: title, links, light or dark, and controls that look the same everywhere."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from nicegui import ui

from ..reporting.look import COLOURS, MARKERS, SCROLLED, look, variables

PAGES = {"/": "Photograph", "/signal": "Signal", "/dictionary": "Dictionary", "/paper": "Paper"}
STYLE = (Path(__file__).parent / "parts" / "style.css").read_text(encoding="utf-8")
# The choice between light and dark is kept in the browser; without one, the browser's own setting counts.
REMEMBERED = """<script>addEventListener("DOMContentLoaded", () => {
  const kept = localStorage.getItem("dark");
  const set = () => window.Quasar ? Quasar.Dark.set(kept === "true") : setTimeout(set, 20);
  if (kept !== null) set();
});
</script>"""
TURN = "() => { Quasar.Dark.set(!Quasar.Dark.isActive); localStorage.setItem('dark', Quasar.Dark.isActive); }"


@contextlib.contextmanager
def frame(path: str, summary: str) -> Iterator[None]:
    """Draw what all pages have in common; the contents are added in the ``with`` block.

    Parameters
    ----------
    path : str
        Address of the page.
    summary : str
        What can be done on it, in a sentence or two.

    Yields
    ------
    None
        Nothing.
    """
    style = f"body {{ {variables(dark=False)} }} body.body--dark {{ {variables(dark=True)} }} {SCROLLED} {STYLE}"
    ui.add_head_html(f"<style>{style}</style>{REMEMBERED}")
    ui.colors(primary=COLOURS["blue"][0], negative=COLOURS["vermilion"][0], dark_page="#16181a", dark="#1f2225")
    with ui.element("header").classes("top"):
        ui.link("sparsect", "/").classes("brand")
        with ui.element("nav").props('aria-label="pages"'):
            for address, name in PAGES.items():
                link = ui.link(name, address)
                if address == path:
                    link.props('aria-current="page"')
        ui.button("Light / dark").props("flat dense no-caps").classes("turn").on("click", js_handler=TURN)
    with ui.element("div").classes("contents"):
        ui.html(f"<h1>{PAGES[path]}</h1><p class=summary>{escape(summary)}</p>", sanitize=False)
        yield


def number(label: str, low: float, high: float, value: float, step: float = 1, help: str = "") -> Any:
    """Add a slider and a field for one number.

    What is typed is brought into the range, and rounded if steps are whole; the field shows the result when it is left.

    Parameters
    ----------
    label : str
        Its name.
    low, high : float
        Its range.
    value : float
        Its value at first.
    step : float, optional
        The distance between two values.
    help : str, optional
        What it means.

    Returns
    -------
    nicegui.ui.slider
        The slider; ``value`` is the number.
    """

    def used(typed: float | None) -> float:
        kept = value if typed is None else min(max(typed, low), high)
        return round(kept) if float(step).is_integer() else kept

    with ui.element("div").classes("number"):
        with ui.element("div").classes("named"):
            ui.label(label)
            field = ui.number(min=low, max=high, step=step, value=value).props(
                f'dense borderless hide-bottom-space aria-label="{escape(label)}"'
            )
        slider = ui.slider(min=low, max=high, step=step, value=value).props(
            f'dense aria-label="{escape(label)}, slider"'
        )
        # The field follows the slider; a binding in both directions would send it what was typed.
        field.bind_value_from(slider).on_value_change(lambda change: slider.set_value(used(change.value)))
        field.on("blur", lambda: field.set_value(slider.value))
        if help:
            ui.label(help).classes("help")
    return slider


def marked(method: str) -> str:
    """Return the name of a method with its marker, for a table.

    Parameters
    ----------
    method : str
        The method.

    Returns
    -------
    str
        HTML.
    """
    style = look(method)
    fill = style.css if style.filled else "var(--paper)"
    return (
        f'<svg viewBox="-1.4 -1.4 2.8 2.8" aria-hidden="true"><path d="{MARKERS[style.marker]}" stroke="{style.css}" '
        f'stroke-width="0.3" fill="{fill}"></path></svg>{escape(method)}'
    )


def numbers(
    head: Sequence[str], rows: Mapping[str, Sequence[str]], best: str | None = None, notes: Iterable[str] = ()
) -> str:
    """Return a table of numbers.

    Parameters
    ----------
    head : sequence of str
        Headings of the columns.
    rows : mapping of str to sequence of str
        The first cell of each row, as HTML, and the others, as text.
    best : str, optional
        The row to highlight.
    notes : iterable of str, optional
        Sentences below the table.

    Returns
    -------
    str
        HTML.
    """
    lines = "".join(
        f"<tr{' class=best' if first == best else ''}><td>{first}</td>"
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, cells in rows.items()
    )
    header = "".join(f"<th>{escape(name)}</th>" for name in head)
    words = "".join(f"<p class=note>{escape(note)}</p>" for note in notes)
    return f"<table class=numbers><thead><tr>{header}</tr></thead><tbody>{lines}</tbody></table>{words}"
