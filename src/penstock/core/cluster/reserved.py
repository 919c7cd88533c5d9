"""The lane of a link for events of flows with reserved slots: they overtake all other events.

An event of the lane has no serial number of its own. Its *position* is the serial number of the last other
event that was accepted before it, which counts as unsettled until the event of the lane has landed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.core.cluster.copies import Outgoing


class ReservedLane:
    """Events of reserved slots that wait for one link, with their positions."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Outgoing]] = deque()
        self._flying: deque[int] = deque()
        """Positions of the events that are on their way."""
        self.bytes = 0
        """Bytes of the events that wait."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def unsettled(self) -> int | None:
        """Lowest position of an event that waits or is on its way; None if there is no event."""
        flying = self._flying[0] if self._flying else None
        if not self._waiting:
            return flying
        first = self._waiting[0][0]
        return first if flying is None else min(first, flying)

    def offer(self, out: Outgoing, position: int, *, most_events: int, most_bytes: int) -> bool:
        """Accept an event; False if the lane is full."""
        size = self.bytes + len(out.data)
        if len(self._waiting) >= most_events or size > most_bytes:
            return False
        self._waiting.append((position, out))
        self.bytes = size
        return True

    def take(self, most_bytes: int) -> list[tuple[int, Outgoing]]:
        """Take events for one frame, at least one if one waits."""
        taken: list[tuple[int, Outgoing]] = []
        size = 0
        while self._waiting and (not taken or size + len(self._waiting[0][1].data) <= most_bytes):
            position, out = self._waiting.popleft()
            size += len(out.data)
            self._flying.append(position)
            taken.append((position, out))
        self.bytes -= size
        return taken

    def landed(self, count: int) -> None:
        """The other node has the oldest events that are on their way."""
        for _ in range(count):
            self._flying.popleft()

    def give_back(self, taken: list[tuple[int, Outgoing]]) -> None:
        """Queue the events that were taken last again, in front: the other node has not had them."""
        for position, out in reversed(taken):
            self._flying.pop()
            self._waiting.appendleft((position, out))
            self.bytes += len(out.data)

    def drain(self) -> list[Outgoing]:
        """Remove the events that wait."""
        drained = [out for _, out in self._waiting]
        self._waiting.clear()
        self.bytes = 0
        return drained

    def abandon(self) -> int:
        """Give up all events: the other node is gone; returns how many waited."""
        self._flying.clear()
        return len(self.drain())
