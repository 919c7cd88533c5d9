"""Policies, streams and recorded data on Spark.

`pack` and `effect` make transforms from a policy, for `frame.transform(…)`; they work on classic sessions
and on Spark Connect. `pack_stream` packs streaming frames. `register` makes reliable streams of a node a
source and a sink, `format("penstock")`. All names are imported on first use, so that a Spark process that
reads a stream does not load pandas.

compile/     a policy as Spark SQL
stream/      `pack_stream`: queues packed trigger by trigger
connector/   `format("penstock")`: source and sink of reliable streams
tables/      schemas, recorded events, folders, channels, control tables
jobs/        backtest, advise, allocation, flows, generate
session.py   the Spark session of a command; Spark's errors translated
progress.py  progress of a running Spark job
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from penstock.pipeline.compile.digest_rows import (
        digest_of_row,
        items_of_rows,
        row_of_digest,
        with_digests,
        with_wire,
    )
    from penstock.pipeline.compile.transforms import effect, pack
    from penstock.pipeline.connector.data_source import register
    from penstock.pipeline.stream.pack_stream import pack_stream

__all__ = [
    "digest_of_row",
    "effect",
    "items_of_rows",
    "pack",
    "pack_stream",
    "register",
    "row_of_digest",
    "with_digests",
    "with_wire",
]

_WHERE: Final = {
    "effect": "compile.transforms",
    "pack": "compile.transforms",
    "pack_stream": "stream.pack_stream",
    "register": "connector.data_source",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'compile.digest_rows')}"), name)
