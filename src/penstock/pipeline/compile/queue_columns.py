"""Columns by which a transform makes its queues, from the arguments `key`, `order` and `schema`.

A transform asks neither its frame nor a session for anything: Spark forbids that inside a declarative
pipeline, and on Connect each question is a call. What it has to know of the frame is its `schema`.

    key="patient"                              a column by its name
    key=["ward", "bed"]                        several
    key=sf.split("topic", "/")[1].alias("bed") a column made of others: a text, under its alias

Rows that `order` does not distinguish are ordered by one hash of all their columns, in a batch as in a
stream: equal rows get equal places, however they were distributed, and no payload is ever compared.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError, PolicyError
from penstock.pipeline.compile.verdicts import column

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame

Columns: TypeAlias = str | Column | Sequence[str | Column]
"""A column by its name, a column made of others, or several of them."""

TIE: Final = "__tie"
"""Hash of a row, which orders rows that are equal in `order`."""
RESERVED: Final = ("place", "kind")
"""Names of columns that a packed frame has besides those of its events."""

_TEXTS: Final = st.MapType(st.StringType(), st.StringType())
_PAIRS: Final = st.ArrayType(
    st.StructType([st.StructField("key", st.StringType(), False), st.StructField("value", st.StringType())]),
    containsNull=False,
)
_UNORDERED: Final = (st.MapType, st.VariantType, st.CalendarIntervalType)
_SHOWN: Final = re.compile(r"Column<'(.*)'>", re.DOTALL)
_SORTED: Final = re.compile(r" (ASC|DESC) NULLS (FIRST|LAST)$")
_ALIASED: Final = re.compile(r".* AS `?(\w+)`?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class QueueColumns:
    """Columns that name queues and order them, and the columns of the frame."""

    key: tuple[str, ...]
    order: tuple[str, ...]
    schema: st.StructType
    """Columns of the frame, and those that are made for the key."""
    made: tuple[tuple[str, Column], ...]
    """Columns that are made of others, by name."""
    entries: tuple[str, ...] = ()
    """Maps that travel as arrays of their entries."""

    def of(self, frame: DataFrame) -> DataFrame:
        """The frame with exactly these columns."""
        made = dict(self.made)
        given = [self._given(name) for name in self.schema.names if name not in made]
        return frame.select(*given, *(found.alias(name) for name, found in self.made))

    def _given(self, name: str) -> Column:
        found = column(name)
        return sf.map_entries(found).alias(name) if name in self.entries else found

    def with_entries(self, name: str) -> QueueColumns:
        """A map of texts as an array of its entries, which Spark can sort, group by and hash."""
        if name not in self.schema.names or self.schema[name].dataType != _TEXTS:
            return self
        fields = [st.StructField(name, _PAIRS) if one.name == name else one for one in self.schema]
        return replace(self, schema=st.StructType(fields), entries=(*self.entries, name))

    def restored(self, name: str, found: Column) -> Column:
        """A column of the result as it came."""
        return _map_of(found) if name in self.entries else found

    def tie(self) -> Column:
        """Hash of all columns of a row."""
        return sf.xxhash64(*_hashable(self.schema))


def queue_columns(key: Columns, order: Columns, schema: st.StructType) -> QueueColumns:
    """Columns of a transform's arguments; refuses those that cannot make queues."""
    if not isinstance(schema, st.StructType):
        raise InputError(f"schema is a {type(schema).__name__}; it is the frame's StructType: frame.schema")
    keys, orders = _listed(key), _listed(order)
    if not keys or not orders:
        raise PolicyError("a queue needs columns that name it (key) and columns that order it (order)")
    reserved = [name for name in schema.names if name.startswith("__") or name in RESERVED]
    if reserved:
        raise InputError(f"column '{reserved[0]}': this name is used by the packed frame; rename the column")
    names: list[str] = []
    made: dict[str, Column] = {}
    for found in keys:
        name, own = _name_of(found), _shown(found) not in schema.names
        names.append(name)
        if isinstance(found, str) or not own:
            _find(schema, name)
        elif name in schema.names or name in made or name.startswith("__") or name in RESERVED:
            raise InputError(f"column '{name}' of the key: there is one of this name; give another alias")
        else:
            made[name] = found.cast("string")
    ordered: list[str] = []
    for place, found in enumerate(orders):
        name, own = _name_of(found), _shown(found) not in schema.names
        if isinstance(found, str) or not own:
            _find(schema, name)
            ordered.append(name)
        else:
            ordered.append(f"__order{place}")
            made[ordered[-1]] = found
    more = [st.StructField(name, st.StringType()) for name in names if name in made]
    return QueueColumns(
        tuple(names), tuple(ordered), st.StructType([*schema.fields, *more]), tuple(made.items())
    )


