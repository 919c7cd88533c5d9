"""The reference meaning of each filter: its verdict about each event of a queue, written for clarity.

MATCHES / DIFFERS   what the verb decides about
UNTOUCHED           outside the filter's scope: kept under either verb
UNREADABLE          the attribute is missing or of the wrong kind: the `missing` rule decides
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.model import sketches
from penstock.model.instant import Instant, to_us
from penstock.model.values import identities, identity, number, order, text
from penstock.policy import attributes, filters, paths
from penstock.policy.params import regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.model.event import Event
    from penstock.model.values import Identity, Scalar, Value
    from penstock.policy.nodes import Policy, Step


class Verdict(Enum):
    """A filter's verdict about one event."""

    MATCHES = "matches"
    DIFFERS = "differs"
    UNTOUCHED = "untouched"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class View:
    """The events of a queue as one filter sees them."""

    policy: Policy
    step: Step
    events: list[Event]
    now_us: Instant

    def values(self, by: str | None = None) -> list[Value | None]:
        """The step's attribute, or `by`, of each event."""
        path = paths.parse(by) if by else self.policy.path_of(self.step)
        return [attributes.read(event, path, self.policy.payload) for event in self.events]

    def numbers(self, by: str | None = None) -> list[float | None]:
        """The numbers among `values(by)`; None for anything else."""
        return [number(value) for value in self.values(by)]

    def ids(self, by: str | None = None) -> list[Identity | None]:
        """Comparable keys of the scalars among `values(by)`; None for anything else."""
        return [
            None if value is None or isinstance(value, tuple) else identity(value)
            for value in self.values(by)
        ]

    def ages(self) -> list[tuple[Instant, int]]:
        """Sort keys from old to new: event time, then position in the queue."""
        return [(event.ts_us, place) for place, event in enumerate(self.events)]


F = TypeVar("F", bound=filters.Filter)
T = TypeVar("T")
_DECIDE: Final[dict[type[filters.Filter], Callable[[Any, View], list[Verdict]]]] = {}


def _decides(
    *kinds: type[filters.Filter],
) -> Callable[[Callable[[F, View], list[Verdict]]], Callable[[F, View], list[Verdict]]]:
    """Register a function as the meaning of these filters."""

    def register(meaning: Callable[[F, View], list[Verdict]]) -> Callable[[F, View], list[Verdict]]:
        _DECIDE.update(dict.fromkeys(kinds, meaning))
        return meaning

    return register


def decide(view: View) -> list[Verdict]:
    """The verdict of the step's filter about each event of a view."""
    return _DECIDE[type(view.step.filter)](view.step.filter, view)


def _verdict(matches: bool) -> Verdict:
    return Verdict.MATCHES if matches else Verdict.DIFFERS


def _each(readings: Sequence[T | None], test: Callable[[T], bool]) -> list[Verdict]:
    """Test each reading by itself."""
    return [Verdict.UNREADABLE if reading is None else _verdict(test(reading)) for reading in readings]


def _ordered(view: View, like: float | str) -> list[Any]:
    """Readings of the type of `like`, a parameter that is a number or a text."""
    return [text(value) for value in view.values()] if isinstance(like, str) else view.numbers()


@_decides(filters.Gt)
def _gt(node: filters.Gt, view: View) -> list[Verdict]:
    return _each(_ordered(view, node.value), lambda value: bool(value > order(node.value)))


@_decides(filters.Ge)
def _ge(node: filters.Ge, view: View) -> list[Verdict]:
    return _each(_ordered(view, node.value), lambda value: bool(value >= order(node.value)))


@_decides(filters.Lt)
def _lt(node: filters.Lt, view: View) -> list[Verdict]:
    return _each(_ordered(view, node.value), lambda value: bool(value < order(node.value)))


@_decides(filters.Le)
def _le(node: filters.Le, view: View) -> list[Verdict]:
    return _each(_ordered(view, node.value), lambda value: bool(value <= order(node.value)))


@_decides(filters.Within)
def _within(node: filters.Within, view: View) -> list[Verdict]:
    return _each(_ordered(view, node.low), lambda value: order(node.low) <= value <= order(node.high))


@_decides(filters.Eq)
def _eq(node: filters.Eq, view: View) -> list[Verdict]:
    wanted = identity(node.value)
    return _each(view.ids(), lambda key: key == wanted)


@_decides(filters.Ne)
def _ne(node: filters.Ne, view: View) -> list[Verdict]:
    unwanted = identity(node.value)
    return _each(view.ids(), lambda key: key != unwanted)


