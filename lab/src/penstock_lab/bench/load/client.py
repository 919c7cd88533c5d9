"""The shape and messages of a load, and a blocking MQTT connection that can subscribe."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import ConnectionLost
from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription
from penstock_lab.bench.load.worker import GIVE_UP_S
from penstock_lab.rigs.ports import HOST

if TYPE_CHECKING:
    from penstock.mqtt.packets.packet import Packet

PAYLOAD_BYTES: Final = 100
WINDOW: Final = 4_096
"""Messages on their way to one receiver: it would be the bottleneck beyond 10 million a second."""
WINDOW_MANY: Final = 1_024
"""Messages on their way to each of many receivers: 115 KB each, which their sockets hold."""
WINDOW_QOS1: Final = 512
"""Half of the 1,024 that a node of ours lets a client have unacknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadShape:
    """How many clients send and receive what: one kind of load."""

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

    @property
    def window(self) -> int:
        """Most messages on their way at a time."""
        if self.qos:
            return WINDOW_QOS1
        return WINDOW if self.receivers == 1 else WINDOW_MANY

    def frames(self, topic: str, count: int = 1) -> list[bytes]:
        """PUBLISH packets of one size, with identifiers from 1 on where they need one."""
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


def _reading(number: int) -> bytes:
    """A pulse from 40 to 159, in an order without a pattern; spaces make all of one size."""
    return (b'{"pulse": %d}' % (40 + number * 7_919 % 120)).ljust(PAYLOAD_BYTES)


ANSWER_S: Final = 30
"""How long a broker may take to answer."""
KEEP_ALIVE_S: Final = 3_600
"""Keep-alive longer than any run, since these clients send no pings."""


def connect(port: int, client_id: str, *, version: int = V5, kept: bool = False) -> socket.socket:
    """A connection whose CONNECT was accepted; `kept`: its session outlives it."""
    sock = socket.create_connection((HOST, port), timeout=ANSWER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    properties = Properties(session_expiry_s=KEEP_ALIVE_S) if kept and version == V5 else NONE
    sock.sendall(
        encode(
            Connect(
                client_id,
                version=version,
                clean_start=not kept,
                keep_alive_s=KEEP_ALIVE_S,
                properties=properties,
            ),
            version,
        )
    )
    answer = _answer(sock, version)
    if not isinstance(answer, Connack) or answer.reason:
        raise ConnectionLost(f"the broker refused a client: {answer}")
    return sock


def subscribe(sock: socket.socket, topic: str, *, qos: int, version: int, policy: str = "") -> None:
    """Subscribe, and wait for the answer."""
    properties = Properties(user=(("policy", policy),)) if policy else NONE
    sock.sendall(encode(Subscribe(1, (Subscription(topic, qos=qos),), properties), version))
    answer = _answer(sock, version)
    if not isinstance(answer, Suback) or answer.reasons != (qos,):
        raise ConnectionLost(f"the broker refused a subscription: {answer}")


def _answer(sock: socket.socket, version: int) -> Packet:
    """The next packet, which comes alone."""
    framer = Framer()
    while True:
        chunk = sock.recv(65_536)
        if not chunk:
            raise ConnectionLost("the broker closed the connection")
        found = framer.feed(chunk)
        if found:
            return decode(found[0], version)
