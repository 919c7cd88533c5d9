"""A policy compiled for queues: packs a queue with a few array operations per step.

A decider gets the frame and `alive`, the positions of the events still in the queue, and returns masks over
those positions. Its results must equal those of `evaluate`; tests/agreement checks that.
"""

from __future__ import annotations

import operator
from functools import cache
from itertools import compress
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from penstock.model import values
from penstock.model.digest import WORST_CASE, Cause, Digest, merge_all
from penstock.model.event import Event
from penstock.policy import evaluate, filters, paths
from penstock.policy.attributes import read
from penstock.policy.columns import by_order, by_value  # noqa: F401  # importing registers their deciders
from penstock.policy.columns.assemble import DigestColumns, Runs, digest_columns, digests
from penstock.policy.columns.deciders import COMPILERS, View
from penstock.policy.columns.frame import Frame, Layout
from penstock.policy.digesters import NUMERIC
from penstock.policy.evaluate import FilterEffect, Packed, Spare
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing, PayloadFormat
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.model.arrays import Floats, Ints, Mask
    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.paths import Path


class CompiledStep:
    """A step ready to run: parameters converted, sets hashed, patterns compiled."""

    __slots__ = ("_careful", "_decide", "_drop_unreadable", "_keep", "_path", "numbers")

    def __init__(self, policy: Policy, step: Step) -> None:
        by = step.filter.by if isinstance(step.filter, filters.Top) else None
        self._path: Path | None = None
        if step.filter.reads:
            self._path = paths.parse(by) if by else policy.path_of(step)
        self.numbers: list[Path] = [self._path] if self._path and reads_numbers(step.filter) else []
        """The attribute, if the filter reads it as a number."""
        self._decide = COMPILERS[type(step.filter)](step.filter)
        self._keep = step.verb is Verb.KEEP
        self._drop_unreadable = policy.missing_of(step) is Missing.DROP
        self._careful = self._keep or self._drop_unreadable

    def dropped(self, frame: Frame, alive: Ints | None, now_us: int) -> Mask:
        """Mask over the events left: True for those the step drops."""
        column = frame.column(self._path) if self._path else None
        matched, readable, scope = self._decide(View(frame, alive, column, now_us, self._careful))
        gone = matched
        if self._keep:
            gone = ~matched
            if readable is not None:
                gone &= readable
            if scope is not None:
                gone &= scope
        if self._drop_unreadable and readable is not None:
            gone = gone | ~readable
        return gone


def reads_numbers(node: filters.Filter) -> bool:
    """Whether a filter reads its attribute as a number, and nothing else of it."""
    match node:
        case filters.Gt() | filters.Ge() | filters.Lt() | filters.Le():
            return not isinstance(node.value, str)
        case filters.Within():
            return not isinstance(node.low, str)
    return isinstance(node, filters.Delta | filters.Swing | filters.Top)


class ColumnPack(NamedTuple):
    """A queue packed by columns."""

    dropped: Mask
    begins: Ints
    """Place of the first event of each run of dropped ones."""
    digests: DigestColumns | None
    """A digest of each run; None: nothing was dropped."""


SMALL: Final = 12
"""Below this many items `evaluate` is faster than setting up arrays (`penstock bench policy`)."""


