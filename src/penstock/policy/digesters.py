"""The digesters: what a digest can say about dropped events.

`summary_of` says what one event contributes; merging those contributions is `AttributeSummary.merge`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.model import sketches
from penstock.model.digest import AttributeSummary, mark
from penstock.model.values import number

if TYPE_CHECKING:
    from collections.abc import Collection

    from penstock.model.event import Event
    from penstock.model.values import Value


@dataclass(frozen=True, slots=True)
class Digester:
    """One digester, as the catalogue shows it."""

    name: str
    doc: str
    in_paper: bool = True
    numeric: bool = True
    """Whether it reads only numbers; the others read any scalar."""


CATALOGUE: Final[dict[str, Digester]] = {
    digester.name: digester
    for digester in (
        Digester("count", "how many events were dropped; always kept, asked for or not", numeric=False),
        Digester("sum", "sum of the numbers"),
        Digester("mean", "mean of the numbers; travels as sum and count"),
        Digester("min", "smallest number"),
        Digester("max", "largest number"),
        Digester("first", "value of the earliest event", in_paper=False, numeric=False),
        Digester("last", "value of the latest event", in_paper=False, numeric=False),
        Digester("stddev", "population standard deviation of the numbers", in_paper=False),
        Digester("distinct", "number of different values (HLL sketch, about 1.6 % error)", False, False),
        Digester("quantiles", "quantiles of the numbers (KLL sketch, about 1.3 % rank error)", False),
    )
}
"""Every digester by name, in the order of the documentation."""

NUMERIC: Final = frozenset(name for name, digester in CATALOGUE.items() if digester.numeric)
"""Digesters that read numbers."""

SUMMING: Final = frozenset({"sum", "mean", "stddev"})
"""Digesters that need the sum and its count."""


def summary_of(value: Value | None, event: Event, asked: Collection[str]) -> AttributeSummary:
    """Contribution of one event to the summary of one attribute, for the requested digesters."""
    found = number(value)
    known = value if not isinstance(value, tuple) else None
    place = None if known is None else mark(ts_us=event.ts_us, seq=event.seq, value=known)
    summed = found is not None and not SUMMING.isdisjoint(asked)
    return AttributeSummary(
        n=1 if summed else 0,
        total=found if summed and found is not None else 0.0,
        squares=0.0 if summed and "stddev" in asked else None,
        least=found if "min" in asked else None,
        most=found if "max" in asked else None,
        first=place if "first" in asked else None,
        last=place if "last" in asked else None,
        distinct=sketches.distinct_of(() if known is None else (known,)) if "distinct" in asked else None,
        quantiles=sketches.quantiles_of(() if found is None else (found,)) if "quantiles" in asked else None,
    )
