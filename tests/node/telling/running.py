"""Telling with a desk in memory, while it is entered."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from penstock.node.config import Config
from penstock.node.telling.service import Telling
from penstock.node.telling.settings import Telling as Settings
from penstock.node.telling.settings import Webhook

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.node.telling.desk import MemoryDesk

LOOPBACK = ("127.0.0.0/8",)


@asynccontextmanager
async def telling(
    desk: MemoryDesk,
    *,
    data: Path | None = None,
    per_minute: float = 60_000,
    networks: tuple[str, ...] = LOOPBACK,
    **settings: Any,
) -> AsyncIterator[Telling]:
    """Webhooks to loopback unless told otherwise, at full speed."""
    settings.setdefault("webhook", Webhook(enabled=True))
    made = Settings(per_minute=per_minute, networks=networks, **settings)
    at = Telling(desk, Config(telling=made), data)
    desk.told = at
    await at.start()
    try:
        yield at
    finally:
        await at.close()
        desk.told = None
