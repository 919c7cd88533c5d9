"""Converts digests between Spark rows, Python objects and the wire format.

    struct column --collect--> row <-- digest_of_row, row_of_digest --> Digest <-- digest_wire --> bytes

`with_digests` and `with_wire` convert inside a frame. They are the only transforms of the pipeline that start
Python workers, because Spark SQL cannot read these bytes. On the driver, `row_of_digest` makes rows for
`createDataFrame`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as sf
from pyspark.sql.types import BinaryType, IntegralType, MapType, StringType, StructType, TimestampType

from penstock.errors import DigestError
from penstock.model import digest_wire
from penstock.model.digest import AttributeSummary, Cause, Digest, Mark
from penstock.model.event import Event
from penstock.model.values import identity
from penstock.pipeline.compile.verdicts import column, quoted
from penstock.pipeline.tables.schemas import DIGEST, EVENTS, SCALAR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import Column, DataFrame, Row

    from penstock.model.values import Scalar


_TELLING: Final = (StringType, IntegralType, TimestampType)
"""Types of columns that help to identify a row."""
_TOLD: Final = 5
"""Columns of such types that an error shows."""


def digest_of_row(row: Row | Mapping[str, Any]) -> Digest:
    """Digest from a collected struct."""
    return Digest(
        count=row["count"],
        from_us=row["from_us"],
        to_us=row["to_us"],
        seq_first=row["seq_first"],
        seq_last=row["seq_last"],
        causes=tuple(
            (Cause(cause["level"], cause["position"], cause["filter"]), cause["count"])
            for cause in row["causes"]
        ),
        attributes=tuple((found["name"], _summary_of_row(found)) for found in row["attributes"]),
    )


def row_of_digest(digest: Digest) -> tuple[Any, ...]:
    """The digest as a value for a column of the schema DIGEST."""
    return (
        digest.count,
        digest.from_us,
        digest.to_us,
        digest.seq_first,
        digest.seq_last,
        [(cause.level, cause.position, cause.filter, count) for cause, count in digest.causes],
        [_row_of_summary(name, summary) for name, summary in digest.attributes],
    )


def items_of_rows(rows: Iterable[Row]) -> list[Event | Digest]:
    """Collected rows of one packed queue as the items a node's queue holds, in order.

    The frame has the columns of an event: topic, payload, ts (microseconds), sender, seq, and optionally
    properties and content_type.
    """
    return [
        digest_of_row(row["digest"]) if row["kind"] == "digest" else _event_of_row(row.asDict())
        for row in sorted(rows, key=lambda row: int(row["place"]))
    ]


def with_digests(name: str = "digest", *, schema: StructType = EVENTS) -> Callable[[DataFrame], DataFrame]:
    """Transform that decodes a binary column of digests, as nodes write them, into DIGEST structs.

    Both binary forms are read. Invalid bytes end the query with an error that identifies the row by its other
    columns. A `schema` without that column, but with `payload` and `properties`, is of messages: recorded by
    a node, or of a stream. The column is added, set where a message is marked as a digest and is one.
    """

    def parsed(data: bytes | None, row: Row | None) -> tuple[Any, ...] | None:
        try:
            return None if data is None else row_of_digest(digest_wire.from_bytes(bytes(data)))
        except DigestError as error:
            shown = ", ".join(
                f"{key} {value}" for key, value in ({} if row is None else row.asDict()).items()
            )
            where = f" of the row with {shown}" if shown else ""
            raise DigestError(f"column '{name}'{where}: {error}") from None

    def found_in(payload: bytes | None) -> tuple[Any, ...] | None:
        try:
            return None if payload is None else row_of_digest(digest_wire.from_message(bytes(payload))[0])
        except DigestError:
            return None  # wrongly marked: to a node it is an event, too

    def read(frame: DataFrame) -> DataFrame:
        if name not in schema.names and {"payload", "properties"} <= {*schema.names}:
            payload = sf.when(_is_marked(schema), column("payload").cast("binary"))
            return frame.withColumn(name, sf.udf(found_in, DIGEST, useArrow=False)(payload))
        telling = [field.name for field in schema if isinstance(field.dataType, _TELLING)]
        row = sf.struct(*map(quoted, telling[:_TOLD])) if telling else sf.lit(None).cast("struct<row:int>")
        return frame.withColumn(name, sf.udf(parsed, DIGEST, useArrow=False)(column(name), row))

    return read


def _is_marked(schema: StructType) -> Column:
    """Whether a message's user properties mark it as a digest."""
    pairs = column("properties")
    key, value = "name", "value"
    if isinstance(schema["properties"].dataType, MapType):
        pairs, key, value = sf.map_entries(pairs), "key", "value"
    return sf.exists(
        pairs,
        lambda pair: (
            (pair[key] == digest_wire.MARK)
            & pair[value].isin(digest_wire.JSON_MARK[1], digest_wire.COMPACT_MARK[1])
        ),
    )


def with_wire(name: str = "digest") -> Callable[[DataFrame], DataFrame]:
    """Transform that encodes a column of DIGEST structs as the bytes that nodes read."""

    def written(row: Row | None) -> bytes | None:
        return None if row is None else digest_wire.to_bytes(digest_of_row(row))

    return lambda frame: frame.withColumn(name, sf.udf(written, BinaryType(), useArrow=False)(column(name)))


def _summary_of_row(row: Any) -> AttributeSummary:
    return AttributeSummary(
        n=row["n"],
        total=row["total"],
        squares=row["squares"],
        least=row["least"],
        most=row["most"],
        first=_mark_of_row(row["first"]),
        last=_mark_of_row(row["last"]),
        distinct=_bytes(row["distinct"]),
        quantiles=_bytes(row["quantiles"]),
    )


def _row_of_summary(name: str, found: AttributeSummary) -> tuple[Any, ...]:
    marks = (row_of_mark(found.first), row_of_mark(found.last))
    sketches = (found.distinct, found.quantiles)
    return (name, found.n, found.total, found.squares, found.least, found.most, *marks, *sketches)


def _mark_of_row(row: Any) -> Mark | None:
    if row is None:
        return None
    value = next((row["value"][kind] for kind in SCALAR.names if row["value"][kind] is not None), None)
    if value is None:
        raise DigestError("a damaged digest: a first or last value without a value")
    return Mark(row["ts_us"], row["seq"], value)


def row_of_mark(mark: Mark | None) -> tuple[Any, ...] | None:
    """The mark as a value for a column of the schema MARK."""
    if mark is None:
        return None
    return (mark.ts_us, mark.seq, repr(identity(mark.value)), _row_of_scalar(mark.value))


def _row_of_scalar(value: Scalar) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (None, None, None, value)
    if isinstance(value, str):
        return (None, None, value, None)
    return (value, None, None, None) if isinstance(value, int) else (None, value, None, None)


def _bytes(data: bytes | None) -> bytes | None:
    return None if data is None else bytes(data)


def _event_of_row(row: dict[str, Any]) -> Event:
    payload = row.get("payload")
    properties = row.get("properties") or ()
    pairs = properties.items() if isinstance(properties, dict) else properties
    return Event(
        topic=row.get("topic") or "",
        payload=payload.encode() if isinstance(payload, str) else bytes(payload or b""),
        ts_us=row["ts"],
        sender=row.get("sender") or "",
        seq=row.get("seq") or 0,
        properties=tuple((name, value) for name, value in pairs),
        content_type=row.get("content_type") or "",
    )
