"""Spares events of a late queue that a level may drop, but that the receiver takes in time all the same.

A level says what may be lost, and time says how much must be lost. Where a level drops more than that, the
rest is spared, with the sources of events (topic and sender) in turn. Events go in this order, until what is
left is taken in time:

    first the event with the smallest gap: the time since the event of its source before it, which the
    receiver has or will have, because it was sent last or stands before it in the queue

When an event goes, the gap of the next one of its source grows. A source that the receiver knows nothing of
has the largest gap; among equal gaps the event in front goes first. So the newest reading of no source gets
much older than that of another, one source is thinned evenly, and order stays as it is.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.model.digest import Digest
from penstock.model.event import Event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.queues.pace import Pace
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.columns import Plan
    from penstock.policy.evaluate import Packed

_NEVER: Final = 1 << 63
"""Gap of an event before which its source sent nothing that is known: larger than all others."""

_STEPS: Final = 16
"""If digests take more room than expected, at least a 16th less is spared: so many tries are enough."""

_DIGEST_BYTES: Final = 80
"""Size of a digest of one attribute."""


class Sparing:
    """Remembers what each source sent last, and so knows whose turn it is; one per queue."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[tuple[str, str], Instant] = {}
        """Time of the newest event that left, by topic and sender; in the order in which the sources left."""

    def left(self, event: Event) -> None:
        """An event left the queue for the receiver."""
        source = (event.topic, event.sender)
        sent = self._sent
        before_us = sent.pop(source, None)
        sent[source] = event.ts_us if before_us is None else max(before_us, event.ts_us)
        if len(sent) > limits.SOURCES:
            del sent[next(iter(sent))]  # it has waited longest; unknown, it has the next turn as well

    def state(self) -> tuple[tuple[str, str, Instant], ...]:
        """Topic, sender and time of what each source sent last, to continue elsewhere or later."""
        return tuple((*source, sent_us) for source, sent_us in self._sent.items())

    def restore(self, state: Iterable[tuple[str, str, Instant]]) -> None:
        """Continue from the state of another queue's."""
        self._sent = {(topic, sender): sent_us for topic, sender, sent_us in state}

    def spared(
        self, events: Sequence[Event], gone: Sequence[int], costs: Sequence[int], *, room: float
    ) -> list[int]:
        """The places in `gone`, which a level drops, whose events stay: as many as their room holds.

        `events` are all events of the queue, the urgent ones first. `costs` says what each in `gone` takes.
        """
        over = sum(costs) - room
        if over <= 0:
            return list(gone)
        chain = _Chain(self._sent, events, gone)
        cost_of = dict(zip(gone, costs, strict=True))
        while over > 0 and cost_of:
            over -= cost_of.pop(chain.drop_next())
        return list(cost_of)


class Fitting:
    """Packs a late queue at a level, but for the events that are taken in time."""

    def __init__(
        self,
        sparing: Sparing,
        ahead: Iterable[Item],
        items: Sequence[Item],
        *,
        pace: Pace,
        gathered: Callable[[list[Item]], list[Item]],
        most: float,
    ) -> None:
        """`ahead` waits before the items, in the lane of urgent events; `gathered` merges digests.

        `most` is what the result may take if events are spared, in the unit of the receiver's pace.
        """
        self._sparing = sparing
        self._items = items
        self._first = [item for item in ahead if isinstance(item, Event)]
        self._events = [item for item in items if isinstance(item, Event)]
        self._costs = (
            [1] * len(self._events)
            if pace.by_items
            else [pace.amount(size=event.size, items=1) for event in self._events]
        )
        self._pace = pace
        self._gathered = gathered
        self._most = most
        # Digests stand between spared events: about as many as before the pack, or one more.
        digests = [item for item in items if isinstance(item, Digest)]
        self._room = most - pace.total(digests) - pace.amount(size=_DIGEST_BYTES, items=1)
        self.spared_bytes = 0
        """Bytes of the events that the level would have dropped and that were kept."""

    def packed(self, plan: Plan, *, level: int, above: int, now_us: Instant) -> tuple[Packed, Sequence[Item]]:
        """The pack, and its items with digests merged; nothing is spared if the level leaves too much."""
        while True:
            packed = plan.pack(self._items, level=level, above=above, now_us=now_us, spare=self._spare)
            items = self._gathered(packed.items)
            over = self._pace.total(items) - self._most
            if over <= 0 or not self.spared_bytes:
                return packed, items
            self._room -= max(over, self._most / _STEPS)

    def _spare(self, stay: Sequence[int], go: Sequence[int]) -> Sequence[int]:
        costs, skip = self._costs, len(self._first)
        room = self._room - sum([costs[place] for place in stay])
        spared: list[int] = []
        if room > 0:
            events = [*self._first, *self._events] if skip else self._events
            places = [place + skip for place in go] if skip else go
            spared = self._sparing.spared(events, places, [costs[place] for place in go], room=room)
            spared = [place - skip for place in spared] if skip else spared
        self.spared_bytes = sum([self._events[place].size for place in spared])
        return spared


class _Chain:
    """Events with the event of the same source before and behind each, and the gaps of those that may go."""

    __slots__ = ("_after", "_before", "_gaps", "_heap", "_times")

    def __init__(
        self, sent: dict[tuple[str, str], Instant], events: Sequence[Event], gone: Sequence[int]
    ) -> None:
        self._times: list[Instant | None] = [event.ts_us for event in events]
        times, after, before = self._times, [-1] * len(events), [-1] * len(events)
        newest: dict[tuple[str, str], int] = {}
        for place, source in enumerate([(event.topic, event.sender) for event in events]):
            known = newest.get(source)
            if known is None:  # a place behind all events stands for what was sent last
                before[place] = len(times)
                times.append(sent.get(source))
            else:
                before[place] = known
                after[known] = place
            newest[source] = place
        self._before, self._after = before, after
        self._gaps = {place: self._gap(place) for place in gone}
        self._heap = list(zip(self._gaps.values(), self._gaps, strict=True))
        heapify(self._heap)

    def _gap(self, place: int) -> int:
        now_us, before_us = self._times[place], self._times[self._before[place]]
        assert now_us is not None
        return _NEVER if before_us is None else now_us - before_us

    def drop_next(self) -> int:
        """Take out the event with the smallest gap; returns its place."""
        while True:
            gap, place = heappop(self._heap)
            if self._gaps.get(place) == gap:
                break
        del self._gaps[place]
        before, after = self._before[place], self._after[place]
        if before < len(self._after):
            self._after[before] = after
        if after >= 0:
            self._before[after] = before
            if after in self._gaps:
                self._gaps[after] = gap = self._gap(after)
                heappush(self._heap, (gap, after))
        return place
