"""Policies on Spark: compiled to Spark SQL, so that millions of queues are packed without a Python worker.

`pack` and `effect` make transforms from a policy, for `frame.transform(…)`; they work on classic sessions and
on Spark Connect. `pack_stream` packs streaming frames. `register` makes reliable streams of a node a source
and a sink, `format("penstock")`. `unpacking` turns digests into those of a node and back. `schemas` holds the
shapes.
"""

from __future__ import annotations

from penstock.pipeline.effects import effect
from penstock.pipeline.packing import pack
from penstock.pipeline.stream_source import register
from penstock.pipeline.streaming import pack_stream
from penstock.pipeline.unpacking import (
    digest_of_row,
    items_of_rows,
    row_of_digest,
    with_digests,
    with_wire,
)

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
