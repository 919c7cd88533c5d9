"""Loops a good programmer would write by hand, one per policy: the rivals of `bench.policy.packing`.

Each loop knows its policy and its data (every payload is a map with the attribute, a number), nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock.model.digest import AttributeSummary, Cause, Digest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.model.event import Item

Decoded: TypeAlias = Any
"""An event whose payload is decoded already: `root` is a map of numbers."""

_WITHIN: Final = Cause(1, 1, "within")
_GT: Final = Cause(1, 1, "gt")
_UNIQ: Final = Cause(1, 1, "uniq")
_LATEST: Final = Cause(1, 1, "latest")
_LATEST_BY: Final = Cause(1, 1, "latest_by")
_DELTA: Final = Cause(1, 1, "delta")
_CHAIN: Final = (Cause(1, 1, "delta"), Cause(2, 1, "within"), Cause(3, 1, "latest"))


def _digest(run: list[Decoded], cause: Cause, attribute: str) -> Digest:
    """Return COUNT, MEAN, MIN and MAX of a run of dropped events, each by a built-in function."""
    values = [event.root[attribute] for event in run]
    stamps = [event.ts_us for event in run]
    seqs = [event.seq for event in run]
    summary = AttributeSummary(len(run), sum(values), None, min(values), max(values))
    return Digest(
        len(run),
        min(stamps),
        max(stamps),
        min(seqs),
        max(seqs),
        ((cause, len(run)),),
        ((attribute, summary),),
    )


def _gathered(marked: Iterable[tuple[Decoded, bool]], cause: Cause, attribute: str) -> list[Item]:
    """Return the packed queue of (event, dropped?) pairs: kept events, a digest for each run (Figure 3)."""
    out: list[Item] = []
    run: list[Decoded] = []
    for event, dropped in marked:
        if dropped:
            run.append(event)
            continue
        if run:
            out.append(_digest(run, cause, attribute))
            run = []
        out.append(event)
    if run:
        out.append(_digest(run, cause, attribute))
    return out


def within(events: list[Decoded]) -> list[Item]:
    """Drop 50 ≤ pulse ≤ 100; one loop, sums on the way."""
    out: list[Item] = []
    count, total, least, most = 0, 0.0, 0.0, 0.0
    from_us = to_us = first = last = 0
    for event in events:
        value = event.root["pulse"]
        if 50 <= value <= 100:
            if count == 0:
                total, least, most = 0.0, value, value
                from_us = to_us = event.ts_us
                first = last = event.seq
            count += 1
            total += value
            if value < least:
                least = value
            elif value > most:
                most = value
            ts_us, seq = event.ts_us, event.seq
            if ts_us < from_us:
                from_us = ts_us
            elif ts_us > to_us:
                to_us = ts_us
            if seq < first:
                first = seq
            elif seq > last:
                last = seq
            continue
        if count:
            summary = AttributeSummary(count, total, None, least, most)
            out.append(Digest(count, from_us, to_us, first, last, ((_WITHIN, count),), (("pulse", summary),)))
            count = 0
        out.append(event)
    if count:
        summary = AttributeSummary(count, total, None, least, most)
        out.append(Digest(count, from_us, to_us, first, last, ((_WITHIN, count),), (("pulse", summary),)))
    return out


def gt_count(events: list[Decoded]) -> list[Item]:
    """Keep pulse > 110; only counts and spans are wanted."""
    out: list[Item] = []
    count = from_us = to_us = first = last = 0
    for event in events:
        if event.root["pulse"] > 110:
            if count:
                out.append(Digest(count, from_us, to_us, first, last, ((_GT, count),)))
                count = 0
            out.append(event)
            continue
        ts_us, seq = event.ts_us, event.seq
        if count == 0:
            from_us = to_us = ts_us
            first = last = seq
        count += 1
        if ts_us < from_us:
            from_us = ts_us
        elif ts_us > to_us:
            to_us = ts_us
        if seq < first:
            first = seq
        elif seq > last:
            last = seq
    if count:
        out.append(Digest(count, from_us, to_us, first, last, ((_GT, count),)))
    return out


def uniq(events: list[Decoded]) -> list[Item]:
    """Drop a step equal to the one before."""
    marked = []
    previous = None
    for event in events:
        value = event.root["step"]
        marked.append((event, value == previous))
        previous = value
    return _gathered(marked, _UNIQ, "step")


def latest(events: list[Decoded]) -> list[Item]:
    """Keep the newest 100 by time; sorts, since time may run backwards."""
    newest = set(sorted(range(len(events)), key=lambda place: events[place].ts_us)[-100:])
    marked = [(event, place not in newest) for place, event in enumerate(events)]
    return _gathered(marked, _LATEST, "pulse")


def latest_by(events: list[Decoded]) -> list[Item]:
    """Keep the newest of each ward."""
    newest: dict[str, int] = {}
    for place in sorted(range(len(events)), key=lambda place: events[place].ts_us):
        newest[events[place].root["ward"]] = place
    kept = set(newest.values())
    return _gathered(((event, place not in kept) for place, event in enumerate(events)), _LATEST_BY, "pulse")


def delta(events: list[Decoded]) -> list[Item]:
    """Drop what is less than 5 away from the last value kept; one loop, sums on the way."""
    out: list[Item] = []
    reference = float("-inf")
    count, total, least, most = 0, 0.0, 0.0, 0.0
    from_us = to_us = first = last = 0
    for event in events:
        value = event.root["walk"]
        if -5 < value - reference < 5:
            if count == 0:
                total, least, most = 0.0, value, value
                from_us = to_us = event.ts_us
                first = last = event.seq
            count += 1
            total += value
            if value < least:
                least = value
            elif value > most:
                most = value
            ts_us, seq = event.ts_us, event.seq
            if ts_us < from_us:
                from_us = ts_us
            elif ts_us > to_us:
                to_us = ts_us
            if seq < first:
                first = seq
            elif seq > last:
                last = seq
            continue
        reference = value
        if count:
            summary = AttributeSummary(count, total, None, least, most)
            out.append(Digest(count, from_us, to_us, first, last, ((_DELTA, count),), (("walk", summary),)))
            count = 0
        out.append(event)
    if count:
        summary = AttributeSummary(count, total, None, least, most)
        out.append(Digest(count, from_us, to_us, first, last, ((_DELTA, count),), (("walk", summary),)))
    return out


def chain(events: list[Decoded]) -> list[Item]:
    """Apply three levels: find which filter takes each event first, then digest by filter in one pass."""
    fates = [-1] * len(events)
    reference = float("-inf")
    for place, event in enumerate(events):
        value = event.root["pulse"]
        if -5 < value - reference < 5:
            fates[place] = 0
        else:
            reference = value
            if 50 <= value <= 100:
                fates[place] = 1
    left = [place for place, fate in enumerate(fates) if fate < 0]
    for place in sorted(left, key=lambda place: events[place].ts_us)[:-10]:
        fates[place] = 2
    out: list[Item] = []
    run: list[Decoded] = []
    counts = [0, 0, 0]
    for event, fate in zip(events, fates, strict=True):
        if fate >= 0:
            run.append(event)
            counts[fate] += 1
            continue
        if run:
            out.append(_by_filter(run, counts))
            run, counts = [], [0, 0, 0]
        out.append(event)
    if run:
        out.append(_by_filter(run, counts))
    return out


def _by_filter(run: list[Decoded], counts: list[int]) -> Digest:
    found = _digest(run, _CHAIN[0], "pulse")
    causes = tuple((cause, count) for cause, count in zip(_CHAIN, counts, strict=True) if count)
    return Digest(
        found.count, found.from_us, found.to_us, found.seq_first, found.seq_last, causes, found.attributes
    )
