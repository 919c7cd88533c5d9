"""Projects the rows of any frame to events for the queue cores on Python workers.

    frame --as_events--> frame with a column `__event` --Arrow--> worker --events_of--> [Event, …]

An event keeps the payload of its row. Attributes in typed columns travel beside it, as JSON with just the
requested paths, and become the event's decoded payload: so the reference evaluator sees what the compiled
policy sees.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

import msgspec
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.errors import InputError
from penstock.model.event import Event
from penstock.pipeline.compile import typed_columns
from penstock.pipeline.compile.attach import with_payload
from penstock.pipeline.compile.sources import (
    FoundColumn,
    Sources,
    is_text,
    property_of,
    texts,
    typed_reading,
)
from penstock.pipeline.compile.typed_columns import either, first_of
from penstock.pipeline.compile.verdicts import column as column_of
from penstock.pipeline.tables.schemas import EVENTS
from penstock.policy import paths
from penstock.policy.attributes import UNDECODABLE
from penstock.policy.nodes import PayloadFormat
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.compile.sources import Attributes
    from penstock.pipeline.compile.typed_columns import TypedColumns
    from penstock.policy.paths import Path

EVENT: Final = "__event"
"""Column that `as_events` adds; null in the rows of digests."""

_PAIRS: Final = "array<struct<name:string,value:string>>"
_KIND: Final = (
    "struct<ts_us:bigint,seq:bigint,sender:string,topic:string,payload:binary,"
    f"properties:{_PAIRS},content_type:string,root:string>"
)
_VALUE: Final = "\u2063value"
"""Key of a payload that is not an object, in the JSON."""
_INFINITE: Final = "\u2063infinite"
"""Key of the list of paths of infinite numbers, which JSON cannot express."""
_MARK: Final = "\u2063"
"""Prefix of both keys, rare in other texts."""
_LARGEST: Final = 1.7976931348623157e308


def as_events(
    wanted: Sequence[str],
    *,
    attributes: Attributes | None = None,
    payload: PayloadFormat = PayloadFormat.AUTO,
    schema: st.StructType = EVENTS,
    more: Sequence[str] = (),
) -> Callable[[DataFrame], DataFrame]:
    """Transform that adds the column `__event` to a frame, for policies that read `wanted`.

    `wanted` are attribute paths, as `fates.read_by` lists them; `payload` is the policy's setting. A schema
    that lacks one of them is refused as by `pack`. `more` are columns to keep besides those of the schema.
    """
    sources = Sources(schema, dict(attributes or {}), payload)
    return lambda frame: _projected(frame, sources, list(dict.fromkeys(wanted)), more)


def known(sources: Sources, wanted: Sequence[str]) -> None:
    """Refuse an attribute that is neither a column nor in a payload, with a near match."""
    if sources.envelope("$payload") is not None:
        return
    for path in map(paths.parse, wanted):
        if path.source is Source.PAYLOAD and sources.typed(path) is None:
            names = sources.schema.names
            near = get_close_matches(path.text, names, n=1)
            hint = f" (did you mean '{near[0]}'?)" if near else ""
            there = ", ".join(names)
            raise InputError(
                f"attribute '{path.text}': there is no such column{hint}, and no column 'payload' to search; "
                f"the columns are: {there}"
            )


def _projected(frame: DataFrame, sources: Sources, wanted: list[str], more: Sequence[str]) -> DataFrame:
    if sources.find(EVENT) is not None:
        raise InputError(f"column '{EVENT}': this name is used for events; rename the column")
    known(sources, wanted)
    found = [paths.parse(text) for text in wanted]
    for path in found:
        _check(sources, path)
    leaves = _leaves(sources, [path for path in found if path.source is Source.PAYLOAD])
    columns = [*sources.schema.names, *more]
    if any(leaf.parsed for leaf in leaves):
        frame = with_payload(frame, sources)
    digest = sources.digest()
    event = sf.struct(
        _ts(sources, digest).alias("ts_us"),
        sources.seq().alias("seq"),
        sources.sender().alias("sender"),
        _topic(sources).alias("topic"),
        _payload(sources, leaves).alias("payload"),
        _properties(sources, found).alias("properties"),
        _content_type(sources, leaves).alias("content_type"),
        _root(leaves).alias("root"),
    )
    given = event.cast(_KIND)  # makes all fields nullable: Arrow refuses a null row otherwise
    given = given if digest is None else sf.when(digest.isNull(), given)
    return frame.select(*map(column_of, columns), given.alias(EVENT))


# -- the envelope --------------------------------------------------------------------------------------------


def _check(sources: Sources, path: Path) -> None:
    """Refuse attributes that an event cannot get from a column."""
    match path.source:
        case Source.TOPIC | Source.SENDER:
            texts(path.text, sources.needed(path.text))
        case Source.SIZE:
            if "$size" in sources.attributes:
                raise InputError("attribute '$size': an event's size is that of its payload, not of a column")
            sources.needed("$payload")
            sources.needed("$topic")
        case Source.PROPERTY:
            property_of(sources, path)
        case Source.TS | Source.PAYLOAD:
            pass  # needed by every event, so resolved below in any case


def _ts(sources: Sources, digest: Column | None) -> Column:
    said = sf.raise_error(sf.lit("an event has no time: its column `ts` is null")).cast("bigint")
    missing = said if digest is None else sf.when(digest.isNull(), said)
    return sf.coalesce(sources.ts(), missing)


def _topic(sources: Sources) -> Column:
    found = sources.envelope("$topic")
    return sf.lit("") if found is None else sf.coalesce(texts("$topic", found), sf.lit(""))


def _properties(sources: Sources, wanted: list[Path]) -> Column:
    """Pairs of texts, null if there are none; those with columns of their own come first."""
    own = [
        sf.struct(sf.lit(path.segments[0]).alias("name"), property_of(sources, path).alias("value"))
        for path in wanted
        if path.source is Source.PROPERTY and path.text in sources.attributes
    ]
    parts = [sf.filter(sf.array(*own), lambda pair: pair.getField("value").isNotNull())] if own else []
    found = sources.envelope("$properties")
    if found is not None and isinstance(found.kind, st.MapType):
        parts.append(sf.map_entries(found.column))
    elif found is not None and isinstance(found.kind, st.ArrayType):
        parts.append(found.column)
    if not parts:
        return sf.lit(None).cast(_PAIRS)
    whole = sf.concat(*(sf.coalesce(part.cast(_PAIRS), sf.array().cast(_PAIRS)) for part in parts))
    return sf.when(sf.size(whole) > 0, whole)


def _content_type(sources: Sources, leaves: list[_Leaf]) -> Column:
    """The row's content type.

    JSON for attributes beside the payload, where the policy's setting is `auto`.
    """
    if leaves:
        return sf.lit("" if sources.payload is PayloadFormat.AUTO else "application/json")
    found = sources.envelope("$content_type")
    return sf.lit("") if found is None else sf.coalesce(texts("$content_type", found), sf.lit(""))


# -- the payload ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Leaf:
    """End of a path into the payload."""

    segments: tuple[str, ...]
    reading: TypedColumns | None = None
    """Its columns, if it is a typed column."""
    variant: Column | None = None
    parsed: bool = False
    """Whether it is inside a payload that must be parsed."""

    def value(self) -> Column:
        """The value of a leaf as it goes into the JSON."""
        if self.variant is not None:
            return self.variant
        assert self.reading is not None
        return _value(self.reading)

    def infinite(self) -> Column | None:
        """Sign and path of an infinite number; null for others."""
        real = None if self.reading is None else self.reading.real
        if real is None:
            return None
        at = sf.array(*map(sf.lit, self.segments)).cast("array<string>")
        return sf.when(_is_infinite(real), sf.struct(sf.signum(real).alias("sign"), at.alias("at")))


def _leaves(sources: Sources, wanted: list[Path]) -> list[_Leaf]:
    """Attributes to send beside the payload; none if the payload itself holds all of them."""
    if all(sources.typed(path) is None for path in wanted):
        if wanted:
            sources.payload_text()
        return []
    whole = next((path for path in wanted if not path.segments), None)
    if whole is not None and sources.typed(whole) is None:
        columns = ", ".join(f"'{path.text}'" for path in wanted if sources.typed(path) is not None)
        raise InputError(
            f"attribute '{whole.text}' is the payload, which an event cannot have beside columns: {columns}"
        )
    return [_leaf(sources, path) for path in _outermost(sources, wanted)]


def numeric(sources: Sources, wanted: Sequence[str]) -> dict[str, FoundColumn]:
    """Columns of the payload's attributes by path, if all of them are columns of numbers; else none.

    They are sent as they are: JSON would be written and read again for each row. A NaN is sent as null.
    """
    found: dict[str, FoundColumn] = {}
    asked = [path for path in map(paths.parse, dict.fromkeys(wanted)) if path.source is Source.PAYLOAD]
    for path in asked:
        typed = sources.typed(path)
        if typed is None or not path.segments or not isinstance(typed.kind, st.NumericType):
            return {}
        found[path.text] = typed
    list(_outermost(sources, asked))  # refuses one attribute inside another
    return dict(sorted(found.items()))


def number_in(text: str, found: FoundColumn) -> Column:
    """A column of `numeric`: whole numbers as they are, others as doubles."""
    reading = typed_reading(text, found)
    return first_of(list(reading.scalars().values()), "double")


def _leaf(sources: Sources, path: Path) -> _Leaf:
    segments = path.segments or (_VALUE,)
    found = sources.typed(path)
    if found is None:
        sources.payload_text()
        return _Leaf(segments, variant=typed_columns.in_wrapped(sf.col("__json"), path.segments), parsed=True)
    if isinstance(found.kind, st.VariantType):
        return _Leaf(segments, variant=found.column)
    return _Leaf(segments, typed_reading(path.text, found))


def _outermost(sources: Sources, wanted: list[Path]) -> Iterator[Path]:
    """Paths that are not inside another: parts of a list are found in the list."""
    for path in wanted:
        above = [
            other
            for other in wanted
            if other is not path and path.segments[: len(other.segments)] == other.segments
        ]
        if not above:
            yield path
        elif path.text in sources.attributes or sources.find(path.text) is not None:
            raise InputError(
                f"attributes '{above[0].text}' and '{path.text}' are two columns, and one lies in the other"
            )


def _value(reading: TypedColumns) -> Column:
    """A typed column as a JSON value."""
    if reading.members is not None:
        assert reading.element is not None
        element = reading.element
        return sf.transform(reading.members, lambda member: _member(element(member)))
    if reading.real is not None:
        return sf.when(~_is_infinite(reading.real), reading.real)
    return first_of(list(reading.scalars().values()), "string")


def _member(reading: TypedColumns) -> Column:
    """An element of a list; infinities become null, because no policy can compare with them."""
    if reading.real is None:
        return first_of(list(reading.scalars().values()), "string")
    return sf.when(_is_infinite(reading.real), sf.signum(reading.real) * _LARGEST).otherwise(reading.real)


def _is_infinite(real: Column) -> Column:
    return sf.abs(real) == float("inf")


def _root(leaves: list[_Leaf]) -> Column:
    """The attributes as JSON; null if the payload holds them itself."""
    if not leaves:
        return sf.lit(None).cast("string")
    tree: dict[str, Any] = {}
    for leaf in leaves:
        node = tree
        for segment in leaf.segments[:-1]:
            node = node.setdefault(segment, {})
        node[leaf.segments[-1]] = leaf.value()
    infinite = [found for found in (leaf.infinite() for leaf in leaves) if found is not None]
    if infinite:
        some = either(found.isNotNull() for found in infinite)
        tree[_INFINITE] = sf.when(some, sf.array_compact(sf.array(*infinite)))
    return sf.to_json(_nested(tree))


def _nested(tree: Mapping[str, Any]) -> Column:
    parts = {name: _nested(found) if isinstance(found, dict) else found for name, found in tree.items()}
    return sf.struct(*(part.alias(name) for name, part in parts.items()))


def _payload(sources: Sources, leaves: list[_Leaf]) -> Column:
    """Payload of a row; if it has none, its attributes."""
    found = sources.envelope("$payload")
    if found is None:
        return _root(leaves).cast("binary") if leaves else sf.lit(b"")
    if is_text(found.kind):
        written = found.column
    elif isinstance(found.kind, st.StructType | st.MapType | st.ArrayType | st.VariantType):
        written = sf.to_json(found.column)
    else:
        written = found.column.cast("string")
    return sf.coalesce(written.cast("binary"), sf.lit(b""))


# -- on the worker -------------------------------------------------------------------------------------------


def events_of(
    column: pa.Array | pa.ChunkedArray, numbers: Mapping[str, list[float | None]] | None = None
) -> list[Event | None]:
    """Events of a column `__event`, in order; None where the row is not an event.

    `numbers` are columns of attributes by path (`numeric`), which take the place of `root`.
    """
    found: list[Event | None] = []
    for chunk in getattr(column, "chunks", [column]):
        found += _chunk(chunk, _roots(numbers) if numbers else None)
    return found


def _roots(numbers: Mapping[str, list[float | None]]) -> list[dict[str, Any]]:
    """Decoded payloads that hold these attributes."""
    found: list[dict[str, Any]] = []
    at = [paths.parse(text).segments for text in numbers]
    for row in zip(*numbers.values(), strict=True):
        root: dict[str, Any] = {}
        for segments, value in zip(at, row, strict=True):
            node = root
            for segment in segments[:-1]:
                node = node.setdefault(segment, {})
            node[segments[-1]] = value
        found.append(root)
    return found


def _chunk(column: pa.StructArray, roots: list[dict[str, Any]] | None) -> Iterator[Event | None]:
    names = [field.name for field in column.type]
    parts = dict(zip(names, column.flatten(), strict=True))
    properties = parts["properties"]
    rows = zip(
        parts["topic"].to_pylist(),
        parts["payload"].to_pylist(),
        parts["ts_us"].to_pylist(),
        parts["sender"].to_pylist(),
        parts["seq"].to_pylist(),
        properties.to_pylist() if properties.null_count < len(properties) else repeat(None),
        parts["content_type"].to_pylist(),
        map(_decoded, parts["root"].to_pylist()) if roots is None else roots,
        strict=False,
    )
    for topic, payload, ts_us, sender, seq, pairs, content_type, root in rows:
        if ts_us is None:
            yield None
            continue
        own = tuple((pair["name"], pair["value"]) for pair in pairs) if pairs else ()
        yield Event(topic, payload, ts_us, sender, seq, own, content_type, root)


def _decoded(root: str | None) -> Any:
    """Decode the attributes sent beside a payload; None: there are none beside it."""
    if root is None:
        return None
    found = _json.decode(root)
    if _MARK in root and (_VALUE in found or _INFINITE in found):
        for place in found.pop(_INFINITE, ()):
            node = found
            for segment in place["at"][:-1]:
                node = node[segment]
            node[place["at"][-1]] = place["sign"] * float("inf")
        found = found.get(_VALUE, found)
    return UNDECODABLE if found is None else found


_json: Final = msgspec.json.Decoder()
