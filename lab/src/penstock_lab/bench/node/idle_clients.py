"""Thousands of clients in one process that attach at once, subscribe to a topic each, and do nothing more."""

from __future__ import annotations

import select
import socket
import time
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock_lab.rigs.ports import HOST
from penstock_lab.rigs.worker import GIVE_UP_S, WorkerFailed

if TYPE_CHECKING:
    from collections.abc import Callable

KEEP_S: Final = 3_600
_CONNACK: Final = 0x20
_SUBACK: Final = 0x90


class Idle:
    """Clients that attach when asked, and stay as long as their process."""

    def __init__(self, port: int, clients: int) -> None:
        self._port = port
        self._count = clients
        self._clients: dict[int, socket.socket] = {}

    def run(self, asked: tuple[bool, int]) -> float:
        """Attach all clients; returns the seconds that took.

        Asked for are whether sessions are kept, and how many clients are under way at the same time.
        """
        kept, under_way = asked
        began_s = time.perf_counter()
        self._attach(lambda number: _hello(number, kept=kept), under_way)
        return time.perf_counter() - began_s

    def _attach(self, hello: Callable[[int], bytes], under_way: int) -> None:
        """Connect all clients, as fast as the broker lets them in, and wait for every SUBACK."""
        numbers = iter(range(self._count))
        by_fd: dict[int, int] = {}
        left = self._count
        with select.epoll() as poll:
            for number in islice(numbers, under_way):
                self._dial(number, by_fd, poll)
            while left:
                ready = poll.poll(GIVE_UP_S)
                if not ready:
                    raise WorkerFailed(f"{left} clients got nothing for {GIVE_UP_S:g} s")
                for fd, events in ready:
                    client = self._clients[fd]
                    if events & select.EPOLLOUT:
                        client.send(hello(by_fd[fd]))
                        poll.modify(fd, select.EPOLLIN)
                        continue
                    answer = client.recv(1024)
                    if answer[:1] == bytes((_CONNACK,)) and not answer[3]:
                        client.send(_subscribe(by_fd[fd]))
                        for number in islice(numbers, 1):
                            self._dial(number, by_fd, poll)
                    elif answer[:1] == bytes((_SUBACK,)) and answer[-1] < 0x80:
                        poll.unregister(fd)
                        left -= 1
                    else:
                        raise WorkerFailed(f"a client was refused: {answer.hex() or 'closed'}")

    def _dial(self, number: int, by_fd: dict[int, int], poll: select.epoll) -> None:
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex((HOST, self._port))
        self._clients[client.fileno()] = client
        by_fd[client.fileno()] = number
        poll.register(client.fileno(), select.EPOLLOUT)


def _hello(number: int, *, kept: bool) -> bytes:
    properties = Properties(session_expiry_s=KEEP_S) if kept else NONE
    name = f"idle-{'kept' if kept else 'clean'}-{number}"
    return encode(Connect(name, keep_alive_s=KEEP_S, properties=properties), V5)


def _subscribe(number: int) -> bytes:
    return encode(Subscribe(1, (Subscription(f"idle/{number}/status"),)), V5)