class Plan:
    """One policy (or none), compiled to pack any number of queues."""

    def __init__(self, policy: Policy | None) -> None:
        self.policy = policy
        placed = list(policy.steps(policy.highest)) if policy else []
        self._causes = [one.cause for one in placed]
        self._steps = [CompiledStep(policy, one.step) for one in placed] if policy else []
        self._between: dict[tuple[int, int], list[tuple[Cause, CompiledStep]]] = {}
        """Steps of a pack, by the level above which it begins and the level it ends with."""
        asked = policy.asked() if policy else {}
        self._asked = [(paths.parse(attribute), asked[attribute]) for attribute in sorted(asked)]
        given = policy.payload if policy else PayloadFormat.AUTO
        read = [path for step in self._steps for path in step.numbers]
        read += [path for path, names in self._asked if not NUMERIC.isdisjoint(names)]
        self._layout = Layout(given, read)
        self.urgent = urgency(policy)
        """Says of an event whether it is urgent; None: no event is."""

    @property
    def fresh_us(self) -> int | None:
        """Time that no event should wait longer; None: any time."""
        return self.policy.fresh_us if self.policy else None

    @property
    def highest(self) -> int:
        """Number of the highest level; 0 without a policy."""
        return self.policy.highest if self.policy else 0

    def pack(
        self,
        items: Sequence[Item],
        *,
        level: int,
        now_us: Instant,
        above: int = 0,
        spare: Spare | None = None,
    ) -> Packed:
        """The queue after every step of levels `above` + 1 … `level`, but for events to be spared.

        Same result as `evaluate.pack`, faster.
        """
        assert 0 <= above <= level <= self.highest
        if level == above:
            return Packed(list(items), ())
        assert self.policy is not None
        if len(items) < SMALL:
            return evaluate.pack(self.policy, items, level=level, now_us=now_us, above=above, spare=spare)
        queue = _Queue(items)
        frame = self._frame(queue)
        fates, effects = self._decided(frame, level=level, above=above, now_us=now_us)
        if spare is not None:
            back = fates.spare(spare, level)
            effects = [
                FilterEffect(one.cause, one.seen, one.dropped - back.get(one.cause, 0)) for one in effects
            ]
        return Packed(queue.without(fates, frame, self._asked), tuple(effects))

    def _frame(self, queue: _Queue) -> Frame:
        events = queue.events
        return Frame(lambda: events, self._layout, self._layout.read(events, queue.rows))

    def _decided(
        self, frame: Frame, *, level: int, above: int, now_us: Instant
    ) -> tuple[Fates, list[FilterEffect]]:
        """The events that each step of levels `above` + 1 … `level` drops."""
        steps = self._between.get((above, level))
        if steps is None:
            steps = self._between[above, level] = [
                (cause, step)
                for cause, step in zip(self._causes, self._steps, strict=True)
                if above < cause.level <= level
            ]
        fates = Fates(frame.size)
        effects = []
        for number, (cause, step) in enumerate(steps, start=1):
            gone = step.dropped(frame, fates.alive, now_us)
            count = int(np.count_nonzero(gone))
            effects.append(FilterEffect(cause, seen=len(gone), dropped=count))
            if count:
                fates.add(cause, gone, last=number == len(steps))
        return fates, effects

    def pack_columns(
        self,
        ts: Ints,
        seq: Ints,
        numbers: Mapping[str, Floats],
        events: Callable[[], list[Event]],
        *,
        level: int,
        now_us: Instant,
    ) -> ColumnPack | None:
        """`pack` of events that are columns already, with the result as columns, too.

        `numbers` are the attributes that are numbers by path, NaN where there is none. The events themselves
        are made only if the policy asks for something else. None: not for this policy, or too few events.
        """
        rows = self._layout.of_columns(ts, seq, numbers) if len(ts) >= SMALL else None
        if rows is None:
            return None
        frame = Frame(cache(events), self._layout, rows)
        fates, _ = self._decided(frame, level=level, above=0, now_us=now_us)
        begins, ends = _stretches(fates.dropped)
        if not len(begins):
            return ColumnPack(fates.dropped, begins, None)
        runs = Runs(begins, ends, frame.size)
        return ColumnPack(
            fates.dropped, begins, digest_columns(frame, runs, fates.by_cause, fates.causes, self._asked)
        )

    def prepare(self, events: list[Event]) -> None:
        """Read the numbers of many events at once that are going to be packed in smaller parts."""
        self._layout.read(events, [event.cells for event in events])

    def collapse(self, items: Sequence[Item], *, cause: Cause = WORST_CASE) -> list[Item]:
        """The worst case: every event goes into a digest, control items stay where they are."""
        if len(items) < SMALL:
            return evaluate.collapse(self.policy, items, cause=cause)
        queue = _Queue(items)
        fates = Fates(len(queue.events))
        fates.add(cause, np.ones(len(queue.events), dtype=np.bool_), last=True)
        return queue.without(fates, self._frame(queue), self._asked)


def urgency(policy: Policy | None) -> Callable[[Event], bool] | None:
    """Compile `urgent`: answers as `evaluate.urgency` does, ten times as fast where numbers are compared."""
    if policy is None or not policy.urgent:
        return None
    asks = [_asks(policy, step) for step in policy.urgent]
    if None in asks:
        return evaluate.urgency(policy)
    own = [one for one in asks if one is not None]
    return own[0] if len(own) == 1 else lambda event: any(ask(event) for ask in own)


def _asks(policy: Policy, step: Step) -> Callable[[Event], bool] | None:
    """Whether an event's number lies on one side of a bound; None for other predicates."""
    node, path, given = step.filter, policy.path_of(step), policy.payload
    compare = _COMPARE.get(type(node))
    bound = getattr(node, "value", None)
    if compare is None or bound is None or isinstance(bound, str):
        return None
    limit = float(bound)
    name = path.segments[0] if path.source is Source.PAYLOAD and len(path.segments) == 1 else None
    plain = name is not None and given is PayloadFormat.AUTO

    def ask(event: Event) -> bool:
        if plain and event.root.__class__ is dict:  # decoded already, as by another filter
            own = event.root.get(name)
            if own.__class__ is float or (own.__class__ is int and -_EXACT <= own <= _EXACT):
                return compare(own, limit)
        found = values.number(read(event, path, given))
        return found is not None and compare(found, limit)

    return ask


_EXACT: Final = 2**53
"""Whole numbers up to here are compared as they are."""
_COMPARE: Final[dict[type[filters.Filter], Callable[[float, float], bool]]] = {
    filters.Gt: operator.gt,
    filters.Ge: operator.ge,
    filters.Lt: operator.lt,
    filters.Le: operator.le,
}