def sortable(kind: st.DataType) -> bool:
    """Whether Spark can compare two values of a type."""
    if isinstance(kind, st.StructType):
        return all(sortable(field.dataType) for field in kind)
    return sortable(kind.elementType) if isinstance(kind, st.ArrayType) else not isinstance(kind, _UNORDERED)


def told(frame: DataFrame, schema: st.StructType) -> DataFrame:
    """The frame, on Connect with its schema: it would ask its server before a Python function is applied."""
    known: Any = frame
    if getattr(known, "_cached_schema", schema) is None:
        known._cached_schema = schema  # noqa: SLF001
    return frame


def with_columns(frame: DataFrame, columns: Mapping[str, Column], *, instead: bool = False) -> DataFrame:
    """`withColumns` as a selection; `instead`: the frame has columns of these names, which are replaced.

    Connect analyses the frame for `withColumns`. In a declarative pipeline it then finds a table of the run
    before, and Spark does not see that the result has to wait for the table of this run.
    """
    names = ", ".join(f"`{name}`" for name in columns)
    others = sf.expr(f"* EXCEPT ({names})") if instead else "*"
    return frame.select(others, *(column.alias(name) for name, column in columns.items()))


def no_column(name: str, schema: st.StructType) -> InputError:
    """Error about a column that queues cannot be made by."""
    return InputError(
        f"there is no column '{name}' to make queues by; the columns are: {', '.join(schema.names)} "
        "(of `schema`: give that of the frame)"
    )


def _listed(given: Columns) -> list[str | Column]:
    return [given] if isinstance(given, str | Column) else list(given)


def _shown(found: str | Column) -> str:
    """A column as Spark shows it, classic or Connect: the only way to its name without asking a server."""
    if isinstance(found, str):
        return found
    shown = _SHOWN.fullmatch(repr(found))
    return repr(found) if shown is None else shown[1]


def _name_of(found: str | Column) -> str:
    if isinstance(found, str):
        return found
    text = _shown(found)
    if _SORTED.search(text):
        raise PolicyError(f"'{text}': queues are ordered ascending; negate the column for the other way")
    aliased = _ALIASED.fullmatch(text)
    return text if aliased is None else aliased[1]


def _find(schema: st.StructType, name: str) -> None:
    if name not in schema.names:
        raise no_column(name, schema)
    kind = schema[name].dataType
    if not sortable(kind):
        raise InputError(f"column '{name}' is {kind.simpleString()}, which cannot name a queue or order it")


def _map_of(entries: Column) -> Column:
    """A map of its entries, also of those that have a key twice, as user properties may.

    Spark refuses to make such a map, but reads it from JSON. Rare rows take that way.
    """

    def member(entry: Column) -> Column:
        alone = sf.to_json(
            sf.create_map(entry.getField("key"), entry.getField("value")), {"ignoreNullFields": "false"}
        )
        return sf.substring(alone, sf.lit(2), sf.length(alone) - 2)

    keys = entries.getField("key")
    text = sf.concat(sf.lit("{"), sf.array_join(sf.transform(entries, member), ","), sf.lit("}"))
    twice = sf.size(sf.array_distinct(keys)) < sf.size(keys)
    return sf.when(twice, sf.from_json(text, "map<string,string>")).otherwise(sf.map_from_entries(entries))


def _hashable(schema: st.StructType) -> Iterator[Column]:
    """Columns as values that Spark hashes: it refuses maps and variants."""
    for field in schema:
        found, kind = column(field.name), field.dataType
        if sortable(kind):
            yield found
        elif isinstance(kind, st.MapType) and sortable(kind.valueType) and sortable(kind.keyType):
            yield sf.map_entries(found)
        else:
            yield sf.to_json(sf.struct(found.alias("it")))
