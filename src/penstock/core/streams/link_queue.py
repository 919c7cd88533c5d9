"""The queue of a link to another node: control first, then the streams in turn or in order of arrival."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.core.streams.messages import is_urgent
from penstock.core.streams.wire import wire_bytes
from penstock.errors import StreamError

if TYPE_CHECKING:
    from penstock.core.streams.messages import Message

QUANTUM_BYTES: Final = 2_048
"""Bytes a stream may send in its turn: a few messages, so that turns are cheap and waiting is short."""


@dataclass(frozen=True, slots=True)
class LinkQueueStatistics:
    """Figures of the queue at one moment."""

    messages: int
    bytes: int
    refused: int
    """Messages that found the queue full."""


class LinkQueue:
    """Bounded in bytes; messages that find it full are refused. Control messages are small and always
    accepted.

    A message larger than the bound is accepted while no more than the bound waits; otherwise it could never
    be sent.

    `fair` gives every stream the same share of the link (deficit round robin). Otherwise it is first come,
    first served, as in the paper, and a stream that resends much takes the link from the others.
    """

    def __init__(self, capacity_bytes: int, *, fair: bool = True, header_bytes: int = 0) -> None:
        if capacity_bytes < 1:
            raise StreamError(f"capacity_bytes {capacity_bytes}; at least 1")
        self._capacity = capacity_bytes
        self._fair = fair
        self._header = header_bytes
        self._urgent: deque[tuple[Message, int]] = deque()
        self._streams: dict[str, deque[tuple[Message, int]]] = {}
        self._turns: deque[str] = deque()
        self._credit: dict[str, int] = {}
        self._bytes = 0
        self._urgent_bytes = 0
        self._refused = 0

    def __len__(self) -> int:
        return len(self._urgent) + sum(map(len, self._streams.values()))

    @property
    def bytes(self) -> int:
        """Bytes waiting."""
        return self._bytes

    @property
    def urgent_bytes(self) -> int:
        """Bytes of control messages waiting."""
        return self._urgent_bytes

    def statistics(self) -> LinkQueueStatistics:
        """Figures of the queue now."""
        return LinkQueueStatistics(len(self), self._bytes, self._refused)

    def offer(self, message: Message) -> bool:
        """Add a message; False if the queue is full: the message is lost."""
        size = wire_bytes(message)
        if is_urgent(message):
            self._urgent.append((message, size))
            self._bytes += size
            self._urgent_bytes += size
            return True
        size += self._header
        if self._bytes > self._capacity or self._bytes + size > self._capacity >= size:
            self._refused += 1
            return False
        self._bytes += size
        name = message.pubend if self._fair else ""
        waiting = self._streams.get(name)
        if waiting is None:
            waiting = self._streams[name] = deque()
            self._turns.append(name)
            self._credit[name] = QUANTUM_BYTES
        waiting.append((message, size))
        return True

    def take(self) -> tuple[Message, int] | None:
        """Remove and return the next message and its bytes."""
        if self._urgent:
            message, size = self._urgent.popleft()
            self._bytes -= size
            self._urgent_bytes -= size
            return message, size
        while self._turns:
            name = self._turns[0]
            waiting = self._streams[name]
            if waiting[0][1] > self._credit[name]:
                self._credit[name] += QUANTUM_BYTES
                self._turns.rotate(-1)
                continue
            message, size = waiting.popleft()
            self._credit[name] -= size
            if not waiting:
                self._turns.popleft()
                del self._streams[name], self._credit[name]
            self._bytes -= size
            return message, size
        return None

    def clear(self) -> None:
        """Drop everything: the link is lost."""
        self._urgent.clear()
        self._streams.clear()
        self._turns.clear()
        self._credit.clear()
        self._bytes = self._urgent_bytes = 0