class Fates:
    """Events dropped so far, and the step that dropped each."""

    __slots__ = ("alive", "by_cause", "causes", "dropped")

    def __init__(self, size: int) -> None:
        self.dropped: Mask = np.zeros(size, dtype=np.bool_)
        self.alive: Ints | None = None
        """Indexes of the events left; None: all."""
        self.causes: list[Cause] = []
        self.by_cause: Ints | None = None
        """Index of the cause of each dropped event; None while there is only one cause."""

    def add(self, cause: Cause, gone: Mask, *, last: bool) -> None:
        """Record a step's mask over the events left."""
        self.causes.append(cause)
        if self.alive is None:
            self.dropped = gone
        else:
            places = self.alive[gone]
            self.dropped[places] = True
            if self.by_cause is None:
                self.by_cause = np.zeros(len(self.dropped), dtype=np.int64)
            self.by_cause[places] = len(self.causes) - 1
        if not last:
            self.alive = (~gone).nonzero()[0] if self.alive is None else self.alive[~gone]

    def spare(self, choose: Spare, level: int) -> dict[Cause, int]:
        """Take back events that a level dropped; returns how many each cause had dropped."""
        goes = self.dropped
        if self.by_cause is not None:
            of_level = np.array([cause.level == level for cause in self.causes], dtype=np.bool_)
            goes = goes & of_level[self.by_cause]
        elif not any(cause.level == level for cause in self.causes):
            return {}
        stay = (~self.dropped).nonzero()[0].tolist()
        back = np.array(choose(stay, goes.nonzero()[0].tolist()), dtype=np.int64)
        self.dropped[back] = False
        if self.by_cause is None:
            return {cause: len(back) for cause in self.causes}
        counts = np.bincount(self.by_cause[back], minlength=len(self.causes)).tolist()
        return dict(zip(self.causes, counts, strict=True))


class _Queue:
    """A queue's items, with the events picked out."""

    __slots__ = ("_are_events", "_items", "events", "rows")

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items if isinstance(items, list) else list(items)
        self._are_events: Mask | None = None
        self.events: list[Event] = self._items  # type: ignore[assignment]  # right if all items are events:
        try:
            self.rows = [event.cells for event in self.events]
        except AttributeError:  # some items are digests or control items
            flags = [isinstance(item, Event) for item in self._items]
            self._are_events = np.array(flags, dtype=np.bool_)
            self.events = list(compress(self._items, flags))  # type: ignore[arg-type]
            self.rows = [event.cells for event in self.events]

    def without(
        self, fates: Fates, frame: Frame, asked: list[tuple[paths.Path, tuple[str, ...]]]
    ) -> list[Item]:
        """The queue with a digest in the place of each run of dropped events and earlier digests."""
        among = self._are_events
        begins, ends = _stretches(fates.dropped if among is None else self._absorbed(fates.dropped, among))
        if not len(begins):
            return list(self._items)
        if among is None:
            runs = Runs(begins, ends, len(self.events))
            found = digests(frame, runs, fates.by_cause, fates.causes, asked)
        else:
            found = self._merged(begins, ends, fates, frame, asked)
        return self._spliced(begins, ends, found)

    def _absorbed(self, dropped: Mask, among: Mask) -> Mask:
        """Mask of the items that go into digests: dropped events, and digests already there."""
        gone = np.array([item.__class__ is Digest for item in self._items], dtype=np.bool_)
        gone[among] = dropped
        return gone

    def _merged(
        self,
        begins: Ints,
        ends: Ints,
        fates: Fates,
        frame: Frame,
        asked: list[tuple[paths.Path, tuple[str, ...]]],
    ) -> list[Digest]:
        """Digest of each stretch: of its dropped events, merged with the digests inside it."""
        assert self._are_events is not None
        events_before = np.zeros(len(self._items) + 1, dtype=np.int64)
        np.cumsum(self._are_events, out=events_before[1:])
        first, last = events_before[begins], events_before[ends]
        with_events = first < last
        fresh: list[Digest] = []
        if with_events.any():
            runs = Runs(first[with_events], last[with_events], frame.size)
            fresh = digests(frame, runs, fates.by_cause, fates.causes, asked)
        found = iter(fresh)
        merged: list[Digest] = []
        for begin, end, has_events in zip(begins.tolist(), ends.tolist(), with_events.tolist(), strict=True):
            parts = [item for item in self._items[begin:end] if isinstance(item, Digest)]
            merged.append(merge_all([next(found), *parts] if has_events else parts))
        return merged

    def _spliced(self, begins: Ints, ends: Ints, found: list[Digest]) -> list[Item]:
        """The items that stay, with each stretch replaced by its digest."""
        out: list[Item] = []
        done = 0
        for begin, end, digest in zip(begins.tolist(), ends.tolist(), found, strict=True):
            out += self._items[done:begin]
            out.append(digest)
            done = end
        out += self._items[done:]
        return out


def _stretches(mask: Mask) -> tuple[Ints, Ints]:
    """Begin and end of each stretch of True."""
    fenced = np.zeros(len(mask) + 2, dtype=np.bool_)
    fenced[1:-1] = mask
    edges = (fenced[1:] != fenced[:-1]).nonzero()[0]
    return edges[0::2], edges[1::2]
