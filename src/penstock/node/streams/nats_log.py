"""A stream's log in NATS JetStream, for whoever wants it replicated.

What is appended in a turn of the loop is one message there (a batch), and some of these are on their way at
once. Each says which sequence it is to get and which message must stand before it: two nodes that believe to
host the same stream cannot both append, and what is sent again after a lost connection is not stored twice. A
batch is durable when the server says so: it has written it, on as many servers as there are replicas, and
syncs its disk as it is set to (`sync_interval`).
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from penstock import limits
from penstock.errors import StoreError
from penstock.node.streams.log import LogFigures
from penstock.node.streams.nats_batch import Batch
from penstock.node.streams.nats_reading import Reading
from penstock.node.streams.nats_stream import NatsStream

if TYPE_CHECKING:
    from collections.abc import Callable

    from nats.js.api import StreamState

    from penstock.node.streams.log import Found
    from penstock.node.streams.settings import Nats

log = logging.getLogger(__name__)

_Bytes: TypeAlias = bytes

WINDOW: Final = 8
"""Batches on their way at once."""
BATCH_BYTES: Final = 256 << 10
"""Of a batch, unless a single message is larger."""
HEAD_BYTES: Final = 1_024
"""What a batch of one message has beside it, and NATS for its headers."""
ROW_BYTES: Final = 16
"""What a message has beside its body in a batch."""
ANSWER_S: Final = 5.0
"""A batch that is not answered by then is asked about."""
CLOSE_S: Final = 10.0
"""How long the end of a log waits for answers."""
TIDY_S: Final = 1.0
"""Between two purges."""
OUT_OF_ORDER: Final = (10_070, 10_071)
"""What JetStream says of a batch that does not follow what it has: something before it was not stored."""
WANTS: Final = 256
"""Readings that may wait; whoever asks beyond that asks again when another one is done."""


@dataclass(slots=True)
class _Sent:
    """A batch on its way."""

    number: int
    sequence: int
    batch: Batch
    at_s: float
    stored: bool = False


class NatsLog:
    """See DurableLog."""

    def __init__(
        self, stream: NatsStream, first: Batch | None, last: Batch | None, state: StreamState
    ) -> None:
        self._stream = stream
        self._writer = secrets.token_hex(8)
        self._until = self._sent_until = 0 if last is None else last.until
        self._claimed = self._claim_sent = self._claiming = 0 if last is None else last.claim
        self._trimmed = 0 if last is None or first is None else max(last.trimmed, first.after)
        self._total = self._total_sent = (0, 0) if last is None else _behind(last)
        """Messages and bytes that the log has ever had; with those on their way."""
        self._gone = (0, 0) if first is None else (first.messages, first.total_bytes)
        """Those that are gone."""
        self._reading = Reading(stream, self._until, state.first_seq, state.last_seq)
        self._claim_sequence = state.last_seq if last is not None and not last.ticks else 0
        """Where a batch without messages is that may go when the next one is stored; 0: nowhere."""
        self._idle_claims: list[int] = []
        self._rows: deque[tuple[int, bytes]] = deque()
        self._rows_bytes = 0
        self._flight: deque[_Sent] = deque()
        self._number = 0
        self._purged = self._trimmed
        self._wants: dict[tuple[int, int, int], None] = {}
        self._doubt = False
        """Whether it must be found out what the server has of what is on its way."""
        self._away = self._refused = ""
        self._denied = ""
        """Why the server has not stored the last batch it answered."""
        self._damage: dict[tuple[int, int, int], str] = {}
        """Of readings that cannot be done, why."""
        self._committed: Callable[[int, int], None] = lambda *_: None
        self._ready: Callable[[], None] = lambda: None
        self._wake, self._asked, self._untidy = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._commits = self._commit_us = self._commit_messages = 0
        stream.on_away, stream.on_back, stream.on_answer = self._went, self._came, self._answered

    @classmethod
    async def open(cls, settings: Nats, safe_name: str) -> NatsLog:
        """Make it if there is none of this safe name; StoreError or MissingTool says why not."""
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
                "its last message is gone: something else has purged it; restore the stream, or delete it to "
                "start without it",
                stream.place,
            )
        return cls(stream, first and first[1], last and last[1], state)

    # -- of the core -----------------------------------------------------------------------------------------

    @property
    def end(self) -> int:
        """See Log."""
        return max(self._until, self._claimed, self._trimmed)

    @property
    def trimmed(self) -> int:
        """See Log."""
        return self._trimmed

    def append(self, tick: int, body: bytes) -> None:
        """See Log."""
        assert len(body) <= self.largest
        self._rows.append((tick, body))
        self._rows_bytes += len(body)
        self._wake.set()

    def claim(self, tick: int) -> None:
        """See Log."""
        if tick > self._claiming:
            self._claiming = tick
            self._wake.set()

    def read(self, since: int, until: int, most: int) -> Found | None:
        """See Log."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        if found is None and len(self._wants) < WANTS:
            self._wants[since, until, most] = None
            self._asked.set()
        return found

    def trim(self, until: int) -> None:
        """See Log."""
        if until > self._trimmed:
            self._trimmed = until
            self._untidy.set()

    def _within(self, since: int, until: int) -> tuple[int, int]:
        return max(since, self._trimmed), min(until, self._until)

    # -- of the node -----------------------------------------------------------------------------------------

    @property
    def fault(self) -> str:
        """See DurableLog."""
        return self._refused or self._away or next(iter(self._damage.values()), "")

    @property
    def largest(self) -> int:
        """See DurableLog: what the server takes, less what a batch and its headers need."""
        return self._stream.max_payload - HEAD_BYTES

    @property
    def bytes(self) -> int:
        """See DurableLog."""
        return self._total_sent[1] - self._gone[1] + self._rows_bytes

    def start(self, *, committed: Callable[[int, int], None], ready: Callable[[], None]) -> None:
        """See DurableLog."""
        self._committed, self._ready = committed, ready
        for work in (self._send(), self._fetch(), self._tidy()):
            task = asyncio.create_task(work, name="penstock-nats-log")
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    async def fetch(self, since: int, until: int, most: int) -> Found:
        """See DurableLog."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        return await self._reading.collect(since, until, most) if found is None else found

    def figures(self) -> LogFigures:
        """See DurableLog."""
        return LogFigures(
            messages=self._total[0] - self._gone[0],
            bytes=self._total[1] - self._gone[1],
            commits=self._commits,
            committed=self._commit_messages,
            commit_us=self._commit_us,
        )

    async def close(self) -> None:
        """See DurableLog."""
        deadline_s = time.monotonic() + CLOSE_S
        while self._tasks and self._open_work() and not self.fault and time.monotonic() < deadline_s:
            await asyncio.sleep(0.002)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        left = len(self._rows) + sum(len(sent.batch.ticks) for sent in self._flight)
        await self._stream.close()
        if left:
            raise StoreError(f"{left:,} messages could not be written: {self.fault}", self._stream.place)

    def _open_work(self) -> bool:
        return bool(self._rows or self._flight or self._claiming > self._claimed)

    # -- appending -------------------------------------------------------------------------------------------

    async def _send(self) -> None:
        """Send what was appended, as far as the window allows."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0 if self._flight else None):
                    await self._wake.wait()
            self._wake.clear()
            if self._flight and time.monotonic() - self._flight[0].at_s > ANSWER_S:
                self._doubt = True
            if self._denied:
                self._tell_away(self._denied)
                self._denied = ""
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
            try:
                if self._doubt:
                    await self._ask()
                while self._sendable():
                    await self._send_next()
            except StoreError as error:
                self._tell_away(str(error))
                self._doubt = True
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
                self._wake.set()

    def _sendable(self) -> bool:
        if self._doubt or self._refused or not self._stream.connected or len(self._flight) >= WINDOW:
            return False
        return bool(self._rows) or self._claiming > self._claim_sent

    async def _send_next(self) -> None:
        ticks: list[int] = []
        bodies: list[_Bytes] = []
        size = 0
        most = min(BATCH_BYTES, self._stream.max_payload - HEAD_BYTES)
        while self._rows and (not ticks or size + len(self._rows[0][1]) + ROW_BYTES <= most):
            tick, body = self._rows.popleft()
            ticks.append(tick)
            bodies.append(body)
            size += len(body) + ROW_BYTES
        batch = Batch(
            self._writer,
            self._sent_until,
            tuple(ticks),
            tuple(bodies),
            self._claiming,
            self._trimmed,
            *self._total_sent,
        )
        self._rows_bytes -= batch.size
        self._sent_until, self._claim_sent, self._total_sent = batch.until, batch.claim, _behind(batch)
        self._number += 1
        sequence = (self._flight[-1].sequence if self._flight else self._reading.last) + 1
        sent = _Sent(self._number, sequence, batch, time.monotonic())
        before = self._flight[-1].number if self._flight else 0
        self._flight.append(sent)
        await self._stream.send(batch, number=sent.number, sequence=sequence, before=before)

    def _answered(self, number: int, answer: dict[str, Any]) -> None:
        sent = next((one for one in self._flight if one.number == number), None)
        if sent is None:
            return
        if answer.get("seq") != sent.sequence:
            said = answer.get("error") or {}
            if said and said.get("err_code") not in OUT_OF_ORDER:
                why = said.get("description", "no reason given")
                self._denied = f"{self._stream.place}: {why}; give it room, or see what it may store"
            self._doubt = True
            self._wake.set()
            return
        sent.stored = True
        self._settle()

    def _settle(self) -> None:
        """What is stored, with all that was sent before it, is durable."""
        before = (self._until, self._claimed)
        while self._flight and self._flight[0].stored:
            sent = self._flight.popleft()
            batch = sent.batch
            self._until, self._claimed, self._total = batch.until, batch.claim, _behind(batch)
            self._reading.appended(sent.sequence, batch)
            if batch.ticks:
                self._commits += 1
                self._commit_messages += len(batch.ticks)
                self._commit_us += int((time.monotonic() - sent.at_s) * 1e6)
            else:
                if self._claim_sequence:
                    self._idle_claims.append(self._claim_sequence)
                    self._untidy.set()
                self._claim_sequence = sent.sequence
        if (self._until, self._claimed) != before:
            if self._stream.connected and not self._doubt:
                self._tell_back()
            self._wake.set()
            self._committed(self._until, self._claimed)

    async def _ask(self) -> None:
        """After a lost connection, or an answer that was not expected: what does the server have of ours?"""
        if not self._stream.connected or self._refused:
            return
        state = await self._stream.state()
        if state.last_seq < self._reading.last:
            self._refuse("it has lost messages that it had stored; nothing more is taken: restore the stream")
            return
        if state.last_seq > self._reading.last:
            last = await self._stream.batch(state.last_seq)
            highest = self._flight[-1].sequence if self._flight else 0
            if last is None or last[1].writer != self._writer or last[0] > highest:
                self._refuse("another node appends to it; nothing is taken here any more: end one of the two")
                return
        for sent in self._flight:
            sent.stored = sent.sequence <= state.last_seq
        self._settle()
        before = 0
        for sent in list(self._flight):
            sent.at_s = time.monotonic()
            await self._stream.send(sent.batch, number=sent.number, sequence=sent.sequence, before=before)
            before = sent.number
        self._doubt = False
        if not self._flight:
            self._tell_back()

    # -- reading and tidying ---------------------------------------------------------------------------------

    async def _fetch(self) -> None:
        """Read what was asked for and not at hand."""
        failed = 0
        while True:
            await self._asked.wait()
            self._asked.clear()
            while self._wants:
                want = next(iter(self._wants))
                del self._wants[want]
                try:
                    await self.fetch(*want)
                except StoreError as error:
                    self._wants[want] = None
                    failed += 1
                    if str(error) not in self._damage.values() and self._stream.connected:
                        log.error("%s", error)  # noqa: TRY400  # the sentence says it all
                    self._damage[want] = str(error)
                    if failed >= len(self._wants):
                        await asyncio.sleep(limits.JOURNAL_RETRY_S)
                        failed = 0
                else:
                    failed = 0
                    self._damage.pop(want, None)
                    self._ready()

    async def _tidy(self) -> None:
        """Let the server forget what is trimmed, and claims that others have followed."""
        while True:
            await self._untidy.wait()
            self._untidy.clear()
            try:
                await self._purge()
                while self._idle_claims:
                    await self._stream.delete(self._idle_claims[0])
                    del self._idle_claims[0]
            except StoreError as error:
                log.debug("%s", error)
                self._untidy.set()
            await asyncio.sleep(TIDY_S)

    async def _purge(self) -> None:
        until = self._trimmed
        if until <= self._purged or not self._reading.last:
            return
        found = await self._stream.batch(min(await self._reading.locate(until), self._reading.last))
        if found is None:
            return
        sequence, batch = found
        if sequence > max(1, self._reading.first):
            await self._stream.purge(sequence)
            self._reading.first = sequence
        self._gone = _behind(batch) if batch.until <= until else (batch.messages, batch.total_bytes)
        self._purged = until
        self._idle_claims = [one for one in self._idle_claims if one > sequence]

    # -- faults ----------------------------------------------------------------------------------------------

    def _went(self, why: str) -> None:
        self._doubt = True
        self._tell_away(f"{self._stream.place} is away: {why or 'the connection is gone'}")

    def _came(self) -> None:
        self._wake.set()
        self._asked.set()
        self._untidy.set()

    def _tell_away(self, why: str) -> None:
        if not self._away:
            log.error("%s; nothing is acknowledged until it is back", why)
        self._away = why

    def _tell_back(self) -> None:
        if self._away:
            log.warning("%s: can be written again", self._stream.place)
        self._away = ""

    def _ended(self, task: asyncio.Task[None]) -> None:
        """A task that fails for no reason that is known must not leave everybody waiting for nothing."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self._refuse(f"{error!r}; nothing more is taken: start the node again")

    def _refuse(self, why: str) -> None:
        self._refused = f"{self._stream.place}: {why}"
        log.error("%s", self._refused)


def _behind(batch: Batch) -> tuple[int, int]:
    return batch.messages + len(batch.ticks), batch.total_bytes + batch.size
