"""What the server refuses: other sites, other names of this machine, and requests that are too large."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import urlsplit

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
# An upload may have this many bytes.
MOST_BYTES = 32 * 2**20
# Nothing is loaded from another machine, and no other page may show this one in a frame.
HEADERS = {
    "content-security-policy": "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def is_loopback(host: str) -> bool:
    """Return whether an address can be reached from this machine only.

    Parameters
    ----------
    host : str
        Name or address.

    Returns
    -------
    bool
        Whether it is one of this machine's own.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class Guard:
    """Refuse requests that do not come from a page of this server.

    A name that another site has redirected to this machine (DNS rebinding) is not in ``Host``'s list, and a page of
    another site sends its own address as ``Origin``. Both get the answer 403, also when they open a web socket.

    Parameters
    ----------
    application : callable
        The ASGI application behind the guard.
    host : str
        The address on which the server listens.
    """

    def __init__(self, application: Application, host: str) -> None:
        self._application = application
        self._everywhere = host in ("0.0.0.0", "::")
        self._hosts = LOOPBACK | {socket.gethostname().lower() if self._everywhere else host.lower()}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it.

        Parameters
        ----------
        scope : dict
            The request.
        receive, send : callable
            Its channels, see the ASGI specification.
        """
        if scope["type"] not in ("http", "websocket"):
            await self._application(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        reason = self.reason(headers)
        if reason is not None:
            await _refuse(scope, send, 403, reason)
        elif scope["type"] == "http" and (too_large := _size(scope["method"], headers)) is not None:
            await _refuse(scope, send, *too_large)
        else:
            await self._application(scope, receive, _with_headers(send))

    def reason(self, headers: Mapping[str, str]) -> str | None:
        """Return why a request is refused.

        Parameters
        ----------
        headers : mapping of str to str
            The headers, with names in lower case.

        Returns
        -------
        str or None
            The reason; None for a request that is served.
        """
        host, origin = headers.get("host", ""), headers.get("origin")
        if not self._is_ours(host):
            return f"This server does not answer for the host {host!r}."
        if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
            return f"Pages of {origin!r} may not use this server."
        if headers.get("sec-fetch-site") == "cross-site" and headers.get("sec-fetch-mode") != "navigate":
            return "Pages of other sites may not use this server."
        return None

    def _is_ours(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        return name in self._hosts or (self._everywhere and _is_address(name))


def _is_address(name: str) -> bool:
    """Whether a name is an address, which no other site can redirect."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _size(method: str, headers: Mapping[str, str]) -> tuple[int, str] | None:
    """Return the status and the reason if the body of a request is too large, or its size is not told."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return None
    length = headers.get("content-length", "")
    if not length.isdecimal():
        return 411, "The size of the upload must be given."
    if int(length) > MOST_BYTES:
        return 413, f"An upload must have at most {MOST_BYTES >> 20} MiB, got {int(length) / 2**20:.0f} MiB."
    return None


async def _refuse(scope: Message, send: Send, status: int, reason: str) -> None:
    if scope["type"] == "websocket":
        # Closed before it is accepted: the browser gets the answer 403.
        await send({"type": "websocket.close", "code": 1008, "reason": reason})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": reason.encode()})


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            added = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message["headers"] = [*message.get("headers", ()), *added]
        await send(message)

    return sending
