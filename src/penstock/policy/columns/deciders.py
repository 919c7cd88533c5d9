"""Deciders: each filter registers a function that gets a view of the queue and returns verdicts as arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import numpy as np

from penstock.policy import filters

if TYPE_CHECKING:
    from penstock.model.arrays import Floats, Ints, Mask
    from penstock.policy.columns.frame import Column, Frame


class Verdicts(NamedTuple):
    """A filter's verdicts: `matched` is false wherever the event is unreadable or out of scope."""

    matched: Mask
    readable: Mask | None = None
    """None: all events."""
    scope: Mask | None = None
    """None: all events."""


class View(NamedTuple):
    """The events and columns a decider sees."""

    frame: Frame
    alive: Ints | None
    """Indexes of the events left; None: all."""
    column: Column | None
    """The step's attribute, for filters that read one."""
    now_us: int
    careful: bool
    """Whether unreadable events must be told apart; if not, `Verdicts.readable` may be None."""

    def size(self) -> int:
        """Number of events left."""
        return self.frame.size if self.alive is None else len(self.alive)

    def numbers(self, column: Column) -> Floats:
        """A column's numbers for the events left."""
        found = column.numbers()
        return found if self.alive is None else found[self.alive]

    def listed(self, column: list[Any]) -> list[Any]:
        """A list's items for the events left."""
        return column if self.alive is None else [column[place] for place in self.alive.tolist()]

    def ts(self) -> Ints:
        """Event times of the events left."""
        found = self.frame.ts.array
        return found if self.alive is None else found[self.alive]

    def oldest_first(self) -> Ints | None:
        """Order by event time, then place; None if that is the order of the queue."""
        return None if self.frame.ts.rising() else np.argsort(self.ts(), kind="stable")


Decider = Callable[[View], Verdicts]
F = TypeVar("F", bound=filters.Filter)
COMPILERS: Final[dict[type[filters.Filter], Callable[[Any], Decider]]] = {}
"""Functions that make a filter's decider, registered by `compiles`."""


def compiles(
    *kinds: type[filters.Filter],
) -> Callable[[Callable[[F], Decider]], Callable[[F], Decider]]:
    """Register the decorated function as the maker of these filters' deciders."""

    def register(compiler: Callable[[F], Decider]) -> Callable[[F], Decider]:
        COMPILERS.update(dict.fromkeys(kinds, compiler))
        return compiler

    return register


def bools(found: list[bool]) -> Mask:
    """A list as a mask."""
    return np.array(found, dtype=np.bool_)


def step_column(view: View) -> Column:
    """The attribute of a filter that reads one."""
    assert view.column is not None
    return view.column


def numeric(view: View, test: Callable[[Floats], Mask]) -> Verdicts:
    """A test of each number; NaN passes none of ours, so `matched` needs no correction."""
    column = step_column(view)
    numbers = view.numbers(column)
    return Verdicts(test(numbers), ~np.isnan(numbers) if view.careful and not column.complete() else None)


def listed(found: list[Any], test: Callable[[Any], bool]) -> Verdicts:
    """A test of each member of a list, None being unreadable."""
    matched = bools([one is not None and test(one) for one in found])
    return Verdicts(matched, bools([one is not None for one in found]) if None in found else None)


def ordered(
    parameter: float | str, numbers: Callable[[Floats], Mask], texts: Callable[[str], bool]
) -> Decider:
    """A comparison with a number, or with a text where the parameter is one."""
    if isinstance(parameter, str):
        return lambda view: listed(view.listed(step_column(view).texts()), texts)
    return lambda view: numeric(view, numbers)


def mask_at(size: int, chosen: Any) -> Mask:
    """True at the places chosen."""
    matched = np.zeros(size, dtype=np.bool_)
    matched[chosen] = True
    return matched
