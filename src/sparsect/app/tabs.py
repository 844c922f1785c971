"""What belongs to one tab of a browser: files to show and to download, uploads, and a job."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request, Response
from nicegui import ui

from ..backend.checks import InputError
from .jobs import Job, Jobs, Work

# The open tabs by their secret names, which are parts of the addresses of their files.
OPEN: dict[str, Tab] = {}


@dataclass(frozen=True)
class File:
    """What an address of a tab returns.

    Attributes
    ----------
    content : bytes
        The contents.
    kind : str
        The media type.
    """

    content: bytes
    kind: str


class Tab:
    """One tab of a browser. When it is closed, its job is killed and its files are forgotten.

    Parameters
    ----------
    jobs : Jobs
        The queue for its work.

    Attributes
    ----------
    closed : bool
        Whether the tab has been closed; nothing can be shown on it any more.
    upload : callable or None
        Awaited with the contents of a file that is uploaded.
    """

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._token = secrets.token_urlsafe(16)
        self._files: dict[str, File] = {}
        self._versions = 0
        self._job: Job | None = None
        self._notice: ui.notification | None = None
        self.closed = False
        self.upload: Callable[[bytes], Awaitable[None]] | None = None
        OPEN[self._token] = self
        ui.context.client.on_delete(self.close)

    @property
    def upload_url(self) -> str:
        """Where photographs are sent to."""
        return f"/tabs/{self._token}"

    @property
    def busy(self) -> bool:
        """Whether a job of this tab waits or runs."""
        return self._job is not None

    def warn(self, words: str) -> None:
        """Show a notice for some seconds, in place of the one before.

        Parameters
        ----------
        words : str
            What is wrong, and what is accepted.
        """
        self.settle()
        about: dict[str, Any] = {"icon": "warning", "classes": "notice", "textColor": "ink", "multi_line": True}
        self._notice = ui.notification(words, timeout=10, close_button="OK", **about)

    def settle(self) -> None:
        """Take away the notice, if there is one."""
        if self._notice is not None and not self._notice.is_deleted:
            self._notice.dismiss()
        self._notice = None

    def put(self, name: str, content: bytes, kind: str = "image/png") -> str:
        """Keep a file; it replaces the one with the same name.

        Parameters
        ----------
        name : str
            Its name.
        content : bytes
            Its contents.
        kind : str, optional
            Its media type.

        Returns
        -------
        str
            Its address.
        """
        self._files[name] = File(content, kind)
        self._versions += 1
        return f"/tabs/{self._token}/{name}?{self._versions}"

    def file(self, name: str) -> File | None:
        """Return a file.

        Parameters
        ----------
        name : str
            Its name.

        Returns
        -------
        File or None
            The file, if there is one with that name.
        """
        return self._files.get(name)

    def forget(self, *names: str) -> None:
        """Drop files.

        Parameters
        ----------
        *names : str
            Their names.
        """
        for name in names:
            self._files.pop(name, None)

    async def run(self, work: Work, receive: Callable[[Any], Awaitable[None]], **arguments: Any) -> str:
        """Do work in another process.

        Parameters
        ----------
        work : callable
            See :meth:`Jobs.submit`.
        receive : callable
            Awaited with each message of the work.
        **arguments : Any
            Arguments of the work.

        Returns
        -------
        str
            "done" or "stopped".

        Raises
        ------
        InputError
            If the work fails, or another job of this tab is not finished.
        """
        if self._job is not None:
            raise InputError("One thing at a time: stop the other job first.")
        self._job = job = self._jobs.submit(work, **arguments)
        try:
            async for message in job.messages():
                await receive(message)
        finally:
            job.stop()
            self._job = None
        if job.ended == "failed":
            raise InputError(job.error)
        return job.ended or "stopped"

    def stop(self) -> None:
        """Stop the job, if there is one."""
        if self._job is not None:
            self._job.stop()

    def close(self) -> None:
        """Free what belongs to the tab."""
        self.closed = True
        OPEN.pop(self._token, None)
        self.stop()
        self._files.clear()


def add_routes(application: FastAPI) -> None:
    """Serve the files of tabs, and take their uploads.

    Parameters
    ----------
    application : FastAPI
        The server.
    """

    @application.get("/tabs/{token}/{name}")
    def file(token: str, name: str) -> Response:
        found = OPEN[token].file(name) if token in OPEN else None
        if found is None:
            return Response("No such file.", 404)
        return Response(found.content, media_type=found.kind, headers={"cache-control": "no-store"})

    @application.post("/tabs/{token}")
    async def upload(token: str, request: Request) -> Response:
        tab = OPEN.get(token)
        if tab is None or tab.upload is None:
            return Response("No such page.", 404)
        try:
            await tab.upload(await request.body())
            tab.settle()
        except InputError as error:
            return Response(str(error), 422)
        return Response(status_code=204)
