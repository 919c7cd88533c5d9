"""Filters that look at what came before: repetition and change."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.model.instant import to_us
from penstock.policy import filters
from penstock.policy.fast.deciders import Found, View, bools, compiles, listed, mask_at, step_column

if TYPE_CHECKING:
    from penstock.policy.fast.columns import Floats, Ints, Mask
    from penstock.policy.fast.deciders import Decider


@compiles(filters.Uniq)
def _uniq(_: filters.Uniq) -> Decider:
    def decide(view: View) -> Found:
        column = step_column(view)
        if column.plain_numbers():
            numbers = view.numbers(column)
            matched = np.zeros(len(numbers), dtype=np.bool_)
            np.equal(numbers[1:], numbers[:-1], out=matched[1:])
            return Found(matched)
        previous: object = None

        def repeats(one: object) -> bool:
            nonlocal previous
            same, previous = one == previous, one
            return same

        return listed(view.listed(column.ids()), repeats)

    return decide


@compiles(filters.Guniq)
def _guniq(_: filters.Guniq) -> Decider:
    def decide(view: View) -> Found:
        ids = view.listed(step_column(view).ids())
        first: dict[Any, int] = {}
        for place, one in enumerate(ids):
            first.setdefault(one, place)
        fresh = mask_at(len(ids), [place for one, place in first.items() if one is not None])
        if None not in first:
            return Found(~fresh)
        readable = bools([one is not None for one in ids])
        return Found(readable & ~fresh, readable)

    return decide


@compiles(filters.Delta)
def _delta(node: filters.Delta) -> Decider:
    change = float(node.change)
    silence_us = to_us(node.max_silence) if node.max_silence else None

    def decide(view: View) -> Found:
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
            return Found(quiet)
        matched = np.zeros(len(numbers), dtype=np.bool_)
        matched[places] = quiet
        return Found(matched, readable)

    return decide


def _small_steps(numbers: Floats, ts: Ints | None, change: float, silence_us: int | None) -> Mask:
    quiet = np.zeros(len(numbers), dtype=np.bool_)
    with np.errstate(invalid="ignore"):  # inf − inf is NaN, and NaN is no small step
        np.less(np.abs(np.diff(numbers)), change, out=quiet[1:])
    if ts is not None and silence_us is not None:
        quiet[1:] &= np.diff(ts) < silence_us
    return quiet


def _dead_band(numbers: list[float], change: float, ts: Ints | None, silence_us: int | None) -> Mask:
    """One after the other: each decision needs the last value kept."""
    if ts is None or silence_us is None:
        kept = _out_of_band(numbers, change)
    else:
        kept = _out_of_band_or_silence(numbers, change, ts.tolist(), silence_us)
    quiet = np.ones(len(numbers), dtype=np.bool_)
    quiet[kept] = False
    return quiet


def _out_of_band(numbers: list[float], change: float) -> list[int]:
    """Places of the values kept.

    Between `low` and `high` a value is in the band whatever rounding does; only outside is it worth the
    subtraction that the meaning asks for.
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

    def decide(view: View) -> Found:
        column = step_column(view)
        numbers = view.numbers(column)
        readable = None if column.complete() else ~np.isnan(numbers)
        places = np.arange(len(numbers)) if readable is None else np.flatnonzero(readable)
        gone = _door(places.tolist(), view.ts()[places].tolist(), numbers[places].tolist(), deviation)
        return Found(mask_at(len(numbers), gone), readable)

    return decide


def _door(places: list[int], times: list[int], numbers: list[float], deviation: float) -> list[int]:
    """Places of the points that the swinging door lets go; see `evaluate._swing`."""
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
