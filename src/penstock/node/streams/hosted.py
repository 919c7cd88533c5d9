"""A stream that is published at this node: its log, its pubend, and those who wait for acknowledgements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import StreamError
from penstock.mqtt.topics import matches

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.core.streams.pubend import Pubend
    from penstock.node.streams.hub import Hub
    from penstock.node.streams.log import DurableLog
    from penstock.node.streams.settings import Hosting


class Hosted:
    """Takes records and says when each is durable and in its turn."""

    def __init__(
        self, hosting: Hosting, log: DurableLog, pubend: Pubend, *, hub: Hub, clock: Callable[[], int]
    ) -> None:
        self.name = hosting.name
        self.hosting = hosting
        self.log = log
        self.pubend = pubend
        self._hub = hub
        self._clock = clock
        self._waiting: dict[int, Callable[[], None]] = {}
        hub.acknowledged[hosting.name] = self._acknowledged

    def start(self) -> None:
        """Begin to commit, in the running loop."""
        self.log.start(committed=self._committed, ready=self._ready)

    def carries(self, topic: str) -> bool:
        """Whether what is published on a topic goes into this stream."""
        return any(matches(filter_, topic) for filter_ in self.hosting.topics)

    def publish(self, body: bytes, done: Callable[[], None] | None = None) -> int:
        """Log a record; its tick. `done` follows when it is durable and its publisher may be told.

        StreamError, with what to do, if nothing more can be taken.
        """
        if self.log.bytes >= self.hosting.bytes:
            raise StreamError(
                f"the log of stream {self.name!r} is full ({self.hosting.bytes:,} bytes): "
                "let its readers catch up, or give it more (streams.host.bytes)"
            )
        tick = self.pubend.publish(body, now_us=self._clock())
        if done is not None:
            self._waiting[tick] = done
        return tick

    def _committed(self, until: int, claimed: int) -> None:
        self.pubend.committed(until, claimed=claimed, now_us=self._clock())
        self._hub.changed(self.name)

    def _ready(self) -> None:
        self.pubend.resume()
        self._hub.changed(self.name)

    def _acknowledged(self, tick: int) -> None:
        done = self._waiting.pop(tick, None)
        if done is not None:
            done()
