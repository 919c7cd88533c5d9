"""Which events of a frame a step drops, filter by filter, over arrays.

A decider gets the frame and `alive`, the places of the events still in the queue, and returns masks over
those places. It must say exactly what `evaluate` says; the agreement tests hold it to that.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np
import xxhash

from penstock.model.instant import to_us
from penstock.model.sketches import HASH_SEED
from penstock.model.values import identities, identity, order
from penstock.policy import filters, paths
from penstock.policy.filters import Verb
from penstock.policy.nodes import Missing
from penstock.policy.params import regex

if TYPE_CHECKING:
    from penstock.model.values import Identity, Scalar
    from penstock.policy.fast.columns import Column, Floats, Frame, Ints, Mask
    from penstock.policy.nodes import Policy, Step
    from penstock.policy.paths import Path


class Found(NamedTuple):
    """A filter's verdicts: `matched` is false wherever the event is unreadable or out of scope."""

    matched: Mask
    readable: Mask | None = None
    """None: all of them."""
    scope: Mask | None = None
    """None: all of them."""


class View(NamedTuple):
    """What a decider may look at."""

    frame: Frame
    alive: Ints | None
    """Places of the events left; None: all of them."""
    column: Column | None
    """The step's attribute, for filters that read one."""
    now_us: int
    careful: bool
    """Whether it matters which events are unreadable; if not, `Found.readable` may be left out."""

    def size(self) -> int:
        """How many events are left."""
        return len(self.frame.events) if self.alive is None else len(self.alive)

    def numbers(self, column: Column) -> Floats:
        """A column's numbers for the events left."""
        found = column.numbers()
        return found if self.alive is None else found[self.alive]

    def listed(self, column: list[Any]) -> list[Any]:
        """A list's members for the events left."""
        return column if self.alive is None else [column[place] for place in self.alive.tolist()]

    def ts(self) -> Ints:
        """Event times of the events left."""
        found = self.frame.ts.array
        return found if self.alive is None else found[self.alive]

    def oldest_first(self) -> Ints | None:
        """Order by event time, then place; None if that is the order of the queue."""
        return None if self.frame.ts.rising() else np.argsort(self.ts(), kind="stable")


Decider = Callable[[View], Found]
F = TypeVar("F", bound=filters.Filter)
_COMPILE: Final[dict[type[filters.Filter], Callable[[Any], Decider]]] = {}


class CompiledStep:
    """A step ready to run: parameters converted, sets hashed, patterns compiled."""

    __slots__ = ("_careful", "_decide", "_drop_unreadable", "_keep", "_path", "numbers")

    def __init__(self, policy: Policy, step: Step) -> None:
        by = step.filter.by if isinstance(step.filter, filters.Top) else None
        self._path: Path | None = None
        if step.filter.reads:
            self._path = paths.parse(by) if by else policy.path_of(step)
        self.numbers: list[Path] = [self._path] if self._path and _reads_numbers(step.filter) else []
        """The attribute, if it is read as a number."""
        self._decide = _COMPILE[type(step.filter)](step.filter)
        self._keep = step.verb is Verb.KEEP
        self._drop_unreadable = policy.missing_of(step) is Missing.DROP
        self._careful = self._keep or self._drop_unreadable

    def dropped(self, frame: Frame, alive: Ints | None, now_us: int) -> Mask:
        """A mask over the events left: which of them go."""
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


def _reads_numbers(node: filters.Filter) -> bool:
    match node:
        case filters.Gt() | filters.Ge() | filters.Lt() | filters.Le():
            return not isinstance(node.value, str)
        case filters.Within():
            return not isinstance(node.low, str)
    return isinstance(node, filters.Delta | filters.Swing | filters.Top)


def _compiles(
    *kinds: type[filters.Filter],
) -> Callable[[Callable[[F], Decider]], Callable[[F], Decider]]:
    def register(compiler: Callable[[F], Decider]) -> Callable[[F], Decider]:
        _COMPILE.update(dict.fromkeys(kinds, compiler))
        return compiler

    return register


def _bools(found: list[bool]) -> Mask:
    return np.array(found, dtype=np.bool_)


def _step_column(view: View) -> Column:
    assert view.column is not None
    return view.column


