"""Retained messages of a cluster: which node wrote a topic last.

A stamp is time, origin and number. A node that publishes makes its stamp later than the one it knows, so that
a publisher always replaces what its node has, even if the clock of another node is ahead. All nodes end with
the message of the greatest stamp, in whatever order the messages reach them. A deleted message leaves a stamp
behind, else a node that was away would bring it back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.instant import Instant


class Stamp(NamedTuple):
    """Who wrote a topic, and when; the greater stamp counts."""

    at_us: Instant
    origin: str
    number: int


class Stamps:
    """The last writer of each topic."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._last: dict[str, Stamp] = {}
        self._deleted: dict[str, None] = {}
        """Topics without a message, the oldest deletion first."""

    def __len__(self) -> int:
        return len(self._last)

    def write(self, topic: str, *, at_us: Instant, number: int, deleted: bool) -> Stamp:
        """Stamp a message that was published at this node."""
        before = self._last.get(topic)
        stamp = Stamp(at_us if before is None else max(at_us, before.at_us + 1), self._origin, number)
        self._note(topic, stamp, deleted=deleted)
        return stamp

    def later(self, topic: str, stamp: Stamp, *, deleted: bool) -> bool:
        """Note a message of another node; returns whether it replaces the one that is known."""
        before = self._last.get(topic)
        if before is not None and before >= stamp:
            return False
        self._note(topic, stamp, deleted=deleted)
        return True

    def of(self, topic: str, *, at_us: Instant) -> Stamp:
        """The stamp of a message that is kept; one from before this start has the time it was published."""
        found = self._last.get(topic)
        return Stamp(at_us, "", 0) if found is None else found

    def deleted(self) -> Iterator[tuple[str, Stamp]]:
        """Topics whose message was deleted."""
        for topic in list(self._deleted):
            stamp = self._last.get(topic)
            if stamp is not None:
                yield topic, stamp

    def written_by(self, origin: str) -> list[str]:
        """Topics that a node has written last: if it is gone, others may not have its messages."""
        return [topic for topic, stamp in self._last.items() if stamp.origin == origin]

    def forget(self, topic: str) -> None:
        """There is no message of a topic here: there was no room for it."""
        self._last.pop(topic, None)
        self._deleted.pop(topic, None)

    def keep_only(self, topics: Iterable[str]) -> None:
        """Forget the stamps of messages that are gone: they have expired."""
        kept = {*topics, *self._deleted}
        self._last = {topic: stamp for topic, stamp in self._last.items() if topic in kept}

    def _note(self, topic: str, stamp: Stamp, *, deleted: bool) -> None:
        self._last[topic] = stamp
        self._deleted.pop(topic, None)
        if deleted:
            self._deleted[topic] = None
            if len(self._deleted) > limits.CLUSTER_TOMBSTONES:
                self.forget(next(iter(self._deleted)))
