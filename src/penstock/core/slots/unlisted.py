"""Flows without an entry in the table: what is known of them is in the filters alone.

This is the control of the paper (§4) as it is printed: an arrival is recorded in RBF_h, the slots in which
its flow came before tell the period, [t + T − δ, t + T + δ] is reserved in RBF_r, and a packet is on time if
RBF_r has the present slot for it. So memory does not grow with the number of flows. Periods are known to a
slot, nobody is policed, and no alarm tells that a flow is silent: flows with an entry have all that. What
does not go ahead is best effort and never late, as nobody knows which of their packets wait where.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.lanes import Lane
from penstock.core.slots.slot_sets import slots_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.slots.links import Link, LinksByTopic
    from penstock.core.slots.options import ControlOptions
    from penstock.core.slots.reservation import SlotWindow
    from penstock.model.instant import Instant

LEAST: Final = 4
"""Slots in which a flow must have come at even distances: three may be chance."""

LOST: Final = 0.5
"""Packets that may be missing, per packet that came."""

OFF: Final = 1.0
"""Slots that an arrival may be off its place: both ends of a distance are rounded to slots."""


def regular(mask: int) -> float | None:
    """The period, in slots, of arrivals in the slots of a mask; None if their distances are not even."""
    slots = slots_of(mask, 0)
    count = len(slots)
    if count < LEAST:
        return None
    first, span = slots[0], slots[-1] - slots[0]
    for missing in range(int(LOST * count) + 1):
        period = span / (count - 1 + missing)
        if period < 1:
            return None
        off = min(OFF, period / 3)
        if (
            all(abs(slot - first - round((slot - first) / period) * period) <= off for slot in slots)
            and len({round((slot - first) / period) for slot in slots}) == count
        ):
            return period
    return None


class UnlistedFlow:
    """A flow for the time of one packet; `FlowControl.take` returns the packet's lane."""

    __slots__ = ("key", "lane", "last_other_us")

    def __init__(self, key: int, lane: Lane, *, now_us: Instant) -> None:
        self.key = key
        self.lane = lane
        self.last_other_us = now_us
        """Not known: so whatever of the flow waits in a queue is looked for."""

    @property
    def laned(self) -> bool:
        """Whether the packet goes ahead."""
        return self.lane is Lane.RESERVED

    def goes_ahead_on(self, link: Link, now_us: Instant) -> bool:  # noqa: ARG002  # not known by link
        """Always: a place was taken on all links, or on none."""
        return True


class UnlistedFlows:
    """Serves flows by the filters alone."""

    def __init__(self, options: ControlOptions, windows: Sequence[SlotWindow], links: LinksByTopic) -> None:
        self.decisions = options.decisions
        self._windows = windows
        self._links = links
        self.on_time = 0
        """Packets that came in a slot reserved for them."""
        self.not_reserved = 0
        """Packets whose flow found no place for the next one."""

    def arrive(self, key: int, topic: str, *, now_us: Instant) -> UnlistedFlow:
        """A packet that was recorded as the first of its flow in the present slot."""
        lane = Lane.BEST_EFFORT
        for length, window in enumerate(self._windows):
            period = regular(window.history.query(key))
            if period is not None:
                lane = self._lane(key, topic, length, period * window.slot_us, now_us)
                break
        return UnlistedFlow(key, lane, now_us=now_us)

    def _lane(self, key: int, topic: str, length: int, period_us: float, now_us: Instant) -> Lane:
        """Reserve for the next packet, and look up whether this one came in its slot."""
        slots = self._windows[length].reservations
        on_time, served = slots.holds(key), slots.filter.query(key) != 0
        at_us = now_us + period_us
        wanted = slots.slots_between(at_us - OFF * slots.slot_us, at_us + OFF * slots.slot_us)
        wanted = range(max(wanted.start, slots.now + 1), max(wanted.stop, slots.now + 2))
        ledgers = [link.ledger(length) for link in self._links.of(topic)]
        reserved = slots.reserve(key, wanted, ledgers)
        self.on_time += on_time
        self.not_reserved += not reserved
        lane = self.decisions.lane(on_time=on_time, reserved=reserved) if served else Lane.BEST_EFFORT
        return lane if lane is Lane.RESERVED else Lane.BEST_EFFORT
