"""The events of one queue as columns, read when a filter or a digester first asks for them."""

from __future__ import annotations

from array import array
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

_NUMBERS: Final = ({float}, {int}, {float, int})


class Column:
    """One attribute of every event, in whichever form is asked for; each form is made once."""

    __slots__ = ("_complete", "_ids", "_kinds", "_numbers", "raw")

    def __init__(self, raw: list[Any]) -> None:
        self.raw = raw
        self._kinds: set[type] | None = None
        self._numbers: Floats | None = None
        self._complete: bool | None = None
        self._ids: list[Identity | None] | None = None

    def kinds(self) -> set[type]:
        """The types that occur."""
        if self._kinds is None:
            self._kinds = set(map(type, self.raw))
        return self._kinds

    def numbers(self) -> Floats:
        """The numbers, NaN where there is none."""
        if self._numbers is None:
            found = self._plainly()
            if found is None:
                found = np.array([number(scalar(raw)) for raw in self.raw], dtype=np.float64)
            self._numbers = found
        return self._numbers

    def _plainly(self) -> Floats | None:
        """The whole column at once, if every value is a number.

        The array module takes numbers only, where numpy would read the text "5" as one. It takes truth
        values too; looking for those among zeros and ones costs less than looking at every type.
        """
        try:
            found = np.frombuffer(array("d", self.raw), dtype=np.float64)
        except (TypeError, OverflowError, ValueError):
            return None
        suspects = (found == 0.0) | (found == 1.0)
        return None if suspects.any() and bool in self.kinds() else found

    def complete(self) -> bool:
        """Whether every event has a number here."""
        if self._complete is None:
            numbers = self.numbers()
            self._complete = bool((numbers == numbers).all())  # noqa: PLR0124  # NaN differs from itself
        return self._complete

    def plain_numbers(self) -> bool:
        """Whether the array of numbers says all about identity: only numbers, none beyond exactness."""
        if self.kinds() not in _NUMBERS or not self.complete():
            return False
        return int not in self.kinds() or not bool((np.abs(self.numbers()) >= EXACT).any())

    def ids(self) -> list[Identity | None]:
        """Stand-ins to compare and group by, None where there is no scalar."""
        if self._ids is None:
            if self.kinds() == {str} or self.plain_numbers():
                self._ids = self.raw
            else:
                found = [scalar(raw) for raw in self.raw]
                self._ids = [None if one is None else identity(one) for one in found]
        return self._ids

    def texts(self) -> list[str | None]:
        """The texts, None where there is none."""
        return self.raw if self.kinds() == {str} else [text(scalar(raw)) for raw in self.raw]

    def values(self) -> list[Value | None]:
        """Scalars and lists."""
        return [value(raw) for raw in self.raw]


class Stamps:
    """Event times, or sequence numbers."""

    __slots__ = ("_array", "_rising", "raw")

    def __init__(self, raw: list[int]) -> None:
        self.raw = raw
        self._array: Ints | None = None
        self._rising: bool | None = None

    def array(self) -> Ints:
        """As an array."""
        if self._array is None:
            self._array = np.array(self.raw, dtype=np.int64)
        return self._array

    def rising(self) -> bool:
        """Whether none is less than the one before; sorting what is sorted is the fastest way to know."""
        if self._rising is None:
            self._rising = self.raw == sorted(self.raw)
        return self._rising


class Frame:
    """The columns of one queue."""

    __slots__ = ("_columns", "_given", "_seq", "_ts", "events")

    def __init__(self, events: list[Event], given: PayloadFormat) -> None:
        self.events = events
        self._given = given
        self._columns: dict[Path, Column] = {}
        self._ts: Stamps | None = None
        self._seq: Stamps | None = None

    def ts(self) -> Stamps:
        """Event times."""
        if self._ts is None:
            self._ts = Stamps([event.ts_us for event in self.events])
        return self._ts

    def seq(self) -> Stamps:
        """Sequence numbers."""
        if self._seq is None:
            self._seq = Stamps([event.seq for event in self.events])
        return self._seq

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
