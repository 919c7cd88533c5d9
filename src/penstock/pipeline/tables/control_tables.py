"""Writes Spark's results as control tables for nodes: a new version is visible completely or not at all.

`publish` collects the rows on the driver, `format("penstock-control")` has the workers write the parts
(`connector/control_sink.py`); both end in `finish_version`. `roll_back` makes an old version the newest.
"""

from __future__ import annotations

import os
import shutil
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import msgspec

from penstock import limits
from penstock.errors import InputError
from penstock.model.control_table import DONE_FILE, VERSION_FILE, Version, folder_of, version_of

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    if len(table) > limits.CONTROL_ROWS:
        raise InputError(f"{len(table):,} rows; too many for a control table", path=folder)
    making = begin_version(folder)
    try:
        file = write_part(table, making, "part-0000.parquet")
        return finish_version(folder, making, [file], name=name, note=note, made_us=made_us)
    finally:
        shutil.rmtree(making, ignore_errors=True)


def begin_version(folder: str | Path) -> Path:
    """A folder for the parts of a version that is being written; readers do not see it."""
    making = Path(folder) / f".making-{uuid4().hex}"
    try:
        making.mkdir(parents=True)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=folder) from None
    return making


def write_part(table: pa.Table, making: Path, name: str) -> Path:
    """Write rows as one part of a version, on the disk when this returns."""
    import pyarrow.parquet as pq  # noqa: PLC0415  # takes a second to load, and is needed only here

    file = making / name
    try:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)
        _synced(file)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=file) from None
    return file


def finish_version(
    folder: str | Path,
    making: Path,
    parts: Sequence[Path],
    *,
    name: str,
    note: str = "",
    made_us: int | None = None,
    refuses: tuple[str, ...] = (),
) -> Version:
    """Make the parts the next version of a control table; the oldest versions beyond KEPT are deleted."""
    table = read_parts(parts)
    if len(table) > limits.CONTROL_ROWS:
        raise InputError(f"{len(table):,} rows; too many for a control table", path=folder)
    try:
        return _finished(
            Path(folder),
            making,
            Version(
                table=name,
                version=0,
                rows=len(table),
                made_us=time.time_ns() // 1_000 if made_us is None else made_us,
                files={part.name: part.stat().st_size for part in parts},
                note=note,
                content=content_hash(table),
                refuses=refuses,
            ),
        )
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", path=folder) from None


def read_parts(parts: Sequence[Path]) -> pa.Table:
    """Rows of a version's parts."""
    import pyarrow as pa  # noqa: PLC0415
    from pyarrow import parquet  # noqa: PLC0415

    found = []
    for part in parts:
        with part.open("rb") as file:  # by its handle: the names of folders would become columns
            found.append(parquet.ParquetFile(file).read())
    return pa.concat_tables(found) if found else pa.table({})


def content_hash(table: pa.Table) -> str:
    """A hash of a table's rows that does not depend on their order, nor on how they are split."""
    import pyarrow as pa  # noqa: PLC0415

    if not len(table):
        return sha256(b"").hexdigest()
    names = sorted(table.column_names)
    ordered = table.select(names).sort_by([(name, "ascending") for name in names]).combine_chunks()
    plain = ordered.replace_schema_metadata(None)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, plain.schema) as stream:
        stream.write_table(plain)
    return sha256(sink.getvalue()).hexdigest()


def newest_version(folder: str | Path) -> Version | None:
    """Description of the newest complete version; None if there is none."""
    place = Path(folder)
    numbers = versions(place) if place.is_dir() else []
    for number in reversed(numbers):
        if (place / folder_of(number) / DONE_FILE).is_file():
            return version_at(place, number)
    return None


def version_at(folder: Path, number: int) -> Version:
    """Description of a version."""
    path = folder / folder_of(number) / VERSION_FILE
    try:
        return msgspec.json.decode(path.read_bytes(), type=Version)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror}", path=path) from None
    except msgspec.DecodeError as error:
        raise InputError(f"is not the description of a control table: {error}", path=path) from None


def roll_back(folder: str | Path, *, to: int | None = None) -> Version:
    """Make an older version's rows the newest version; without `to`, those of the version before the newest.

    What is taken back is refused from then on: a pipeline that arrives at the same rows again does not
    publish them.
    """
    place = Path(folder)
    newest = newest_version(place)
    if newest is None:
        raise InputError("there is no version of a control table in it", path=folder)
    older = [number for number in versions(place) if number < newest.version]
    if not older:
        raise InputError(f"version {newest.version} is the only one that is left", path=folder)
    wanted = older[-1] if to is None else to
    if wanted not in older:
        there = ", ".join(map(str, older))
        raise InputError(f"version {wanted} is not there to go back to; there are: {there}", path=folder)
    target = version_at(place, wanted)
    undone = [version_at(place, number) for number in versions(place) if number > wanted]
    refuses = dict.fromkeys(hash_ for one in undone for hash_ in (*one.refuses, one.content) if hash_)
    refuses.pop(target.content, None)
    making = begin_version(place)
    try:
        parts = []
        for name in target.files:
            shutil.copyfile(place / folder_of(wanted) / name, making / name)
            _synced(making / name)
            parts.append(making / name)
        note = f"rolled back from version {newest.version} to version {wanted}"
        return finish_version(
            place,
            making,
            parts,
            name=target.table,
            note=note,
            refuses=tuple(refuses)[-limits.CONTROL_REFUSED :],
        )
    except OSError as error:
        raise InputError(f"cannot be rolled back: {error.strerror or error}", path=folder) from None
    finally:
        shutil.rmtree(making, ignore_errors=True)


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
