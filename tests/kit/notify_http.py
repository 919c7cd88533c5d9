"""Notifications with their routes on a port, behind the guard of a node that has a token."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from penstock.node.config.notify import FeedSettings, HubSettings
from penstock.node.config.schema import Http
from penstock.node.http.guard import Guard
from penstock.node.http.notify import NotifyHandlers
from penstock_lab.rigs.ports import free_port
from tests.kit.notify_service import notifying

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from penstock.node.notify.service import NotifyService
    from tests.kit.channel_api import MemoryChannels

TOKEN = "a-token-of-some-length"  # noqa: S105


@asynccontextmanager
async def served(
    channels: MemoryChannels, *, data: Path | None = None, hub: bool = False
) -> AsyncIterator[NotifyService]:
    """With its routes behind the guard of a node that has a token."""
    guard = Guard(Http(token=TOKEN))
    app = web.Application(middlewares=[guard.middleware])
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    async with notifying(
        channels,
        data=data,
        feeds=FeedSettings(enabled=True, entries=3),
        hub=HubSettings(enabled=hub),
        http=Http(base_url=base),
    ) as at:
        app.router.add_routes(NotifyHandlers(at).routes())
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port).start()
        try:
            yield at
        finally:
            await runner.cleanup()
