"""A thousand clients in one process: they detach, messages pile up for them, and all attach again.

They attach at once or one after the other, at the broker where they were or at another one of its cluster.
"""

from __future__ import annotations

import select
import socket
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V5, Kind
from penstock.mqtt.packets.connect import Connack, Connect, Disconnect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish, ack_frame
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock_lab.rigs.blocking_client import connect
from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.worker import GIVE_UP_S, WorkerFailed

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_S: Final = 3_600
BATCH: Final = 500
"""Messages a publisher has unacknowledged."""
WINDOW: Final = 1_000
"""Receive maximum of a client: more than waits for it, so that none has to be acknowledged first."""
READ_BYTES: Final = 65_536


@dataclass(slots=True)
class _Client:
    name: str
    number: int
    sock: socket.socket
    began_ns: int
    asked_ns: int = 0
    """When CONNECT was sent: the paper's attach request."""
    dialling: bool = True
    framer: Framer = field(default_factory=Framer)
    connack_ns: int = 0
    subscribed: bool = False
    first_ns: int = 0
    heard: list[bytes] = field(default_factory=list)

    def hello(self) -> None:
        """Send CONNECT once the connection is established."""
        self.dialling = False
        problem = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if problem:
            raise OSError(problem, "a client cannot connect")
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        properties = Properties(session_expiry_s=KEEP_S, receive_maximum=WINDOW)
        asked = Connect(self.name, clean_start=False, keep_alive_s=KEEP_S, properties=properties)
        self.asked_ns = time.monotonic_ns()
        self.sock.sendall(encode(asked, V5))

    def hear(self, chunk: bytes, now_ns: int) -> None:
        """Take received bytes and note the times of CONNACK and first message; messages are decoded later."""
        for frame in self.framer.feed(chunk):
            kind = frame[0] >> 4
            if kind == Kind.PUBLISH:
                self.first_ns = self.first_ns or now_ns
                self.heard.append(frame)
            elif kind == Kind.SUBACK:
                self.subscribed = True
            elif kind == Kind.CONNACK:
                self.connack_ns = now_ns
                answer = decode(frame, V5)
                if not isinstance(answer, Connack) or answer.reason:
                    raise WorkerFailed(f"the broker refused a client: {answer}")

    def messages(self) -> list[Publish]:
        """Return the messages received."""
        found = [decode(frame, V5) for frame in self.heard]
        return [packet for packet in found if isinstance(packet, Publish)]


@dataclass(frozen=True, slots=True)
class AttachTimes:
    """Times of the steps of one client, in nanoseconds after its connection began."""

    asked_ns: int
    """CONNECT was sent."""
    connack_ns: int
    first_ns: int
    """The first waiting message arrived; 0 or less if none waited."""


