"""The recorder: chosen topics to Parquet files, for the Spark commands.

It looks on and never slows anyone: events collect in a bounded buffer and a thread writes them. What finds
the buffer full is not recorded, and counted. When the disk is full recording pauses, and goes on by itself.
"""

from __future__ import annotations

import asyncio
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from penstock import limits
from penstock.errors import NodeError
from penstock.node.record_files import RecordFiles
from penstock.node.status import RecorderStatus

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.node.broker import Broker
    from penstock.node.config import Recorder as Settings
    from penstock.node.record_files import Outcome
    from penstock.node.routes import Tap

log = logging.getLogger(__name__)


class Recorder:
    """Records until it is closed."""

    def __init__(self, settings: Settings, data: str) -> None:
        """Nothing is recorded yet; MissingTool or NodeError says what stands in the way."""
        self._settings = settings
        self._folder = Path(data) / settings.folder
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._files = RecordFiles(
                self._folder, rotate_events=settings.rotate_events, keep_bytes=settings.keep_bytes
            )
            left = self._files.clear()
        except OSError as error:
            raise NodeError(f"{self._folder}: cannot be recorded to: {error.strerror}") from None
        for path in left:
            log.warning("%s: was left unfinished and is deleted; the node did not end well", path)
        self._taps: list[Tap] = []
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="recorder")
        self._work: asyncio.Task[None] | None = None
        self._events: list[Event] = []
        self._bytes = 0
        self._writing: list[Event] = []
        """What the thread has in hand, or has not been able to write."""
        self._writing_bytes = 0
        self._enough = asyncio.Event()
        self._closing = asyncio.Event()
        self._last: Event | None = None
        self._seen = 0
        self._recorded = 0
        self._dropped = 0
        self._lost = 0
        self._said = 0
        """How many dropped events the log knows of."""
        self._complete = 0
        self._deleted = 0
        self._fault = ""

    def start(self, broker: Broker) -> None:
        """Record from now on."""
        self._taps = [broker.tap(topic, self._see) for topic in dict.fromkeys(self._settings.topics)]
        self._work = asyncio.create_task(self._run())
        log.info("recording %s to %s", ", ".join(self._settings.topics), self._folder)

    async def close(self) -> None:
        """Write what is there, finish the file, and end."""
        for tap in self._taps:
            tap.close()
        self._closing.set()
        self._enough.set()
        if self._work is not None:
            await self._work
            await self._write(finish=True)
        self._thread.shutdown()
        left = len(self._events) + len(self._writing)
        if left:
            log.error("%s: %d events could not be written: %s", self._folder, left, self._fault)

    def _see(self, event: Event) -> None:
        if event is self._last:
            return  # another of the filters matches it, too
        self._last = event
        self._seen += 1
        size = len(event.payload) + len(event.topic)
        if (
            len(self._events) + len(self._writing) >= self._settings.buffer_events
            or self._bytes + self._writing_bytes + size > limits.RECORD_BYTES
        ):
            if self._dropped == self._said:
                log.error("%s: the disk does not keep up; events are counted, not recorded", self._folder)
            self._dropped += 1
            return
        self._events.append(event)
        self._bytes += size
        if len(self._events) >= limits.RECORD_GROUP:
            self._enough.set()

    async def _run(self) -> None:
        """Write what has come, when there is enough or it has waited long enough."""
        while not self._closing.is_set():
            pause_s, signal = limits.RECORD_LATEST_S, self._enough
            if self._fault:
                pause_s, signal = limits.RECORD_RETRY_S, self._closing
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await signal.wait()
            begun_s = self._files.begun_s
            due = begun_s is not None and time.monotonic() - begun_s >= self._settings.rotate_s
            await self._write(finish=due)

    async def _write(self, *, finish: bool) -> None:
        """Let the thread write; what it could not write stays first in line."""
        self._enough.clear()
        self._writing += self._events
        self._writing_bytes += self._bytes
        self._events, self._bytes = [], 0
        if not self._writing and not finish:
            return
        work = partial(self._files.record, self._writing, finish=finish)
        outcome = await asyncio.get_running_loop().run_in_executor(self._thread, work)
        self._settle(outcome)

    def _settle(self, outcome: Outcome) -> None:
        done = self._writing[: outcome.written]
        self._writing_bytes -= sum(len(event.payload) + len(event.topic) for event in done)
        del self._writing[: outcome.written]
        self._recorded += outcome.written - outcome.lost
        self._lost += outcome.lost
        self._complete += len(outcome.finished)
        self._deleted += len(outcome.deleted)
        for path, rows in outcome.finished:
            log.info("%s: %d events are recorded", path, rows)
        for path in outcome.deleted:
            log.info("%s: deleted; recorder.keep_bytes is %d", path, self._settings.keep_bytes)
        if outcome.lost:
            log.error("%s: %d events of an unfinished file are lost", self._folder, outcome.lost)
        if outcome.fault and not self._fault:
            log.error("%s: recording pauses: %s", self._folder, outcome.fault)
        elif self._fault and not outcome.fault:
            log.warning("%s: recording goes on", self._folder)
        self._fault = outcome.fault
        if not outcome.fault and self._dropped > self._said:
            log.warning("%s: %d events were not recorded", self._folder, self._dropped - self._said)
            self._said = self._dropped

    def status(self) -> RecorderStatus:
        """The recorder at this moment."""
        return RecorderStatus(
            folder=str(self._folder),
            fault=self._fault,
            seen=self._seen,
            recorded=self._recorded,
            waiting=len(self._events) + len(self._writing),
            dropped=self._dropped,
            lost=self._lost,
            files=self._complete,
            deleted=self._deleted,
        )
