"""The ceiling of the load generator: a relay that copies bytes unread in place of a broker.

The relay answers CONNECT and SUBSCRIBE, passes on what others send to all who subscribed, and acknowledges
QoS 1 by the number of bytes.
"""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from threading import Thread
from typing import Any, Final

import numpy as np

from penstock_lab.bench.load.generator import ACK_BYTES, PUBACK, READ_BYTES
from penstock_lab.rigs.ports import HOST

CONNACK: Final = b"\x20\x02\0\0"


class Relay:
    """A process whose relay listens; `run` says where."""

    def __init__(self) -> None:
        self._listener = socket.create_server((HOST, 0), backlog=256)
        Thread(target=self._copy, daemon=True).start()

    def run(self, asked: Any) -> int:  # noqa: ARG002
        """Return the port that the relay listens on."""
        port: int = self._listener.getsockname()[1]
        return port

    def _copy(self) -> None:
        poll = select.epoll()
        poll.register(self._listener.fileno(), select.EPOLLIN)
        sockets: dict[int, socket.socket] = {}
        self._receivers: dict[int, socket.socket] = {}
        self._rests: dict[int, int] = {}
        while True:
            for fd, _ in poll.poll():
                if fd == self._listener.fileno():
                    sock = self._listener.accept()[0]
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    sockets[sock.fileno()] = sock
                    poll.register(sock.fileno(), select.EPOLLIN)
                    continue
                data = b""
                with suppress(ConnectionError):
                    data = sockets[fd].recv(READ_BYTES)
                    if data:
                        self._pass_on(fd, sockets[fd], data)
                if not data:
                    poll.unregister(fd)
                    self._receivers.pop(fd, None)
                    self._rests.pop(fd, None)
                    sockets.pop(fd).close()

    def _pass_on(self, fd: int, sock: socket.socket, data: bytes) -> None:
        if fd not in self._rests:  # a new connection: its first bytes are the CONNECT
            self._rests[fd] = 0
            sock.sendall(CONNACK)
        elif fd in self._receivers:
            pass  # acknowledgements
        elif data[0] == 0x82 and not self._rests[fd]:
            self._receivers[fd] = sock
            sock.sendall(b"\x90\x03" + data[2:4] + data[-1:])
        else:
            for receiver in self._receivers.values():
                receiver.sendall(data)
            self._acknowledge(fd, sock, data)

    def _acknowledge(self, fd: int, sock: socket.socket, data: bytes) -> None:
        """Acknowledge QoS 1 messages by counting bytes: all have the QoS and length of the first."""
        if not self._rests[fd]:
            self._size, self._qos = data[1] + 2, data[0] >> 1 & 3
        whole, rest = divmod(self._rests[fd] % self._size + len(data), self._size)
        self._rests[fd] = self._size + rest
        if self._qos:
            acks = np.zeros((whole, ACK_BYTES), np.uint8)
            acks[:, :2] = PUBACK
            sock.sendall(acks.tobytes())
