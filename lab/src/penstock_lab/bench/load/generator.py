"""Load on a broker, from processes that cost less than any broker.

    senders, one process ──► broker ──► receivers, one process
         └────────── counters in shared memory ◄─────┘

Messages are encoded once and sent many at a time; all have the same size, so receivers count bytes and
acknowledge QoS 1 many messages at a time. A sender is never more than a window ahead of the slowest receiver,
so that a broker need not drop anything, and every message must arrive: a run that does not add up is an
error, not a figure.

`Paced` measures latency at a rate that no broker finds hard: one process sends and receives. A message counts
from the moment it was due, so a broker that falls behind is not spared the wait.
"""

from __future__ import annotations

import select
import struct
import time
from contextlib import ExitStack
from itertools import count
from typing import TYPE_CHECKING, Final, Self

import numpy as np

from penstock_lab.bench.load.client import PAYLOAD_BYTES
from penstock_lab.rigs.worker import GIVE_UP_S, Counters, Worker, WorkerFailed

if TYPE_CHECKING:
    import socket
    from types import TracebackType

    from penstock_lab.bench.load.client import LoadShape

READ_BYTES: Final = 1 << 18
PUBACK: Final = (0x40, 2)
ACK_BYTES: Final = 4


class Receivers:
    """All receivers of a load; `arrived` counts the bytes of each."""

    def __init__(self, shape: LoadShape, topic: str, port: int, arrived: Counters) -> None:
        self._arrived = arrived.values
        self._qos = shape.qos
        self._give_up_s = shape.give_up_s
        self._frame = len(shape.arriving(topic))
        assert shape.nats or self._frame < 130, "then the header has more than two bytes"
        self._id_at = 4 + len(topic)
        self._poll = select.epoll()
        self._sockets: dict[int, tuple[int, socket.socket]] = {}
        self._rests = [b""] * shape.receivers
        for number in range(shape.receivers):
            sock = shape.connect(port, f"{topic}-receiver-{number}", kept=shape.kept)
            shape.subscribe(sock, topic, qos=shape.qos, policy=shape.policy)
            sock.setblocking(False)
            self._sockets[sock.fileno()] = (number, sock)
            self._poll.register(sock.fileno(), select.EPOLLIN)
        self._stalled = [shape.connect(port, f"{topic}-stalled-{number}") for number in range(shape.stalled)]
        for sock in self._stalled:
            shape.subscribe(sock, topic, qos=shape.qos, policy=shape.stalled_policy)
        self._buffer = bytearray(READ_BYTES)
        self._view = memoryview(self._buffer)

    def run(self, target: int) -> int:
        """Read until every receiver has this many messages in all; return the time of the last one."""
        wanted = target * self._frame
        arrived, view = self._arrived, self._view
        left = len(self._sockets)
        while left:
            ready = self._poll.poll(self._give_up_s)
            if not ready:
                least = min(arrived) // self._frame
                raise WorkerFailed(
                    f"{least} of {target} messages arrived, then none for {self._give_up_s:g} s"
                )
            for fd, _ in ready:
                number, sock = self._sockets[fd]
                count = sock.recv_into(view)
                if not count:
                    raise WorkerFailed("the broker closed a receiver's connection")
                arrived[number] += count
                if self._qos:
                    self._acknowledge(number, sock, count)
                if arrived[number] >= wanted:
                    left -= 1
                if arrived[number] > wanted:
                    raise WorkerFailed(f"{arrived[number] / self._frame:g} messages arrived of {target} sent")
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


BLOCK: Final = 256
"""Messages sent at once: 28 KB."""
BLOCK_MANY: Final = 64
"""Messages sent at once where many clients send in turn: fifty such blocks fit the window."""
PACKET_IDS: Final = 1_024
"""Identifiers in use: twice the window of QoS 1, so none is in flight when its turn comes again."""
PAUSE_S: Final = 0.0001
"""Pause between two looks at the counters while the window is full."""


