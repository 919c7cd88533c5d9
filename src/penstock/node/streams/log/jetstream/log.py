"""A stream's log in NATS JetStream, for streams whose log must be replicated.

What is appended in one turn of the event loop is one JetStream message (a batch). A batch is durable when
the server acknowledges it: the server has written it on as many servers as there are replicas, and syncs
its disk as configured there (`sync_interval`). Sending, reading and purging are separate tasks; none
waits for another.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Final

from penstock.errors import StoreError
from penstock.node.streams.log.jetstream.reading import BackgroundReader, BatchReader
from penstock.node.streams.log.jetstream.stream import NatsStream
from penstock.node.streams.log.jetstream.writing import BatchSender, LogFault, Purging
from penstock.node.streams.log.protocol import LogFigures

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.js.api import StreamState

    from penstock.node.config.streams import Nats
    from penstock.node.streams.log.jetstream.stream import LogBatch
    from penstock.node.streams.log.protocol import LoggedMessages

CLOSE_S: Final = 10.0
"""How long `close` waits for answers."""


class NatsLog:
    """A `DurableLog` in NATS JetStream."""

    def __init__(
        self, stream: NatsStream, first: LogBatch | None, last: LogBatch | None, state: StreamState
    ) -> None:
        self._stream = stream
        self._fault = LogFault(stream.place)
        self._reading = BatchReader(
            stream, 0 if last is None else last.until, state.first_seq, state.last_seq
        )
        self._purging = Purging(stream, self._reading, first, last)
        self._sending = BatchSender(stream, self._reading, self._purging, self._fault, last)
        self._background = BackgroundReader(stream, self._reading, within=self._within)
        self._tasks: list[asyncio.Task[None]] = []
        stream.on_away, stream.on_back, stream.on_answer = self._away, self._back, self._sending.answered

    @classmethod
    async def open(cls, settings: Nats, safe_name: str) -> NatsLog:
        """Open the log of this safe name, or create it; StoreError or MissingTool says why that failed."""
        stream = NatsStream(settings, safe_name)
        state = await stream.open()
        try:
            first, last = await stream.batch(state.first_seq), await stream.batch(state.last_seq)
        except StoreError:
            await stream.close()
            raise
        if state.last_seq and (first is None or last is None):
            await stream.close()
            raise StoreError(
                "its last message is missing: something else has purged it; restore the stream, or delete it "
                "to start without it",
                stream.place,
            )
        return cls(stream, first and first[1], last and last[1], state)

    # -- protocol Log of the core ----------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """The first tick that a restart would give out."""
        return max(self._sending.until, self._sending.claimed, self.trimmed)

    @property
    def trimmed(self) -> int:
        """Messages before this tick are deleted."""
        return self._purging.trimmed

    def append(self, tick: int, body: bytes) -> None:
        """Add a message; it is durable after the next commit."""
        self._sending.append(tick, body)

    def claim(self, tick: int) -> None:
        """Reserve ticks before this one, durably after the next commit."""
        self._sending.claim(tick)

    def read(self, since: int, until: int, most: int) -> LoggedMessages | None:
        """The first `most` durable messages of a span; None if they have to be fetched first."""
        return self._background.read(since, until, most)

    def trim(self, until: int) -> None:
        """Delete messages before a tick."""
        self._purging.trim(until)

    def _within(self, since: int, until: int) -> tuple[int, int]:
        return max(since, self.trimmed), min(until, self._sending.until)

    # -- protocol DurableLog ---------------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """Why messages cannot be written or read at the moment; empty if there is no fault."""
        return self._fault.sentence or self._background.damage

    @property
    def largest(self) -> int:
        """Bytes of the largest message that `append` may be given."""
        return self._sending.largest

    @property
    def bytes(self) -> int:
        """Bytes of all messages, those not durable yet included."""
        return self._sending.total_bytes - self._purging.gone[1]

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        """Begin to commit, in the running loop."""
        self._sending.on_commit, self._background.on_ready = committed, ready
        for work in (self._sending.run(), self._background.run(), self._purging.run()):
            task = asyncio.create_task(work, name="penstock-nats-log")
            task.add_done_callback(self._fault.ended)
            self._tasks.append(task)

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        """Return the messages that `read` would, waiting for those not in memory."""
        return await self._background.fetch(since, until, most)

    def figures(self) -> LogFigures:
        """The figures at this moment."""
        (messages, size), (messages_gone, size_gone) = self._sending.total, self._purging.gone
        return LogFigures(
            messages=messages - messages_gone,
            bytes=size - size_gone,
            commits=self._sending.commits,
            committed=self._sending.commit_messages,
            commit_us=self._sending.commit_us,
        )

    async def close(self) -> None:
        """Make everything durable and close the log."""
        deadline_s = time.monotonic() + CLOSE_S
        while self._tasks and self._sending.busy and not self.fault and time.monotonic() < deadline_s:
            await asyncio.sleep(0.002)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        left = self._sending.left
        await self._stream.close()
        if left:
            raise StoreError(f"{left:,} messages could not be written: {self.fault}", self._stream.place)

    def _away(self, why: str) -> None:
        self._sending.doubt()
        self._fault.went(f"{self._stream.place} cannot be reached: {why or 'connection lost'}")

    def _back(self) -> None:
        for one in (self._sending, self._background, self._purging):
            one.wake()
