"""Writes a log in JetStream: sends batches, several at once, and purges what the log no longer needs.

Each batch says which sequence it expects and which message must precede it. So two nodes that both
believe to host a stream cannot both append, and a batch sent again after a lost connection is not stored
twice. If an answer is missing or unexpected, the sender asks the server what it has and sends the rest.

Nothing waits for purging (trimmed messages, superseded claims); a purge that fails is retried. A fault is
logged when it changes, and its text is kept for the status.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock import limits
from penstock.errors import StoreError
from penstock.node.streams.log.jetstream.stream import LogBatch

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.jetstream.reading import BatchReader
    from penstock.node.streams.log.jetstream.stream import NatsStream

log = logging.getLogger(__name__)


class LogFault:
    """Faults of one log: kept for the status, logged when they change."""

    def __init__(self, place: str) -> None:
        self._place = place
        self.away = ""
        """Why nothing can be stored for now; empty if it can."""
        self.refused = ""
        """Why nothing will be stored until the node is restarted; empty if it will."""

    @property
    def sentence(self) -> str:
        """The more serious of the two faults; empty if there is none."""
        return self.refused or self.away

    def went(self, why: str) -> None:
        """Note that nothing can be stored for now."""
        if not self.away:
            log.error("%s; nothing is acknowledged until it can be written again", why)
        self.away = why

    def came(self) -> None:
        """Note that messages can be stored again."""
        if self.away:
            log.warning("%s: can be written again", self._place)
        self.away = ""

    def refuse(self, why: str) -> None:
        """Note that nothing will be stored until the node is restarted."""
        self.refused = f"{self._place}: {why}"
        log.error("%s", self.refused)

    def ended(self, task: asyncio.Task[None]) -> None:
        """Turn an unexpected failure of a task into a fault: publishers are refused and do not wait."""
        if not task.cancelled() and (error := task.exception()) is not None:
            self.refuse(f"{error!r}; nothing more is accepted: restart the node")


PURGE_S: Final = 1.0
"""Pause between two purges."""


class Purging:
    """Deletes what one log no longer needs; `first` and `last` are its outermost batches at the start."""

    def __init__(
        self, stream: NatsStream, reading: BatchReader, first: LogBatch | None, last: LogBatch | None
    ) -> None:
        self._stream = stream
        self._reading = reading
        self.trimmed = 0 if last is None or first is None else max(last.trimmed, first.after)
        """Messages before this tick may be deleted."""
        self.gone = (0, 0) if first is None else (first.messages, first.total_bytes)
        """Number and bytes of all messages that have been deleted."""
        self._purged = self.trimmed
        self._claim = reading.last if last is not None and not last.ticks else 0
        """Sequence of the last claim (a batch without messages); the next claim replaces it. 0: none."""
        self._idle_claims: list[int] = []
        """Sequences of claims that have been replaced."""
        self._work = asyncio.Event()

    def trim(self, until: int) -> None:
        """Allow messages before a tick to be deleted."""
        if until > self.trimmed:
            self.trimmed = until
            self._work.set()

    def claimed(self, sequence: int) -> None:
        """Note the sequence of a new claim; the one before it can be deleted."""
        if self._claim:
            self._idle_claims.append(self._claim)
            self._work.set()
        self._claim = sequence

    def wake(self) -> None:
        """Try again: the server can be reached again."""
        self._work.set()

    async def run(self) -> None:
        """Purge when there is something to purge; runs until it is cancelled."""
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                await self._purge()
                while self._idle_claims:
                    await self._stream.delete(self._idle_claims[0])
                    del self._idle_claims[0]
            except StoreError as error:
                log.debug("%s", error)
                self._work.set()
            await asyncio.sleep(PURGE_S)

    async def _purge(self) -> None:
        until = self.trimmed
        if until <= self._purged or not self._reading.last:
            return
        found = await self._stream.batch(min(await self._reading.locate(until), self._reading.last))
        if found is None:
            return
        sequence, batch = found
        if sequence > max(1, self._reading.first):
            await self._stream.purge(sequence)
            self._reading.first = sequence
        self.gone = batch.behind if batch.until <= until else (batch.messages, batch.total_bytes)
        self._purged = until
        self._idle_claims = [one for one in self._idle_claims if one > sequence]


WINDOW: Final = 8
"""Batches that may be unanswered at once."""
BATCH_BYTES: Final = 256 << 10
"""Size of a batch, unless a single message is larger."""
HEAD_BYTES: Final = 1_024
"""Bytes of a batch beside its messages, headers of NATS included."""
ROW_BYTES: Final = 16
"""Bytes of a message in a batch beside its body."""
ANSWER_S: Final = 5.0
"""After this time without an answer to a batch, the server is asked for its state."""
OUT_OF_ORDER: Final = (10_070, 10_071)
"""Errors of JetStream for a batch that does not follow the last stored one: one before it is missing."""


@dataclass(slots=True)
class _Sent:
    """A batch that was sent and may not be answered yet."""

    number: int
    sequence: int
    batch: LogBatch
    at_s: float
    stored: bool = False


class BatchSender:
    """Appends batches to one log; tells the reader and the purging which batches are stored."""

    def __init__(
        self,
        stream: NatsStream,
        reading: BatchReader,
        purging: Purging,
        fault: LogFault,
        last: LogBatch | None,
    ) -> None:
        self._stream = stream
        self._reading = reading
        self._purging = purging
        self._fault = fault
        self._writer = secrets.token_hex(8)
        self.until = self._sent_until = 0 if last is None else last.until
        """Messages before this tick are durable."""
        self.claimed = self._claim_sent = self._claiming = 0 if last is None else last.claim
        self.total = self._total_sent = (0, 0) if last is None else last.behind
        """Number and bytes of all messages ever stored; `_total_sent` includes those not answered."""
        self._rows: deque[tuple[int, bytes]] = deque()
        self._rows_bytes = 0
        self._flight: deque[_Sent] = deque()
        self._number = 0
        self._doubt = False
        """Whether the server has to be asked which of the unanswered batches it has."""
        self._denied = ""
        """Why the server has refused the last batch; empty if it has not."""
        self._wake = asyncio.Event()
        self.on_commit: Callable[[int, int], None] = lambda *_: None
        """Called with the tick before which messages are durable, and the durable claim."""
        self.commits = self.commit_us = self.commit_messages = 0

    @property
    def largest(self) -> int:
        """Bytes of the largest message: what the server accepts, less the rest of a batch."""
        return self._stream.max_payload - HEAD_BYTES

    @property
    def total_bytes(self) -> int:
        """Bytes of all messages ever appended, those not durable yet included."""
        return self._total_sent[1] + self._rows_bytes

    @property
    def left(self) -> int:
        """Number of messages that are not durable yet."""
        return len(self._rows) + sum(len(sent.batch.ticks) for sent in self._flight)

    @property
    def busy(self) -> bool:
        """Whether anything is not durable yet."""
        return bool(self._rows or self._flight or self._claiming > self.claimed)

    def append(self, tick: int, body: bytes) -> None:
        """Add a message; it is durable when its batch is stored."""
        assert len(body) <= self.largest
        self._rows.append((tick, body))
        self._rows_bytes += len(body)
        self._wake.set()

    def claim(self, tick: int) -> None:
        """Reserve ticks before this one, durably with the next batch."""
        if tick > self._claiming:
            self._claiming = tick
            self._wake.set()

    def doubt(self) -> None:
        """Have the server asked what it has: the connection was lost, and batches perhaps with it."""
        self._doubt = True

    def wake(self) -> None:
        """Try again: the server can be reached again."""
        self._wake.set()

    async def run(self) -> None:
        """Send what was appended, as far as the window allows; runs until it is cancelled."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0 if self._flight else None):
                    await self._wake.wait()
            self._wake.clear()
            if self._flight and time.monotonic() - self._flight[0].at_s > ANSWER_S:
                self._doubt = True
            if self._denied:
                self._fault.went(self._denied)
                self._denied = ""
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
            try:
                if self._doubt:
                    await self._ask()
                while self._sendable():
                    await self._send_next()
            except StoreError as error:
                self._fault.went(str(error))
                self._doubt = True
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
                self._wake.set()

    def _sendable(self) -> bool:
        if self._doubt or self._fault.refused or not self._stream.connected or len(self._flight) >= WINDOW:
            return False
        return bool(self._rows) or self._claiming > self._claim_sent

    async def _send_next(self) -> None:
        ticks: list[int] = []
        bodies: list[bytes] = []
        size = 0
        most = min(BATCH_BYTES, self.largest)
        while self._rows and (not ticks or size + len(self._rows[0][1]) + ROW_BYTES <= most):
            tick, body = self._rows.popleft()
            ticks.append(tick)
            bodies.append(body)
            size += len(body) + ROW_BYTES
        batch = LogBatch(
            self._writer,
            self._sent_until,
            tuple(ticks),
            tuple(bodies),
            self._claiming,
            self._purging.trimmed,
            *self._total_sent,
        )
        self._rows_bytes -= batch.size
        self._sent_until, self._claim_sent, self._total_sent = batch.until, batch.claim, batch.behind
        self._number += 1
        sequence = (self._flight[-1].sequence if self._flight else self._reading.last) + 1
        sent = _Sent(self._number, sequence, batch, time.monotonic())
        before = self._flight[-1].number if self._flight else 0
        self._flight.append(sent)
        await self._stream.send(batch, number=sent.number, sequence=sequence, before=before)

    def answered(self, number: int, answer: dict[str, Any]) -> None:
        """Take the answer of the server to a batch: stored where it was to be, or not."""
        sent = next((one for one in self._flight if one.number == number), None)
        if sent is None:
            return
        if answer.get("seq") != sent.sequence:
            said = answer.get("error") or {}
            if said and said.get("err_code") not in OUT_OF_ORDER:
                why = said.get("description", "no reason given")
                self._denied = (
                    f"{self._stream.place}: {why}; check the limits of the stream and of the server"
                )
            self._doubt = True
            self._wake.set()
            return
        sent.stored = True
        self._settle()

    def _settle(self) -> None:
        """Take batches as durable up to the first one that is not stored."""
        before = (self.until, self.claimed)
        while self._flight and self._flight[0].stored:
            sent = self._flight.popleft()
            batch = sent.batch
            self.until, self.claimed, self.total = batch.until, batch.claim, batch.behind
            self._reading.appended(sent.sequence, batch)
            if batch.ticks:
                self.commits += 1
                self.commit_messages += len(batch.ticks)
                self.commit_us += int((time.monotonic() - sent.at_s) * 1e6)
            else:
                self._purging.claimed(sent.sequence)
        if (self.until, self.claimed) != before:
            if self._stream.connected and not self._doubt:
                self._fault.came()
            self._wake.set()
            self.on_commit(self.until, self.claimed)

    async def _ask(self) -> None:
        """Ask the server which of the unanswered batches it has, and send the others again."""
        if not self._stream.connected or self._fault.refused:
            return
        state = await self._stream.state()
        if state.last_seq < self._reading.last:
            self._fault.refuse(
                "the server has lost stored messages; nothing more is accepted: restore the stream"
            )
            return
        if state.last_seq > self._reading.last:
            last = await self._stream.batch(state.last_seq)
            highest = self._flight[-1].sequence if self._flight else 0
            if last is None or last[1].writer != self._writer or last[0] > highest:
                self._fault.refuse(
                    "another node appends to it; nothing more is accepted here: stop one of the two"
                )
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
            self._fault.came()
