"""Retained messages of a cluster: which node wrote a topic last.

A stamp is time, origin and number. A node that publishes makes its stamp later than the one it knows, so that
a publisher always replaces what its node has, even if the clock of another node is ahead. All nodes end with
the message of the greatest stamp, in whatever order the messages reach them. A deleted message leaves a stamp
behind, else a node that was away would bring it back.

A node that brings a message to another one also brings it to all others, unless it is killed before. So each
node knows who brought a message to it, and if that one is gone, brings it to all others in its place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.model.instant import Instant


class Stamp(NamedTuple):
    """When a retained message was written, and by which node; the message with the greatest stamp wins."""

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
        self._through: dict[str, str] = {}
        """The nodes that brought the messages here, if these may not be everywhere yet."""

    def __len__(self) -> int:
        return len(self._last)

    def write(self, topic: str, *, at_us: Instant, number: int, deleted: bool) -> Stamp:
        """Stamp a message that was published at this node."""
        before = self._last.get(topic)
        stamp = Stamp(at_us if before is None else max(at_us, before.at_us + 1), self._origin, number)
        self._note(topic, stamp, deleted=deleted)
        return stamp

    def later(self, topic: str, stamp: Stamp, *, deleted: bool, through: str, now_us: Instant) -> bool:
        """Note a message that a node has brought; returns whether it replaces the one that is known."""
        before = self._last.get(topic)
        if before is not None and before >= stamp:
            return False
        self._note(topic, stamp, deleted=deleted)
        if now_us - stamp.at_us < limits.CLUSTER_SPREAD_US:
            self._through[topic] = through
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

    def left_by(self, name: str) -> list[str]:
        """Topics whose message a node that is gone has brought here: others may not have it, and no other
        node may know that. From now on this node answers for them."""
        topics = [topic for topic, through in self._through.items() if through == name]
        for topic in topics:
            del self._through[topic]
        return topics

    def forget(self, topic: str) -> None:
        """Forget the stamp of a topic whose message was not kept, for lack of room."""
        self._last.pop(topic, None)
        self._deleted.pop(topic, None)
        self._through.pop(topic, None)

    def keep_only(self, topics: Iterable[str]) -> None:
        """Forget the stamps of messages that are gone: they have expired."""
        kept = {*topics, *self._deleted}
        self._last = {topic: stamp for topic, stamp in self._last.items() if topic in kept}
        self._through = {topic: node for topic, node in self._through.items() if topic in kept}

    def _note(self, topic: str, stamp: Stamp, *, deleted: bool) -> None:
        self._last[topic] = stamp
        self._deleted.pop(topic, None)
        self._through.pop(topic, None)
        if deleted:
            self._deleted[topic] = None
            if len(self._deleted) > limits.CLUSTER_TOMBSTONES:
                self.forget(next(iter(self._deleted)))
