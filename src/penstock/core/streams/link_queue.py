"""The queue before a link to another node: control first, then the streams in turn or in one line."""

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
"""Bytes a stream may send in its turn: a few messages, so that a turn costs little and nobody waits long."""


@dataclass(frozen=True, slots=True)
class LinkQueueStatistics:
    """A snapshot."""

    messages: int
    bytes: int
    refused: int
    """Messages that found the queue full."""


class LinkQueue:
    """Bounded in bytes; what comes when it is full is refused. Control is small and always let in.

    A message larger than the bound gets in while no more than the bound waits: else it would never get over.

    `fair` gives every stream the same share of the link (deficit round robin); else it is first come, first
    served, as in the paper, and a stream with much to resend takes the link from the others.
    """

    def __init__(self, capacity_bytes: int, *, fair: bool = True, header_bytes: int = 0) -> None:
        if capacity_bytes < 1:
            raise StreamError(f"capacity_bytes is {capacity_bytes}: give 1 or more")
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
        """That wait."""
        return self._bytes

    @property
    def urgent_bytes(self) -> int:
        """That wait and are control."""
        return self._urgent_bytes

    def statistics(self) -> LinkQueueStatistics:
        """A snapshot."""
        return LinkQueueStatistics(len(self), self._bytes, self._refused)

    def offer(self, message: Message) -> bool:
        """Let a message in; False if it found no place and is lost."""
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
        """The next message and its bytes."""
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
        """The link is gone, and with it what waited."""
        self._urgent.clear()
        self._streams.clear()
        self._turns.clear()
        self._credit.clear()
        self._bytes = self._urgent_bytes = 0
