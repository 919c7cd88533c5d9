"""The events of one queue as columns, read when a filter or a digester first needs them."""

from __future__ import annotations

from array import array
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import force_setattr

from penstock.model.sketches import hash64
from penstock.model.values import identity, number, scalar, text, value
from penstock.policy import attributes
from penstock.policy.attributes import decode_all, decoded
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import Path, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.arrays import Floats, Ints
    from penstock.model.event import Event
    from penstock.model.values import Identity, Value

EXACT: Final = float(2**53)
"""Up to 2⁵³ different whole numbers are different floats, so floats can be compared instead of values."""

_NUMBERS: Final = ({float}, {int}, {float, int})


class Column:
    """One attribute of every event in several forms, each made on first use."""

    __slots__ = ("_complete", "_ids", "_kinds", "_numbers", "_raw", "_read")

    def __init__(self, read: Callable[[], list[Any]], numbers: Floats | None = None) -> None:
        self._read = read
        self._raw: list[Any] | None = None
        self._kinds: set[type] | None = None
        self._numbers = numbers
        self._complete: bool | None = None
        self._ids: list[Identity | None] | None = None

    @property
    def raw(self) -> list[Any]:
        """The values as the payloads hold them."""
        if self._raw is None:
            self._raw = self._read()
        return self._raw

    def kinds(self) -> set[type]:
        """Types that occur."""
        if self._kinds is None:
            self._kinds = set(map(type, self.raw))
        return self._kinds

    def numbers(self) -> Floats:
        """The numbers, NaN for other values."""
        if self._numbers is None:
            self._numbers = numbers_of(self.raw)
        return self._numbers

    def complete(self) -> bool:
        """Whether every event has a number here."""
        if self._complete is None:
            numbers = self.numbers()
            self._complete = bool((numbers == numbers).all())  # noqa: PLR0124  # NaN differs from itself
        return self._complete

    def plain_numbers(self) -> bool:
        """Whether equal floats mean equal values: only numbers, none above 2⁵³."""
        if self._numbers is None and self.kinds() not in _NUMBERS:
            return False
        return self.complete() and not bool((np.abs(self.numbers()) >= EXACT).any())

    def ids(self) -> list[Identity | None]:
        """Keys to compare and group by, None without a scalar."""
        if self._ids is None:
            if self.plain_numbers():
                self._ids = self.numbers().tolist()
            elif self.kinds() == {str}:
                self._ids = self.raw
            else:
                found = [scalar(raw) for raw in self.raw]
                self._ids = [None if one is None else identity(one) for one in found]
        return self._ids

    def texts(self) -> list[str | None]:
        """The texts, None for other values."""
        return self.raw if self.kinds() == {str} else [text(scalar(raw)) for raw in self.raw]

    def values(self) -> list[Value | None]:
        """Scalars and lists."""
        return [value(raw) for raw in self.raw]


def numbers_of(raw: list[Any]) -> Floats:
    """The numbers among values, NaN for others.

    `array` accepts numbers only, where numpy would read the text "5" as one. It accepts truth values too;
    looking for those among zeros and ones is cheaper than checking every type.
    """
    try:
        found = np.frombuffer(array("d", raw), dtype=np.float64)
    except (TypeError, OverflowError, ValueError):
        return np.array([number(scalar(one)) for one in raw], dtype=np.float64)
    suspects = (found == 0.0) | (found == 1.0)
    if suspects.any() and bool in set(map(type, raw)):
        return np.array([number(scalar(one)) for one in raw], dtype=np.float64)
    return found


def raw_of(events: list[Event], path: Path, given: PayloadFormat) -> list[Any]:
    """One attribute of the events, as decoded."""
    if path.source is Source.TOPIC:
        return [event.topic for event in events]
    if path.source is not Source.PAYLOAD:
        return [attributes.read(event, path, given) for event in events]
    if len(path.segments) == 1 and given is PayloadFormat.AUTO:
        key = path.segments[0]
        decode_all(events)
        try:
            roots: list[Any] = [event.root for event in events]
            return [root[key] for root in roots]
        except (KeyError, TypeError, IndexError):
            pass  # not every payload is a map with this key
    return [attributes.descend(decoded(event, given), path.segments) for event in events]


class Stamps:
    """Event times, and whether they ascend."""

    __slots__ = ("_rising", "array")

    def __init__(self, found: Ints) -> None:
        self.array = found
        self._rising: bool | None = None

    def rising(self) -> bool:
        """Whether no time is less than the one before."""
        if self._rising is None:
            self._rising = bool((self.array[1:] >= self.array[:-1]).all())
        return self._rising


