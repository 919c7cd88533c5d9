"""What is known about the link to a neighbour: up or not, since when and why; the log tells changes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Literal

from penstock.node.streams.status import NeighbourRow

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.link import Link

log = logging.getLogger(__name__)


class LinkState:
    """Of one neighbour of the configuration."""

    def __init__(self, link: Link, *, clock: Callable[[], int]) -> None:
        neighbour = link.neighbour
        self.link = link
        self.name = neighbour.name
        self.state: Literal["up", "down", "off"] = "down" if neighbour.enabled else "off"
        self.address = f"{neighbour.host}:{neighbour.port}" if neighbour.host else ""
        self.connections = 0
        """Since the start."""
        self.changed = asyncio.Event()
        """Set when it may be worth calling before its time."""
        self._fault = ""
        self._clock = clock
        self._since_us = clock()

    def enter(self, state: Literal["up", "down", "off"], why: str = "") -> None:
        """Write down, and tell once, what has changed."""
        if (state, why) == (self.state, self._fault):
            return
        now_us = self._clock()
        if state == "up":
            self.connections += 1
            if self.connections > 1:
                after_s = max(0, now_us - self._since_us) / 1e6
                log.info("link to %r: up again after %.1f s", self.name, after_s)
            else:
                log.info("link to %r: up", self.name)
        elif state == "off":
            log.info("link to %r: %s", self.name, why)
        elif self.state == "off":
            log.info("link to %r: switched on", self.name)
        elif why:
            level = logging.INFO if self.state == "down" and self._fault else logging.WARNING
            log.log(level, "link to %r: down: %s", self.name, why)
        if state != self.state:
            self._since_us = now_us
        self.state, self._fault = state, why

    def row(self) -> NeighbourRow:
        """A snapshot."""
        link = self.link
        queue = link.queue.statistics()
        return NeighbourRow(
            name=self.name,
            state=self.state,
            address=self.address,
            since_us=self._since_us,
            queue_bytes=queue.bytes,
            sent=link.sent,
            sent_bytes=link.sent_bytes,
            received=link.received,
            received_bytes=link.received_bytes,
            dropped=queue.refused,
            reconnects=max(0, self.connections - 1),
            fault=self._fault,
            ignored=link.ignored,
        )
