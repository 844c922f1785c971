"""HTML pages: one file with its pictures embedded, readable on a phone and printable."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ..backend.arrays import Array
from ..backend.checks import reject
from ..backend.writing import check_writable, replacing
from .inline import inline
from .look import MARKERS, SCROLLED, look, variables

STYLE = f"""
:root {{ color-scheme: light dark; {variables(dark=False)} }}
@media (prefers-color-scheme: dark) {{ :root {{ {variables(dark=True)} }} }}
@media print {{ :root {{ {variables(dark=False)} }} }}
"""
STYLE += (
    SCROLLED
    + """
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 72rem;
  margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 2rem); overflow-wrap: break-word; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: .5rem 0 1rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.5rem 0 .75rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
p, li { max-width: 46rem; }
a { color: var(--best); } code { font-size: .9em; background: var(--soft); padding: .1em .3em; border-radius: 3px; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .95rem; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; vertical-align: bottom; color: var(--faint); font-size: .85rem; white-space: normal; }
th:first-child, td:first-child { text-align: left; padding-left: .2rem; }
thead th { border-bottom: 2px solid var(--faint); }
tbody tr:hover { background: var(--soft); }
table.words td, table.words th { white-space: normal; text-align: left; vertical-align: top; min-width: 7rem; }
tr.best td { font-weight: 600; color: var(--best); }
.key { display: inline-block; width: 2.1em; height: 1em; margin-right: .5em; vertical-align: -.12em; }
@media (max-width: 30rem) { table { font-size: .85rem; } th, td { padding: .3rem .45rem; } h1 { font-size: 1.5rem; } }
.beside { display: flex; flex-wrap: wrap; gap: 1rem 2.5rem; align-items: flex-start; }
.beside > * { min-width: 0; max-width: 100%; } .beside > .chart { flex: 1 1 20rem; }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(46%, 16rem), 1fr)); gap: 1rem;
  margin-bottom: 1.5rem; }
figure { margin: 0 0 1rem; break-inside: avoid; } .pictures figure { margin: 0; max-width: 34rem; }
figure img { width: 100%; height: auto; border-radius: 3px; display: block; }
figcaption { font-size: .9rem; color: var(--faint); margin-top: .35rem; max-width: 46rem; }
.chart svg { width: 100%; height: auto; max-width: 34rem; } .chart.whole svg { max-width: none; }
.chart.whole > div { overflow-x: auto; } .chart.whole svg { min-width: 58rem; }
.chart text { fill: var(--ink); }
.slider { position: relative; --at: 50%; width: fit-content; max-width: 100%; line-height: 0; cursor: ew-resize;
  touch-action: pan-y; user-select: none; border-radius: 3px; overflow: hidden; }
