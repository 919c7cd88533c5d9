"""Policies, streams and recorded data on Spark.

`pack`, `effect` and `pack_stream` make transforms from a policy, for `frame.transform(…)`; they ask neither
frame nor session for anything and work on classic sessions, on Spark Connect and in declarative pipelines.
Reliable streams of a node are a source and a sink, `format("penstock")`, which Spark finds by itself. All
names are imported on first use, so that a Spark process that reads a stream does not load pandas.

compile/     a policy as Spark SQL
stream/      `pack_stream`: queues packed trigger by trigger
connector/   `format("penstock")`: source and sink of reliable streams
tables/      schemas, recorded events, folders, channels, control tables
jobs/        backtest, advise, allocation, flows, generate
session.py   the Spark session of a command; Spark's errors translated
progress.py  progress of a running Spark job
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.lazy_names import lazy_names

if TYPE_CHECKING:
    from penstock.pipeline.compile.digest_rows import (
        digest_of_row,
        items_of_rows,
        row_of_digest,
        with_digests,
        with_wire,
    )
    from penstock.pipeline.compile.transforms import effect, pack
    from penstock.pipeline.session import open_session
    from penstock.pipeline.stream.pack_stream import held, pack_stream, stands_for
    from penstock.pipeline.tables.folders import folder_stream, write_folder

__all__ = [
    "digest_of_row",
    "effect",
    "folder_stream",
    "held",
    "items_of_rows",
    "open_session",
    "pack",
    "pack_stream",
    "row_of_digest",
    "stands_for",
    "with_digests",
    "with_wire",
    "write_folder",
]

_MODULES: Final = {
    "digest_of_row": "penstock.pipeline.compile.digest_rows",
    "effect": "penstock.pipeline.compile.transforms",
    "folder_stream": "penstock.pipeline.tables.folders",
    "held": "penstock.pipeline.stream.pack_stream",
    "items_of_rows": "penstock.pipeline.compile.digest_rows",
    "open_session": "penstock.pipeline.session",
    "pack": "penstock.pipeline.compile.transforms",
    "pack_stream": "penstock.pipeline.stream.pack_stream",
    "row_of_digest": "penstock.pipeline.compile.digest_rows",
    "stands_for": "penstock.pipeline.stream.pack_stream",
    "with_digests": "penstock.pipeline.compile.digest_rows",
    "with_wire": "penstock.pipeline.compile.digest_rows",
    "write_folder": "penstock.pipeline.tables.folders",
}

__getattr__, __dir__ = lazy_names(__name__, _MODULES)
