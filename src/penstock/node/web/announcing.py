"""Changes on their way out: one message on the channel's topic, one call for each other subscriber."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.core.channels.address import topic_of
from penstock.core.channels.difference import to_json
from penstock.mqtt.properties import Properties

if TYPE_CHECKING:
    from penstock.core.channels.delta import Delta
    from penstock.model.instant import Instant
    from penstock.node.broker import Broker
    from penstock.node.web.channel import Channel
    from penstock.node.web.desk import Told

QOS: Final = 1
"""Whoever subscribes with QoS 1 and a kept session gets what changed while away."""

_JSON: Final = Properties(content_type="application/json", payload_format_indicator=1)


class Announcing:
    """Tells everybody once."""

    def __init__(self, broker: Broker, *, retain: bool) -> None:
        self._broker = broker
        self._retain = retain
        self.told: Told | None = None
        """Where subscribers other than MQTT clients are told."""
        self.published = 0
        """Changes published."""
        self.handed = 0
        """Changes handed on to single subscribers."""

    def announce(self, channel: Channel, delta: Delta, *, now_us: Instant, again: bool = False) -> None:
        """A change is told; `safe` follows at once. `again`: it may have been, before a restart."""
        if self._broker.journal is not None:
            self._broker.journal.begin()
        topic, payload = topic_of(channel.url), to_json(delta)
        if not (again and self._published(topic, payload, now_us)):
            self._broker.publish(topic, payload, qos=QOS, retain=self._retain, properties=_JSON)
            self.published += 1
        if self.told is not None:
            for subscribed in list(channel.people.values()):
                self.told.tell(subscribed, delta, now_us=now_us, again=again)
                self.handed += 1

    def _published(self, topic: str, payload: bytes, now_us: Instant) -> bool:
        """Whether it is retained: that and what waits for clients that are away came to the disk together."""
        retained = self._broker.retained.get(topic, now_us=now_us)
        return retained is not None and retained.payload == payload

    async def safe(self, channel: Channel) -> None:
        """Wait until what was told last is on disk, for clients that are away and for other subscribers."""
        told = asyncio.Event()
        if self._broker.journal is not None and self._broker.journal.hold(told.set):
            await told.wait()
        if self.told is not None and channel.people:
            await self.told.safe()

    def forget(self, channel: Channel) -> None:
        """A channel is gone: its last change is retained no more, its subscribers get nothing."""
        if self._retain:
            self._broker.publish(topic_of(channel.url), b"", retain=True)
        if self.told is not None:
            for who in channel.people:
                self.told.forget(who, channel.url)
