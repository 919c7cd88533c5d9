"""Publishes figures of the node as retained messages below $SYS/broker, under mosquitto's names if any."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Final, Protocol

from penstock.model.instant import SECOND_US
from penstock.node.observe.figures import topics
from penstock.node.observe.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.observe.status import NodeStatus

ROOT: Final = "$SYS/broker/"

_MINUTES: Final = (1, 5, 15)

_LOADS: Final = ("publish/messages/received", "publish/messages/sent", "bytes/received", "bytes/sent")
"""Counters of which moving averages are published, too."""


class Publish(Protocol):
    """Publishes a message in the name of the node."""

    def __call__(self, topic: str, payload: bytes, /, *, retain: bool = False) -> None: ...


class Load:
    """Moving averages of the growth of a counter per minute, over 1, 5 and 15 minutes."""

    def __init__(self) -> None:
        self._averages = [0.0] * len(_MINUTES)
        self._last: tuple[int, int] | None = None

    def take(self, count: int, *, now_us: int) -> list[float]:
        """Take the present value of the counter, and return the averages."""
        if self._last is not None and now_us > self._last[1]:
            minutes = (now_us - self._last[1]) / (60 * SECOND_US)
            rate = (count - self._last[0]) / minutes
            self._averages = [
                rate + (average - rate) * math.exp(-minutes / span)
                for average, span in zip(self._averages, _MINUTES, strict=True)
            ]
        self._last = (count, now_us)
        return self._averages


class SysTopics:
    """Publishes the figures that have changed since the interval before."""

    def __init__(self, look: Callable[[], NodeStatus], publish: Publish) -> None:
        self._look = look
        self._publish = publish
        self._published: dict[str, str] = {}
        self._loads: dict[str, Load] = {}
        self._most_clients = 0

    async def run(self, interval_s: float) -> None:
        """Publish at every interval until cancelled."""
        while True:
            self.publish()
            await asyncio.sleep(interval_s)

    def publish(self) -> None:
        """Publish the figures that have changed."""
        for topic, text in self.figures(self._look()).items():
            if self._published.get(topic) != text:
                self._published[topic] = text
                self._publish(ROOT + topic, text.encode(), retain=True)

    def figures(self, status: NodeStatus) -> dict[str, str]:
        """Return the text of every topic below the root."""
        broker = status.broker
        counts = {topic: count for table in TABLES for topic, count in topics(table, status)}
        self._most_clients = max(self._most_clients, broker.connections)
        counts["clients/maximum"] = self._most_clients
        found = {
            "version": f"penstock {broker.version}",
            "uptime": f"{(broker.now_us - broker.started_us) // SECOND_US} seconds",
        }
        found |= {topic: str(count) for topic, count in counts.items()}
        for name in _LOADS:
            averages = self._loads.setdefault(name, Load()).take(counts[name], now_us=broker.now_us)
            load = name.replace("publish/messages", "publish")
            found |= {
                f"load/{load}/{span}min": f"{average:.2f}"
                for span, average in zip(_MINUTES, averages, strict=True)
            }
        return found
