"""Control tables: tables that Spark writes and nodes load, as versions in a folder.

    reservations/v=0001/part-0000.parquet
    reservations/v=0001/version.json      what it is, and how much of it there should be
    reservations/v=0001/_SUCCESS          empty: the version is whole

A version is made under another name and renamed, so readers never see half of one. The newest whole one
counts.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

VERSION_FILE: Final = "version.json"
DONE_FILE: Final = "_SUCCESS"

_FOLDER: Final = re.compile(r"v=(\d{4,10})", re.ASCII)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """What is in version.json."""

    table: str
    """The table's name: a folder of another table that was put here by mistake is found out."""
    version: int
    rows: int
    made_us: int
    """When, in microseconds since 1970."""
    files: dict[str, int]
    """Its Parquet files and their bytes."""
    note: str = ""
    """How it was made, for people."""


def folder_of(version: int) -> str:
    """The name of a version's folder."""
    return f"v={version:04d}"


def version_of(folder: str) -> int | None:
    """The version that a folder's name tells; None if it is another folder."""
    found = _FOLDER.fullmatch(folder)
    return None if found is None else int(found[1])
