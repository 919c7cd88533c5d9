"""A notification service over channels in memory, while it is entered."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.node.config.notify import NotifySettings as Settings
from penstock.node.config.notify import WebhookSettings
from penstock.node.config.schema import Config, Http
from penstock.node.notify.service import NotifyService
from penstock.node.notify.status import OutboxStatistics

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.kit.channel_api import MemoryChannels

LOOPBACK = ("127.0.0.0/8",)


async def counted(at: NotifyService, *figures: int) -> None:
    """Wait for the statistics to be these."""
    deadline_s = asyncio.get_running_loop().time() + 10
    while at.statistics() != OutboxStatistics(*figures):
        assert asyncio.get_running_loop().time() < deadline_s, at.statistics()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def notifying(
    channels: MemoryChannels,
    *,
    data: Path | None = None,
    per_minute: float = 60_000,
    networks: tuple[str, ...] = LOOPBACK,
    http: Http | None = None,
    **settings: Any,
) -> AsyncIterator[NotifyService]:
    """Webhooks to loopback unless told otherwise, at full speed."""
    settings.setdefault("webhook", WebhookSettings(enabled=True))
    made = Settings(per_minute=per_minute, networks=networks, **settings)
    at = NotifyService(channels, Config(http=http or Http(), notify=made), data)
    channels.notifier = at
    await at.start()
    try:
        yield at
    finally:
        await at.close()
        channels.notifier = None
