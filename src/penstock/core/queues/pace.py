"""The pace of a receiver: how fast it really takes what is sent to it, and so how long an event will wait.

    queues ──► outside: transport, kernel, window ──taken──► receiver

The owner of a queue reports what the receiver took and in how much time it had something to take; time in
which there was nothing to take says nothing about its pace. What was handed over and not taken yet is
`outside`: it waits, too, but no policy reaches it. `Lateness` compares a queue with the time that its policy
allows.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Final

from penstock.model.event import Control
from penstock.model.instant import LONGEST_US, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.event import Event, Item

WINDOW_US: Final = 2 * SECOND_US
"""Observations fade by half in 1.4 s: a link takes bytes in lumps of up to half a second, and a radio link
changes its pace within seconds."""

LEAST_US: Final = SECOND_US // 4
"""Busy time that must have been observed before the pace is believed; also the weight that is left of what
was known when the receiver has caught up."""

LUMP_US: Final = SECOND_US // 2
"""Silence of a receiver that has something to take which says nothing yet: it takes bytes in lumps, and what
it takes next counts for the silence before it, too."""

_STEP: Final = 16
"""A late queue is packed again when it has grown by a 16th: an arriving event then pays for about 16 items
looked at by each filter, also if no level can make the queue as short as it should be."""


class Pace:
    """The pace of one receiver; all its queues share it."""

    __slots__ = ("_busy_us", "_silent_us", "_taken", "beside", "by_items", "outside", "overhead")

    def __init__(self, *, by_items: bool = False, overhead: int = 0) -> None:
        self.by_items = by_items
        """Whether the receiver takes so many items a second, whatever their size, and not so many bytes."""
        self.overhead = overhead
        """Bytes that each item takes besides its own size: headers."""
        self.outside: float = 0
        """Bytes (or items) that were handed over and not taken yet."""
        self.beside = 0
        """Bytes (or items) in all queues of the receiver together, if it has several."""
        self._taken = 0.0
        self._busy_us = 0.0
        self._silent_us = 0.0
        """Busy time in which nothing was taken, until now."""

    def took(self, amount: float, *, over_us: float) -> None:
        """The receiver took so many bytes (or items) in a time in which it had something to take."""
        if not amount:
            self._silent_us += over_us
            return
        over_us += self._silent_us
        self._silent_us = 0.0
        fade = exp(-over_us / WINDOW_US)
        self._taken = self._taken * fade + amount
        self._busy_us = self._busy_us * fade + over_us

    def rested(self) -> None:
        """Nothing waits any more: what was seen until now counts little when something waits again."""
        self._silent_us = 0.0
        if self._busy_us > LEAST_US:
            self._taken *= LEAST_US / self._busy_us
            self._busy_us = LEAST_US

    def forget(self) -> None:
        """The receiver is gone: its pace is not known any more."""
        self._taken = self._busy_us = self._silent_us = 0.0
        self.outside = self.beside = 0

    def state(self) -> tuple[float, float]:
        """Return the amount taken and the time it took, both faded: to continue elsewhere or later."""
        return self._taken, self._busy_us

    def restore(self, state: tuple[float, float]) -> None:
        """Continue from the state of another pace of the same receiver."""
        self._taken, self._busy_us = state

    @property
    def per_s(self) -> float | None:
        """Bytes (or items) a second; None: not known yet."""
        taken, busy_us = self._taken, self._busy_us
        stalled_us = self._silent_us - LUMP_US
        if stalled_us > 0:
            fade = exp(-stalled_us / WINDOW_US)
            taken, busy_us = taken * fade, busy_us * fade + stalled_us
        if busy_us < LEAST_US:
            return None
        return taken / busy_us * SECOND_US

    def amount(self, *, size: int, items: int) -> int:
        """Bytes or items, whichever the pace counts."""
        return items if self.by_items else size + self.overhead * items

    def total(self, items: Iterable[Item]) -> int:
        """Return the amount that items take, control items aside."""
        if self.by_items:
            return sum([item.__class__ is not Control for item in items])
        sizes = [item.size for item in items if item.__class__ is not Control]
        return self.amount(size=sum(sizes), items=len(sizes))

    def room(self, within_us: int) -> float | None:
        """How much may wait in the queues if it is to be taken within a time; None: not known yet."""
        if self._silent_us > LUMP_US:
            per_s = self.per_s
            return None if per_s is None else per_s * within_us / SECOND_US - self.outside
        if self._busy_us < LEAST_US:
            return None
        return self._taken / self._busy_us * SECOND_US * within_us / SECOND_US - self.outside

    def wait_us(self, ahead: float) -> int | None:
        """How long something waits behind so many bytes (or items) in queues; None: not known yet."""
        per_s = self.per_s
        if per_s is None:
            return None
        waiting = max(ahead, self.beside) + self.outside
        return round(min(waiting * SECOND_US / per_s, LONGEST_US)) if per_s else LONGEST_US


class Lateness:
    """Whether a queue is late: an event that arrives now would wait longer than the policy's `fresh`."""

    __slots__ = ("fresh_us", "pace", "settled")

    def __init__(self, pace: Pace, fresh_us: int) -> None:
        self.pace = pace
        self.fresh_us = fresh_us
        self.settled = 0.0
        """Amount that the last pack for time left, less what has been taken since."""

    def late(self, items: int, size: int, event: Event | None = None) -> bool:
        """Whether a queue of so many items and bytes is late when the event arrives, and a pack may help."""
        pace = self.pace
        by_items = pace.by_items
        held = items if by_items else pace.amount(size=size, items=items)
        if held < self.settled:  # noqa: PLR1730  # for each event
            self.settled = held
        room = pace.room(self.fresh_us)
        if room is None:
            return False
        more = 1 if by_items else (0 if event is None else event.size) + pace.overhead
        if max(held, pace.beside) + more <= room:
            return False
        step = max(held, room + pace.outside) / _STEP
        return held + more > self.settled + step

    def most(self, held: int, *, ahead: Iterable[Item], behind: int, behind_bytes: int) -> float:
        """How much of what is packed may stay, in the unit of the pace, of a queue that holds so much.

        The urgent items `ahead` are not packed, and so many items of so many bytes follow behind.
        """
        pace = self.pace
        room = pace.room(self.fresh_us) or 0.0
        beside = max(0, pace.beside - held)
        return max(
            0.0, room - pace.total(ahead) - beside - pace.amount(size=behind_bytes, items=max(1, behind))
        )
