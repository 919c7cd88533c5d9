"""The pace of a session, measured at its connection: what the transport and the client really took.

    queues ──► collected, transport's buffer, kernel's buffer ──► taken by the other end
               └────── outside: no policy reaches it ───────┘

Only a session whose queues keep time has a pace, and only while something waits there is it measured: a
session that keeps up costs nothing.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.core.queues import Pace
from penstock.core.queues.pace import WINDOW_US
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.core.queues import BoundedQueue
    from penstock.model.instant import Instant
    from penstock.node.broker.link import Link

LOOK_US: Final = 5_000
"""Least time between two looks at the connection: each asks the kernel."""

HEADER_BYTES: Final = 6
"""Bytes of a PUBLISH besides topic and payload: type, length, topic's length, properties' length."""


_OUTQ: Final = 0x5411
"""SIOCOUTQ of Linux: bytes in the send queue of a socket that the other end has not acknowledged."""


def unsent_bytes(sock: Any) -> int:
    """Bytes that the kernel holds for a socket and the other end has not acknowledged; 0 where unknown."""
    if sock is None or sys.platform != "linux":
        return 0
    import fcntl  # noqa: PLC0415  # not everywhere

    with suppress(OSError, ValueError):  # it was closed meanwhile, or it is no socket of TCP
        return int.from_bytes(fcntl.ioctl(sock.fileno(), _OUTQ, bytes(4)), sys.byteorder)
    return 0


_TCP_INFO_BYTES: Final = 152
_NOT_SENT, _LEAST_RTT = 144, 148
"""Where `struct tcp_info` of Linux has the bytes that were not sent yet, and the least round trip in µs."""


def not_sent(sock: Any) -> tuple[int, int]:
    """Bytes that the kernel holds for a socket and has not sent once, and the least round trip in µs.

    Unlike what is on the way, which depends on how far away the other end is, such bytes wait for the link.
    Both are 0 where that cannot be known.
    """
    if sock is None or sys.platform != "linux":
        return 0, 0
    with suppress(OSError, ValueError):
        told = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
        if len(told) == _TCP_INFO_BYTES:
            waiting, rtt_us = (
                int.from_bytes(told[at : at + 4], sys.byteorder) for at in (_NOT_SENT, _LEAST_RTT)
            )
            return waiting, rtt_us if rtt_us < SECOND_US else 0
    return 0, 0


class HasQueue(Protocol):
    """A subscription, as far as its queue goes."""

    queue: BoundedQueue | None


class Paced(Protocol):
    """A session whose pace is measured: its connection and its queues."""

    @property
    def link(self) -> Link | None:
        """The connection."""
        ...

    @property
    def waiting(self) -> Collection[HasQueue]:
        """Subscriptions whose queues hold something."""
        ...

    @property
    def in_flight(self) -> int:
        """Messages sent and not acknowledged."""
        ...


class Measured(Protocol):
    """A session whose pace can be measured."""

    def paced(self) -> Pacing:
        """Measure the client's pace from now on."""
        ...


class Pacing:
    """Follows the connection of one session."""

    __slots__ = ("_at_us", "_busy", "_session", "_taken", "pace")

    def __init__(self, session: Paced) -> None:
        self._session = session
        self.pace = Pace(overhead=HEADER_BYTES)
        self._busy = False
        """Whether something has waited in the queues since the last look."""
        self._at_us: Instant = 0
        self._taken = 0

    def glance(self, now_us: Instant) -> None:
        """Something is about to wait: look, unless that was just done."""
        if not self._busy or now_us - self._at_us >= LOOK_US:
            self.look(now_us)

    def look(self, now_us: Instant) -> None:
        """Something waits: see what the other end has taken since the last look."""
        session = self._session
        link = session.link
        if link is None:
            return
        taken, outside = link.output.progress()
        in_flight = session.in_flight
        if in_flight:  # what a client with a window has not acknowledged it has not taken
            unacknowledged = in_flight * self._message_bytes()
            taken -= max(0, unacknowledged - outside)
            outside = max(outside, unacknowledged)
        amount, over_us = max(0, taken - self._taken), now_us - self._at_us
        if self._busy:
            self.pace.took(amount, over_us=over_us)
        elif over_us > WINDOW_US:
            self.pace.rested()
        elif amount * SECOND_US > over_us * (self.pace.per_s or 0.0):
            # The queues were empty for a moment, but what was outside went on; it may have run dry, too, so
            # only the receiver that took more than expected has shown its pace.
            self.pace.took(amount, over_us=over_us)
        self._taken = max(taken, self._taken)
        self._at_us = now_us
        self._busy = True
        self.pace.outside = outside
        waiting = session.waiting
        self.pace.beside = 0
        if len(waiting) > 1:
            queues = [each.queue for each in waiting if each.queue is not None]
            self.pace.beside = self.pace.amount(
                size=sum(queue.bytes for queue in queues), items=sum(map(len, queues))
            )

    def drained(self, now_us: Instant) -> None:
        """Note that the queues have become empty."""
        if self._busy:
            self.look(now_us)
            self._busy = False

    def lost(self) -> None:
        """The connection is gone, and with it what was known: until the next one only capacities bound."""
        self._busy = False
        self._taken = self._at_us = 0
        self.pace.forget()

    def _message_bytes(self) -> int:
        """Bytes of a message, about: as large as those that wait."""
        for subscription in self._session.waiting:
            queue = subscription.queue
            if queue is not None and len(queue):
                return queue.bytes // len(queue) + HEADER_BYTES
        return HEADER_BYTES
