"""Opens the log of a stream: an SQLite file below the data folder or NATS JetStream, as the settings say."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final

from penstock.core.streams.log import safe_name
from penstock.core.streams.ticks import duration_us
from penstock.model.instant import SECOND_US
from penstock.node.streams.log.jetstream.log import NatsLog
from penstock.node.streams.log.sqlite import SqliteLog

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.config.streams import Streams
    from penstock.node.streams.log.protocol import DurableLog

log = logging.getLogger(__name__)

SUFFIX: Final = ".log.sqlite"
"""Follows the safe name of a stream, so that no log has the name of another file in the folder."""

AHEAD_US: Final = 60 * SECOND_US
"""A log that ends further ahead of the clock is reported; claims and bursts of messages stay below this."""


async def open_log(settings: Streams, name: str, folder: Path | None) -> DurableLog:
    """Open the log of a stream hosted here; without a folder it is in memory and ends with the process.

    StoreError or NodeError says why it cannot be opened, MissingTool what has to be installed.
    """
    found: DurableLog
    if settings.log == "nats":
        found = await NatsLog.open(settings.nats, safe_name(name))
    else:
        path = None if folder is None else folder / f"{safe_name(name)}{SUFFIX}"
        found = await asyncio.to_thread(SqliteLog, path)
    warn_if_ahead(name, found.end, now_us=time.time_ns() // 1_000)
    return found


def warn_if_ahead(name: str, end: int, *, now_us: int) -> None:
    """Log a warning if the clock is behind the end of a log: it was set back since the log was written."""
    ahead_us = duration_us(end) - now_us
    if ahead_us > AHEAD_US:
        log.warning(
            "stream %r: its log ends %s s ahead of the clock of this machine, which was wrong before or is "
            "wrong now; ticks continue from there, and times of messages are wrong until the clock gets "
            "there: check the clock",
            name,
            f"{ahead_us // SECOND_US:,}",
        )
