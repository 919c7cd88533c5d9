"""Links and what they carry: the places of each slot ahead, and the flows that have some of them.

A link leads to one receiver. A flow takes places on the links of all its receivers; a link that is full shuts
the flow out there, and it is served on the others. A packet comes in one of the slots reserved for it, so it
takes an equal part of a place in each. Slots of several lengths have a ledger each; what flows of all lengths
take together is bounded by the link's load.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.slots.options import ControlOptions
    from penstock.model.instant import Instant

WHOLE: Final = 5_040
"""Units of one place: 1 to 10 slots divide it evenly."""

EVEN_LOAD: Final = 0.8
"""Share of a slot's places that flows may take on average: less than all, as they coincide now and then."""


class Ledger:
    """Places taken in the slots of one length."""

    __slots__ = ("_slots", "_taken", "capacity")

    def __init__(self, *, slots: int, capacity: int) -> None:
        if capacity < 1:
            raise SlotError(f"capacity {capacity} packets a slot; at least 1")
        self.capacity = capacity
        self._slots = slots
        self._taken: dict[int, int] = {}
        """Units of WHOLE taken, by slot; slots that have passed are dropped from time to time."""

    def has_room(self, slots: range) -> bool:
        """Whether all these slots have room for a packet that comes in one of them."""
        taken, most = self._taken, self.capacity * WHOLE - WHOLE // len(slots)
        for slot in slots:  # noqa: SIM110  # `all` would take twice as long, for each link of a packet
            if taken.get(slot, 0) > most:
                return False
        return True

    def take(self, slots: range, *, now: int) -> None:
        """Take a packet's part of a place in each of these slots; `now` is the present slot."""
        taken, part = self._taken, WHOLE // len(slots)
        for slot in slots:
            taken[slot] = taken.get(slot, 0) + part
        if len(taken) > 2 * self._slots:
            self._taken = {slot: units for slot, units in taken.items() if slot >= now}

    def give_back(self, slots: range) -> None:
        """Return what one `take` of the same slots took."""
        taken, part = self._taken, WHOLE // len(slots)
        for slot in slots:
            if slot in taken:
                taken[slot] -= part

    def taken(self, slot: int) -> float:
        """Places taken in a slot."""
        return self._taken.get(slot, 0) / WHOLE

    def fullest(self, *, now: int) -> float:
        """Places taken in the fullest slot from the present one on."""
        return max((units for slot, units in self._taken.items() if slot >= now), default=0) / WHOLE


class Link:
    """The link to one receiver."""

    __slots__ = ("__weakref__", "_ledgers", "_options", "capacity", "flows", "left", "load", "name")

    def __init__(self, options: ControlOptions, *, name: str = "", capacity: int = 0) -> None:
        """`capacity` is in packets of the shortest slot; 0: that of the options."""
        self._options = options
        self.name = name
        self.capacity = capacity or options.capacity
        self.flows: dict[int, float] = {}
        """Key of each flow that has places here, and its load: packets of it in one of the shortest slots."""
        self.load = 0.0
        self.left: tuple[int, Instant] | None = None
        """Key of the flow that was shut out last, and when: the packet of that moment still goes ahead."""
        self._ledgers: dict[int, Ledger] = {}

    def ledger(self, length: int) -> Ledger:
        """The ledger of slots of one length, by its number; made when it is used first."""
        found = self._ledgers.get(length)
        if found is None:
            slots = self._options.slots
            found = self._ledgers[length] = Ledger(slots=slots, capacity=self._reserved_capacity(length))
        return found

    def _reserved_capacity(self, length: int) -> int:
        options = self._options
        return max(1, int(self.capacity * options.share * options.lengths_us[length] / options.slot_us))

    def resize(self, capacity: int) -> None:
        """Set another capacity; what is reserved beyond it stays reserved."""
        self.capacity = capacity
        for length, ledger in self._ledgers.items():
            ledger.capacity = self._reserved_capacity(length)

    @property
    def most_load(self) -> float:
        """Load up to which flows are taken."""
        return max(1.0, EVEN_LOAD * int(self.capacity * self._options.share))

    def add(self, key: int, load: float) -> None:
        """Count a flow in."""
        self.remove(key)
        self.flows[key] = load
        self.load += load

    def remove(self, key: int) -> None:
        """Count a flow out."""
        self.load -= self.flows.pop(key, 0.0)
        if not self.flows:
            self.load = 0.0  # drop accumulated rounding errors

    def fullest(self, presents: Sequence[int]) -> float:
        """Share taken of the fullest slot ahead; `presents` are the present slots, one of each length."""
        ledgers = self._ledgers.items()
        return max((one.fullest(now=presents[length]) / one.capacity for length, one in ledgers), default=0.0)


class LinksByTopic(Protocol):
    """Knows the links that lead to the receivers of a topic."""

    @property
    def version(self) -> int:
        """Grows whenever the links of any topic may have changed."""
        ...

    def of(self, topic: str) -> Sequence[Link]:
        """The links of a topic's receivers, each once."""
        ...


class OneLink:
    """One link for all topics: a simulated one, or a program with one receiver."""

    version: Final = 0

    def __init__(self, options: ControlOptions) -> None:
        self.link = Link(options)
        self._links = (self.link,)

    def of(self, topic: str) -> Sequence[Link]:  # noqa: ARG002  # the same for all
        """The link."""
        return self._links
