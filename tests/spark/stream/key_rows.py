"""Items of a queue as the Arrow rows that a worker of a packed stream gets."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_type

from penstock.model import Digest, Event
from penstock.pipeline.compile.digest_rows import row_of_digest
from penstock.pipeline.tables.schemas import DIGEST

SCHEMA = pa.schema(
    [
        ("room", pa.string()),
        ("ts", pa.int64()),
        ("v", pa.float64()),
        ("digest", to_arrow_type(DIGEST)),
        ("__event_ts_us", pa.int64()),
        ("__event_seq", pa.int64()),
        ("__event_payload", pa.binary()),
        ("__tie", pa.int64()),
    ]
)


def rows_of(items: list[Event | Digest]) -> pa.Table:
    """Items as the rows a worker gets; a digest is ordered by the time of its first event."""
    rows: list[tuple[Any, ...]] = []
    for place, item in enumerate(items):
        if isinstance(item, Digest):
            rows.append(("a", item.from_us, None, row_of_digest(item), None, None, None, place))
        else:
            event = (item.ts_us, item.seq, item.payload)
            rows.append(("a", item.ts_us, value_of(item), None, *event, place))
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, SCHEMA, strict=True)], schema=SCHEMA)
    return table if any(isinstance(item, Digest) for item in items) else table.drop_columns(["digest"])


def event(ts: int, value: float) -> Event:
    return Event("", json.dumps({"v": value}).encode(), ts, seq=ts)


def value_of(found: Event) -> float:
    return float(json.loads(found.payload)["v"])
