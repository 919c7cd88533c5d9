"""Retained messages: the last one of each topic that asked for it, bounded in number and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.mqtt.retained import RetainedTree
from penstock.node.message import expired

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.model.event import Event
    from penstock.model.instant import Instant


class Retained:
    """By topic."""

    def __init__(self, *, most: int, most_bytes: int) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.bytes = 0
        """Of payloads and topics."""
        self._tree: RetainedTree[Event] = RetainedTree()

    def __len__(self) -> int:
        """Topics that have one."""
        return len(self._tree)

    def keep(self, event: Event) -> bool:
        """Keep a message as its topic's last one, or forget the topic's if it is empty; False: no room."""
        before = self._tree.get(event.topic)
        if not event.payload:
            self.forget(event.topic)
            return True
        freed = before.size if before is not None else 0
        if (before is None and len(self._tree) >= self.most) or (
            self.bytes + event.size - freed > self.most_bytes
        ):
            return False
        self._tree.set(event.topic, event)
        self.bytes += event.size - freed
        return True

    def forget(self, topic: str) -> bool:
        """Whether there was one."""
        before = self._tree.discard(topic)
        if before is not None:
            self.bytes -= before.size
        return before is not None

    def get(self, topic: str, *, now_us: Instant) -> Event | None:
        """A topic's message, unless it has expired."""
        event = self._tree.get(topic)
        if event is not None and expired(event, now_us):
            self.forget(topic)
            return None
        return event

    def topics(self, filter_: str) -> list[str]:
        """Topics with a message that a filter (not a shared one) matches."""
        return [topic for topic, _ in self._tree.match(filter_)]

    def all(self) -> Iterator[Event]:
        """Every message; do not change them meanwhile."""
        for filter_ in ("#", "$SYS/#"):
            for _, event in self._tree.match(filter_):
                yield event
