"""The sending half of a load generator: blocks of ready-made messages, a window ahead at most."""

from __future__ import annotations

import select
import time
from typing import TYPE_CHECKING, Final

from penstock.bench.load_client import connect
from penstock.bench.load_process import Failed
from penstock.bench.load_receivers import ACK_BYTES, PUBACK, READ_BYTES

if TYPE_CHECKING:
    from penstock.bench.load_process import Counters
    from penstock.bench.load_shape import Shape

BLOCK: Final = 256
"""Messages sent at once: 28 KB."""
BLOCK_MANY: Final = 64
"""The same where many send in turn: fifty such blocks fit the window."""
PACKET_IDS: Final = 1_024
"""Identifiers in use: twice the window of QoS 1, so none is in flight when its turn comes again."""
PAUSE_S: Final = 0.0001
"""Between looks at the counters when the window is full."""


class Senders:
    """All senders of a load, taking turns."""

    def __init__(self, shape: Shape, topic: str, port: int, arrived: Counters) -> None:
        self._arrived = arrived.values
        self._qos = shape.qos
        self._give_up_s = shape.give_up_s
        self._window = shape.window
        made = shape.frames(topic, PACKET_IDS)
        self._frame = len(made[0])
        self._blob = memoryview(b"".join(made))
        self._block = min(BLOCK if shape.senders == 1 else BLOCK_MANY, shape.window // 4)
        self._sockets = [
            connect(port, f"{topic}-sender-{number}", version=shape.version)
            for number in range(shape.senders)
        ]
        self._sent = 0
        self._answered = 0
        self._moved_s = 0.0
        """When something was last sent or answered."""

    def run(self, target: int) -> tuple[int, int]:
        """Send up to so many messages in all; when it began, and when the last was acknowledged."""
        started_ns = time.monotonic_ns()
        self._moved_s = time.monotonic()
        turn = 0
        while self._sent < target:
            place = self._sent % PACKET_IDS
            count = min(self._block, target - self._sent, PACKET_IDS - place)
            if self._sent + count - self._through() > self._window:
                self._wait()
                continue
            self._sockets[turn].sendall(self._blob[place * self._frame : (place + count) * self._frame])
            self._sent += count
            self._moved_s = time.monotonic()
            turn = (turn + 1) % len(self._sockets)
        while self._qos and self._answered < target:
            self._wait()
        return started_ns, time.monotonic_ns() if self._qos else 0

    def _through(self) -> int:
        """Messages that all receivers have, and that were acknowledged."""
        arrived: int = min(self._arrived) // self._frame
        return min(arrived, self._answered) if self._qos else arrived

    def _wait(self) -> None:
        if time.monotonic() - self._moved_s > self._give_up_s:
            raise Failed(
                f"{self._through()} of {self._sent} messages arrived, then none for {self._give_up_s:g} s"
            )
        if not self._qos:
            time.sleep(PAUSE_S)
            return
        for sock in select.select(self._sockets, [], [], PAUSE_S)[0]:
            data = sock.recv(READ_BYTES)
            if not data:
                raise Failed("the broker closed a sender's connection")
            while len(data) % ACK_BYTES:
                data += sock.recv(ACK_BYTES - len(data) % ACK_BYTES)
            if data[:2] != bytes(PUBACK):
                raise Failed(f"no acknowledgement: {data[:4].hex()}")
            self._answered += len(data) // ACK_BYTES
            self._moved_s = time.monotonic()