class Senders:
    """All senders of a load, taking turns."""

    def __init__(self, shape: LoadShape, topic: str, port: int, arrived: Counters) -> None:
        self._arrived = arrived.values
        self._qos = shape.qos
        self._give_up_s = shape.give_up_s
        self._window = shape.window
        made = shape.frames(topic, PACKET_IDS)
        self._frame = len(made[0])
        self._arriving = len(shape.arriving(topic))
        self._blob = memoryview(b"".join(made))
        self._block = min(BLOCK if shape.senders == 1 else BLOCK_MANY, shape.window // 4)
        self._sockets = [shape.connect(port, f"{topic}-sender-{number}") for number in range(shape.senders)]
        self._sent = 0
        self._answered = 0
        self._moved_s = 0.0
        """Time of the last message sent or acknowledgement received."""

    def run(self, target: int) -> tuple[int, int]:
        """Send up to this many messages in all; return the times of start and last acknowledgement."""
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
        """Return how many messages have reached all receivers and were acknowledged."""
        arrived: int = min(self._arrived) // self._arriving
        return min(arrived, self._answered) if self._qos else arrived

    def _wait(self) -> None:
        if time.monotonic() - self._moved_s > self._give_up_s:
            raise WorkerFailed(
                f"{self._through()} of {self._sent} messages arrived, then none for {self._give_up_s:g} s"
            )
        if not self._qos:
            time.sleep(PAUSE_S)
            return
        for sock in select.select(self._sockets, [], [], PAUSE_S)[0]:
            data = sock.recv(READ_BYTES)
            if not data:
                raise WorkerFailed("the broker closed a sender's connection")
            while len(data) % ACK_BYTES:
                data += sock.recv(ACK_BYTES - len(data) % ACK_BYTES)
            if data[:2] != bytes(PUBACK):
                raise WorkerFailed(f"no acknowledgement: {data[:4].hex()}")
            self._answered += len(data) // ACK_BYTES
            self._moved_s = time.monotonic()


LEAST: Final = 256
"""Fewest messages of a run."""

_numbers: Final = count(1)
"""Numbers loads, so that those at one broker have topics and client identifiers of their own."""


class Load:
    """Senders and receivers of one shape at one broker, ready to run."""

    def __init__(self, shape: LoadShape, *, broker: str, port: int, from_port: int = 0) -> None:
        """Receivers are at `port`; senders too, or at `from_port` of a broker that passes messages on."""
        self._receivers = shape.receivers
        self._stack = ExitStack()
        self._asked = 0
        self._arrived = Counters(shape.receivers)
        name = f"load-{next(_numbers):03}"
        what = f"{broker}: {shape.name}"
        self._workers = [
            Worker(what, part, shape, name, where, self._arrived)
            for part, where in ((Receivers, port), (Senders, from_port or port))
        ]

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(self._arrived.close)
            for worker in self._workers:  # receivers have subscribed before anybody sends
                stack.enter_context(worker)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, messages: int) -> float:
        """Send this many messages; return how many were delivered per second."""
        self._asked += messages
        for worker in self._workers:
            worker.ask(self._asked)
        received_ns, (started_ns, answered_ns) = (worker.answer() for worker in self._workers)
        seconds: float = (max(received_ns, answered_ns) - started_ns) / 1e9
        return messages * self._receivers / seconds

    def messages_for(self, seconds: float) -> int:
        """Return how many messages take about this long; finding out also warms the broker up."""
        messages = LEAST
        for share in (0.25, 1.0):
            per_s = self.run(messages) / self._receivers
            messages = max(LEAST, int(per_s * seconds * share))
        return messages


_STAMP: Final = struct.Struct(">Q")


class Paced:
    """One sender and some receivers at a fixed rate of messages per second."""

    def __init__(self, shape: LoadShape, topic: str, port: int, from_port: int = 0) -> None:
        """Receivers are at `port`; the sender too, or at `from_port` of another broker."""
        sent, arriving = shape.frames(topic)[0], shape.arriving(topic)
        padding = bytes(PAYLOAD_BYTES)
        self._head, _, self._tail = sent.rpartition(padding)
        self._frame = len(arriving)
        self._stamp_at = arriving.rindex(padding)
        self._rests: dict[socket.socket, bytes] = {}
        for number in range(shape.receivers):
            sock = shape.connect(port, f"{topic}-receiver-{number}", kept=shape.kept)
            shape.subscribe(sock, topic, qos=0, policy=shape.policy)
            self._rests[sock] = b""
        self._sender = shape.connect(from_port or port, f"{topic}-sender")

    def run(self, asked: tuple[int, int]) -> list[int]:
        """Send messages at a fixed rate; return how long each took to each receiver, in nanoseconds."""
        messages, per_s = asked
        rest = bytes(PAYLOAD_BYTES - _STAMP.size) + self._tail
        took_ns: list[int] = []
        started_ns = time.monotonic_ns()
        sent = 0
        while len(took_ns) < messages * len(self._rests):
            due_ns = started_ns + sent * 1_000_000_000 // per_s
            wait_s = (due_ns - time.monotonic_ns()) / 1e9 if sent < messages else GIVE_UP_S
            if wait_s <= 0:
                self._sender.sendall(self._head + _STAMP.pack(due_ns) + rest)
                sent += 1
                wait_s = 0
            ready = select.select(list(self._rests), [], [], wait_s)[0]
            now_ns = time.monotonic_ns()
            for sock in ready:
                took_ns += [now_ns - stamp for stamp in self._stamps(sock)]
            if not ready and wait_s == GIVE_UP_S:
                raise WorkerFailed(f"{len(took_ns)} messages arrived, then none for {GIVE_UP_S:g} s")
        return took_ns

    def _stamps(self, sock: socket.socket) -> list[int]:
        chunk = sock.recv(READ_BYTES)
        if not chunk:
            raise WorkerFailed("the broker closed a receiver's connection")
        data = self._rests[sock] + chunk
        end = len(data) // self._frame * self._frame
        self._rests[sock] = data[end:]
        at = range(self._stamp_at, end, self._frame)
        return [_STAMP.unpack_from(data, place)[0] for place in at]
