"""Rows of one queue as one value: an Arrow batch in a binary column.

Spark hands a stateful processor row by row and value by value, as Python objects. A bundle crosses as one
value instead, and its rows come out of it with the types and bytes they went in with.

    rows --bundled--> key, now, bundle --stateful processor--> bundle --unbundled--> rows

What is cheap for many rows at once is done before they are parted: a bundle's rows are in order already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
TIE: Final = "__tie"
"""A hash of the row: decides where `order` does not."""
_ROWS: Final = 10_000
"""Rows handed back to Spark at a time: as many as it hands over itself."""
_BUNDLED_BYTES: Final = 32 << 20
"""Rows gathered before they are parted: of a batch of 10,000 a thousand keys would get ten each, and a bundle
of ten costs as much as one of a hundred."""


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


def bundled(
    batches: Iterable[pa.RecordBatch], *, key: tuple[str, ...], order: tuple[str, ...]
) -> Iterator[pa.RecordBatch]:
    """A row per key and so many bytes: the key, the time of the trigger, the rows in order."""
    waiting: list[pa.RecordBatch] = []
    weight = 0
    for batch in batches:
        waiting += [batch] if batch.num_rows else []
        weight += batch.nbytes
        if weight >= _BUNDLED_BYTES:
            yield _in_bundles(waiting, key, order)
            waiting, weight = [], 0
    if waiting:
        yield _in_bundles(waiting, key, order)


def in_order(rows: pa.Table, order: tuple[str, ...], *, first: pa.Array | None = None) -> pa.Table:
    """Rows in the order of columns, as Spark compares: null, numbers, NaN; `first` decides before them."""
    columns: list[Any] = [] if first is None else [first]
    for name in (*order, TIE):
        column = rows[name]
        if column.null_count:
            columns.append(column.is_valid())
        if pa.types.is_floating(column.type):
            columns.append(pc.fill_null(pc.is_nan(column), False))
        columns.append(column)
    names = [f"by{place}" for place in range(len(columns))]
    by = pa.table(columns, names=names)
    return rows.take(pc.sort_indices(by, sort_keys=[(name, "ascending") for name in names]))


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


def _in_bundles(
    batches: list[pa.RecordBatch], key: tuple[str, ...], order: tuple[str, ...]
) -> pa.RecordBatch:
    whole = pa.Table.from_batches(batches).combine_chunks()
    groups = _groups([whole[name].combine_chunks() for name in key])
    rows = in_order(_nullable(whole), order, first=pa.array(groups)).combine_chunks()
    ends = np.cumsum(np.bincount(groups))
    begins = [0, *ends[:-1].tolist()]
    firsts = rows.take(pa.array(begins)).combine_chunks()
    bare = rows.drop_columns([NOW]).to_batches()[0]
    bundles = [write(bare.slice(begin, end - begin)) for begin, end in zip(begins, ends, strict=True)]
    columns = [*(firsts[name].chunk(0) for name in (*key, NOW)), pa.array(bundles, pa.binary())]
    return pa.RecordBatch.from_arrays(columns, names=[*key, NOW, BUNDLE])


def _groups(keys: list[pa.Array]) -> NDArray[np.int64]:
    """A number for each row, the same for rows of the same key."""
    found = np.zeros(len(keys[0]), dtype=np.int64)
    for column in keys:
        codes = pc.dictionary_encode(column, null_encoding="encode").indices.to_numpy().astype(np.int64)
        _, found = np.unique(found * (len(column) + 1) + codes, return_inverse=True)
    return found


def _nullable(rows: pa.Table) -> pa.Table:
    """The same rows where any column may be null, as it is in the rows of digests."""
    schema = pa.schema([field.with_nullable(True) for field in rows.schema])
    return pa.Table.from_arrays(rows.columns, schema=schema)
