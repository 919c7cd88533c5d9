"""Shared groups of a node, told to each other node with the number of their members.

The node where a message enters chooses one node for each group, by these numbers. A link is in order and
loses nothing, so only changes are told; the last number of a group counts. Messages for groups wait in a
queue of their own: they are for one member, and if its node goes away they can be given to others.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from penstock import limits
from penstock.core.cluster.backlog import LinkAccount
from penstock.core.cluster.frames import Groups, Told, encode_item
from penstock.core.cluster.losses import LINK_FULL
from penstock.core.queues.dropping import Tally
from penstock.errors import ClusterError
from penstock.model.digest_wire import to_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.digest import Digest
    from penstock.model.event import Event


class OwnGroups:
    """The groups of this node, as one other node is told of them."""

    def __init__(self) -> None:
        self._changed: dict[str, tuple[int, int]] = {}

    @property
    def pending(self) -> bool:
        """Whether the other node must be told something."""
        return bool(self._changed)

    def change(self, group: str, attached: int, members: int) -> None:
        """A group has so many connected members, and so many in all."""
        self._changed[group] = (attached, members)

    def told(self) -> Groups:
        """The changes to tell the other node now."""
        changed, self._changed = self._changed, {}
        return Groups([(group, *counts) for group, counts in changed.items()])


class PeerGroups:
    """The groups of another node, as it has told them: connected members, and all members."""

    def __init__(self) -> None:
        self.counts: dict[str, tuple[int, int]] = {}

    def apply(self, groups: Groups) -> None:
        """Take a change; ClusterError, and nothing changes, if it is not possible or too much."""
        new = sum(group not in self.counts for group, _, _ in groups.changed)
        if len(self.counts) + new > limits.CLUSTER_FILTERS:
            raise ClusterError(f"more than {limits.CLUSTER_FILTERS} shared groups")
        for group, attached, members in groups.changed:
            if attached > members:
                raise ClusterError(f"{attached} of {members} members of '{group}' are connected")
        for group, attached, members in groups.changed:
            if members:
                self.counts[group] = (attached, members)
            else:
                self.counts.pop(group, None)


class SharedEvent(NamedTuple):
    """An event on its way to one member of each of some groups at another node."""

    event: Event
    groups: tuple[str, ...]
    data: bytes
    """The event as an item of a frame."""


class _Flight(NamedTuple):
    """Events and digests of one frame without acknowledgement."""

    number: int
    events: list[SharedEvent]
    told: list[tuple[str, Digest]]


class GroupQueue:
    """Messages for groups at one other node, in order, bounded; the oldest go and are told in digests."""

    def __init__(self, *, capacity_events: int, capacity_bytes: int) -> None:
        self._most_events = capacity_events
        self._most_bytes = capacity_bytes
        self._waiting: deque[SharedEvent] = deque()
        self._tallies: dict[str, Tally] = {}
        self._flights: deque[_Flight] = deque()
        self.bytes = 0
        self.serial = 0
        """Events that have come in; the serial number of the last one."""
        self._accepted = 0
        self._handed = 0
        self._digested = 0
        self._abandoned = 0

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def empty(self) -> bool:
        """Whether nothing waits, neither events nor digests."""
        return not self._waiting and not self._tallies

    @property
    def settled(self) -> int:
        """Serial number up to which every event is in the hands of the other node, or in a digest."""
        return self.serial - len(self._waiting) - self._in_flight

    @property
    def _in_flight(self) -> int:
        return sum(len(flight.events) for flight in self._flights)

    def offer(self, out: SharedEvent) -> None:
        """Accept an event; the oldest ones go if it does not fit."""
        self.serial += 1
        self._accepted += 1
        self._waiting.append(out)
        self.bytes += len(out.data)
        self._fit()

    def rebound(self, capacity_events: int, capacity_bytes: int) -> None:
        """Change the capacity; the oldest events go if it is exceeded."""
        self._most_events, self._most_bytes = capacity_events, capacity_bytes
        self._fit()

    def _fit(self) -> None:
        while len(self._waiting) > self._most_events or (
            self.bytes > self._most_bytes and len(self._waiting) > 1
        ):
            out = self._waiting.popleft()
            self.bytes -= len(out.data)
            self._digested += 1
            for group in out.groups:
                self._tally(group).add(out.event)

    def _tally(self, group: str) -> Tally:
        tally = self._tallies.get(group)
        if tally is None:
            tally = self._tallies[group] = Tally(LINK_FULL)
        return tally

    def tell(self, group: str, digest: Digest) -> None:
        """Tell a group at the other node of events that were dropped before they came here."""
        self._tally(group).merge(digest)

    def take(self, most_bytes: int, number: int) -> list[bytes]:
        """Take items for the frame of this number, at least one if something waits."""
        flight = _Flight(number, [], [])
        items: list[bytes] = []
        size = 0
        while self._tallies and size < most_bytes:
            group = next(iter(self._tallies))
            digest = self._tallies.pop(group).settle()
            assert digest is not None
            flight.told.append((group, digest))
            items.append(encode_item(Told(group, to_bytes(digest))))
            size += len(items[-1])
        while self._waiting and (not items or size + len(self._waiting[0].data) <= most_bytes):
            out = self._waiting.popleft()
            self.bytes -= len(out.data)
            size += len(out.data)
            items.append(out.data)
            flight.events.append(out)
        if items:
            self._flights.append(flight)
        return items

    def landed(self, upto: int) -> None:
        """The other node has acknowledged all frames up to a number."""
        while self._flights and self._flights[0].number <= upto:
            self._handed += len(self._flights.popleft().events)

    def reclaim(self) -> None:
        """The other node stops and has not taken what is not acknowledged: it waits again, in front."""
        while self._flights:
            flight = self._flights.pop()
            for out in reversed(flight.events):
                self._waiting.appendleft(out)
                self.bytes += len(out.data)
            for group, digest in flight.told:
                self.tell(group, digest)
        self._fit()

    def revise(self, change: Callable[[SharedEvent], SharedEvent | None]) -> None:
        """Replace each event that waits by what `change` returns; None: it goes another way."""
        waiting, self._waiting, self.bytes = self._waiting, deque(), 0
        self._accepted -= len(waiting)
        for out in waiting:
            changed = change(out)
            if changed is not None:
                self._waiting.append(changed)
                self.bytes += len(changed.data)
        self._accepted += len(self._waiting)
        self.serial = max(self.serial, len(self._waiting) + self._in_flight)

    def inherit(self, before: GroupQueue) -> None:
        """Take over what waits in the queue of a link that has ended: the same node has been restarted."""
        waiting, before._waiting, before.bytes = before._waiting, deque(), 0
        before._accepted -= len(waiting)
        for out in waiting:
            self.offer(out)
        for group, tally in before._tallies.items():
            digest = tally.settle()
            assert digest is not None
            self.tell(group, digest)
        before._tallies.clear()

    def abandon(self) -> None:
        """Give up what waits and what is on its way: the other node is gone."""
        self._abandoned += len(self._waiting) + self._in_flight
        self._waiting.clear()
        self._flights.clear()
        self._tallies.clear()
        self.bytes = 0

    def account(self) -> LinkAccount:
        """Every event that was accepted, and what became of it."""
        return LinkAccount(
            self._accepted, self._handed, self._digested, len(self._waiting), self._in_flight, self._abandoned
        )
