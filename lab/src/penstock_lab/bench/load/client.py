"""The shape and messages of a load."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V4
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock_lab.bench.load import nats
from penstock_lab.rigs.blocking_client import connect, subscribe
from penstock_lab.rigs.worker import GIVE_UP_S

if TYPE_CHECKING:
    import socket

PAYLOAD_BYTES: Final = 100
WINDOW: Final = 4_096
"""Messages on their way to one receiver: it would be the bottleneck beyond 10 million a second."""
WINDOW_MANY: Final = 1_024
"""Messages on their way to each of many receivers: 115 KB each, which their sockets hold."""
WINDOW_QOS1: Final = 512
"""Half of the 1,024 that a node of ours lets a client have unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """One kind of load: numbers of senders and receivers, QoS and size of messages."""

    name: str
    senders: int = 1
    receivers: int = 1
    qos: int = 0
    version: int = V4
    """MQTT protocol version."""
    policy: str = ""
    """Policy that every receiver subscribes with; empty for none."""
    kept: bool = False
    """Whether the sessions of receivers outlive their connections."""
    stalled: int = 0
    """Additional receivers that never read."""
    stalled_policy: str = ""
    """Policy that these subscribe with; empty for none."""
    readings: bool = False
    """Whether payloads are JSON with a pulse that varies, for policies that look at it; else all bytes 0."""
    give_up_s: float = GIVE_UP_S
    """A run in which nothing arrives for this long has lost messages."""
    nats: bool = False
    """Whether clients speak NATS and not MQTT; QoS 0 only."""

    @property
    def window(self) -> int:
        """Most messages on their way at a time."""
        if self.qos:
            return WINDOW_QOS1
        return WINDOW if self.receivers == 1 else WINDOW_MANY

    def frames(self, topic: str, count: int = 1) -> list[bytes]:
        """PUBLISH packets of one size, with identifiers from 1 on where they need one."""
        if self.nats:
            return [nats.publish_frame(topic, bytes(PAYLOAD_BYTES))] * count
        return [
            encode(
                Publish(
                    topic,
                    _reading(number) if self.readings else bytes(PAYLOAD_BYTES),
                    qos=self.qos,
                    packet_id=number if self.qos else 0,
                ),
                self.version,
            )
            for number in range(1, count + 1)
        ]

    def arriving(self, topic: str) -> bytes:
        """A message as receivers get it; all have this size."""
        return nats.message_frame(topic, bytes(PAYLOAD_BYTES)) if self.nats else self.frames(topic)[0]

    def connect(self, port: int, client_id: str, *, kept: bool = False) -> socket.socket:
        """A connection of one client."""
        return nats.connect(port) if self.nats else connect(port, client_id, version=self.version, kept=kept)

    def subscribe(self, sock: socket.socket, topic: str, *, qos: int, policy: str = "") -> None:
        """Subscribe, and wait for the answer."""
        if self.nats:
            nats.subscribe(sock, topic)
        else:
            subscribe(sock, topic, qos=qos, version=self.version, policy=policy)


def _reading(number: int) -> bytes:
    """A pulse from 40 to 159, in an order without a pattern; spaces make all of one size."""
    return (b'{"pulse": %d}' % (40 + number * 7_919 % 120)).ljust(PAYLOAD_BYTES)