.slider img { position: absolute; inset: 0; width: 100%; height: 100%; border-radius: 0; visibility: hidden; }
.slider img:first-of-type { position: static; height: auto; width: var(--width); max-width: 100%; }
.slider img.left { visibility: visible; clip-path: inset(0 calc(100% - var(--at)) 0 0); }
.slider img.right { visibility: visible; clip-path: inset(0 0 0 var(--at)); }
.slider img.left.right { clip-path: none; }
.slider span { position: absolute; top: 0; bottom: 0; left: var(--at); width: 2px; margin-left: -1px;
  background: #ffffff; box-shadow: 0 0 3px #000000; pointer-events: none; }
.slider span::after { content: "\\2194"; position: absolute; top: 50%; left: 50%; translate: -50% -50%; width: 2rem;
  font: 1.1rem/2rem system-ui, sans-serif; text-align: center; color: #000000; background: #ffffff;
  border-radius: 50%; box-shadow: 0 0 3px #000000; }
.slider input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0; opacity: 0; pointer-events: none; }
:focus-visible, .slider:has(input:focus-visible) { outline: 3px solid var(--best); outline-offset: 2px; }
.sides { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; margin-bottom: .6rem; font-size: .9rem;
  color: var(--faint); }
select { font: inherit; color: var(--ink); background: var(--soft); border: 1px solid var(--line); border-radius: 4px;
  padding: .3rem .4rem; max-width: 100%; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: .85rem; color: var(--faint); }
"""
)
# Moves the boundary of each slider with a mouse, a finger or the arrow keys, and changes its two pictures.
SCRIPT = """
for (const box of document.querySelectorAll(".slider")) {
  const range = box.querySelector("input"), pictures = [...box.querySelectorAll("img")];
  const sides = [...box.parentNode.querySelectorAll("select")];
  const move = at => { range.value = at; box.style.setProperty("--at", range.value + "%"); };
  const follow = event => {
    const place = box.getBoundingClientRect();
    move(100 * (event.clientX - place.left) / place.width);
  };
  range.addEventListener("input", () => move(range.value));
  box.addEventListener("pointerdown", event => {
    box.setPointerCapture(event.pointerId);
    range.focus({ preventScroll: true, focusVisible: false });
    follow(event);
    event.preventDefault();
  });
  box.addEventListener("pointermove", event => { if (box.hasPointerCapture(event.pointerId)) follow(event); });
  for (const select of sides) select.addEventListener("change", () => {
    pictures.forEach((picture, place) => {
      ["left", "right"].forEach((side, which) => picture.classList.toggle(side, sides[which].selectedIndex === place));
    });
    range.setAttribute("aria-label", `boundary between ${sides[0].value} and ${sides[1].value}`);
  });
}
"""
# A slider shows its pictures without loss if they have no more pixels than this together.
LOSSLESS = 8_000_000
# Smaller pictures under a slider are enlarged to this width, but not beyond this height.
WIDTH, HEIGHT = 640, 960
# How the last line of every page begins, by which pages of sparsect are recognised.
FOOTER = "<footer><p>sparsect "


class Page:
    """An HTML page whose sections, tables and pictures appear in the order in which they are added.

    Parameters
    ----------
    title : str
        Title and first heading of the page.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._parts: list[str] = []
        self._scripted = False

    def section(self, heading: str) -> None:
        """Start a section.

        Parameters
        ----------
        heading : str
            Heading of the section.
        """
        self._parts.append(f"<h2>{escape(heading)}</h2>")

    def subsection(self, heading: str) -> None:
        """Start a part of a section.

        Parameters
        ----------
        heading : str
            Heading of the part.
        """
        self._parts.append(f"<h3>{escape(heading)}</h3>")

    def text(self, words: str) -> None:
        """Add a paragraph.

        Parameters
        ----------
        words : str
            Plain text; it is escaped.
        """
        self._parts.append(f"<p>{escape(words)}</p>")

    def points(self, sentences: Iterable[str]) -> None:
        """Add a list.

        Parameters
        ----------
        sentences : iterable of str
            The items of the list, as plain text.
        """
        self._parts.append("<ul>" + "".join(f"<li>{escape(sentence)}</li>" for sentence in sentences) + "</ul>")

    def table(
        self,
        head: Sequence[str],
        rows: Iterable[Sequence[str]],
        best: int | None = None,
        words: bool = False,
        methods: Container[str] = (),
    ) -> None:
        """Add a table.

        Parameters
        ----------
        head : sequence of str
            Headings of the columns.
        rows : iterable of sequence of str
            Cells of each row.
        best : int, optional
            Index of a row to highlight.
        words : bool, optional
            Whether cells hold text instead of numbers; their lines are then wrapped.
        methods : container of str, optional
            Names of methods; where one is the first cell of a row, its line and marker are drawn beside it.
        """
        lines = [
            f"<tr{' class=best' if index == best else ''}>"
            + "".join(
                f"<td>{_key(cell) if not place and cell in methods else ''}{escape(cell)}</td>"
                for place, cell in enumerate(row)
            )
            + "</tr>"
            for index, row in enumerate(rows)
        ]
        header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        kind, body = " class=words" if words else "", "".join(lines)
        table = f"<table{kind}><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table>"
        self._parts.append(f'<div class="wide" tabindex="0" role="region" aria-label="table">{table}</div>')

    def pictures(self, pictures: Iterable[tuple[str, Array]]) -> None:
        """Add images, side by side where there is room.

        Parameters
        ----------
        pictures : iterable of (str, array)
            The caption of each image and its pixels, with values from 0 to 1.
        """
        figures = [_figure(caption, _source(image, "jpeg", quality=88)) for caption, image in pictures]
        self._parts.append(f'<div class="pictures">{"".join(figures)}</div>')

    def slider(self, pictures: Sequence[tuple[str, Array]]) -> None:
        """Add images of one size on top of each other, with a line that is dragged from one to another.

        Parameters
        ----------
        pictures : sequence of (str, array)
            The caption of each image and its pixels, with values from 0 to 1. The first is shown left of the line and
            the second right of it; if there are more, both can be chosen.
        """
        height, width = pictures[0][1].shape[:2]
        small = len(pictures) * height * width <= LOSSLESS
        images = "".join(
            f'<img class="{("left", "right", "")[min(place, 2)]}" alt="{escape(caption)}" draggable="false" '
            f'width="{width}" height="{height}" '
            f'src="{_source(image, "png") if small else _source(image, "jpeg", quality=92)}">'
            for place, (caption, image) in enumerate(pictures)
        )
        shown_width = max(width, min(WIDTH, round(HEIGHT * width / height)))
        names = [escape(caption) for caption, _ in pictures]
        choices = ""
        if len(pictures) > 2:
            sides = (("Left", names[0]), ("Right", names[1]))
            labels = "".join(f"<label>{side} {_select(names, chosen)}</label>" for side, chosen in sides)
            choices = f'<div class="sides">{labels}</div>'
        shown = f"Left of the line: {names[0]}. Right of it: {names[1]}. " if len(pictures) == 2 else ""
        self._parts.append(
            f'<figure>{choices}<div class="slider" style="--width: {shown_width}px">{images}<span></span>'
            f'<input type="range" min="0" max="100" value="50" step="1" '
            f'aria-label="boundary between {names[0]} and {names[1]}"></div>'
            f"<figcaption>{shown}Drag the line, or use the arrow keys.</figcaption></figure>"
        )
        self._scripted = True

    def chart(self, caption: str, description: str, figure: Any, whole: bool = False) -> None:
        """Add a figure of Matplotlib in the colours of the page.

        Parameters
        ----------
        caption : str
            Text below the figure.
        description : str
            What the figure shows, for readers who do not see it.
        figure : matplotlib.figure.Figure
            The figure, drawn in the colours of :mod:`sparsect.reporting.look` on light paper.
        whole : bool, optional
            Whether the figure takes the whole width of the page; on narrow screens it is then scrolled.
        """
        kind, focus = (" whole", ' tabindex="0"') if whole else ("", "")
        self._parts.append(
            f'<figure class="chart{kind}"><div role="img" aria-label="{escape(description)}"{focus}>'
            f"{inline(figure)}</div><figcaption>{escape(caption)}</figcaption></figure>"
        )

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Put what is added in the ``with`` block side by side where there is room.

        Yields
        ------
        None
            Nothing.
        """
        self._parts.append('<div class="beside">')
        yield
        self._parts.append("</div>")

    def picture(self, caption: str, image: Array) -> None:
        """Add an image over the whole width of the page, without loss.

        Parameters
        ----------
        caption : str
            Text below the picture.
        image : array, shape (height, width) or (height, width, 3)
            The pixels, with values from 0 to 1.
        """
        self._parts.append(_figure(caption, _source(image, "png")))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The HTML file to write.
        """
        from .. import __version__

        title, parts = escape(self._title), "\n".join(self._parts)
        script = f"<script>{SCRIPT}</script>\n" if self._scripted else ""
        with replacing(path) as temporary:
            temporary.write_text(
                f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
                f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
                f"<body><h1>{title}</h1>\n{parts}\n"
                f"{FOOTER}{__version__}</p></footer>\n{script}</body></html>\n",
                encoding="utf-8",
            )


def check_page(path: str | os.PathLike[str], hint: str = "") -> None:
    """Check that a page with a name that the user has not chosen can be written, and replaces no file of the user.

    Parameters
    ----------
    path : str or path-like
        The HTML file to be written later.
    hint : str, optional
        A sentence that suggests what to do, for the error.

    Raises
    ------
    InputError
        If it cannot be written, or if there is a file that is no page of sparsect.
    """
    check_writable(path)
    there = Path(path)
    if there.is_file() and FOOTER.encode() not in there.read_bytes():
        got = f"a name whose page would overwrite {path}, which sparsect has not written"
        raise reject("--out", got, "another name", hint)


def _key(method: str) -> str:
    """Draw line and marker of a method, as in charts."""
    seen = look(method)
    dashes = " ".join(f"{2 * length:g}" for length in seen.dashes)
    return (
        f'<svg class="key" viewBox="0 0 42 20" aria-hidden="true" stroke="{seen.css}" stroke-width="2">'
        f'<path d="M0 10H42" stroke-dasharray="{dashes}"/><path d="{MARKERS[seen.marker]}" stroke-width=".35" '
        f'transform="translate(21 10) scale(6)" fill="{seen.css if seen.filled else "var(--paper)"}"/></svg>'
    )


def _select(names: Sequence[str], chosen: str) -> str:
    """Format a list of names with one chosen."""
    options = [f"<option{' selected' if name == chosen else ''}>{name}</option>" for name in names]
    return f"<select>{''.join(options)}</select>"


def _figure(caption: str, source: str) -> str:
    """Format an image and its caption as HTML."""
    words = escape(caption)
    return f'<figure><img alt="{words}" src="{source}"><figcaption>{words}</figcaption></figure>'


def _source(image: Array, kind: str, **options: int) -> str:
    """Encode an image with values from 0 to 1 as the address of an embedded picture."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)).save(stream, kind, **options)
    return f"data:image/{kind};base64,{base64.b64encode(stream.getvalue()).decode()}"
