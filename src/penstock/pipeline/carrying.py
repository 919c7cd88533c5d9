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
from penstock.pipeline.verdicts import column

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

    kept: Column
    """Whether a row is a kept event."""
    keys: list[Column] = field(default_factory=list)
    """To group by, beside what makes a kept event a group of its own."""
    aggregates: list[Column] = field(default_factory=list)
    columns: list[Column] = field(default_factory=list)
    """Of the grouped frame: null where the group is no kept event."""

    def add(self, names: Sequence[str], schema: st.StructType) -> None:
        """Carry these columns of a frame."""
        for name in names:
            self.columns.append(self._carry(column(name), schema[name].dataType).alias(name))

    def _carry(self, found: Column, kind: st.DataType) -> Column:
        if is_exact(kind):
            return self._named(sf.when(self.kept, found), self.keys)
        if isinstance(kind, st.StructType):
            there = self._named(sf.when(self.kept, found.isNotNull()), self.keys)
            parts = [self._carry(found.getField(part.name), part.dataType).alias(part.name) for part in kind]
            return sf.when(there, sf.struct(*parts))
        return self._named(sf.first(sf.when(self.kept, found)), self.aggregates)

    def _named(self, made: Column, to: list[Column]) -> Column:
        name = f"__c{len(self.keys) + len(self.aggregates)}"
        to.append(made.alias(name))
        return sf.col(name)


def is_exact(kind: st.DataType) -> bool:
    """Whether Spark can group by values of a type without altering them."""
    if isinstance(kind, st.StructType):
        return all(is_exact(part.dataType) for part in kind)
    if isinstance(kind, st.ArrayType):
        return is_exact(kind.elementType)
    return isinstance(kind, _EXACT) or is_plain_text(kind)
