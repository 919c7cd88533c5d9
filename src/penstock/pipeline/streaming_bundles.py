"""Rows of one queue as one value: an Arrow batch in a binary column.

Spark hands a stateful processor row by row and value by value, as Python objects. A bundle crosses as one
value instead, and its rows come out of it with the types and bytes they went in with.

    rows --bundled--> key, now, bundle --stateful processor--> bundle --unbundled--> rows
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

NOW: Final = "__now"
"""The column with the time of the trigger in microseconds, the same in all rows."""
BUNDLE: Final = "__bundle"
DIGEST: Final = "digest"
"""A column that rows lack where none of them is a digest: it has so many parts that an empty one costs more
than the others together."""
_ROWS: Final = 10_000
"""Rows handed back to Spark at a time: as many as it hands over itself."""


def write(rows: pa.Table | pa.RecordBatch) -> bytes:
    """The rows as bytes, their schema included."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return bytes(sink.getvalue())


def read(data: bytes) -> pa.Table:
    """The rows in these bytes."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def bundled(batches: Iterable[pa.RecordBatch], *, key: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """One row per key and batch: the key, the time of the trigger, the rows."""
    for batch in batches:
        if batch.num_rows:
            yield _in_bundles(batch, key)


def unbundled(batches: Iterable[pa.RecordBatch], *, digests: pa.DataType) -> Iterator[pa.RecordBatch]:
    """The rows of all bundles, each with a column `digest`, the last."""
    for batch in batches:
        tables = [_with_digests(read(data), digests) for data in batch.column(0).to_pylist()]
        if tables:
            whole = pa.concat_tables(tables).combine_chunks()
            yield from whole.to_batches(max_chunksize=_ROWS)


def _with_digests(rows: pa.Table, digests: pa.DataType) -> pa.Table:
    if DIGEST in rows.column_names:
        return rows
    return rows.append_column(DIGEST, pa.nulls(rows.num_rows, digests))


def _in_bundles(batch: pa.RecordBatch, key: tuple[str, ...]) -> pa.RecordBatch:
    keys = [batch.column(batch.schema.get_field_index(name)) for name in key]
    groups = _groups(keys)
    order = np.argsort(groups, kind="stable")
    edges = np.flatnonzero(np.diff(groups[order])) + 1
    begins, ends = [0, *edges.tolist()], [*edges.tolist(), len(order)]
    rows = _nullable(batch.drop_columns([NOW])).take(pa.array(order))
    firsts = pa.array(order[begins])
    now = batch.column(batch.schema.get_field_index(NOW))
    bundles = [write(rows.slice(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
    columns = [*(column.take(firsts) for column in keys), now.take(firsts), pa.array(bundles, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, NOW, BUNDLE])


def _groups(keys: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row, the same for rows of the same key."""
    found = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy().astype(np.int64)
        _, found = np.unique(found * (len(column) + 1) + codes, return_inverse=True)
    return found


def _nullable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same batch where any column may be null, as it is in the rows of digests."""
    schema = pa.schema([field.with_nullable(True) for field in batch.schema])
    return pa.RecordBatch.from_arrays(batch.columns, schema=schema)
