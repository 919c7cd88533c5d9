"""The history filter of recorded arrivals: built part by part where the rows are, merged by OR.

Keys and slots are Spark SQL (`xxhash64` of client and topic is a node's `key_of`); the bits are set by the
filter's own batch code in Spark's workers. The merged filter has the bytes of one that saw every row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.core.slots import wire
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import SEPARATOR
from penstock.errors import InputError, SlotError
from penstock.pipeline.verdicts import column

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from penstock.core.slots.shape import Shape

_SCHEMA: Final = "filter BINARY"


def history_filter(
    packets: DataFrame, shape: Shape, *, slot_us: int, client: str = "client", topic: str = "topic"
) -> RefreshingFilter:
    """The flows of recorded arrivals by slot: the last slots of `shape`, up to the last arrival's."""
    if slot_us < 1:
        raise SlotError(f"a slot of {slot_us} µs is none; at least 1 µs")
    rows = packets.select(
        sf.xxhash64(sf.concat(column(client), sf.lit(SEPARATOR), column(topic))).alias("key"),
        sf.floor(column("ts") / sf.lit(slot_us)).cast("bigint").alias("slot"),
    ).where("key IS NOT NULL AND slot >= 0")
    last = rows.agg(sf.max("slot")).head()
    if last is None or last[0] is None:
        raise InputError("there is no arrival in it")
    newest: int = last[0]

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415  # in Spark's workers

        part = RefreshingFilter(shape, start=newest)
        for batch in batches:
            part.insert_many(batch.column(0).to_numpy(), batch.column(1).to_numpy())
        yield pa.RecordBatch.from_pydict({"filter": pa.array([part.to_bytes()], pa.binary())})

    merged = RefreshingFilter(shape, start=newest)
    for row in rows.mapInArrow(build, _SCHEMA).toLocalIterator():
        part = wire.read(bytes(row["filter"]))
        assert isinstance(part, RefreshingFilter)
        merged.merge(part)
    return merged
