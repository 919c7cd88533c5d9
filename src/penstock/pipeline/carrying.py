"""Columns of kept events on their way through the grouping of dropped ones: unchanged, and without a sort.

Spark groups by a hash table as long as what it aggregates has a fixed width, and sorts all rows if not. A
kept event is a group of its own, so its columns may stand among the names of the group, whatever their width.
Grouping alters some values, though (−0.0 becomes 0.0, a map is sorted), and variants cannot be grouped by:
numbers with a fraction are aggregated instead, structs taken apart. What is left (maps, variants, arrays with
fractions inside) costs the sort.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.pipeline.sources import is_plain_text
from penstock.pipeline.verdicts import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

_EXACT: Final = (
    st.IntegralType,
    st.DecimalType,
    st.BooleanType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
"""Types whose values come out of a grouping as they went in."""


@dataclass(slots=True)
class Carried:
    """How columns are carried, and how they are had again."""

    kept: str
    """The column that says whether a row is a kept event."""
    keys: list[Column] = field(default_factory=list)
    """To group by, beside what makes a kept event a group of its own."""
    aggregates: list[Column] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    """Of the grouped frame: null where the group is no kept event."""

    def add(self, names: Sequence[str], schema: st.StructType) -> None:
        """Carry these columns of a frame."""
        for name in names:
            made = self._carry(quoted(name), schema[name].dataType)
            self.columns.append(sf.expr(made).alias(name))

    def _carry(self, found: str, kind: st.DataType) -> str:
        """Carry something, in SQL; how it is had again, in SQL."""
        if is_exact(kind):
            return self._named(sf.expr(f"if({self.kept}, {found}, null)"), self.keys)
        if isinstance(kind, st.StructType):
            there = self._named(sf.expr(f"if({self.kept}, {found} is not null, null)"), self.keys)
            parts = [
                f"{literal(part.name)}, {self._carry(f'{found}.{quoted(part.name)}', part.dataType)}"
                for part in kind
            ]
            return f"if({there}, named_struct({', '.join(parts)}), null)"
        return self._named(sf.expr(f"first(if({self.kept}, {found}, null))"), self.aggregates)

    def _named(self, made: Column, to: list[Column]) -> str:
        name = f"__c{len(self.keys) + len(self.aggregates)}"
        to.append(made.alias(name))
        return name


def is_exact(kind: st.DataType) -> bool:
    """Whether Spark can group by values of a type without altering them."""
    if isinstance(kind, st.StructType):
        return all(is_exact(part.dataType) for part in kind)
    if isinstance(kind, st.ArrayType):
        return is_exact(kind.elementType)
    return isinstance(kind, _EXACT) or is_plain_text(kind)
