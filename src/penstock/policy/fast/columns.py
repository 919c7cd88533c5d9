"""The events of one queue as columns, read when a filter or a digester first asks for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from penstock.model.values import identity, number, scalar, text, value
from penstock.policy import attributes
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import Path, Source
from penstock.policy.payload import decoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.model.event import Event
    from penstock.model.values import Identity, Value

    Floats: TypeAlias = NDArray[np.float64]
    Ints: TypeAlias = NDArray[np.int64]
    Mask: TypeAlias = NDArray[np.bool_]

EXACT: Final = float(2**53)
"""Up to here every whole number is a float of its own, so arrays may stand for identities."""

_PLAIN: Final = ({float}, {int}, {float, int})
_PLAIN_OR_NONE: Final = tuple(kinds | {type(None)} for kinds in _PLAIN)


class Column:
    """One attribute of every event, in whichever form is asked for; each form is made once."""

    __slots__ = ("_complete", "_ids", "_kinds", "_numbers", "raw")

    def __init__(self, raw: list[Any]) -> None:
        self.raw = raw
        self._kinds: set[type] = set(map(type, raw))
        self._numbers: Floats | None = None
        self._complete: bool | None = None
        self._ids: list[Identity | None] | None = None

    def numbers(self) -> Floats:
        """The numbers, NaN where there is none."""
        if self._numbers is None:
            try:
                plain = self._kinds in _PLAIN or self._kinds in _PLAIN_OR_NONE
                found = self.raw if plain else [number(scalar(raw)) for raw in self.raw]
                self._numbers = np.array(found, dtype=np.float64)
            except OverflowError:  # a whole number that no float can hold
                self._numbers = np.array([number(scalar(raw)) for raw in self.raw], dtype=np.float64)
        return self._numbers

    def complete(self) -> bool:
        """Whether every event has a number here."""
        if self._complete is None:
            self._complete = not bool(np.isnan(self.numbers()).any())
        return self._complete

    def plain_numbers(self) -> bool:
        """Whether the array of numbers says all about identity: only numbers, none beyond exactness."""
        if self._kinds not in _PLAIN or not self.complete():
            return False
        return int not in self._kinds or not bool((np.abs(self.numbers()) >= EXACT).any())

    def ids(self) -> list[Identity | None]:
        """Stand-ins to compare and group by, None where there is no scalar."""
        if self._ids is None:
            if self._kinds == {str} or (self._kinds in _PLAIN and self.plain_numbers()):
                self._ids = self.raw
            else:
                found = [scalar(raw) for raw in self.raw]
                self._ids = [None if one is None else identity(one) for one in found]
        return self._ids

    def texts(self) -> list[str | None]:
        """The texts, None where there is none."""
        return self.raw if self._kinds == {str} else [text(scalar(raw)) for raw in self.raw]

    def values(self) -> list[Value | None]:
        """Scalars and lists."""
        return [value(raw) for raw in self.raw]


class Frame:
    """The columns of one queue."""

    def __init__(self, events: list[Event], given: PayloadFormat) -> None:
        self.events = events
        self._given = given
        self._columns: dict[Path, Column] = {}
        self._ts: Ints | None = None
        self._seq: Ints | None = None
        self._sorted: bool | None = None

    def ts(self) -> Ints:
        """Event times."""
        if self._ts is None:
            self._ts = np.array([event.ts_us for event in self.events], dtype=np.int64)
        return self._ts

    def seq(self) -> Ints:
        """Sequence numbers."""
        if self._seq is None:
            self._seq = np.array([event.seq for event in self.events], dtype=np.int64)
        return self._seq

    def in_time_order(self) -> bool:
        """Whether no event is older than the one before it."""
        if self._sorted is None:
            ts = self.ts()
            self._sorted = bool((ts[1:] >= ts[:-1]).all())
        return self._sorted

    def column(self, path: Path) -> Column:
        """The column of one attribute."""
        found = self._columns.get(path)
        if found is None:
            found = self._columns[path] = Column(self._read(path))
        return found

    def _read(self, path: Path) -> list[Any]:
        if path.source is not Source.PAYLOAD:
            return [attributes.read(event, path, self._given) for event in self.events]
        if len(path.segments) == 1 and self._given is PayloadFormat.AUTO:
            key = path.segments[0]
            try:
                return [event.root[key] for event in self.events]
            except (KeyError, TypeError, IndexError):
                pass  # not every payload is decoded yet and a map with this key
        return [attributes.descend(decoded(event, self._given), path.segments) for event in self.events]
