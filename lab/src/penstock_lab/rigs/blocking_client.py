"""A blocking MQTT connection that can subscribe; what comes then is for its owner to read."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from penstock.errors import ConnectionLost
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription
from penstock_lab.rigs.ports import HOST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.mqtt.packets.packet import Packet

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
    subscribe_all(sock, (topic,), qos=qos, version=version, policy=policy)


def subscribe_all(
    sock: socket.socket, topics: Sequence[str], *, qos: int, version: int, policy: str = ""
) -> None:
    """Subscribe to some topics in one packet, and wait for the answer."""
    properties = Properties(user=(("policy", policy),)) if policy else NONE
    wanted = tuple(Subscription(topic, qos=qos) for topic in topics)
    sock.sendall(encode(Subscribe(1, wanted, properties), version))
    answer = _answer(sock, version)
    if not isinstance(answer, Suback) or answer.reasons != (qos,) * len(wanted):
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
