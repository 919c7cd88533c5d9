"""Deciders of filters that compare an event with others, or use its position, lot, time or rank."""

from __future__ import annotations

from collections import Counter
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from penstock.model.instant import to_us
from penstock.model.sketches import HASH_SEED
from penstock.policy import filters, paths
from penstock.policy.columns.deciders import Verdicts, View, bools, compiles, listed, mask_at, step_column

if TYPE_CHECKING:
    from penstock.model.arrays import Floats, Ints, Mask
    from penstock.policy.columns.deciders import Decider


@compiles(filters.Uniq)
def _uniq(_: filters.Uniq) -> Decider:
    def decide(view: View) -> Verdicts:
        column = step_column(view)
        if column.plain_numbers():
            numbers = view.numbers(column)
            matched = np.zeros(len(numbers), dtype=np.bool_)
            np.equal(numbers[1:], numbers[:-1], out=matched[1:])
            return Verdicts(matched)
        previous: object = None

        def repeats(one: object) -> bool:
            nonlocal previous
            same, previous = one == previous, one
            return same

        return listed(view.listed(column.ids()), repeats)

    return decide


@compiles(filters.Guniq)
def _guniq(_: filters.Guniq) -> Decider:
    def decide(view: View) -> Verdicts:
        ids = view.listed(step_column(view).ids())
        first: dict[Any, int] = {}
        for place, one in enumerate(ids):
            first.setdefault(one, place)
        fresh = mask_at(len(ids), [place for one, place in first.items() if one is not None])
        if None not in first:
            return Verdicts(~fresh)
        readable = bools([one is not None for one in ids])
        return Verdicts(readable & ~fresh, readable)

    return decide


@compiles(filters.Delta)
def _delta(node: filters.Delta) -> Decider:
    change = float(node.change)
    silence_us = to_us(node.max_silence) if node.max_silence else None

    def decide(view: View) -> Verdicts:
        column = step_column(view)
        numbers = view.numbers(column)
        readable = None if column.complete() else ~np.isnan(numbers)
        places = None if readable is None else np.flatnonzero(readable)
        some = numbers if places is None else numbers[places]
        ts = None
        if silence_us is not None:
            ts = view.ts() if places is None else view.ts()[places]
        if node.since == "event":
            quiet = _small_steps(some, ts, change, silence_us)
        else:
            quiet = _dead_band(some.tolist(), change, ts, silence_us)
        if places is None:
            return Verdicts(quiet)
        matched = np.zeros(len(numbers), dtype=np.bool_)
        matched[places] = quiet
        return Verdicts(matched, readable)

    return decide


def _small_steps(numbers: Floats, ts: Ints | None, change: float, silence_us: int | None) -> Mask:
    quiet = np.zeros(len(numbers), dtype=np.bool_)
    with np.errstate(invalid="ignore"):  # inf − inf is NaN, which compares as not small
        np.less(np.abs(np.diff(numbers)), change, out=quiet[1:])
    if ts is not None and silence_us is not None:
        quiet[1:] &= np.diff(ts) < silence_us
    return quiet


def _dead_band(numbers: list[float], change: float, ts: Ints | None, silence_us: int | None) -> Mask:
    """Decided one event after the other: each decision needs the last value kept."""
    if ts is None or silence_us is None:
        kept = _out_of_band(numbers, change)
    else:
        kept = _out_of_band_or_silence(numbers, change, ts.tolist(), silence_us)
    quiet = np.ones(len(numbers), dtype=np.bool_)
    quiet[kept] = False
    return quiet


def _out_of_band(numbers: list[float], change: float) -> list[int]:
    """Indexes of the values kept.

    Between `low` and `high` a value is in the band however it is rounded; only outside is the subtraction
    that defines the band computed.
    """
    kept = []
    reference, least, low, high = float("-inf"), -change, float("inf"), float("-inf")
    for place, number in enumerate(numbers):
        if low < number < high or least < number - reference < change:
            continue
        kept.append(place)
        reference = number
        rounding = 1e-15 * (abs(number) + change)
        low, high = number - change + rounding, number + change - rounding
    return kept


def _out_of_band_or_silence(numbers: list[float], change: float, ts: list[int], silence_us: int) -> list[int]:
    kept = []
    reference, least, since_us = float("-inf"), -change, 0
    for place, number in enumerate(numbers):
        if least < number - reference < change and ts[place] - since_us < silence_us:
            continue
        kept.append(place)
        reference, since_us = number, ts[place]
    return kept


@compiles(filters.Swing)
def _swing(node: filters.Swing) -> Decider:
    deviation = float(node.deviation)

    def decide(view: View) -> Verdicts:
        column = step_column(view)
        numbers = view.numbers(column)
        readable = None if column.complete() else ~np.isnan(numbers)
        places = np.arange(len(numbers)) if readable is None else np.flatnonzero(readable)
        gone = _door(places.tolist(), view.ts()[places].tolist(), numbers[places].tolist(), deviation)
        return Verdicts(mask_at(len(numbers), gone), readable)

    return decide


