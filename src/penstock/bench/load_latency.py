"""How long a message takes at a rate that no broker finds hard: one process sends and receives.

A message counts from the moment it was due, so a broker that falls behind is not spared the wait.
"""

from __future__ import annotations

import select
import struct
import time
from typing import TYPE_CHECKING, Final

from penstock.bench.load_client import connect, subscribe
from penstock.bench.load_process import GIVE_UP_S, Failed
from penstock.bench.load_receivers import READ_BYTES
from penstock.bench.load_shape import PAYLOAD_BYTES

if TYPE_CHECKING:
    import socket

    from penstock.bench.load_shape import Shape

_STAMP: Final = struct.Struct(">Q")


class Paced:
    """One sender, some receivers, so many messages a second."""

    def __init__(self, shape: Shape, topic: str, port: int) -> None:
        frame = shape.frames(topic)[0]
        self._frame = len(frame)
        self._head = frame[: self._frame - PAYLOAD_BYTES]
        self._rests: dict[socket.socket, bytes] = {}
        for number in range(shape.receivers):
            sock = connect(port, f"{topic}-receiver-{number}", version=shape.version)
            subscribe(sock, topic, qos=0, version=shape.version, policy=shape.policy)
            self._rests[sock] = b""
        self._sender = connect(port, f"{topic}-sender", version=shape.version)

    def run(self, asked: tuple[int, int]) -> list[int]:
        """Send so many, so many a second; how long each took to each receiver, in nanoseconds."""
        messages, per_s = asked
        padding = bytes(PAYLOAD_BYTES - _STAMP.size)
        took_ns: list[int] = []
        started_ns = time.monotonic_ns()
        sent = 0
        while len(took_ns) < messages * len(self._rests):
            due_ns = started_ns + sent * 1_000_000_000 // per_s
            wait_s = (due_ns - time.monotonic_ns()) / 1e9 if sent < messages else GIVE_UP_S
            if wait_s <= 0:
                self._sender.sendall(self._head + _STAMP.pack(due_ns) + padding)
                sent += 1
                wait_s = 0
            ready = select.select(list(self._rests), [], [], wait_s)[0]
            now_ns = time.monotonic_ns()
            for sock in ready:
                took_ns += [now_ns - stamp for stamp in self._stamps(sock)]
            if not ready and wait_s == GIVE_UP_S:
                raise Failed(f"{len(took_ns)} messages arrived, then none for {GIVE_UP_S:g} s")
        return took_ns

    def _stamps(self, sock: socket.socket) -> list[int]:
        chunk = sock.recv(READ_BYTES)
        if not chunk:
            raise Failed("the broker closed a receiver's connection")
        data = self._rests[sock] + chunk
        end = len(data) // self._frame * self._frame
        self._rests[sock] = data[end:]
        at = range(len(self._head), end, self._frame)
        return [_STAMP.unpack_from(data, place)[0] for place in at]
