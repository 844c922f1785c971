"""The server: pages, the guard in front of them, and the workers behind them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import tempfile
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..backend.checks import InputError
from .guard import Guard

# Seconds after which a tab that has lost its connection counts as closed.
PATIENCE = 5.0
# Messages to a tab that are kept in case it has missed them; pictures of charts may be large.
HISTORY = 100


def application(host: str, rows: Path | None = None) -> Any:
    """Make the server's application.

    Parameters
    ----------
    host : str
        The address on which it listens.
    rows : Path, optional
        Folder with the rows of experiments, see ``sparsect experiment``.

    Returns
    -------
    callable
        The ASGI application.
    """
    from fastapi import FastAPI, Response
    from nicegui import ui

    from . import dictionary, paper, photograph
    from . import signal as signals
    from .frame import PAGES
    from .jobs import Jobs
    from .tabs import OPEN, add_routes

    jobs = Jobs()

    @contextlib.asynccontextmanager
    async def lifespan(_: Any) -> AsyncIterator[None]:
        jobs.start()
        yield
        jobs.close()

    api = FastAPI(lifespan=lifespan, openapi_url=None)
    add_routes(api)

    @api.get("/load")
    def load() -> dict[str, int]:
        """Return how many jobs run and wait, and how many tabs are open."""
        return {"running": jobs.running, "waiting": jobs.waiting, "tabs": len(OPEN), "workers": jobs.count}

    @api.get("/favicon.ico")
    def icon() -> Response:
        return Response(ICON, media_type="image/svg+xml")

    async def first() -> None:
        await photograph.PhotographPage(jobs).build()

    builders: dict[str, Callable[[], Any]] = {
        "/": first,
        "/signal": lambda: signals.SignalPage(jobs).build(),
        "/dictionary": lambda: dictionary.DictionaryPage(jobs).build(),
        "/paper": lambda: paper.PaperPage(jobs, rows).build(),
    }
    for path, build in builders.items():
        ui.page(path, title=f"sparsect: {PAGES[path].lower()}", response_timeout=60)(build)
    ui.run_with(
        api,
        title="sparsect",
        dark=None,
        language="en-US",
        reconnect_timeout=PATIENCE,
        message_history_length=HISTORY,
        tailwind=False,
        show_welcome_message=False,
    )
    return Guard(api, host)


# Two sets and the point in which they meet.
ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path d="M4 28L28 4M4 10H28" stroke="#0072b2" '
    'stroke-width="4" fill="none"/><circle cx="22" cy="10" r="5" fill="#d55e00"/></svg>'
)


def serve(host: str, port: int, browser: bool, rows: Path | None = None) -> None:
    """Serve the pages until Ctrl-C.

    Parameters
    ----------
    host : str
        The address to listen on.
    port : int
        The port; 0 for any that is free.
    browser : bool
        Whether to open the page in a browser.
    rows : Path, optional
        Folder with the rows of experiments.

    Raises
    ------
    InputError
        If the extra is not installed, or the address cannot be used.
    """
    if find_spec("nicegui") is None:
        raise InputError("The page needs NiceGUI, which is not installed; pip install 'sparsect[app]'")
    listening = _listening(host, port)
    name = f"[{host}]" if ":" in host else host
    address = f"http://{name}:{listening.getsockname()[1]}/"
    with tempfile.TemporaryDirectory(prefix="sparsect-") as folder:
        # Whatever is written is written here, also by workers that are killed.
        os.environ["NICEGUI_STORAGE_PATH"] = tempfile.tempdir = folder
        import uvicorn

        config = uvicorn.Config(application(host, rows), log_level="warning", lifespan="on", ws_max_size=2**22)
        server = uvicorn.Server(config)
        print(f"The page is at {address} (Ctrl-C ends it).", flush=True)
        if browser:
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()
        # The signal that has ended the server is raised again afterwards; the folder is removed all the same.
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(server.serve(sockets=[listening]))


def _listening(host: str, port: int) -> socket.socket:
    """Open the port: an address that cannot be used is an error at once, and early requests wait."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen()
    except OSError as error:
        listening.close()
        raise InputError(f"{host} port {port}: cannot be used ({error.strerror or error}).") from None
    return listening
