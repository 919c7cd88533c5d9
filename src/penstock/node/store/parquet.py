"""Parquet files of recorded rows: written under a name that starts with a dot, renamed when complete.

Spark and other readers pass over such names, so a folder can be read while it is recorded to. Everything
here waits for the disk and runs in the recorder's thread.
"""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.errors import MissingTool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from penstock.model.event import Event

UNFINISHED: Final = ".inprogress"
"""Ending of a file that is being written."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What rows are made of."""

    name: str
    """What files are called, before the moment they were begun."""
    schema: Callable[[ModuleType], Any]
    """Of the files, from pyarrow."""
    columns: Callable[[list[Any]], list[list[Any]]]
    """Rows as columns."""
    size: Callable[[Any], int]
    """Bytes of a row, about."""
    repeating: tuple[str, ...]
    """Columns whose values repeat."""

    @property
    def pattern(self) -> str:
        """Which files are its own."""
        return f"{self.name}-*.parquet"


class NoSpace(OSError):
    """The disk is as good as full: what was begun can still be finished."""


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What became of rows to be written."""

    written: int = 0
    """Of those given, the first so many."""
    lost: int = 0
    """Rows in a file, those just written included, that could not be finished."""
    fault: str = ""
    """Why the rest was not written; empty if all was."""
    finished: tuple[tuple[Path, int], ...] = ()
    """Files that are complete now, and their rows."""
    deleted: tuple[Path, ...] = ()
    """Oldest files, beyond the bytes to be kept."""


def arrow() -> ModuleType:
    """pyarrow with its Parquet part; MissingTool says how to get it."""
    try:
        import pyarrow.parquet  # noqa: PLC0415  # only a node that records needs it
    except ImportError:
        raise MissingTool(
            "something is to be recorded, but pyarrow is not installed: pip install 'penstock[spark]'"
        ) from None
    found: ModuleType = pyarrow
    return found


class RecordFiles:
    """The folder, and the file that is being written."""

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
        """In the file that is being written."""
        self.begun_s: float | None = None
        """When it was begun, by the clock that never goes back; None: there is none."""

    def clear(self) -> list[Path]:
        """Delete what a node that did not end well left unfinished; such a file has no table of contents."""
        found = sorted(self.folder.glob(f".{self._kind.pattern}{UNFINISHED}"))
        for path in found:
            path.unlink()
        return found

    def record(self, events: list[Any], *, finish: bool) -> WriteOutcome:
        """Write rows, a new file beginning where one is full; `finish`: and end the last one."""
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
        """Append rows to the present file; NoSpace before anything is written, or OSError."""
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
        now = datetime.now(tz=UTC)
        path = self.folder / f".{self._kind.name}-{now:%Y%m%dT%H%M%S.%fZ}.parquet{UNFINISHED}"
        self._writer = self._arrow.parquet.ParquetWriter(
            path, self._schema, compression="zstd", use_dictionary=list(self._kind.repeating)
        )
        self._unfinished = path
        self.begun_s = time.monotonic()

    def _finish(self) -> list[tuple[Path, int]]:
        """End the present file, if there is one: from now on it can be read."""
        path, rows = self._unfinished, self._rows
        if path is None:
            return []
        self._writer.close()
        _sync(path)
        done = path.with_name(path.name.removeprefix(".").removesuffix(UNFINISHED))
        path.rename(done)
        self._forget()
        _sync(self.folder)
        return [(done, rows)]

    def _discard(self) -> None:
        """Give the present file up: it cannot be finished."""
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
        """Delete the oldest files beyond the bytes to be kept, but never the newest."""
        found = [(path, path.stat().st_size) for path in sorted(self.folder.glob(self._kind.pattern))]
        total = sum(size for _, size in found)
        gone = []
        for path, size in found[:-1]:
            if total <= self._keep_bytes:
                break
            with suppress(OSError):
                path.unlink()
                gone.append(path)
            total -= size
        return tuple(gone)


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


def _sync(path: Path) -> None:
    """What was written is on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
