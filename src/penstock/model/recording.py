"""Names of files in a recorder's folder, by which a node and the programs that read its files agree.

    events-20260131T120000.123456Z.parquet               a complete file
    .events-20260131T121000.000000Z.parquet.inprogress   being written; readers skip such names
    .finish                                              a reader asks the node to complete that file now
    .taken-3f2a9c01d2e4.json                             how far a pipeline has read the complete files

A node that finds `.finish` completes its file and deletes the request. A node deletes a complete file only
when every pipeline with a mark has read it.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNFINISHED: Final = ".inprogress"
"""Ending of a file that a node is writing."""

FINISH_REQUEST: Final = ".finish"

MARKS: Final = ".taken-*.json"
"""Matches the marks of all pipelines."""


class TakenMark(msgspec.Struct, frozen=True, kw_only=True):
    """Content of a mark: a pipeline has read every complete file up to and including `through`."""

    pipeline: str
    """Folder of the pipeline's project, for people."""
    through: str = ""
    """Name of the last file that was read; names sort by time. Empty: none yet."""
    at_us: int
    """When the mark was written, in microseconds since 1970."""


def mark_name(pipeline: str) -> str:
    """Name of the mark of the pipeline with this identifier."""
    return f".taken-{pipeline}.json"
