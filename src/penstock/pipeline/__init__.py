"""Policies on Spark: compiled to Spark SQL, so that millions of queues are packed without a Python worker.

`pack` and `effect` make transforms from a policy, for `frame.transform(…)`; they work on classic sessions and
on Spark Connect. `pack_stream` packs streaming frames. `register` makes reliable streams of a node a source
and a sink, `format("penstock")`. `unpacking` turns digests into those of a node and back. `schemas` holds the
shapes. All of it is imported when it is used: a process of Spark that reads a stream does without pandas.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
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

_WHERE: Final = {
    "effect": "effects",
    "pack": "packing",
    "pack_stream": "streaming",
    "register": "stream_source",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE.get(name, 'unpacking')}"), name)