def _numeric(view: View, test: Callable[[Floats], Mask]) -> Found:
    """A test of each number; NaN passes none of ours, so `matched` needs no correction."""
    column = _step_column(view)
    numbers = view.numbers(column)
    return Found(test(numbers), ~np.isnan(numbers) if view.careful and not column.complete() else None)


def _listed(found: list[Any], test: Callable[[Any], bool]) -> Found:
    """A test of each member of a list, None being unreadable."""
    matched = _bools([one is not None and test(one) for one in found])
    return Found(matched, _bools([one is not None for one in found]) if None in found else None)


def _ordered(
    parameter: float | str, numbers: Callable[[Floats], Mask], texts: Callable[[str], bool]
) -> Decider:
    if isinstance(parameter, str):
        return lambda view: _listed(view.listed(_step_column(view).texts()), texts)
    return lambda view: _numeric(view, numbers)


# -- comparison and sets -------------------------------------------------------------------------------------


@_compiles(filters.Gt)
def _gt(node: filters.Gt) -> Decider:
    limit: Any = order(node.value)
    return _ordered(limit, lambda numbers: numbers > limit, lambda text: text > limit)


@_compiles(filters.Ge)
def _ge(node: filters.Ge) -> Decider:
    limit: Any = order(node.value)
    return _ordered(limit, lambda numbers: numbers >= limit, lambda text: text >= limit)


@_compiles(filters.Lt)
def _lt(node: filters.Lt) -> Decider:
    limit: Any = order(node.value)
    return _ordered(limit, lambda numbers: numbers < limit, lambda text: text < limit)


@_compiles(filters.Le)
def _le(node: filters.Le) -> Decider:
    limit: Any = order(node.value)
    return _ordered(limit, lambda numbers: numbers <= limit, lambda text: text <= limit)


@_compiles(filters.Within)
def _within(node: filters.Within) -> Decider:
    low: Any = order(node.low)
    high: Any = order(node.high)
    return _ordered(
        low,
        lambda numbers: (numbers >= low) & (numbers <= high),
        lambda text: low <= text <= high,
    )


def _member(members: frozenset[Identity]) -> Decider:
    """Identity with one of a few values."""
    numbers = [member for member in members if isinstance(member, int | float)]
    in_array = all(abs(member) < 2**53 for member in numbers) and len(numbers) <= 8

    def decide(view: View) -> Found:
        column = _step_column(view)
        if in_array and column.plain_numbers():
            found = view.numbers(column)
            matched = np.zeros(len(found), dtype=np.bool_)
            for member in numbers:
                matched |= found == member
            return Found(matched)
        return _listed(view.listed(column.ids()), members.__contains__)

    return decide


@_compiles(filters.Eq)
def _eq(node: filters.Eq) -> Decider:
    return _member(frozenset([identity(node.value)]))


@_compiles(filters.Ne)
def _ne(node: filters.Ne) -> Decider:
    equal = _member(frozenset([identity(node.value)]))

    def decide(view: View) -> Found:
        matched, readable, _ = equal(view)
        return Found(~matched if readable is None else ~matched & readable, readable)

    return decide


@_compiles(filters.Inset)
def _inset(node: filters.Inset) -> Decider:
    return _member(identities(node.values))


@_compiles(filters.Match)
def _match(node: filters.Match) -> Decider:
    search = regex(node.pattern).search
    return lambda view: _listed(
        view.listed(_step_column(view).texts()), lambda text: search(text) is not None
    )


def _sets(test: Callable[[frozenset[Identity]], bool]) -> Decider:
    def decide(view: View) -> Found:
        found = view.listed(_step_column(view).values())
        return _listed([identities(one) if isinstance(one, tuple) else None for one in found], test)

    return decide


@_compiles(filters.Contain)
def _contain(node: filters.Contain) -> Decider:
    wanted = identity(node.value)
    return _sets(lambda members: wanted in members)


@_compiles(filters.Subset)
def _subset(node: filters.Subset) -> Decider:
    return _sets(identities(node.values).issuperset)


@_compiles(filters.Supset)
def _supset(node: filters.Supset) -> Decider:
    return _sets(identities(node.values).issubset)


def _edge(values: tuple[Scalar, ...] | None, end: int) -> Decider:
    members = None if values is None else identities(values)

    def decide(view: View) -> Found:
        ids = view.listed(_step_column(view).ids())
        scope = _bools([one is not None and (members is None or one in members) for one in ids])
        matched = np.zeros(len(ids), dtype=np.bool_)
        places = np.flatnonzero(scope)
        if len(places):
            matched[places[end]] = True
        return Found(matched, _bools([one is not None for one in ids]) if None in ids else None, scope)

    return decide


