"""Rows that collect in a bounded buffer while a thread writes them to Parquet files.

Recording slows nobody: a row that finds the buffer full is counted instead of recorded. When the disk is
full, recording pauses, and resumes by itself.

This is no `Backlog` of the group commit (`writer.py`), because a recording promises the opposite: nobody
waits for a row, and rows are dropped rather than kept until the disk takes them. Rows are written late, in
groups large enough for Parquet, and no transaction holds them: of one group, some rows may be in a file that
was finished, some lost with a file that could not be, and the rest is tried again. A file also ends when it
is old enough, without any row.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from penstock import limits
from penstock.errors import NodeError
from penstock.node.store.parquet import RecordFiles

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.config.schema import RecorderSettings
    from penstock.node.store.parquet import Kind, WriteOutcome

log = logging.getLogger(__name__)


class RecorderStatus(msgspec.Struct, frozen=True, gc=False):
    """Counts of all rows by their fate. At every moment: seen = recorded + waiting + dropped + lost."""

    folder: str
    fault: str
    """Why recording pauses; empty if it does not."""
    seen: int
    """Rows that were added."""
    recorded: int
    """Rows in files, the one that is being written included."""
    waiting: int
    """Rows that wait for the disk."""
    dropped: int
    """Rows that came while the buffer was full."""
    lost: int
    """Rows in files that could not be finished."""
    files: int
    """Files finished since the node started."""
    deleted: int
    """Oldest files that were deleted to stay within recorder.keep_bytes."""

    @property
    def balanced(self) -> bool:
        """Whether nothing is unaccounted for."""
        return self.seen == self.recorded + self.waiting + self.dropped + self.lost


class Recording:
    """Records rows of one kind to a folder until it is closed."""

    def __init__(self, folder: Path, kind: Kind, settings: RecorderSettings) -> None:
        """Prepare the folder; recording starts with `begin`. MissingTool or NodeError if that cannot work."""
        self._settings = settings
        self._folder = folder
        self._kind = kind
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files = RecordFiles(
                self._folder, kind, rotate_events=settings.rotate_events, keep_bytes=settings.keep_bytes
            )
            left = self._files.clear()
        except OSError as error:
            raise NodeError(f"{self._folder}: cannot be recorded to: {error.strerror}") from None
        for path in left:
            log.warning("%s: unfinished file deleted; the node was killed while it recorded", path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recorder")
        self._work: asyncio.Task[None] | None = None
        self._rows: list[Any] = []
        self._bytes = 0
        self._writing: list[Any] = []
        """Rows that the thread is writing, or was not able to write."""
        self._writing_bytes = 0
        self._enough = asyncio.Event()
        self._closing = asyncio.Event()
        self._seen = 0
        self._recorded = 0
        self._dropped = 0
        self._lost = 0
        self._said = 0
        """How many dropped rows were reported in the log."""
        self._complete = 0
        self._deleted = 0
        self._fault = ""

    def begin(self) -> None:
        """Start writing, in the running loop."""
        self._work = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Write the rows that wait and finish the file; log how many rows could not be written."""
        self._closing.set()
        self._enough.set()
        if self._work is not None:
            await self._work
            await self._write(finish=True)
        self._thread.shutdown()
        left = len(self._rows) + len(self._writing)
        if left:
            log.error("%s: %d %s could not be written: %s", self._folder, left, self._kind.name, self._fault)

    def add(self, row: Any) -> None:
        """Record a row, or count it as dropped if the buffer is full."""
        self._seen += 1
        size = self._kind.size(row)
        if (
            len(self._rows) + len(self._writing) >= self._settings.buffer_events
            or self._bytes + self._writing_bytes + size > limits.RECORD_BYTES
        ):
            if self._dropped == self._said:
                log.error(
                    "%s: the disk does not keep up; %s are counted, not recorded",
                    self._folder,
                    self._kind.name,
                )
            self._dropped += 1
            return
        self._rows.append(row)
        self._bytes += size
        if len(self._rows) >= limits.RECORD_GROUP:
            self._enough.set()

    async def _run(self) -> None:
        """Write when a row group is full or the oldest row has waited RECORD_LATEST_S."""
        while not self._closing.is_set():
            pause_s, signal = limits.RECORD_LATEST_S, self._enough
            if self._fault:
                pause_s, signal = limits.RECORD_RETRY_S, self._closing
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await signal.wait()
            begun_s = self._files.begun_s
            # The first file ends soon, each next one is twice as old, so that what was recorded can be read.
            oldest_s = min(self._settings.rotate_s, limits.RECORD_FIRST_S * 2 ** min(self._complete, 32))
            due = begun_s is not None and time.monotonic() - begun_s >= oldest_s
            await self._write(finish=due)

    async def _write(self, *, finish: bool) -> None:
        """Let the thread write; rows it could not write are the first of the next attempt."""
        self._enough.clear()
        self._writing += self._rows
        self._writing_bytes += self._bytes
        self._rows, self._bytes = [], 0
        if not self._writing and not finish and self._files.begun_s is None:
            return
        work = partial(self._files.record, self._writing, finish=finish)
        outcome = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._settle(outcome)

    def _settle(self, outcome: WriteOutcome) -> None:
        done = self._writing[: outcome.written]
        self._writing_bytes -= sum(map(self._kind.size, done))
        del self._writing[: outcome.written]
        self._recorded += outcome.written - outcome.lost
        self._lost += outcome.lost
        self._complete += len(outcome.finished)
        self._deleted += len(outcome.deleted)
        for path, rows in outcome.finished:
            log.info("%s: %d %s are recorded", path, rows, self._kind.name)
        for path in outcome.deleted:
            log.info("%s: deleted; recorder.keep_bytes is %d", path, self._settings.keep_bytes)
        if outcome.lost:
            log.error("%s: %d %s of an unfinished file are lost", self._folder, outcome.lost, self._kind.name)
        if outcome.fault and not self._fault:
            log.error("%s: recording pauses: %s", self._folder, outcome.fault)
        elif self._fault and not outcome.fault:
            log.warning("%s: recording goes on", self._folder)
        self._fault = outcome.fault
        if not outcome.fault and self._dropped > self._said:
            log.warning(
                "%s: %d %s were not recorded", self._folder, self._dropped - self._said, self._kind.name
            )
            self._said = self._dropped

    def status(self) -> RecorderStatus:
        """The counts at this moment."""
        return RecorderStatus(
            folder=str(self._folder),
            fault=self._fault,
            seen=self._seen,
            recorded=self._recorded,
            waiting=len(self._rows) + len(self._writing),
            dropped=self._dropped,
            lost=self._lost,
            files=self._complete,
            deleted=self._deleted,
        )
