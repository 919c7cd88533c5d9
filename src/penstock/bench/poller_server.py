"""The web of `bench poller`, in its own process: every page is there, unchanged, and requests are timed."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import uvloop
from aiohttp import web

from penstock.client.web_server import WebServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

BODY: Final = b"<title>A page</title>" + b"<p>A line of text that does not change.</p>\n" * 50
ETAG: Final = f'"{hashlib.sha256(BODY).hexdigest()[:16]}"'
BIN_S: Final = 0.5
"""Requests are counted in bins of this length."""


class PollerServer:
    """Gives its port when asked for it, and the requests by bin since it was last asked for them."""

    def __init__(self) -> None:
        self._bins: Counter[int] = Counter()
        self._server = _Pages(self._note)
        self._loop = uvloop.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        started: Future[None] = asyncio.run_coroutine_threadsafe(self._server.start(), self._loop)
        started.result()

    def run(self, asked: str) -> Any:
        """`port` or `bins`."""
        if asked == "port":
            return self._server.port
        bins, self._bins = self._bins, Counter()
        return dict(bins)

    def _note(self, path: str) -> None:
        if path != "/robots.txt":
            self._bins[int(self._loop.time() / BIN_S)] += 1


class _Pages(WebServer):
    """Any path is the same page; there is no robots.txt."""

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__()
        self._note = note

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self._note(request.path)
        if request.path == "/robots.txt":
            return web.Response(status=404)
        if request.headers.get("If-None-Match") == ETAG:
            return web.Response(status=304, headers={"ETag": ETAG})
        return web.Response(body=BODY, headers={"ETag": ETAG, "Content-Type": "text/html; charset=utf-8"})