class Frame:
    """The columns of one queue."""

    __slots__ = ("_columns", "_events", "_layout", "_rows", "seq", "size", "ts")

    def __init__(self, events: Callable[[], list[Event]], layout: Layout, rows: Ints) -> None:
        """Make the frame of some rows of a layout; `events` is called if more is asked for than they hold."""
        self._events = events
        self._layout = layout
        self._rows = rows
        self._columns: dict[str, Column] = {}
        self.size = len(rows)
        self.ts = Stamps(rows[:, 1])
        self.seq: Ints = rows[:, 2]
        """Sequence numbers."""

    @property
    def events(self) -> list[Event]:
        """The events themselves."""
        return self._events()

    def column(self, path: Path) -> Column:
        """The column of one attribute."""
        found = self._columns.get(path.text)
        if found is None:
            numbers = self._layout.numbers(self._rows, path)
            # Without the frame in it: garbage in a circle stays until the collector comes.
            found = Column(partial(_raw, self._events, path, self._layout.given), numbers)
            self._columns[path.text] = found
        return found


def _raw(events: Callable[[], list[Event]], path: Path, given: PayloadFormat) -> list[Any]:
    return raw_of(events(), path, given)


class Layout:
    """The numbers a policy reads, as one row per event, cached on the event.

    A row holds the layout's mark, event time, sequence number and the numbers. The first layout that reads an
    event caches its row there; for that layout, in any queue, reading a thousand events again is one join of
    a thousand byte strings. Other layouts read the payload's values one by one.
    """

    __slots__ = ("_mark", "_paths", "_places", "given")

    def __init__(self, given: PayloadFormat, read: Iterable[Path]) -> None:
        self.given = given
        by_name = {path.text: path for path in read}
        self._paths = [by_name[name] for name in sorted(by_name)]
        self._places = {path.text: 3 + place for place, path in enumerate(self._paths)}
        self._mark = hash64(repr((given.value, sorted(by_name))).encode())

    def numbers(self, rows: Ints, path: Path) -> Floats | None:
        """Column of numbers of a path, if this layout has it."""
        place = self._places.get(path.text)
        return None if place is None else np.ascontiguousarray(rows.view(np.float64)[:, place])

    def of_columns(self, ts: Ints, seq: Ints, numbers: Mapping[str, Floats]) -> Ints | None:
        """Rows of events whose numbers are columns already; None if a number is missing there."""
        if not self._places.keys() <= numbers.keys():
            return None
        rows = np.empty((len(ts), 3 + len(self._places)), dtype=np.int64)
        rows[:, 0], rows[:, 1], rows[:, 2] = self._mark, ts, seq
        for name, place in self._places.items():
            rows.view(np.float64)[:, place] = numbers[name]
        return rows

    def read(self, events: list[Event], rows: list[bytes | None]) -> Ints:
        """Rows of the events: the cached `rows`, and those read now."""
        try:
            found = self._joined(rows)
            return self._fresh(events) if found is None else found
        except TypeError:  # some events have no row yet; in a queue packed again, the newest ones
            known = rows.index(None)
        found = self._joined(rows[:known]) if known else None
        return self._fresh(events) if found is None else np.concatenate((found, self._fresh(events[known:])))

    def _joined(self, rows: list[bytes | None]) -> Ints | None:
        """Cached rows as one array, None if some are of another layout; TypeError if one is missing."""
        width = 3 + len(self._places)
        data = b"".join(rows)  # type: ignore[arg-type]  # on purpose: see the last sentence
        if len(data) != 8 * width * len(rows):
            return None
        found = np.frombuffer(data, dtype=np.int64).reshape(len(rows), width)
        return found if bool((found[:, 0] == self._mark).all()) else None

    def _fresh(self, events: list[Event]) -> Ints:
        """Read the payloads, and cache the rows on the events."""
        rows = np.empty((len(events), 3 + len(self._places)), dtype=np.int64)
        rows[:, 0] = self._mark
        rows[:, 1] = [event.ts_us for event in events]
        rows[:, 2] = [event.seq for event in events]
        numbers = rows.view(np.float64)
        for place, path in enumerate(self._paths, start=3):
            numbers[:, place] = numbers_of(raw_of(events, path, self.given))
        data, width = rows.tobytes(), 8 * rows.shape[1]
        for event, start in zip(events, range(0, len(data), width), strict=True):
            if event.cells is None:
                force_setattr(event, "cells", data[start : start + width])
        return rows