@_decides(filters.Inset)
def _inset(node: filters.Inset, view: View) -> list[Verdict]:
    members = identities(node.values)
    return _each(view.ids(), lambda key: key in members)


@_decides(filters.Match)
def _match(node: filters.Match, view: View) -> list[Verdict]:
    pattern = regex(node.pattern)
    texts = [text(value) for value in view.values()]
    return _each(texts, lambda found: pattern.search(found) is not None)


def _lists(view: View) -> list[frozenset[Identity] | None]:
    return [identities(value) if isinstance(value, tuple) else None for value in view.values()]


@_decides(filters.Contain)
def _contain(node: filters.Contain, view: View) -> list[Verdict]:
    wanted = identity(node.value)
    return _each(_lists(view), lambda members: wanted in members)


@_decides(filters.Subset)
def _subset(node: filters.Subset, view: View) -> list[Verdict]:
    allowed = identities(node.values)
    return _each(_lists(view), lambda members: members <= allowed)


@_decides(filters.Supset)
def _supset(node: filters.Supset, view: View) -> list[Verdict]:
    wanted = identities(node.values)
    return _each(_lists(view), lambda members: members >= wanted)


def _edge(members: tuple[Scalar, ...] | None, view: View, end: int) -> list[Verdict]:
    """MATCHES for the event at one end (0 or −1) of those in scope, UNTOUCHED for events out of scope."""
    scope = None if members is None else identities(members)
    keys = view.ids()
    places = [place for place, key in enumerate(keys) if key is not None and (scope is None or key in scope)]
    verdicts = [Verdict.UNREADABLE if key is None else Verdict.UNTOUCHED for key in keys]
    for place in places:
        verdicts[place] = _verdict(place == places[end])
    return verdicts


@_decides(filters.First)
def _first(node: filters.First, view: View) -> list[Verdict]:
    return _edge(node.values, view, 0)


@_decides(filters.Last)
def _last(node: filters.Last, view: View) -> list[Verdict]:
    return _edge(node.values, view, -1)


@_decides(filters.Uniq)
def _uniq(_: filters.Uniq, view: View) -> list[Verdict]:
    previous: Identity | None = None
    verdicts: list[Verdict] = []
    for key in view.ids():
        verdicts.append(Verdict.UNREADABLE if key is None else _verdict(key == previous))
        previous = previous if key is None else key
    return verdicts


@_decides(filters.Guniq)
def _guniq(_: filters.Guniq, view: View) -> list[Verdict]:
    earlier: set[Identity] = set()
    verdicts: list[Verdict] = []
    for key in view.ids():
        verdicts.append(Verdict.UNREADABLE if key is None else _verdict(key in earlier))
        if key is not None:
            earlier.add(key)
    return verdicts


@_decides(filters.Delta)
def _delta(node: filters.Delta, view: View) -> list[Verdict]:
    """The dead band. The first readable event has no reference and never matches.

    The reference does not outlive the pack: a filter keeps no state (paper §2), so the result of a pack
    depends on the queue only.
    """
    change = float(node.change)
    silence_us = to_us(node.max_silence) if node.max_silence else None
    reference: tuple[float, Instant] | None = None
    verdicts: list[Verdict] = []
    for event, value in zip(view.events, view.numbers(), strict=True):
        if value is None:
            verdicts.append(Verdict.UNREADABLE)
            continue
        quiet = reference is not None and abs(value - reference[0]) < change
        if quiet and silence_us is not None and reference is not None:
            quiet = event.ts_us - reference[1] < silence_us
        if not quiet or node.since == "event":
            reference = (value, event.ts_us)
        verdicts.append(_verdict(quiet))
    return verdicts


