"""Control tables: tables that Spark writes and nodes load, as versions in a folder.

    reservations/v=0001/part-0000.parquet
    reservations/v=0001/version.json      name, schema and size of the version
    reservations/v=0001/_SUCCESS          empty: the version is whole

A version is written under another name and renamed, so readers never see a partial one. Readers use the
newest complete version.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

VERSION_FILE: Final = "version.json"
DONE_FILE: Final = "_SUCCESS"

_FOLDER: Final = re.compile(r"v=(\d{4,10})", re.ASCII)


class Version(msgspec.Struct, frozen=True, kw_only=True):
    """Content of version.json."""

    table: str
    """Name of the table, so that a folder of another table put here by mistake is noticed."""
    version: int
    rows: int
    made_us: int
    """When the version was written, in microseconds since 1970."""
    files: dict[str, int]
    """Parquet files of the version and their sizes in bytes."""
    note: str = ""
    """How the version was made, for people to read."""
    content: str = ""
    """Hash of the rows; empty in versions written before there was one."""
    refuses: tuple[str, ...] = ()
    """Hashes of rows that were rolled back, and which a pipeline must not publish again."""


def folder_of(version: int) -> str:
    """Folder name of a version."""
    return f"v={version:04d}"


def version_of(folder: str) -> int | None:
    """Version number of a folder name; None for other folders."""
    found = _FOLDER.fullmatch(folder)
    return None if found is None else int(found[1])