@_compiles(filters.First)
def _first(node: filters.First) -> Decider:
    return _edge(node.values, 0)


@_compiles(filters.Last)
def _last(node: filters.Last) -> Decider:
    return _edge(node.values, -1)


# -- repetition and change -----------------------------------------------------------------------------------


@_compiles(filters.Uniq)
def _uniq(_: filters.Uniq) -> Decider:
    def decide(view: View) -> Found:
        column = _step_column(view)
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

        return _listed(view.listed(column.ids()), repeats)

    return decide


@_compiles(filters.Guniq)
def _guniq(_: filters.Guniq) -> Decider:
    def decide(view: View) -> Found:
        ids = view.listed(_step_column(view).ids())
        first: dict[Any, int] = {}
        for place, one in enumerate(ids):
            first.setdefault(one, place)
        fresh = _places(len(ids), [place for one, place in first.items() if one is not None])
        if None not in first:
            return Found(~fresh)
        readable = _bools([one is not None for one in ids])
        return Found(readable & ~fresh, readable)

    return decide


@_compiles(filters.Delta)
def _delta(node: filters.Delta) -> Decider:
    change = float(node.change)
    silence_us = to_us(node.max_silence) if node.max_silence else None

    def decide(view: View) -> Found:
        column = _step_column(view)
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


@_compiles(filters.Swing)
def _swing(node: filters.Swing) -> Decider:
    deviation = float(node.deviation)

    def decide(view: View) -> Found:
        column = _step_column(view)
        numbers = view.numbers(column)
        readable = None if column.complete() else ~np.isnan(numbers)
        places = np.arange(len(numbers)) if readable is None else np.flatnonzero(readable)
        gone = _door(places.tolist(), view.ts()[places].tolist(), numbers[places].tolist(), deviation)
        return Found(_places(len(numbers), gone), readable)

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


# -- position, lot, time -------------------------------------------------------------------------------------


def _places(size: int, chosen: Any) -> Mask:
    matched = np.zeros(size, dtype=np.bool_)
    matched[chosen] = True
    return matched


@_compiles(filters.Latest)
def _latest(node: filters.Latest) -> Decider:
    def decide(view: View) -> Found:
        size = view.size()
        order = view.oldest_first()
        return Found(_places(size, slice(max(size - node.n, 0), size) if order is None else order[-node.n :]))

    return decide


@_compiles(filters.LatestBy)
def _latest_by(node: filters.LatestBy) -> Decider:
    path = paths.parse(node.by)

    def decide(view: View) -> Found:
        ids = view.listed(view.frame.column(path).ids())
        order = view.oldest_first()
        newest_first = range(len(ids) - 1, -1, -1) if order is None else order[::-1].tolist()
        matched = _places(len(ids), _newest_of_each(ids, newest_first, node.n))
        return Found(matched, _bools([one is not None for one in ids]) if None in ids else None)

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


@_compiles(filters.Every)
def _every(node: filters.Every) -> Decider:
    return lambda view: Found(_places(view.size(), slice(node.n - 1, None, node.n)))


@_compiles(filters.Random)
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


@_compiles(filters.Older)
def _older(node: filters.Older) -> Decider:
    limit_us = to_us(node.seconds)
    return lambda view: Found(view.now_us - view.ts() > limit_us)


@_compiles(filters.Throttle)
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
        surplus = ~_places(len(groups), list(newest.values()))
        if None not in ids:
            return Found(surplus)
        readable = _bools([one is not None for one in ids])
        return Found(surplus & readable, readable)

    return decide


@_compiles(filters.Top)
def _top(node: filters.Top) -> Decider:
    sign = -1.0 if node.order == "largest" else 1.0

    def decide(view: View) -> Found:
        column = _step_column(view)
        numbers = view.numbers(column)
        best_first = np.argsort(sign * numbers, kind="stable")  # NaN sorts to the end
        if column.complete():
            return Found(_places(len(numbers), best_first[: node.n]))
        readable = ~np.isnan(numbers)
        return Found(_places(len(numbers), best_first[: min(node.n, int(readable.sum()))]), readable)

    return decide
