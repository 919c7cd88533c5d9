"""A blocking connection to a NATS server, without a library: the load generator counts bytes."""

from __future__ import annotations

import select
import socket
from typing import Final

from penstock.errors import ConnectionLost
from penstock_lab.rigs.ports import HOST

ANSWER_S: Final = 30
FIRST_PING_S: Final = 4.0
"""The server asks each new client after some two seconds whether it is there, and then once an hour."""


def publish_frame(topic: str, payload: bytes) -> bytes:
    """A message as a client sends it."""
    return b"PUB %s %d\r\n%s\r\n" % (topic.encode(), len(payload), payload)


def message_frame(topic: str, payload: bytes) -> bytes:
    """A message as a subscriber gets it."""
    return b"MSG %s 1 %d\r\n%s\r\n" % (topic.encode(), len(payload), payload)


def connect(port: int) -> socket.socket:
    """A connection that the server has accepted."""
    sock = socket.create_connection((HOST, port), timeout=ANSWER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    _await(sock, b"INFO ")
    sock.sendall(b'CONNECT {"verbose":false,"pedantic":false}\r\nPING\r\n')
    _await(sock, b"PONG")
    return sock


def subscribe(sock: socket.socket, topic: str) -> None:
    """Subscribe, and wait until the server has asked its first time: only messages come from here on."""
    sock.sendall(b"SUB %s 1\r\nPING\r\n" % topic.encode())
    lines = _await(sock, b"PONG")
    if b"PING" not in lines and select.select([sock], [], [], FIRST_PING_S)[0]:
        lines = _await(sock, b"PING")
    if b"PING" in lines:
        sock.sendall(b"PONG\r\n")


def _await(sock: socket.socket, wanted: bytes) -> list[bytes]:
    """Read whole lines until one begins as wanted."""
    data = b""
    while not data.endswith(b"\r\n") or not any(line.startswith(wanted) for line in data.splitlines()):
        chunk = sock.recv(65_536)
        if not chunk:
            raise ConnectionLost("the NATS server closed the connection")
        data += chunk
    return data.splitlines()
