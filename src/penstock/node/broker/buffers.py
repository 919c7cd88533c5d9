"""Bounds what waits for a slow client outside its session's queues: sizes of writes and buffers.

    queues, lanes ──► collected, transport's buffer, kernel's send buffer ──► on the way
                      └──── nothing overtakes it, no policy reaches it ────┘

A fast client gets large writes. A slow one gets small ones. If time counts for its session, because a queue
keeps a time or a flow of constant rate goes to it, their size follows its pace.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.node.broker.pacing import not_sent

if TYPE_CHECKING:
    from collections.abc import Callable

OBSERVED_US: Final = 20_000
"""Time of pauses after which the size of writes is chosen again: one pause alone may be the machine's and
not the link's."""


AGAIN_S: Final = 0.002
"""After so long a kernel that holds enough is asked again: it does not tell when it has sent that."""


class SendBuffers:
    """Sizes for one connection whose client was slow, or whose queues keep a time."""

    __slots__ = ("_again", "_before", "_on_the_way", "_over_us", "_socket", "_timer", "_took", "size")

    def __init__(self, sock: socket.socket | None, *, again: Callable[[], None]) -> None:
        """Begin with the sizes of a fast client; None: the connection has no socket of TCP.

        `again` is called when the kernel was full and may have sent what it holds.
        """
        self.size = limits.FLUSH_BYTES
        """Bytes that are collected before a write that does not wait for the end of the turn."""
        self._socket = sock
        self._again = again
        self._timer: asyncio.TimerHandle | None = None
        self._on_the_way = 0
        """Bytes that the send buffer has room for besides those that wait."""
        self._before = 0
        """Bytes that the other end had taken when the present pause began."""
        self._took = 0
        self._over_us = 0

    def keep_little(self) -> None:
        """Have little wait in the kernel until the client proves to be slow or fast."""
        if self.size == limits.FLUSH_BYTES:
            self._limit_unsent(limits.SLOW_FLUSH_BYTES)

    def slow(self) -> None:
        """Have the client proved slow: as little as possible waits outside the queues."""
        if self.size > limits.TIMED_FLUSH_BYTES:
            self._set(limits.TIMED_FLUSH_BYTES)

    def paused(self, taken: int) -> None:
        """The transport takes no more; the other end has taken so many bytes until now."""
        self._before = taken

    def resumed(self, pause_us: int, *, taken: int, timed: bool) -> None:
        """Choose sizes after a pause; `timed`: time counts for the session."""
        slow = self.size < limits.FLUSH_BYTES
        if slow and timed:
            self._follow(pause_us, max(0, taken - self._before))
        elif slow != (pause_us > (limits.FAST_PAUSE_US if slow else limits.SLOW_PAUSE_US)):
            small = limits.TIMED_FLUSH_BYTES if timed else limits.SLOW_FLUSH_BYTES
            self._set(limits.FLUSH_BYTES if slow else small)

    def _follow(self, pause_us: int, took: int) -> None:
        """Choose the size by what the client takes during pauses: only then is it sure to take all it can."""
        self._took += took
        self._over_us += pause_us
        if self._over_us < OBSERVED_US and self._took < limits.FLUSH_BYTES:
            return
        per_us = self._took / max(1, self._over_us)
        self._took //= 2
        self._over_us //= 2
        size = limits.TIMED_FLUSH_BYTES
        while size < limits.FLUSH_BYTES and 2 * size <= per_us * limits.TIMED_FLUSH_US:
            size *= 2
        # What is on the way over a long distance does not wait: leave room for twice as much, so that a pace
        # that only the buffer has limited is seen to grow.
        on_the_way = round(2 * per_us * not_sent(self._socket)[1])
        if size != self.size or not 0.5 < (on_the_way + 1) / (self._on_the_way + 1) < 2:
            self._set(size, on_the_way)

    @property
    def full(self) -> bool:
        """Whether the kernel holds enough that it has not sent; its own bound is one on new packets alone."""
        # The slowest get the next message when the last one is on its way.
        most = 1 if self.size == limits.TIMED_FLUSH_BYTES else self._most_unsent
        if self.size == limits.FLUSH_BYTES or not_sent(self._socket)[0] < most:
            return False
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(AGAIN_S, self._asked_again)
        return True

    def _asked_again(self) -> None:
        self._timer = None
        self._again()

    def close(self) -> None:
        """Ask the kernel no more: the connection is closed."""
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _most_unsent(self) -> int:
        fast = self.size == limits.FLUSH_BYTES
        return limits.UNSENT_LOWAT if fast else max(self.size, 2 * limits.TIMED_FLUSH_BYTES)

    def _set(self, size: int, on_the_way: int = 0) -> None:
        self.size, self._on_the_way = size, on_the_way
        self._took = self._over_us = 0
        self._limit_unsent(self._most_unsent)
        if self._socket is not None:
            wanted = max(size, limits.SLOW_FLUSH_BYTES) + on_the_way
            if size == limits.FLUSH_BYTES:
                wanted = limits.SEND_BUFFER_BYTES
            self._socket.setsockopt(
                socket.SOL_SOCKET, socket.SO_SNDBUF, min(wanted, limits.SEND_BUFFER_BYTES)
            )

    def _limit_unsent(self, size: int) -> None:
        """Bound the bytes that the kernel takes and does not send: no policy reaches them."""
        if self._socket is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, size)