@_decides(filters.Swing)
def _swing(node: filters.Swing, view: View) -> list[Verdict]:
    """The swinging door, in the variant whose error is bounded.

    `pivot` is the last point kept, `held` the newest one. The slopes from the pivot that pass every point
    between them within the deviation form a door. While the next point's slope fits through the door, the
    held point is dropped. When it does not fit, the held point is kept and becomes the pivot.
    """
    verdicts: list[Verdict] = []
    pivot: _Point | None = None
    held: _Point | None = None
    low, high = float("-inf"), float("inf")
    for place, (event, value) in enumerate(zip(view.events, view.numbers(), strict=True)):
        verdicts.append(Verdict.UNREADABLE if value is None else Verdict.DIFFERS)
        if value is None:
            continue
        point = _Point(place, event.ts_us, value)
        if pivot is not None and held is not None:
            low = max(low, pivot.slope(held, -node.deviation))
            high = min(high, pivot.slope(held, +node.deviation))
            fits = point.ts_us > held.ts_us and low <= pivot.slope(point) <= high
            if fits and isfinite(pivot.slope(point)):  # a line to infinity has no slope
                verdicts[held.place] = Verdict.MATCHES
                held = point
                continue
        pivot, held = (held, point) if held is not None else (pivot, point)
        if pivot is None or point.ts_us <= pivot.ts_us:
            pivot, held = point, None
        low, high = float("-inf"), float("inf")
    return verdicts


@dataclass(frozen=True, slots=True)
class _Point:
    place: int
    ts_us: Instant
    value: float

    def slope(self, other: _Point, offset: float = 0.0) -> float:
        """Slope of the line from here to another, later point moved up by `offset`."""
        return (other.value + offset - self.value) / (other.ts_us - self.ts_us)


@_decides(filters.Latest)
def _latest(node: filters.Latest, view: View) -> list[Verdict]:
    newest = set(sorted(view.ages())[-node.n :])
    return [_verdict(age in newest) for age in view.ages()]


@_decides(filters.LatestBy)
def _latest_by(node: filters.LatestBy, view: View) -> list[Verdict]:
    keys = view.ids(node.by)
    newest: dict[Identity, list[tuple[Instant, int]]] = {}
    for age in sorted(view.ages(), reverse=True):
        key = keys[age[1]]
        if key is not None and len(newest.setdefault(key, [])) < node.n:
            newest[key].append(age)
    return [
        Verdict.UNREADABLE if key is None else _verdict(age in newest[key])
        for key, age in zip(keys, view.ages(), strict=True)
    ]


@_decides(filters.Every)
def _every(node: filters.Every, view: View) -> list[Verdict]:
    return [_verdict(place % node.n == 0) for place in range(1, len(view.events) + 1)]


@_decides(filters.Random)
def _random(node: filters.Random, view: View) -> list[Verdict]:
    return [_verdict(lot(node.seed or 0, event) < node.fraction) for event in view.events]


def lot(seed: int, event: Event) -> float:
    """The event's lot in [0, 1): the upper 53 bits of XXH64 (seed 42) of `<seed>|<sender>|<seq>`."""
    # A hash instead of dice: nodes, Spark and repeated packs draw the same lot (decision 0003).
    drawn = sketches.hash64(f"{seed}|{event.sender}|{event.seq}".encode("utf-8", "surrogatepass"))
    return ((drawn % (1 << 64)) >> 11) / (1 << 53)


@_decides(filters.Older)
def _older(node: filters.Older, view: View) -> list[Verdict]:
    limit_us = to_us(node.seconds)
    return [_verdict(view.now_us - event.ts_us > limit_us) for event in view.events]


@_decides(filters.Throttle)
def _throttle(node: filters.Throttle, view: View) -> list[Verdict]:
    """The newest event of each interval is kept, so the last sample of a burst is never dropped."""
    interval_us = max(to_us(node.seconds), 1)
    keys: Sequence[Identity | None] = view.ids(node.by) if node.by else [0] * len(view.events)
    groups = [(event.ts_us // interval_us, key) for event, key in zip(view.events, keys, strict=True)]
    newest: dict[tuple[int, Identity | None], tuple[Instant, int]] = {}
    for group, age in zip(groups, view.ages(), strict=True):
        newest[group] = max(newest.get(group, age), age)
    return [
        Verdict.UNREADABLE if group[1] is None else _verdict(age != newest[group])
        for group, age in zip(groups, view.ages(), strict=True)
    ]


@_decides(filters.Top)
def _top(node: filters.Top, view: View) -> list[Verdict]:
    ranks = view.numbers(node.by)
    sign = -1.0 if node.order == "largest" else 1.0
    readable = [(sign * rank, place) for place, rank in enumerate(ranks) if rank is not None]
    best = {place for _, place in sorted(readable)[: node.n]}
    return [
        Verdict.UNREADABLE if rank is None else _verdict(place in best) for place, rank in enumerate(ranks)
    ]


def undecided() -> Iterator[str]:
    """Filters of the catalogue without a function here; a test checks that there are none."""
    return (name for name, kind in filters.CATALOGUE.items() if kind not in _DECIDE)