def _door(places: list[int], times: list[int], numbers: list[float], deviation: float) -> list[int]:
    """Indexes of the points that the swinging door drops, as `verdicts._swing` defines."""
    gone: list[int] = []
    pivot_t = held_t = held_place = 0
    pivot_v = held_v = 0.0
    has_pivot = has_held = False
    low, high = float("-inf"), float("inf")
    for place, t, v in zip(places, times, numbers, strict=True):
        if has_held:
            span = held_t - pivot_t
            down = (held_v + -deviation - pivot_v) / span
            up = (held_v + deviation - pivot_v) / span
            low = max(low, down)
            high = min(high, up)
            if t > held_t and low <= (v - pivot_v) / (t - pivot_t) <= high and isfinite(v - pivot_v):
                gone.append(held_place)
                held_place, held_t, held_v = place, t, v
                continue
            pivot_t, pivot_v = held_t, held_v
        if not has_pivot or t <= pivot_t:
            pivot_t, pivot_v = t, v
            has_pivot, has_held = True, False
        else:
            held_place, held_t, held_v = place, t, v
            has_held = True
        low, high = float("-inf"), float("inf")
    return gone


@compiles(filters.Latest)
def _latest(node: filters.Latest) -> Decider:
    def decide(view: View) -> Verdicts:
        size = view.size()
        order = view.oldest_first()
        return Verdicts(
            mask_at(size, slice(max(size - node.n, 0), size) if order is None else order[-node.n :])
        )

    return decide


@compiles(filters.LatestBy)
def _latest_by(node: filters.LatestBy) -> Decider:
    path = paths.parse(node.by)

    def decide(view: View) -> Verdicts:
        ids = view.listed(view.frame.column(path).ids())
        order = view.oldest_first()
        matched = mask_at(len(ids), _newest_of_each(ids, None if order is None else order.tolist(), node.n))
        return Verdicts(matched, bools([one is not None for one in ids]) if None in ids else None)

    return decide


def _newest_of_each(ids: list[Any], order: list[int] | None, n: int) -> list[int]:
    """Places of the newest `n` of each id but None; `order` is that of time, None: as they stand."""
    places = range(len(ids)) if order is None else order
    if n == 1:
        newest = dict(zip(ids if order is None else [ids[place] for place in order], places, strict=True))
        newest.pop(None, None)
        return list(newest.values())
    counts = Counter(ids)  # counted in C; the loop below is for queues with more than `n` of one id
    counts.pop(None, None)
    if not counts or max(counts.values()) <= n:
        return [place for place in places if ids[place] is not None]
    chosen = []
    for place in places:
        one = ids[place]
        if one is None:
            continue
        behind = counts[one]
        if behind <= n:
            chosen.append(place)
        counts[one] = behind - 1
    return chosen


@compiles(filters.Every)
def _every(node: filters.Every) -> Decider:
    return lambda view: Verdicts(mask_at(view.size(), slice(node.n - 1, None, node.n)))


@compiles(filters.Random)
def _random(node: filters.Random) -> Decider:
    head = f"{node.seed or 0}|".encode()
    # lot < fraction, compared as integers: the lot is the upper 53 of 64 bits
    bound = node.fraction * (1 << 53)
    digest = xxhash.xxh64_intdigest

    def decide(view: View) -> Verdicts:
        events = view.listed(view.frame.events)
        names: dict[str, bytes] = {}
        for event in events:
            if event.sender not in names:
                names[event.sender] = head + event.sender.encode("utf-8", "surrogatepass") + b"|"
        drawn = [digest(names[event.sender] + b"%d" % event.seq, HASH_SEED) for event in events]
        return Verdicts((np.array(drawn, dtype=np.uint64) >> np.uint64(11)) < bound)

    return decide


@compiles(filters.Older)
def _older(node: filters.Older) -> Decider:
    limit_us = to_us(node.seconds)
    return lambda view: Verdicts(view.now_us - view.ts() > limit_us)


@compiles(filters.Throttle)
def _throttle(node: filters.Throttle) -> Decider:
    interval_us = max(to_us(node.seconds), 1)
    path = paths.parse(node.by) if node.by else None

    def decide(view: View) -> Verdicts:
        intervals = view.ts() // interval_us
        order = view.oldest_first()
        if path is None and order is None:
            surplus = np.zeros(len(intervals), dtype=np.bool_)
            np.equal(intervals[1:], intervals[:-1], out=surplus[:-1])
            return Verdicts(surplus)
        ids = view.listed(view.frame.column(path).ids()) if path else [0] * len(intervals)
        groups = list(zip(intervals.tolist(), ids, strict=True))
        newest: dict[tuple[int, object], int] = {}
        for place in range(len(groups)) if order is None else order.tolist():
            newest[groups[place]] = place
        surplus = ~mask_at(len(groups), list(newest.values()))
        if None not in ids:
            return Verdicts(surplus)
        readable = bools([one is not None for one in ids])
        return Verdicts(surplus & readable, readable)

    return decide


@compiles(filters.Top)
def _top(node: filters.Top) -> Decider:
    sign = -1.0 if node.order == "largest" else 1.0

    def decide(view: View) -> Verdicts:
        column = step_column(view)
        numbers = view.numbers(column)
        best_first = np.argsort(sign * numbers, kind="stable")  # NaN sorts to the end
        if column.complete():
            return Verdicts(mask_at(len(numbers), best_first[: node.n]))
        readable = ~np.isnan(numbers)
        return Verdicts(mask_at(len(numbers), best_first[: min(node.n, int(readable.sum()))]), readable)

    return decide
