"""Writes Spark's results as control tables for nodes: a new version is visible completely or not at all.

Nodes read the tables on the machine they run on, so the driver collects and writes the rows.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from penstock import limits
from penstock.errors import InputError
from penstock.model.control_table import DONE_FILE, VERSION_FILE, Version, folder_of, version_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

KEPT: Final = 5
"""Versions kept, to look back at and to go back to."""


def publish(frame: DataFrame, folder: str | Path, *, name: str, note: str = "") -> Version:
    """Write a frame's rows as the next version of a control table."""
    return write_version(frame.toArrow(), folder, name=name, note=note)


def write_version(
    table: pa.Table, folder: str | Path, *, name: str, note: str = "", made_us: int | None = None
) -> Version:
    """Write rows as the next version of a control table; the oldest versions beyond KEPT are deleted."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # takes a second to load, and is needed only here

    if len(table) > limits.CONTROL_ROWS:
        raise InputError(f"{len(table):,} rows; too many for a control table", path=folder)
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        making = place / f".making-{uuid4().hex}"
        making.mkdir()
        try:
            file = making / "part-0000.parquet"
            pq.write_table(table, file, compression="zstd", write_page_checksum=True)
            _synced(file)
            return _finished(
                place,
                making,
                Version(
                    table=name,
                    version=0,
                    rows=len(table),
                    made_us=time.time_ns() // 1_000 if made_us is None else made_us,
                    files={file.name: file.stat().st_size},
                    note=note,
                ),
            )
        finally:
            shutil.rmtree(making, ignore_errors=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=folder) from None


def _finished(place: Path, making: Path, found: Version) -> Version:
    """Give the new version its number; another process may take the same one first."""
    while True:
        taken = versions(place)
        version = msgspec.structs.replace(found, version=max(taken, default=0) + 1)
        description = making / VERSION_FILE
        description.write_bytes(msgspec.json.format(msgspec.json.encode(version)))
        _synced(description)
        (making / DONE_FILE).touch()
        try:
            making.rename(place / folder_of(version.version))
        except OSError:
            if version.version not in versions(place):
                raise
            continue
        _synced(place)
        for old in sorted(taken)[: -(KEPT - 1)]:
            shutil.rmtree(place / folder_of(old), ignore_errors=True)
        return version


def versions(folder: Path) -> list[int]:
    """Existing versions."""
    found = (version_of(entry.name) for entry in folder.iterdir())
    return sorted(number for number in found if number is not None)


def _synced(path: Path) -> None:
    """Flush a file to disk before it is renamed."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
