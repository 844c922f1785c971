"""The command ``sparsect app``."""

from __future__ import annotations

from pathlib import Path

import click

from ..app.guard import is_loopback
from ..app.server import serve
from ..backend.checks import reject

EXAMPLES = """\b
Examples:
  sparsect app
  sparsect app --port 9000 --no-browser
  sparsect app --rows out/experiments                         # figures of your own run of the paper's experiments
"""


@click.command(epilog=EXAMPLES)
@click.option("--port", type=int, default=8117, show_default=True, help="The port; 0 for any free port.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on.")
@click.option("--browser/--no-browser", default=True, show_default=True, help="Open the page in a browser.")
@click.option(
    "--rows", metavar="FOLDER", help="Rows of 'sparsect experiment'.  [default: out/experiments, if it exists]"
)
def app(port: int, host: str, browser: bool, rows: str | None) -> None:
    """Open a page in the browser: try methods on a photograph, a signal, a dictionary.

    Everything stays on this machine. The page is served on 127.0.0.1 only, unless --host says otherwise.
    """
    if not 0 <= port <= 65535:
        raise reject("--port", port, "a whole number from 0 to 65535")
    folder = Path(rows or "out/experiments")
    if rows is not None and not folder.is_dir():
        raise reject("--rows", repr(rows), "a folder that 'sparsect experiment' has written to")
    if not is_loopback(host):
        click.echo(
            f"sparsect: warning: with --host {host}, everybody who reaches this machine can use the page, its "
            "processor and its memory; there is no password",
            err=True,
        )
    serve(host, port, browser, folder if folder.is_dir() else None)
