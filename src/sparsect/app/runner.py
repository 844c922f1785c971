"""The part of a page that starts work, stops it and shows how far it is."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from nicegui import ui

from ..backend.checks import InputError
from .jobs import Started, Waiting, Work
from .tabs import Tab
from .work import Progress

# On a phone the settings fill the screen; what is computed is below them.
LOOK = (
    'if (innerWidth < 832) document.querySelector(".viewer, .chart, .figures").scrollIntoView({ behavior: "smooth" })'
)


class Runner:
    """Buttons Run and Stop, a bar and a line of words.

    Parameters
    ----------
    tab : Tab
        The tab.
    ask : callable
        Awaited for the work and its arguments; it may raise an InputError.
    receive : callable
        Awaited with the messages of the work, except those about progress.
    finished : callable, optional
        Called when the work has ended.
    words : str, optional
        The words on the button that starts it.
    """

    def __init__(
        self,
        tab: Tab,
        ask: Callable[[], Awaitable[tuple[Work, dict[str, Any]]]],
        receive: Callable[[Any], Awaitable[None]],
        finished: Callable[[], None] | None = None,
        words: str = "Run",
    ) -> None:
        self._tab, self._ask, self._receive, self._finished = tab, ask, receive, finished
        with ui.element("div").classes("row"):
            self._start = ui.button(words, on_click=self.run).props("unelevated no-caps").classes("run")
            self._stop = ui.button("Stop", on_click=tab.stop).props("outline no-caps color=negative").classes("stop")
            self._stop.disable()
        self.bar = ui.linear_progress(0, show_value=False).props('aria-label="progress" instant-feedback rounded')
        self._status = ui.label("Ready.").classes("note status").props('aria-live="polite"')

    def say(self, words: str) -> None:
        """Show words below the bar.

        Parameters
        ----------
        words : str
            The words.
        """
        self._status.text = words

    async def run(self) -> None:
        """Do the work."""
        begun = time.monotonic()
        self._tab.settle()
        with self.shown_errors():
            self._start.disable()
            self._stop.enable()
            self.bar.value = 0
            ui.run_javascript(LOOK)
            try:
                work, arguments = await self._ask()
                ended = await self._tab.run(work, self._received, **arguments)
            finally:
                if not self._tab.closed:
                    self._start.enable()
                    self._stop.disable()
                    if self._finished is not None:
                        self._finished()
            if self._tab.closed:
                return
            self.bar.value = 1 if ended == "done" else self.bar.value
            self.say(f"{'Finished' if ended == 'done' else 'Stopped'} after {time.monotonic() - begun:.1f} s.")

    @contextlib.contextmanager
    def shown_errors(self) -> Iterator[None]:
        """Show an error of the input on the page instead of raising it.

        Yields
        ------
        None
            Nothing.
        """
        try:
            yield
        except InputError as error:
            self.say(str(error))
            self._tab.warn(str(error))

    async def _received(self, message: Any) -> None:
        match message:
            case Waiting(ahead=0):
                self.say("Waiting for a free worker.")
            case Waiting(ahead=ahead):
                self.say(f"Waiting for a free worker, {ahead} ahead.")
            case Started():
                self.say("Started.")
            case Progress(words=words, share=share):
                self.bar.value = share
                self.say(words)
            case _:
                await self._receive(message)
