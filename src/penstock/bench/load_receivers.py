"""The receiving half of a load generator: counts bytes, answers QoS 1 many messages at a time."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.bench.load_client import connect, subscribe
from penstock.bench.load_process import Failed

if TYPE_CHECKING:
    import socket

    from penstock.bench.load_process import Counters
    from penstock.bench.load_shape import Shape

READ_BYTES: Final = 1 << 18
PUBACK: Final = (0x40, 2)
ACK_BYTES: Final = 4


class Receivers:
    """All receivers of a load; `arrived` counts the bytes of each."""

    def __init__(self, shape: Shape, topic: str, port: int, arrived: Counters) -> None:
        self._arrived = arrived.values
        self._qos = shape.qos
        self._give_up_s = shape.give_up_s
        self._frame = len(shape.frames(topic)[0])
        assert self._frame < 130, "then the header has more than two bytes"
        self._id_at = 4 + len(topic)
        self._poll = select.epoll()
        self._sockets: dict[int, tuple[int, socket.socket]] = {}
        self._rests = [b""] * shape.receivers
        for number in range(shape.receivers):
            sock = connect(port, f"{topic}-receiver-{number}", version=shape.version)
            subscribe(sock, topic, qos=shape.qos, version=shape.version, policy=shape.policy)
            sock.setblocking(False)
            self._sockets[sock.fileno()] = (number, sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._stalled = [
            connect(port, f"{topic}-stalled-{number}", version=shape.version)
            for number in range(shape.stalled)
        ]
        for sock in self._stalled:
            subscribe(sock, topic, qos=shape.qos, version=shape.version)
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)

    def run(self, target: int) -> int:
        """Until every receiver has so many messages in all; when that was."""
        wanted = target * self._frame
        arrived, view = self._arrived, self._view
        left = len(self._sockets)
        while left:
            ready = self._poll.poll(self._give_up_s)
            if not ready:
                least = min(arrived) // self._frame
                raise Failed(f"{least} of {target} messages arrived, then none for {self._give_up_s:g} s")
            for fd, _ in ready:
                number, sock = self._sockets[fd]
                count = sock.recv_into(view)
                if not count:
                    raise Failed("the broker closed a receiver's connection")
                arrived[number] += count
                if self._qos:
                    self._acknowledge(number, sock, count)
                if arrived[number] >= wanted:
                    left -= 1
                if arrived[number] > wanted:
                    raise Failed(f"{arrived[number] / self._frame:g} messages arrived of {target} sent")
        return time.monotonic_ns()

    def _acknowledge(self, number: int, sock: socket.socket, count: int) -> None:
        data = self._rests[number] + self._buffer[:count]
        whole = len(data) // self._frame
        self._rests[number] = bytes(data[whole * self._frame :])
        table = np.frombuffer(data, np.uint8, whole * self._frame).reshape(whole, self._frame)
        acks = np.empty((whole, ACK_BYTES), np.uint8)
        acks[:, :2] = PUBACK
        acks[:, 2:] = table[:, self._id_at : self._id_at + 2]
        sock.setblocking(True)
        sock.sendall(acks.tobytes())
        sock.setblocking(False)
