"""Parts of pages that are written in JavaScript: a viewer of pictures, a chart, and a place to drop files."""

from __future__ import annotations

from typing import Any

from nicegui.element import Element

from ...reporting.look import MARKERS, look


class Viewer(Element, component="viewer.js"):  # type: ignore[call-arg]
    """Two pictures of one size, with a boundary to drag between them.

    It emits ``pick`` with the pixel that was clicked, and ``mask`` with what was painted, as a data URL.

    Parameters
    ----------
    label : str
        What is shown, for readers of screens.
    """

    def __init__(self, label: str) -> None:
        super().__init__()
        self.set(label=label)

    def set(self, **props: Any) -> None:
        """Change what is shown.

        Parameters
        ----------
        **props : Any
            ``before``, ``after`` (URLs), ``beforeName``, ``afterName``, ``width``, ``height``, ``paint``, ``brush``,
            ``box``, ``sharp`` (pixels as squares).
        """
        for name, value in props.items():
            self._props[name] = value
        self.update()


class Drop(Element, component="drop.js"):  # type: ignore[call-arg]
    """A place to drop files, which is a button, too.

    It emits ``refused`` with the reason if the server does not take a file.

    Parameters
    ----------
    url : str
        Where the contents are sent.
    label : str
        The words on it.
    multiple : bool, optional
        Whether several files can be dropped.
    """

    def __init__(self, url: str, label: str, multiple: bool = False) -> None:
        super().__init__()
        self._props |= {"url": url, "label": label, "multiple": multiple}
        self._props["accept"] = "image/png,image/jpeg,image/webp,image/tiff,image/bmp,image/gif"


class Chart(Element, component="chart.js"):  # type: ignore[call-arg]
    """Lines or stems, and a pointer to read their values.

    Parameters
    ----------
    xlabel, ylabel : str
        The axes.
    alt : str
        What is drawn, for readers of screens.
    xlog, ylog : bool, optional
        Whether an axis is logarithmic.
    stems : bool, optional
        Whether points are drawn as stems instead of a line.
    """

    def __init__(
        self, xlabel: str, ylabel: str, alt: str, *, xlog: bool = False, ylog: bool = False, stems: bool = False
    ) -> None:
        super().__init__()
        self._props |= {"xlabel": xlabel, "ylabel": ylabel, "alt": alt, "xlog": xlog, "ylog": ylog, "stems": stems}
        self._props |= {"series": [], "hint": "Point at a line, or use the arrow keys, to read its values."}

    def draw(self, series: list[dict[str, Any]], **props: Any) -> None:
        """Draw other lines.

        Parameters
        ----------
        series : list of dict
            As :func:`line` makes them.
        **props : Any
            Labels and levels to change as well.
        """
        self._props["series"] = series
        for name, value in props.items():
            self._props[name] = value
        self.update()


def line(method: str, points: list[tuple[Any, ...]], name: str | None = None) -> dict[str, Any]:
    """Return a line of a chart, in the colour and with the marker of a method.

    Parameters
    ----------
    method : str
        Name of the method.
    points : list of tuple
        Each point as (x, y) or (x, y, words to show).
    name : str, optional
        Name in the legend. The default is the method.

    Returns
    -------
    dict
        The line, for :meth:`Chart.draw`.
    """
    style = look(method)
    return {
        "name": name or method,
        "colour": style.css,
        "marker": MARKERS[style.marker],
        "filled": style.filled,
        "dashes": list(style.dashes),
        "points": points,
    }
