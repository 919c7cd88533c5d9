"""A server that notes what it is sent, and answers as it is told."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class Request:
    """One that came."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


class Receiver:
    """On a free port of loopback, while it is entered."""

    def __init__(self, *statuses: int, headers: Mapping[str, str] | None = None, delay_s: float = 0) -> None:
        self._statuses = list(statuses)
        self._headers = dict(headers or {})
        self._delay_s = delay_s
        self._came = asyncio.Condition()
        self.requests: list[Request] = []
        self.url = ""

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_route("*", "/{any:.*}", self._take)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _take(self, request: web.Request) -> web.Response:
        found = Request(
            request.method, request.path, dict(request.query), dict(request.headers), await request.read()
        )
        async with self._came:
            self.requests.append(found)
            self._came.notify_all()
        await asyncio.sleep(self._delay_s)
        status = self._statuses.pop(0) if self._statuses else 200
        challenge = request.query.get("hub.challenge", "")
        return web.Response(status=status, text=challenge, headers=self._headers)

    async def wait(self, count: int) -> list[Request]:
        """The requests, when so many have come."""
        async with asyncio.timeout(120), self._came:
            await self._came.wait_for(lambda: len(self.requests) >= count)
        return self.requests
