"""How a flow's state decides the treatment of a packet (the paper's Table 2), and a receiver's lanes.

    not served                                     best effort
    served, in its slot                            reserved: ahead of everything else
    served, outside its slot                       late: behind everything else
    served, and the next reservation failed        this packet as above; then the flow is served no more

The rows are checked in this order, the last one last; the paper leaves it open. A packet beyond its flow's
rate is late. Lanes before a receiver; control messages go before them all:

    reserved      packets that came in their slots, first come, first out
    best effort   the owner's own queue, where a policy packs
    late          served packets outside their slots: behind best effort, or with their flow's next packet

What a flow sends stays in order: whatever of it still waits, in best effort or late, goes along before a
packet that goes ahead. Only packets of different flows overtake each other.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Generic, TypeVar

from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from penstock.core.slots.flows import Flow
    from penstock.model.instant import Instant


class Lane(IntEnum):
    """In which order packets leave; control messages go before all of these."""

    RESERVED = 0
    BEST_EFFORT = 1
    LATE = 2


class FlowHappening(IntEnum):
    """What the owner of flows should know."""

    ADMITTED = 0
    REFUSED = 1
    LEFT = 2
    SILENT = 3
    BACK = 4


@dataclass(frozen=True, slots=True)
class Assigned:
    """The flow and the lane of one packet; travels with the packet."""

    flow: Flow
    lane: Lane


@dataclass(frozen=True, slots=True)
class FlowEvent:
    """Something happened to a flow."""

    what: FlowHappening
    flow: Flow
    at_us: Instant
    reason: str = ""
    retry_us: int = 0
    """Of REFUSED and LEFT: in how long it is tried again; 0: not by itself."""


def treated(*, served: bool, on_time: bool, reserved: bool) -> tuple[Lane, bool]:
    """The table: the lane, and whether the flow stays served."""
    if not served:
        return Lane.BEST_EFFORT, False
    return (Lane.RESERVED if on_time else Lane.LATE), reserved


Entry = TypeVar("Entry")


class Lanes(Generic[Entry]):
    """What waits beside a best-effort queue."""

    def __init__(self, *, most: int, late_share: float) -> None:
        if most < 1:
            raise SlotError(f"lanes of {most} packets hold none; at least 1")
        if not 0 <= late_share <= 1:
            raise SlotError(f"late_share is {late_share}; allowed is 0 to 1")
        self.most = most
        self._late_share = late_share
        self._credit = 0.0
        """Late packets that may go although best effort waits."""
        self._reserved: deque[Entry] = deque()
        self._late: dict[Hashable, deque[Entry]] = {}
        self._late_count = 0
        self._clean: dict[Hashable, Instant] = {}
        """Flows of which nothing waits in best effort: nothing that came until then."""

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
        flow: Flow,
        lane: Lane,
        *,
        oldest_us: Instant | None,
        beside_us: Instant = 0,
        pick: Callable[[], list[Entry]],
        now_us: Instant,
    ) -> bool:
        """Take a packet of a flow; False: it belongs in the best-effort queue.

        `key` stands for the flow at this receiver, `oldest_us` is since when the oldest item of the
        best-effort queue waits, None if none does; `beside_us` is when packets of any flow last came into it
        beside these lanes; `pick` takes the flow's packets out of that queue.
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
        """What is late of a flow goes no later than what came after it."""
        before = self._late.pop(key)
        self._late_count -= len(before)
        self._reserved.extend(before)

    def head(self, *, others_wait: bool) -> Entry | None:
        """What goes next of these lanes; None if the best-effort queue's turn is."""
        if self._reserved:
            return self._reserved[0]
        if self._late and (not others_wait or self._credit >= 1):
            return next(iter(self._late.values()))[0]
        return None

    def take(self) -> Entry:
        """Take what `head` showed."""
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
        """So many best-effort items went out while late ones wait or not."""
        self._credit = min(1.0, self._credit + count * self._late_share)

    def clear(self) -> list[Entry]:
        """Take all, in an order that keeps that of each flow; it may come to wait in best effort."""
        found = [*self._reserved, *(entry for entries in self._late.values() for entry in entries)]
        self._reserved.clear()
        self._late.clear()
        self._late_count = 0
        self._clean.clear()
        return found
