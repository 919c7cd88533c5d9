"""The little of an MQTT client that load needs: a blocking socket that is connected, and subscribes."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from penstock.bench.brokers import HOST
from penstock.errors import ConnectionLost
from penstock.mqtt.connect import Connack, Connect
from penstock.mqtt.framing import Framer
from penstock.mqtt.kinds import V5
from penstock.mqtt.packet import decode, encode
from penstock.mqtt.properties import NONE, Properties
from penstock.mqtt.subscribe import Suback, Subscribe, Subscription

if TYPE_CHECKING:
    from penstock.mqtt.packet import Packet

ANSWER_S: Final = 30
"""How long a broker may take to answer."""
KEEP_ALIVE_S: Final = 3_600
"""Longer than any run: nobody sends pings."""


def connect(port: int, client_id: str, *, version: int = V5) -> socket.socket:
    """A connection whose CONNECT was accepted."""
    sock = socket.create_connection((HOST, port), timeout=ANSWER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.sendall(encode(Connect(client_id, version=version, keep_alive_s=KEEP_ALIVE_S), version))
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
