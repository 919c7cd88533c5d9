"""A policy compiled for queues: pack one with a few array operations per step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.model.digest import WORST_CASE, Cause, Digest
from penstock.model.event import Event
from penstock.policy import evaluate
from penstock.policy.evaluate import FilterEffect, Packed
from penstock.policy.fast.assemble import Runs, assemble
from penstock.policy.fast.columns import Frame
from penstock.policy.fast.masks import CompiledStep
from penstock.policy.nodes import PayloadFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.policy.fast.columns import Ints
    from penstock.policy.nodes import Policy

SMALL: Final = 12
"""Below this many items, `evaluate` is done before the arrays are set up (`penstock bench policy`)."""


class Plan:
    """One policy (or none), ready to pack any number of queues."""

    def __init__(self, policy: Policy | None) -> None:
        self.policy = policy
        placed = list(policy.steps(policy.highest)) if policy else []
        self._causes = [one.cause for one in placed]
        self._steps = [CompiledStep(policy, one.step) for one in placed] if policy else []
        self._asked = policy.asked() if policy else {}
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
        fates = np.full(len(queue.events), -1, dtype=np.int64)
        alive: Ints | None = None
        effects = []
        for number, (cause, step) in enumerate(zip(self._causes, self._steps, strict=True)):
            if not above < cause.level <= level:
                continue
            gone = step.dropped(frame, alive, now_us)
            places = np.flatnonzero(gone) if alive is None else alive[gone]
            effects.append(FilterEffect(cause, seen=len(gone), dropped=len(places)))
            if len(places):
                fates[places] = number
                alive = np.flatnonzero(~gone) if alive is None else alive[~gone]
        return Packed(queue.assembled(frame, fates, self._causes, self._asked), tuple(effects))

    def collapse(self, items: Sequence[Item], *, cause: Cause = WORST_CASE) -> list[Item]:
        """The worst case: every event into the digest, control items where they were."""
        if len(items) < SMALL:
            return evaluate.collapse(self.policy, items, cause=cause)
        queue = _Queue(items)
        fates = np.zeros(len(queue.events), dtype=np.int64)
        return queue.assembled(Frame(queue.events, self._given), fates, [cause], self._asked)


class _Queue:
    """A queue's items taken apart: events for the frame, digests and control items with their places."""

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items if isinstance(items, list) else list(items)
        self.events: list[Event] = [item for item in self._items if isinstance(item, Event)]
        self._pure = len(self.events) == len(self._items)

    def assembled(
        self,
        frame: Frame,
        fates: Ints,
        causes: list[Cause],
        asked: dict[str, tuple[str, ...]],
    ) -> list[Item]:
        """The queue again, with a digest where `fates` says (≥ 0) that something was dropped."""
        dropped = np.flatnonzero(fates >= 0)
        used = sorted(set(fates[dropped].tolist()))
        if len(used) > 1:
            numbers = np.searchsorted(used, fates[dropped])
        else:
            numbers = np.zeros(len(dropped), dtype=np.int64)
        own = [causes[number] for number in used]
        if self._pure:
            if not len(dropped):
                return list(self._items)
            before = np.cumsum(fates < 0, dtype=np.int64)
            kept: list[Item] = [self.events[place] for place in np.flatnonzero(fates < 0).tolist()]
            return assemble(kept, frame, Runs(dropped, before[dropped]), numbers, causes=own, asked=asked)
        return self._among_others(frame, fates, dropped, numbers, own, asked)

    def _among_others(
        self,
        frame: Frame,
        fates: Ints,
        dropped: Ints,
        numbers: Ints,
        causes: list[Cause],
        asked: dict[str, tuple[str, ...]],
    ) -> list[Item]:
        kept: list[Item] = []
        earlier: list[tuple[int, Digest]] = []
        before = np.zeros(len(fates), dtype=np.int64)
        stays = iter((fates < 0).tolist())
        place = 0
        for item in self._items:
            if isinstance(item, Digest):
                earlier.append((len(kept), item))
                continue
            if isinstance(item, Event):
                before[place] = len(kept)
                place += 1
                if not next(stays):
                    continue
            kept.append(item)
        runs = Runs(dropped, before[dropped])
        return assemble(kept, frame, runs, numbers, causes=causes, asked=asked, earlier=earlier)
