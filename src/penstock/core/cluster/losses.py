"""Events that a full link has dropped, counted for receivers without a policy until a digest tells them.

A dropped event is counted once for every filter of the other node that matches it, so that each subscription
there learns exactly what it misses. There is one count, and later one digest, for each class of receivers and
filter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.cluster.frames import Told, encode_item
from penstock.core.queues.dropping import Tally
from penstock.model.digest import Cause
from penstock.model.digest_wire import digest_in, to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.core.cluster.copies import Outgoing
    from penstock.model.digest import Digest

    Key = tuple[int, str]

LINK_FULL: Final = Cause(0, 0, "link-full")
"""Says in a digest that the link between two nodes could not carry the events."""


class Losses:
    """Dropped events of one link, by class of receivers and filter."""

    def __init__(self) -> None:
        self._tallies: dict[Key, Tally] = {}
        self._dropped = 0
        """Highest number of an event that was counted here."""

    def __bool__(self) -> bool:
        """Whether digests wait for the link."""
        return bool(self._tallies)

    def count(self, out: Outgoing, keys: Iterable[Key]) -> None:
        """Count a dropped event under some keys; an event that is a digest counts for what it stands for."""
        self._dropped = max(self._dropped, out.number)
        digest = digest_in(out.event)
        for key in keys:
            if digest is not None:
                self.merge(key, digest)
            else:
                self._tally(key).add(out.event)

    def merge(self, key: Key, digest: Digest) -> None:
        """Count the events of a digest: one that has not reached the other node, or one of a publisher."""
        self._tally(key).merge(digest)

    def _tally(self, key: Key) -> Tally:
        tally = self._tallies.get(key)
        if tally is None:
            tally = self._tallies[key] = Tally(LINK_FULL)
        return tally

    def take(self) -> tuple[Key, Digest, bytes]:
        """Remove the digest that has waited longest; returns its key, itself, and its bytes in a frame."""
        key = next(iter(self._tallies))
        digest = self._tallies.pop(key).settle()
        assert digest is not None
        number, filter_ = key
        return key, digest, encode_item(Told(filter_, to_bytes(digest), number, self._dropped))

    def forget(self, filters: Iterable[str]) -> None:
        """Drop what is counted for filters that the other node has removed: nobody is left to tell."""
        gone = set(filters)
        for key in [key for key in self._tallies if key[1] in gone]:
            del self._tallies[key]

    def inherit(self, before: Losses) -> None:
        """Take over the counts of the link to an earlier incarnation, whose numbers of classes are void."""
        for (_, filter_), tally in before._tallies.items():
            digest = tally.settle()
            assert digest is not None
            self.merge((0, filter_), digest)
        self._dropped = max(self._dropped, before._dropped)
        before.clear()

    def counts(self) -> Iterator[tuple[Key, int]]:
        """How many events wait to be told, by key."""
        for key, tally in self._tallies.items():
            yield key, tally.count + (0 if tally.merged is None else tally.merged.count)

    def clear(self) -> None:
        """Drop everything: the other node is gone."""
        self._tallies.clear()


__all__ = ["LINK_FULL", "Losses"]
