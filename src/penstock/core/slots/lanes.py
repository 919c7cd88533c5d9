"""The lane of a packet by its flow's state (the paper's Table 2), and the lanes of a receiver.

    not served                                     best effort
    served, in its slot                            reserved: ahead of everything else
    served, outside its slot                       late: behind everything else
    served, and the next reservation failed        reserved; then the flow is no longer served
    served, beyond its flow's rate                 late (ours: the paper polices nobody)

These are the defaults of `Decisions`, as the paper prints them. Its rows overlap: the last one that applies
counts. Lanes of a receiver; control messages precede them all:

    reserved      packets that came in their slots, first come, first out
    best effort   the owner's own queue, where a policy packs
    late          served packets outside their slots: behind best effort, or with their flow's next packet

The packets of a flow stay in order: those that still wait, in best effort or late, are moved ahead together
with a packet that goes ahead. Only packets of different flows overtake each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from penstock.core.slots.flows import Flow
    from penstock.core.slots.links import Link
    from penstock.model.instant import Instant


class Lane(IntEnum):
    """Order in which packets leave; control messages precede all lanes."""

    RESERVED = 0
    BEST_EFFORT = 1
    LATE = 2


class FlowHappening(IntEnum):
    """Events about flows."""

    ADMITTED = 0
    REFUSED = 1
    LEFT = 2
    SILENT = 3
    BACK = 4
    SHUT_OUT = 5
    """A link has no place for a flow that other links carry."""


@dataclass(frozen=True, slots=True)
class Assigned:
    """The flow and the lane of one packet; travels with the packet."""

    flow: Ordered
    lane: Lane


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """An event about one flow."""

    what: FlowHappening
    flow: Flow
    at_us: Instant
    reason: str = ""
    retry_us: int = 0
    """For REFUSED and LEFT: time until the next attempt; 0: none by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decisions:
    """Table 2 of the paper (§4.3): the lane of a packet of a served flow, one field for each row."""

    in_slot: Lane = Lane.RESERVED
    """Row 2: the packet came in a slot reserved for it."""
    outside_slot: Lane = Lane.LATE
    """Row 3: it did not."""
    not_reserved: Lane | None = Lane.RESERVED
    """Row 4: no slot could be reserved for the next packet; None: rows 2 and 3 decide."""
    leaves: bool = True
    """Row 4: whether the flow is no longer served then; if it stays, the next packet tries again."""
    beyond_rate: Lane = Lane.LATE
    """The packet is beyond the flow's rate."""

    def lane(self, *, on_time: bool, reserved: bool) -> Lane:
        """Lane of a packet of a served flow by rows 2 to 4."""
        if not reserved and self.not_reserved is not None:
            return self.not_reserved
        return self.in_slot if on_time else self.outside_slot


class Ordered(Protocol):
    """State of a flow in the lanes: enough to keep its packets in order."""

    key: int
    last_other_us: Instant
    """Arrival of its last packet in another lane: until that one is sent, no later one may overtake it."""

    def goes_ahead_on(self, link: Link, now_us: Instant) -> bool:
        """Whether its packets may use lanes on a link."""
        ...


Entry = TypeVar("Entry")


class Lanes(Generic[Entry]):
    """Packets that wait beside a best-effort queue."""

    def __init__(self, *, most: int, late_share: float) -> None:
        if most < 1:
            raise SlotError(f"most {most} packets; at least 1")
        if not 0 <= late_share <= 1:
            raise SlotError(f"late_share {late_share}; allowed: 0 to 1")
        self.most = most
        self._late_share = late_share
        self._credit = 0.0
        """Late packets that may go although best-effort packets wait."""
        self._reserved: deque[Entry] = deque()
        self._late: dict[Hashable, deque[Entry]] = {}
        self._late_count = 0
        self._clean: dict[Hashable, Instant] = {}
        """Flows without a packet in best effort that arrived before the given time."""

    def __len__(self) -> int:
        return len(self._reserved) + self._late_count

    @property
    def reserved(self) -> int:
        """Packets in the reserved lane."""
        return len(self._reserved)

    @property
    def late(self) -> int:
        """Packets in the late lane."""
        return self._late_count

    def put(
        self,
        entry: Entry,
        key: Hashable,
        flow: Ordered,
        lane: Lane,
        *,
        oldest_us: Instant | None,
        beside_us: Instant = 0,
        pick: Callable[[], list[Entry]],
        now_us: Instant,
    ) -> bool:
        """Take a packet of a flow; False: it belongs in the best-effort queue.

        `key` identifies the flow at this receiver. `oldest_us` is since when the oldest item of the
        best-effort queue waits, None if it is empty. `beside_us` is when packets of any flow last entered
        that queue without passing through here. `pick` removes the flow's packets from that queue.
        """
        if lane is Lane.BEST_EFFORT or len(self) >= self.most:
            if key in self._late:
                self._promote(key)
            flow.last_other_us = now_us
            self._clean.pop(key, None)
            return False
        other_us = max(flow.last_other_us, beside_us)
        if oldest_us is not None and oldest_us <= other_us != self._clean.get(key):
            before = pick()
            self._reserved.extend(before)
            if len(self._clean) >= self.most:
                self._clean.clear()
            self._clean[key] = other_us
        if lane is Lane.RESERVED and key in self._late:
            self._promote(key)
        if lane is Lane.RESERVED:
            self._reserved.append(entry)
        else:
            self._late.setdefault(key, deque()).append(entry)
            self._late_count += 1
        return True

    def _promote(self, key: Hashable) -> None:
        """Move a flow's late packets to the reserved lane, before a later packet of it."""
        before = self._late.pop(key)
        self._late_count -= len(before)
        self._reserved.extend(before)

    def head(self, *, others_wait: bool) -> Entry | None:
        """Next packet of these lanes; None if it is the best-effort queue's turn."""
        if self._reserved:
            return self._reserved[0]
        if self._late and (not others_wait or self._credit >= 1):
            return next(iter(self._late.values()))[0]
        return None

    def take(self) -> Entry:
        """Remove and return what `head` showed."""
        if self._reserved:
            return self._reserved.popleft()
        key, entries = next(iter(self._late.items()))
        entry = entries.popleft()
        if not entries:
            del self._late[key]
        self._late_count -= 1
        self._credit = max(0.0, self._credit - 1)
        return entry

    def passed(self, count: int) -> None:
        """Count best-effort items that went out, which earn credit for late ones."""
        self._credit = min(1.0, self._credit + count * self._late_share)

    def clear(self) -> list[Entry]:
        """Remove and return all packets, each flow's in order, to be put into best effort."""
        found = [*self._reserved, *(entry for entries in self._late.values() for entry in entries)]
        self._reserved.clear()
        self._late.clear()
        self._late_count = 0
        self._clean.clear()
        return found
