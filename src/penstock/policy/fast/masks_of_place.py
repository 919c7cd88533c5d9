"""Filters that ask where an event stands: its position, its lot, its time, its rank."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from penstock.model.instant import to_us
from penstock.model.sketches import HASH_SEED
from penstock.policy import filters, paths
from penstock.policy.fast.deciders import Found, View, bools, compiles, mask_at, step_column

if TYPE_CHECKING:
    from penstock.policy.fast.deciders import Decider


@compiles(filters.Latest)
def _latest(node: filters.Latest) -> Decider:
    def decide(view: View) -> Found:
        size = view.size()
        order = view.oldest_first()
        return Found(mask_at(size, slice(max(size - node.n, 0), size) if order is None else order[-node.n :]))

    return decide


@compiles(filters.LatestBy)
def _latest_by(node: filters.LatestBy) -> Decider:
    path = paths.parse(node.by)

    def decide(view: View) -> Found:
        ids = view.listed(view.frame.column(path).ids())
        order = view.oldest_first()
        newest_first = range(len(ids) - 1, -1, -1) if order is None else order[::-1].tolist()
        matched = mask_at(len(ids), _newest_of_each(ids, newest_first, node.n))
        return Found(matched, bools([one is not None for one in ids]) if None in ids else None)

    return decide


def _newest_of_each(ids: list[Any], newest_first: Any, n: int) -> list[int]:
    if n == 1:
        newest: dict[Any, int] = {}
        for place in newest_first:
            newest.setdefault(ids[place], place)
        newest.pop(None, None)
        return list(newest.values())
    counts: dict[Any, int] = {}
    chosen = []
    for place in newest_first:
        one = ids[place]
        taken = counts.get(one, 0)
        if one is not None and taken < n:
            counts[one] = taken + 1
            chosen.append(place)
    return chosen


@compiles(filters.Every)
def _every(node: filters.Every) -> Decider:
    return lambda view: Found(mask_at(view.size(), slice(node.n - 1, None, node.n)))


@compiles(filters.Random)
def _random(node: filters.Random) -> Decider:
    head = f"{node.seed or 0}|".encode()
    # lot < fraction, in whole numbers: the lot is the upper 53 of 64 bits
    bound = node.fraction * (1 << 53)
    digest = xxhash.xxh64_intdigest

    def decide(view: View) -> Found:
        events = view.listed(view.frame.events)
        names: dict[str, bytes] = {}
        for event in events:
            if event.sender not in names:
                names[event.sender] = head + event.sender.encode("utf-8", "surrogatepass") + b"|"
        drawn = [digest(names[event.sender] + b"%d" % event.seq, HASH_SEED) for event in events]
        return Found((np.array(drawn, dtype=np.uint64) >> np.uint64(11)) < bound)

    return decide


@compiles(filters.Older)
def _older(node: filters.Older) -> Decider:
    limit_us = to_us(node.seconds)
    return lambda view: Found(view.now_us - view.ts() > limit_us)


@compiles(filters.Throttle)
def _throttle(node: filters.Throttle) -> Decider:
    interval_us = max(to_us(node.seconds), 1)
    path = paths.parse(node.by) if node.by else None

    def decide(view: View) -> Found:
        intervals = view.ts() // interval_us
        order = view.oldest_first()
        if path is None and order is None:
            surplus = np.zeros(len(intervals), dtype=np.bool_)
            np.equal(intervals[1:], intervals[:-1], out=surplus[:-1])
            return Found(surplus)
        ids = view.listed(view.frame.column(path).ids()) if path else [0] * len(intervals)
        groups = list(zip(intervals.tolist(), ids, strict=True))
        newest: dict[tuple[int, object], int] = {}
        for place in range(len(groups)) if order is None else order.tolist():
            newest[groups[place]] = place
        surplus = ~mask_at(len(groups), list(newest.values()))
        if None not in ids:
            return Found(surplus)
        readable = bools([one is not None for one in ids])
        return Found(surplus & readable, readable)

    return decide


@compiles(filters.Top)
def _top(node: filters.Top) -> Decider:
    sign = -1.0 if node.order == "largest" else 1.0

    def decide(view: View) -> Found:
        column = step_column(view)
        numbers = view.numbers(column)
        best_first = np.argsort(sign * numbers, kind="stable")  # NaN sorts to the end
        if column.complete():
            return Found(mask_at(len(numbers), best_first[: node.n]))
        readable = ~np.isnan(numbers)
        return Found(mask_at(len(numbers), best_first[: min(node.n, int(readable.sum()))]), readable)

    return decide
