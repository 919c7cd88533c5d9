"""The reference meaning of a policy, written for clarity; every other engine must agree with it.

Each step says which of the events left over by the steps before it goes. Then one walk over the queue (the
paper's Figure 3) in order with an accumulator: a digest is merged into it, a dropped event is added to it. A
kept event first emits the accumulator, then itself. At the end the rest of the accumulator is emitted. Every
step keeps control items.

A step asks its filter for a verdict about each event (`policy/verdicts.py`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from penstock.model.digest import WORST_CASE, Cause, Digest
from penstock.model.event import Event
from penstock.policy import attributes, digesters, paths
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing
from penstock.policy.verdicts import Verdict, View, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.model.event import Item
    from penstock.model.instant import Instant
    from penstock.model.values import Value
    from penstock.policy.nodes import Policy, Step


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """Effect of one step on one queue."""

    cause: Cause
    seen: int
    dropped: int


class Spare(Protocol):
    """Says which events stay though the highest level of a pack drops them."""

    def __call__(self, stay: Sequence[int], go: Sequence[int]) -> Sequence[int]:
        """Places in `go`, which that level drops; `stay` are those of the events that no step drops.

        Places count the events of the queue.
        """
        ...


@dataclass(frozen=True, slots=True)
class Packed:
    """A queue after a pack."""

    items: list[Item]
    effects: tuple[FilterEffect, ...]


def pack(
    policy: Policy,
    items: Sequence[Item],
    *,
    level: int,
    now_us: Instant,
    above: int = 0,
    spare: Spare | None = None,
) -> Packed:
    """The queue after every step of levels 1 … `level`; level 0 changes nothing.

    A queue just packed at level `above` may be packed further: only the steps above that level apply.
    """
    assert 0 <= above <= level <= policy.highest
    if level == above:
        return Packed(list(items), ())
    events = [item for item in items if isinstance(item, Event)]
    causes: list[Cause | None] = [None] * len(events)
    """The step that drops each event; None: it is kept."""
    effects: list[FilterEffect] = []
    for placed in policy.steps(level):
        if placed.cause.level <= above:
            continue
        left = [place for place, cause in enumerate(causes) if cause is None]
        dropped = _dropped(policy, placed.step, [events[place] for place in left], now_us)
        effects.append(FilterEffect(placed.cause, seen=len(left), dropped=sum(dropped)))
        for place, gone in zip(left, dropped, strict=True):
            causes[place] = placed.cause if gone else None
    if spare is not None:
        stay = [place for place, cause in enumerate(causes) if cause is None]
        go = [place for place, cause in enumerate(causes) if cause is not None and cause.level == level]
        back = list(spare(stay, go))
        counts = Counter(causes[place] for place in back)
        effects = [replace(one, dropped=one.dropped - counts[one.cause]) for one in effects]
        for place in back:
            causes[place] = None
    return Packed(_walk(policy, items, causes), tuple(effects))


def collapse(policy: Policy | None, items: Sequence[Item], *, cause: Cause = WORST_CASE) -> list[Item]:
    """The worst case: every event goes into the digest; control items stay where they are."""
    events = sum(isinstance(item, Event) for item in items)
    return _walk(policy, items, [cause] * events)


def urgency(policy: Policy | None) -> Callable[[Event], bool] | None:
    """Says of an event whether it is urgent by a policy; None if the policy has no urgent events."""
    if policy is None or not policy.urgent:
        return None

    def urgent(event: Event) -> bool:
        return any(decide(View(policy, step, [event], 0))[0] is Verdict.MATCHES for step in policy.urgent)

    return urgent


def ahead(policy: Policy, items: Sequence[Item]) -> tuple[list[Item], list[Item]]:
    """The urgent events of a queue, which go first and which no level packs, and all its other items."""
    urgent = urgency(policy)
    if urgent is None:
        return [], list(items)
    first = [item for item in items if isinstance(item, Event) and urgent(item)]
    gone = set(map(id, first))
    return list(first), [item for item in items if id(item) not in gone]


def digest_of(policy: Policy | None, event: Event, cause: Cause) -> Digest:
    """The digest of one dropped event."""
    asked = policy.asked() if policy else {}
    return Digest(
        count=1,
        from_us=event.ts_us,
        to_us=event.ts_us,
        seq_first=event.seq,
        seq_last=event.seq,
        causes=((cause, 1),),
        attributes=tuple(
            (attribute, digesters.summary_of(_read(policy, event, attribute), event, asked[attribute]))
            for attribute in sorted(asked)
        ),
    )


def _read(policy: Policy | None, event: Event, attribute: str) -> Value | None:
    assert policy is not None
    return attributes.read(event, paths.parse(attribute), policy.payload)


def _walk(policy: Policy | None, queue: Sequence[Item], causes: Sequence[Cause | None]) -> list[Item]:
    """The walk of Figure 3, for all steps together; `causes` says of each event why it goes, if it does."""
    out: list[Item] = []
    accumulator: Digest | None = None
    fates = iter(causes)
    for item in queue:
        if isinstance(item, Digest):
            gone = item
        elif isinstance(item, Event) and (cause := next(fates)) is not None:
            gone = digest_of(policy, item, cause)
        else:
            if accumulator is not None:
                out.append(accumulator)
                accumulator = None
            out.append(item)
            continue
        accumulator = gone if accumulator is None else accumulator.merge(gone)
    if accumulator is not None:
        out.append(accumulator)
    return out


def _dropped(policy: Policy, step: Step, events: list[Event], now_us: Instant) -> list[bool]:
    """For each event, whether the step drops it."""
    matched = decide(View(policy, step, events, now_us))
    unwanted = Verdict.MATCHES if step.verb is Verb.DROP else Verdict.DIFFERS
    drop_unreadable = policy.missing_of(step) is Missing.DROP
    return [verdict is unwanted or (drop_unreadable and verdict is Verdict.UNREADABLE) for verdict in matched]
