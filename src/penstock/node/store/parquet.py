"""Parquet files of recorded rows: written under a name that starts with a dot, renamed when complete.

Spark and other readers ignore such names, so a folder can be read while a node records to it. Everything here
waits for the disk and runs in the recorder's thread.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.errors import MissingTool
from penstock.model.instant import SECOND_US
from penstock.model.recording import FINISH_REQUEST, MARKS, UNFINISHED, TakenMark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from penstock.model.event import Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of row: how it becomes columns of a Parquet file."""

    name: str
    """First part of a file's name; the time at which the file was begun follows."""
    schema: Callable[[ModuleType], Any]
    """Makes the schema of the files; gets the pyarrow module."""
    columns: Callable[[list[Any]], list[list[Any]]]
    """Turns rows into columns."""
    size: Callable[[Any], int]
    """Estimates the bytes of a row in memory."""
    repeating: tuple[str, ...]
    """Columns whose values repeat, and which get a dictionary."""

    @property
    def pattern(self) -> str:
        """Matches the complete files of this kind."""
        return f"{self.name}-*.parquet"


class NoSpace(OSError):
    """The disk is nearly full; the file that was begun can still be finished."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The result of a write: how many rows were written, and why others were not."""

    written: int = 0
    """How many of the rows were written: the first ones."""
    lost: int = 0
    """Rows of a file that could not be finished, those just written included."""
    fault: str = ""
    """Why the other rows were not written; empty if all were."""
    finished: tuple[tuple[Path, int], ...] = ()
    """Files that are complete now, with the number of their rows."""
    deleted: tuple[Path, ...] = ()
    """Oldest files, deleted because the folder held more than the bytes to keep."""


def arrow() -> ModuleType:
    """Import pyarrow with its Parquet module; MissingTool says how to install it."""
    try:
        import pyarrow.parquet  # noqa: PLC0415  # only a node that records needs it
    except ImportError:
        raise MissingTool(
            "something is to be recorded, but pyarrow is not installed: pip install 'penstock[spark]'"
        ) from None
    found: ModuleType = pyarrow
    return found


