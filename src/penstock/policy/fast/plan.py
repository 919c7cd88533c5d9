"""A policy compiled for queues: pack one with a few array operations per step."""

from __future__ import annotations

from itertools import compress
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.model.digest import WORST_CASE, Cause, Digest, merge_all
from penstock.model.event import Event
from penstock.policy import evaluate, paths
from penstock.policy.evaluate import FilterEffect, Packed
from penstock.policy.fast.assemble import Runs, digests
from penstock.policy.fast.columns import Frame
from penstock.policy.fast.masks import CompiledStep
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.fast.columns import Ints, Mask
    from penstock.policy.nodes import Policy

SMALL: Final = 12
"""Below this many items, `evaluate` is done before the arrays are set up (`penstock bench policy`)."""

_STAYS: Final = -1
"""The fate of an event that no step dropped."""


class Plan:
    """One policy (or none), ready to pack any number of queues."""

    def __init__(self, policy: Policy | None) -> None:
        self.policy = policy
        placed = list(policy.steps(policy.highest)) if policy else []
        self._causes = [one.cause for one in placed]
        self._steps = [CompiledStep(policy, one.step) for one in placed] if policy else []
        asked = policy.asked() if policy else {}
        self._asked = [(paths.parse(attribute), asked[attribute]) for attribute in sorted(asked)]
        self._given = policy.payload if policy else PayloadFormat.AUTO

    @property
    def highest(self) -> int:
        """The number of the highest level; 0 without a policy."""
        return self.policy.highest if self.policy else 0

    def pack(self, items: Sequence[Item], *, level: int, now_us: Instant, above: int = 0) -> Packed:
        """The queue after every step of levels `above` + 1 … `level`: what `evaluate.pack` says, sooner."""
        assert 0 <= above <= level <= self.highest
        if level == above:
            return Packed(list(items), ())
        assert self.policy is not None
        if len(items) < SMALL:
            return evaluate.pack(self.policy, items, level=level, now_us=now_us, above=above)
        queue = _Queue(items)
        frame = Frame(queue.events, self._given)
        fates = np.full(len(queue.events), _STAYS, dtype=np.int64)
        alive: Ints | None = None
        effects: list[FilterEffect] = []
        used: list[Cause] = []
        for cause, step in zip(self._causes, self._steps, strict=True):
            if not above < cause.level <= level:
                continue
            gone = step.dropped(frame, alive, now_us)
            places = np.flatnonzero(gone) if alive is None else alive[gone]
            effects.append(FilterEffect(cause, seen=len(gone), dropped=len(places)))
            if len(places):
                fates[places] = len(used)
                used.append(cause)
                alive = np.flatnonzero(~gone) if alive is None else alive[~gone]
        return Packed(queue.without(fates, used, frame, self._asked), tuple(effects))

    def collapse(self, items: Sequence[Item], *, cause: Cause = WORST_CASE) -> list[Item]:
        """The worst case: every event into the digest, control items where they were."""
        if len(items) < SMALL:
            return evaluate.collapse(self.policy, items, cause=cause)
        queue = _Queue(items)
        fates = np.zeros(len(queue.events), dtype=np.int64)
        return queue.without(fates, [cause], Frame(queue.events, self._given), self._asked)


class _Queue:
    """A queue's items: the events among them, and what else there is."""

    __slots__ = ("_are_events", "_items", "events")

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items if isinstance(items, list) else list(items)
        flags = [item.__class__ is Event for item in self._items]
        self._are_events: Mask | None = None
        self.events: list[Event] = self._items  # type: ignore[assignment]  # all of them, unless:
        if not all(flags):
            self._are_events = np.array(flags, dtype=np.bool_)
            self.events = list(compress(self._items, flags))  # type: ignore[arg-type]

    def without(
        self,
        fates: Ints,
        causes: list[Cause],
        frame: Frame,
        asked: list[tuple[paths.Path, tuple[str, ...]]],
    ) -> list[Item]:
        """The queue with a digest in the place of each run of dropped events and earlier digests."""
        dropped = fates != _STAYS
        among = self._are_events
        gone = dropped if among is None else self._absorbed(dropped, among)
        begins, ends = _stretches(gone)
        if not len(begins):
            return list(self._items)
        several = fates if len(causes) > 1 else None
        if among is None:
            found = digests(frame, Runs(begins, ends, len(fates)), several, causes, asked)
            return self._spliced(begins, ends, found)
        return self._spliced(begins, ends, self._merged(begins, ends, frame, several, causes, asked))

    def _absorbed(self, dropped: Mask, among: Mask) -> Mask:
        """Which items end up in a digest: dropped events, and digests that were there before."""
        gone = np.array([item.__class__ is Digest for item in self._items], dtype=np.bool_)
        gone[among] = dropped
        return gone

    def _merged(
        self,
        begins: Ints,
        ends: Ints,
        frame: Frame,
        fates: Ints | None,
        causes: list[Cause],
        asked: list[tuple[paths.Path, tuple[str, ...]]],
    ) -> list[Digest]:
        """The digest of each stretch: of its events, merged with the digests that stood among them."""
        assert self._are_events is not None
        events_before = np.concatenate(([0], np.cumsum(self._are_events, dtype=np.int64)))
        first, last = events_before[begins], events_before[ends]
        with_events = first < last
        fresh: list[Digest] = []
        if with_events.any():
            runs = Runs(first[with_events], last[with_events], len(frame.events))
            fresh = digests(frame, runs, fates, causes, asked)
        found = iter(fresh)
        merged: list[Digest] = []
        for begin, end, has_events in zip(begins.tolist(), ends.tolist(), with_events.tolist(), strict=True):
            parts = [item for item in self._items[begin:end] if isinstance(item, Digest)]
            merged.append(merge_all([next(found), *parts] if has_events else parts))
        return merged

    def _spliced(self, begins: Ints, ends: Ints, found: list[Digest]) -> list[Item]:
        """What stays, with each stretch replaced by its digest."""
        out: list[Item] = []
        done = 0
        for begin, end, digest in zip(begins.tolist(), ends.tolist(), found, strict=True):
            out += self._items[done:begin]
            out.append(digest)
            done = end
        out += self._items[done:]
        return out


def _stretches(mask: Mask) -> tuple[Ints, Ints]:
    """Begin and end of each stretch of true values."""
    changes = np.flatnonzero(mask[1:] != mask[:-1]) + 1
    edges = [changes]
    if len(mask) and mask[0]:
        edges.insert(0, np.zeros(1, dtype=np.int64))
    if len(mask) and mask[-1]:
        edges.append(np.array([len(mask)], dtype=np.int64))
    bounds = np.concatenate(edges) if len(edges) > 1 else changes
    return bounds[0::2], bounds[1::2]