class Attaching:
    """Clients with persistent sessions, each subscribed to a topic of its own.

    Several groups, with names of their own, may be at one broker.
    """

    def __init__(
        self,
        port: int | tuple[int, ...],
        clients: int,
        group: str = "client",
        give_up_s: float = GIVE_UP_S,
    ) -> None:
        """With several ports, clients attach at the next one each time; messages are published at the
        first."""
        self._ports = (port,) if isinstance(port, int) else port
        self._give_up_s = give_up_s
        self._turn = 0
        self._count = clients
        self._group = group
        self._publisher = connect(self._ports[0], f"{group}-publisher")
        everyone = self._attach(lambda client: bool(client.connack_ns))
        for client in everyone:
            wanted = Subscribe(1, (Subscription(self._topic(client.number), qos=1),))
            client.sock.sendall(encode(wanted, V5))
        self._until(lambda client: client.subscribed, everyone)
        self._detach(everyone)

    def run(self, asked: int | tuple[int, float]) -> list[AttachTimes]:
        """Publish so many messages for each detached client, then attach all clients again: at once, or one
        after the other over so many seconds."""
        events, over_s = (asked, 0.0) if isinstance(asked, int) else asked
        self._publish(events)
        everyone = self._attach(lambda client: client.connack_ns > 0 and len(client.heard) >= events, over_s)
        expected = [b"%d" % number for number in range(events)]
        for client in everyone:
            if [message.payload for message in client.messages()] != expected:
                raise WorkerFailed(
                    f"client {client.number} got {len(client.heard)} messages, or not in order"
                )
        self._detach(everyone)
        return [
            AttachTimes(
                one.asked_ns - one.began_ns, one.connack_ns - one.began_ns, one.first_ns - one.began_ns
            )
            for one in everyone
        ]

    def _attach(self, done: Callable[[_Client], bool], over_s: float = 0.0) -> list[_Client]:
        """Connect all clients, each at the next port; read until the condition holds for every one."""
        self._turn += 1
        begin_s = time.monotonic()
        everyone: list[_Client] = []
        left: dict[int, _Client] = {}
        with select.epoll() as poll:
            for number in range(self._count):
                due_s = begin_s + number * over_s / self._count
                while (wait_s := due_s - time.monotonic()) > 0:
                    self._read(poll, left, done, wait_s)
                sock = socket.socket()
                sock.setblocking(False)
                client = _Client(f"{self._group}-{number}", number, sock, time.monotonic_ns())
                sock.connect_ex((HOST, self._ports[(number + self._turn) % len(self._ports)]))
                left[sock.fileno()] = client
                everyone.append(client)
                poll.register(sock.fileno(), select.EPOLLOUT)
            while left:
                self._read_on(poll, left, done)
        return everyone

    def _until(self, done: Callable[[_Client], bool], clients: list[_Client]) -> None:
        """Read until the condition holds for every client."""
        left = {client.sock.fileno(): client for client in clients}
        with select.epoll() as poll:
            for fd in left:
                poll.register(fd, select.EPOLLIN)
            while left:
                self._read_on(poll, left, done)

    def _read_on(self, poll: select.epoll, left: dict[int, _Client], done: Callable[[_Client], bool]) -> None:
        if not self._read(poll, left, done, self._give_up_s):
            raise WorkerFailed(f"{len(left)} clients got nothing for {self._give_up_s:g} s")

    def _read(
        self,
        poll: select.epoll,
        left: dict[int, _Client],
        done: Callable[[_Client], bool],
        within_s: float,
    ) -> bool:
        """Read what comes next; clients that are done leave `left`. False: nothing came in time."""
        ready = poll.poll(within_s)
        for fd, _ in ready:
            client = left[fd]
            if client.dialling:
                client.hello()
                poll.modify(fd, select.EPOLLIN)
                continue
            chunk = client.sock.recv(READ_BYTES)
            if not chunk:
                raise WorkerFailed("the broker closed a client's connection")
            client.hear(chunk, time.monotonic_ns())
            if done(client):
                poll.unregister(fd)
                del left[fd]
        return bool(ready)

    def _detach(self, clients: list[_Client]) -> None:
        for client in clients:
            client.sock.settimeout(GIVE_UP_S)
            acks = [ack_frame(Kind.PUBACK, message.packet_id) for message in client.messages()]
            client.sock.sendall(b"".join(acks) + encode(Disconnect(), V5))
        for client in clients:
            while client.sock.recv(READ_BYTES):
                pass  # the broker has processed everything once it closes the connection
            client.sock.close()

    def _publish(self, events: int) -> None:
        packet_id, waiting = 0, 0
        framer = Framer()
        for number in range(events):
            for client in range(self._count):
                packet_id = packet_id % 0xFFFF + 1
                message = Publish(self._topic(client), b"%d" % number, qos=1, packet_id=packet_id)
                self._publisher.sendall(encode(message, V5))
                waiting += 1
                while waiting >= BATCH:
                    waiting -= self._answers(framer)
        while waiting:
            waiting -= self._answers(framer)

    def _answers(self, framer: Framer) -> int:
        chunk = self._publisher.recv(READ_BYTES)
        if not chunk:
            raise WorkerFailed("the broker closed the publisher's connection")
        return len(framer.feed(chunk))

    def _topic(self, number: int) -> str:
        return f"attach/{self._group}/{number}"


def quantile(values: list[float], share: int) -> float:
    """Return the value below which `share` of 100 are."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) * share // 100]