class RecordFiles:
    """A folder of Parquet files, and the one file that is being written."""

    def __init__(self, folder: Path, kind: Kind, *, rotate_events: int, keep_bytes: int) -> None:
        self.folder = folder
        self._kind = kind
        self._rotate_events = rotate_events
        self._keep_bytes = keep_bytes
        self._arrow = arrow()
        self._schema = kind.schema(self._arrow)
        self._writer: Any = None
        self._unfinished: Path | None = None
        self._rows = 0
        """Rows in the file that is being written."""
        self.begun_s: float | None = None
        """When the present file was begun, by the monotonic clock; None if there is none."""

    def clear(self) -> list[Path]:
        """Delete the unfinished files of a node that was killed: without a footer they cannot be read."""
        found = sorted(self.folder.glob(f".{self._kind.pattern}{UNFINISHED}"))
        for path in found:
            path.unlink()
        return found

    def record(self, events: list[Any], *, finish: bool) -> WriteOutcome:
        """Write rows, starting a new file where one is full; `finish`: complete the last file, too.

        The last file is also completed if a reader asks for it.
        """
        asked = (self.folder / FINISH_REQUEST).exists()
        outcome = self._record(events, finish=finish or asked)
        if asked:
            with suppress(OSError):
                (self.folder / FINISH_REQUEST).unlink()
        return outcome

    def _record(self, events: list[Any], *, finish: bool) -> WriteOutcome:
        written = 0
        finished: list[tuple[Path, int]] = []
        fault = ""
        lost = 0
        try:
            try:
                while written < len(events):
                    part = events[written : written + min(self._room, limits.RECORD_GROUP)]
                    self._write(part)
                    written += len(part)
                    if not self._room:
                        finished += self._finish()
            except NoSpace as error:
                fault, finish = str(error), True
            if finish:
                finished += self._finish()
        except OSError as error:
            lost, fault = self._rows, str(error.strerror or error)
            self._discard()
        return WriteOutcome(written, lost, fault, tuple(finished), self._make_room() if finished else ())

    @property
    def _room(self) -> int:
        return self._rotate_events - self._rows

    def _write(self, events: list[Any]) -> None:
        """Append rows to the present file; NoSpace before anything is written, or OSError while writing."""
        table = self._arrow.Table.from_arrays(self._kind.columns(events), schema=self._schema)
        self._check_space(table.nbytes)
        if self._writer is None:
            self._begin()
        self._writer.write_table(table, row_group_size=limits.RECORD_GROUP)
        self._rows += len(events)

    def _check_space(self, size: int) -> None:
        free = shutil.disk_usage(self.folder).free
        if free < size + limits.RECORD_SPARE_BYTES:
            raise NoSpace(f"{free >> 20} MiB are free, of which {limits.RECORD_SPARE_BYTES >> 20} are spared")

    def _begin(self) -> None:
        path = self.folder / f".{self._next_name()}{UNFINISHED}"
        self._writer = self._arrow.parquet.ParquetWriter(
            path, self._schema, compression="zstd", use_dictionary=list(self._kind.repeating)
        )
        self._unfinished = path
        self.begun_s = time.monotonic()

    def _next_name(self) -> str:
        """Name a file by the time of day, and later than every complete file.

        A pipeline's mark says that it has read all earlier names. If the clock were set back, a file that
        nobody has read could have such a name and be deleted.
        """
        form = f"{self._kind.name}-%Y%m%dT%H%M%S.%fZ.parquet"
        name = datetime.now(tz=UTC).strftime(form)
        newest = max((path.name for path in self.folder.glob(self._kind.pattern)), default="")
        if name <= newest:
            with suppress(ValueError, OverflowError):  # a name that somebody else gave
                after = datetime.strptime(newest, form).replace(tzinfo=UTC) + timedelta(microseconds=1)
                name = after.strftime(form)
        return name

    def _finish(self) -> list[tuple[Path, int]]:
        """Complete the present file, if there is one: from now on readers see it."""
        path, rows = self._unfinished, self._rows
        if path is None:
            return []
        self._writer.close()
        # Content, then name, then folder: after a power cut a finished name never has half a file.
        _sync(path)
        done = path.with_name(path.name.removeprefix(".").removesuffix(UNFINISHED))
        path.rename(done)
        self._forget()
        _sync(self.folder)
        return [(done, rows)]

    def _discard(self) -> None:
        """Delete the present file, which cannot be finished."""
        path, writer = self._unfinished, self._writer
        self._forget()
        if writer is not None:
            with suppress(OSError):
                writer.close()
        if path is not None:
            with suppress(OSError):
                path.unlink()

    def _forget(self) -> None:
        self._writer = self._unfinished = self.begun_s = None
        self._rows = 0

    def _make_room(self) -> tuple[Path, ...]:
        """Delete the oldest files until the rest is within `keep_bytes`; the newest always stays.

        So does a file that a pipeline has not read yet.
        """
        found = [(path, path.stat().st_size) for path in sorted(self.folder.glob(self._kind.pattern))]
        total = sum(size for _, size in found)
        if total <= self._keep_bytes:
            return ()
        taken = self._taken_through()
        gone = []
        for path, size in found[:-1]:
            if total <= self._keep_bytes:
                break
            if taken is not None and path.name > taken:
                log.warning(
                    "%s: %d bytes are kept, more than recorder.keep_bytes: a pipeline has not read %s yet",
                    self.folder,
                    total,
                    path.name,
                )
                break
            with suppress(OSError):
                path.unlink()
                gone.append(path)
            total -= size
        return tuple(gone)

    def _taken_through(self) -> str | None:
        """Name of the last file that every pipeline has read; None if no pipeline reads this folder."""
        found = []
        for path in self.folder.glob(MARKS):
            try:
                mark = msgspec.json.decode(path.read_bytes(), type=TakenMark)
            except (OSError, msgspec.DecodeError) as error:
                log.warning("%s: not a pipeline's mark, ignored: %s", path, error)
                continue
            # A pipeline that was given up must not fill the disk.
            if time.time() - mark.at_us / SECOND_US <= limits.RECORD_MARK_S:
                found.append(mark.through)
        return min(found, default=None)


def _schema(arrow_: ModuleType) -> Any:
    text = arrow_.string()
    return arrow_.schema(
        [
            ("topic", text),
            ("ts", arrow_.int64()),  # microseconds, as `penstock backtest` and the transforms read it
            ("seq", arrow_.int64()),
            ("sender", text),
            ("payload", arrow_.binary()),
            ("properties", arrow_.map_(text, text)),
            ("content_type", text),
        ]
    )


def _columns(events: list[Event]) -> list[list[Any]]:
    return [
        [event.topic for event in events],
        [event.ts_us for event in events],
        [event.seq for event in events],
        [event.sender for event in events],
        [event.payload for event in events],
        [event.properties for event in events],
        [event.content_type for event in events],
    ]


EVENTS: Final = Kind(
    name="events",
    schema=_schema,
    columns=_columns,
    size=lambda event: len(event.payload) + len(event.topic),
    repeating=("topic", "sender", "content_type"),
)


def kind_of(row: type[Any], name: str, types: tuple[str, ...], repeating: tuple[str, ...]) -> Kind:
    """A kind of rows that are named tuples; `types` are the Arrow types of their fields."""

    def schema(arrow: ModuleType) -> Any:
        return arrow.schema(list(zip(row._fields, types, strict=True)))

    def columns(rows: list[Any]) -> list[list[Any]]:
        return [list(column) for column in zip(*rows, strict=True)]

    def size(found: Any) -> int:
        return 8 * len(types) + sum(len(part) for part in found if isinstance(part, str))

    return Kind(name=name, schema=schema, columns=columns, size=size, repeating=repeating)


def _sync(path: Path) -> None:
    """Flush a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
