"""HTML pages: one file with its pictures embedded, readable on a phone and printable."""

from __future__ import annotations

import base64
import io
import os
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

import numpy as np

from ..backend.arrays import Array
from ..backend.writing import replacing

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --line: #d5d5d5; --soft: #f4f4f2; --best: #00618f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181a; --line: #3a3d40; --soft: #1f2225;
  --best: #6cc1ee; } }
@media print { :root { --ink: #000000; --paper: #ffffff; --line: #bbbbbb; --soft: #ffffff; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem;
  margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.6rem; line-height: 1.2; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } thead th { border-bottom: 2px solid var(--ink); }
table.words td, table.words th { white-space: normal; text-align: left; vertical-align: top; min-width: 7rem; }
tr.best td { color: var(--best); font-weight: 600; }
.pictures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 17rem), 1fr)); gap: 1rem; }
figure { margin: 0; break-inside: avoid; } figure img { width: 100%; height: auto; image-rendering: auto;
  border: 1px solid var(--line); } figcaption { font-size: .9rem; }
footer { margin-top: 3rem; border-top: 1px solid var(--line); font-size: .85rem; color: var(--ink); opacity: .75; }
"""


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

    def section(self, heading: str) -> None:
        """Start a section.

        Parameters
        ----------
        heading : str
            Heading of the section.
        """
        self._parts.append(f"<h2>{escape(heading)}</h2>")

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
        self, head: Sequence[str], rows: Iterable[Sequence[str]], best: int | None = None, words: bool = False
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
        """
        lines = [
            f"<tr{' class=best' if index == best else ''}>"
            + "".join(f"<td>{escape(cell)}</td>" for cell in row)
            + "</tr>"
            for index, row in enumerate(rows)
        ]
        header = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        kind, body = " class=words" if words else "", "".join(lines)
        self._parts.append(
            f'<div class="wide"><table{kind}><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>'
        )

    def pictures(self, pictures: Iterable[tuple[str, Array]]) -> None:
        """Add images, side by side where there is room.

        Parameters
        ----------
        pictures : iterable of (str, array)
            The caption of each image and its pixels, with values from 0 to 1.
        """
        figures = [_figure(caption, _jpeg(image), "jpeg") for caption, image in pictures]
        self._parts.append(f'<div class="pictures">{"".join(figures)}</div>')

    def figure(self, caption: str, path: str | os.PathLike[str]) -> None:
        """Add a PNG file over the whole width of the page.

        Parameters
        ----------
        caption : str
            Text below the picture.
        path : str or path-like
            The PNG file; its content is embedded.
        """
        self._parts.append(_figure(caption, Path(path).read_bytes(), "png"))

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the page; the file is written completely or not at all.

        Parameters
        ----------
        path : str or path-like
            The HTML file to write.
        """
        from .. import __version__

        title, parts = escape(self._title), "\n".join(self._parts)
        with replacing(path) as temporary:
            temporary.write_text(
                f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
                f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>\n'
                f"<body><h1>{title}</h1>\n{parts}\n"
                f"<footer><p>sparsect {__version__}</p></footer>\n</body></html>\n",
                encoding="utf-8",
            )


def _figure(caption: str, data: bytes, kind: str) -> str:
    """Format an image and its caption as HTML."""
    source = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return f'<figure><img alt="{escape(caption)}" src="{source}"><figcaption>{escape(caption)}</figcaption></figure>'


def _jpeg(image: Array) -> bytes:
    """Encode an image with values from 0 to 1 as JPEG."""
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(np.round(255 * np.clip(image, 0, 1)).astype(np.uint8)).save(stream, "jpeg", quality=88)
    return stream.getvalue()
