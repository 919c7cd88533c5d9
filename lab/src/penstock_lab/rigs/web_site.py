"""A web server on loopback for benchmarks, experiments and tests.

Pages are functions from a request to a response, by path; the server counts and records every request.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections import Counter, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import TYPE_CHECKING, Final, Self, TypeAlias

from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

HOST: Final = "127.0.0.1"
NOTED: Final = 10_000
"""Requests that are kept; older ones are only counted."""

Page: TypeAlias = Callable[[web.BaseRequest], web.StreamResponse | Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that was received."""

    path: str
    host: str
    at_s: float
    """Time by the event loop's clock."""
    headers: dict[str, str]
    """Headers by name in lower case."""


class WebServer:
    """Serves pages while entered; other paths give 404."""

    def __init__(self, *, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self._pages: dict[str, Page] = {}
        self._runner: web.ServerRunner | None = None
        self.port = 0
        self.asked: deque[Asked] = deque(maxlen=NOTED)
        self.counts: Counter[str] = Counter()
        """Number of requests by path."""

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self, *, port: int = 0) -> None:
        """Start listening, on a free port unless one is given."""
        self._runner = web.ServerRunner(
            web.Server(self._answer, keepalive_timeout=60), handler_cancellation=True, shutdown_timeout=0.1
        )
        await self._runner.setup()
        self.port = port
        await self.listen_also(HOST)

    async def listen_also(self, host: str) -> None:
        """Listen on one more address of this machine, as all of 127.0.0.0/8 are."""
        assert self._runner is not None
        listener = socket.create_server((host, self.port), backlog=1_024)
        self.port = listener.getsockname()[1]
        await web.SockSite(self._runner, listener, ssl_context=self._tls).start()

    async def close(self) -> None:
        """Stop the server and close all connections."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    def url(self, path: str, *, host: str = HOST) -> str:
        """Return the URL of a page; other host names need a resolver such as `Names`."""
        return f"http://{host}:{self.port}{path}"

    def page(self, path: str, page: Page) -> str:
        """Serve a page at a path; return its URL."""
        self._pages[path] = page
        return self.url(path)

    def put(self, path: str, text: str | bytes, *, content_type: str = "text/html; charset=utf-8") -> str:
        """Serve a text with ETag and Last-Modified, or replace it; return its URL."""
        return self.page(path, document(text, content_type=content_type))

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        at_s = asyncio.get_running_loop().time()
        self.asked.append(Asked(request.path_qs, request.host, at_s, headers))
        self.counts[request.path] += 1
        page = self._pages.get(request.path_qs) or self._pages.get(request.path)
        if page is None:
            return web.Response(status=404, text="not found")
        answer = page(request)
        try:
            return answer if isinstance(answer, web.StreamResponse) else await answer
        except ConnectionError:  # the client has closed the connection
            return web.Response()


def document(
    text: str | bytes, *, content_type: str = "text/html; charset=utf-8", modified_s: float | None = None
) -> Page:
    """Return a page that answers 304 when its validators are sent back byte for byte."""
    body = text.encode() if isinstance(text, str) else text
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
    headers = {"ETag": etag, "Content-Type": content_type}
    if modified_s is not None:
        headers["Last-Modified"] = formatdate(modified_s, usegmt=True)

    def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("If-None-Match") == etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=body, headers=headers)

    return answer


class Names(AbstractResolver):
    """A resolver: each name gives its addresses in turn; unknown names give loopback."""

    def __init__(self, addresses: dict[str, list[str]] | None = None) -> None:
        self._addresses = addresses or {}
        self.lookups: Counter[str] = Counter()

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002  # of the interface
    ) -> list[ResolveResult]:
        """Return the next address of the name; the last one is repeated."""
        known = self._addresses.get(host, [HOST])
        address = known[min(self.lookups[host], len(known) - 1)]
        self.lookups[host] += 1
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [
            ResolveResult(
                hostname=host, host=address, port=port, family=kind, proto=0, flags=socket.AI_NUMERICHOST
            )
        ]

    async def close(self) -> None:
        """Nothing to close."""
