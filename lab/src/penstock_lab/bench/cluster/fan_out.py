"""Bytes on each link of a cluster, with one subscriber behind it and with many: an event crosses it once."""

from __future__ import annotations

import select
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import GoalMissed
from penstock.mqtt.codes import V4
from penstock_lab.bench.load.client import PAYLOAD_BYTES, LoadShape
from penstock_lab.bench.load.generator import READ_BYTES
from penstock_lab.bench.result import BenchmarkRow
from penstock_lab.rigs.blocking_client import connect, subscribe
from penstock_lab.rigs.cluster import cluster
from penstock_lab.rigs.tcp_bytes import sent_bytes
from penstock_lab.rigs.worker import GIVE_UP_S

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence

    from penstock_lab.rigs.cluster import ClusterNode

SAME: Final = 0.95
"""Goal: a message costs a link with many subscribers behind it at most a twentieth more than with one."""
SHAPE: Final = LoadShape(name="one message at a time")
TOPIC: Final = "fan-out"
PER_S: Final = 100
"""Messages per second: each crosses alone, so that all have the same cost."""
QUIET_S: Final = 1.0
"""Pause before the links are read: subscriptions have been told by then."""


@dataclass(frozen=True, slots=True)
class FanOutEffort:
    """Size of the cluster, subscribers at each node, and messages for each of them."""

    nodes: int
    subscribers: int
    messages: int


def measure(effort: FanOutEffort) -> list[BenchmarkRow]:
    """Bytes per message and link, with one subscriber at each node and with many."""
    config: dict[str, Any] = {
        "bounds": {"connections_per_address": effort.subscribers + 100},
        "sys_interval_s": 0,
    }
    with cluster(effort.nodes, **config) as nodes, ExitStack() as stack:
        crowd = Crowd(nodes, stack)
        few, many = (_bytes_on_links(crowd, each, effort.messages) for each in (1, effort.subscribers))
    least, most = min(few), max(many)
    return [
        BenchmarkRow(
            f"{effort.nodes} nodes, {effort.subscribers} subscribers at each: bytes of a message on a link",
            most,
            "bytes",
            "one subscriber at each",
            least,
            least / most,
            SAME,
            note=f"the most of {len(many)} links, beside the least with one subscriber; a payload has "
            f"{PAYLOAD_BYTES}",
            fails_if="a message crosses a link more than once",
            less=True,
        )
    ]


def _bytes_on_links(crowd: Crowd, subscribers: int, messages: int) -> list[float]:
    """Publish at the first node; bytes per message that the kernel counted on its link to each other one."""
    crowd.grow(subscribers)
    time.sleep(QUIET_S)
    port, links = crowd.nodes[0].direct, len(crowd.nodes) - 1  # the others connect to the first by name
    before = sent_bytes(port)
    crowd.run(messages)
    after = sent_bytes(port)
    if len(after) != links or after.keys() != before.keys():
        raise GoalMissed(f"the first node has {len(after)} links to {links} others")
    return [(after[link] - before[link]) / messages for link in after]


class Crowd:
    """Subscribers at all nodes, and a publisher at the first one."""

    def __init__(self, nodes: Sequence[ClusterNode], stack: ExitStack) -> None:
        self.nodes = nodes
        self._stack = stack
        self._frame = SHAPE.frames(TOPIC)[0]
        self._each = 0
        self._arrived: dict[int, int] = {}
        """Bytes of each subscriber in this run."""
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        stack.callback(self._poll.close)
        self._sender = stack.enter_context(connect(nodes[0].port, "sender", version=V4))

    def grow(self, each: int) -> None:
        """Have so many subscribers at each node."""
        for node in self.nodes:
            for number in range(self._each, each):
                sock = self._stack.enter_context(connect(node.port, f"{node.name}-{number}", version=V4))
                subscribe(sock, TOPIC, qos=0, version=V4)
                self._sockets[sock.fileno()] = sock
                self._poll.register(sock.fileno(), select.EPOLLIN)
        self._each = each

    def run(self, messages: int) -> None:
        """Publish at a steady pace; every subscriber must get every message."""
        self._arrived = dict.fromkeys(self._sockets, 0)
        start_s = time.monotonic()
        for number in range(messages):
            self._sender.sendall(self._frame)
            while (left_s := start_s + (number + 1) / PER_S - time.monotonic()) > 0:
                self._read(left_s)
        wanted = messages * len(self._frame)
        while min(self._arrived.values()) < wanted:
            if not self._read(GIVE_UP_S):
                least = min(self._arrived.values()) // len(self._frame)
                raise GoalMissed(f"a subscriber got {least} of {messages} messages, then none")
        if max(self._arrived.values()) > wanted:
            raise GoalMissed("a subscriber got a message twice")

    def _read(self, within_s: float) -> bool:
        ready = self._poll.poll(within_s)
        for fd, _ in ready:
            chunk = self._sockets[fd].recv(READ_BYTES)
            if not chunk:
                raise GoalMissed("a node closed a subscriber's connection")
            self._arrived[fd] += len(chunk)
        return bool(ready)
