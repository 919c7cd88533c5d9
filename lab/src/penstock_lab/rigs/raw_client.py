"""An MQTT 5 connection on asyncio streams that sends and receives packets, and nothing besides.

It buffers nothing and acknowledges nothing by itself, so that what waits, waits at the broker.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Self

from penstock.errors import ConnectionLost
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription
from penstock_lab.rigs.ports import HOST

if TYPE_CHECKING:
    from penstock.mqtt.packets.packet import Packet

ANSWER_S: Final = 60.0


class RawClient:
    """A client that connects when its block begins."""

    def __init__(
        self, port: int, client_id: str, *, receive_maximum: int, topic_aliases: int | None = None
    ) -> None:
        """`receive_maximum` is how many messages the broker may send without an acknowledgement.

        `topic_aliases` is for how many topics it may send numbers instead.
        """
        self._port = port
        self._client_id = client_id
        self._most = Properties(receive_maximum=receive_maximum, topic_alias_maximum=topic_aliases)
        self._framer = Framer()
        self._frames: list[bytes] = []

    async def __aenter__(self) -> Self:
        hello = Connect(self._client_id, keep_alive_s=3_600, properties=self._most)
        self._reader, self.writer = await asyncio.open_connection(HOST, self._port)
        self.writer.write(encode(hello, V5))
        answer = await asyncio.wait_for(self.next(), ANSWER_S)
        if not isinstance(answer, Connack) or answer.reason:
            raise ConnectionLost(f"the broker refused a client: {answer}")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.writer.close()

    async def subscribe(self, filter_: str, properties: Properties = NONE, *, qos: int = 1) -> None:
        """Subscribe; ConnectionLost if the broker refuses."""
        self.writer.write(encode(Subscribe(1, (Subscription(filter_, qos=qos),), properties), V5))
        answer = await asyncio.wait_for(self.next(), ANSWER_S)
        if not isinstance(answer, Suback) or answer.reasons != (qos,):
            raise ConnectionLost(f"the broker refused a subscription: {answer}")

    async def next(self) -> Packet:
        """The next packet."""
        while not self._frames:
            chunk = await self._reader.read(65_536)
            if not chunk:
                raise ConnectionLost("the broker closed the connection")
            self._frames = self._framer.feed(chunk)
        return decode(self._frames.pop(0), V5)
