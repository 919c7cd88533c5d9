"""Reads a log in JetStream: finds ticks, checks that no batch is missing, caches what was read last.

`BatchReader` reads while its caller waits. `BackgroundReader` serves callers that cannot wait: it answers
from the cache, or fetches in a task and calls back. A read that fails is retried until it succeeds, and
does not hold up other reads.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from penstock import limits
from penstock.core.streams.log import bounded, cut_short
from penstock.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.streams.log.jetstream.stream import LogBatch, NatsStream
    from penstock.node.streams.log.protocol import LoggedMessages

PULL_BYTES: Final = 2 << 20
"""About how many bytes are requested from the server at once."""
PULL_BATCHES: Final = 512
"""How many batches are requested at most; a batch may have a single message."""
CACHE_BYTES: Final = 32 << 20
"""Size of the cache of what was read last; a single read may be larger."""
TAIL_BYTES: Final = 8 << 20
"""Size of the cache of the messages that were appended last."""
CACHE_SPANS: Final = 64
"""Reads in the cache: so many readers at different positions do not disturb each other."""
INDEX_EVERY: Final = 64
"""Every so many batches, one is noted in the index while they are appended."""
INDEX_MOST: Final = 8_192
"""Entries of the index; every other one is dropped when there are more."""


@dataclass(slots=True)
class CachedSpan:
    """All messages from one tick to another."""

    since: int
    until: int
    ticks: list[int]
    bodies: list[bytes]
    size: int

    def read(self, since: int, until: int, most: int) -> LoggedMessages:
        """The first `most` messages of the part of a span that is cached here."""
        first = bisect_left(self.ticks, since)
        behind = min(bisect_left(self.ticks, until), first + most)
        return bounded(zip(self.ticks[first:behind], self.bodies[first:behind], strict=True))

    def append(self, batch: LogBatch) -> None:
        """Add a batch that was appended to the log; drop the older half when it gets too large."""
        self.ticks += batch.ticks
        self.bodies += batch.bodies
        self.until = batch.until
        self.size += batch.size
        while self.size > TAIL_BYTES and len(self.ticks) > 1:
            half = len(self.ticks) // 2
            self.size -= sum(map(len, self.bodies[:half]))
            self.since = self.ticks[half - 1] + 1
            del self.ticks[:half], self.bodies[:half]


class SequenceIndex:
    """Sequences of some batches, and the tick behind each; both grow together."""

    def __init__(self) -> None:
        self._sequences: list[int] = []
        self._untils: list[int] = []

    def __len__(self) -> int:
        return len(self._sequences)

    def note(self, sequence: int, until: int) -> None:
        """Note a batch: its sequence, and the tick behind it."""
        at = bisect_left(self._sequences, sequence)
        if at < len(self._sequences) and self._sequences[at] == sequence:
            return
        self._sequences.insert(at, sequence)
        self._untils.insert(at, until)
        if len(self._sequences) > INDEX_MOST:
            del self._sequences[1:-1:2], self._untils[1:-1:2]

    def before(self, tick: int) -> int:
        """The last known sequence whose batch ends at a tick or before it; 0 if there is none."""
        at = bisect_right(self._untils, tick)
        return self._sequences[at - 1] if at else 0

    def behind(self, tick: int, otherwise: int) -> int:
        """The first known sequence whose batch ends behind a tick; `otherwise` if there is none."""
        at = bisect_right(self._untils, tick)
        return self._sequences[at] if at < len(self._sequences) else otherwise


class BatchReader:
    """Reads the batches of one log."""

    def __init__(self, stream: NatsStream, until: int, first: int, last: int) -> None:
        self._stream = stream
        self._spans: list[CachedSpan] = []
        """Cached reads; the one used last is at the end."""
        self._tail = CachedSpan(until, until, [], [], 0)
        self._batch_bytes = PULL_BYTES // 16
        """Average size of the batches that were read last."""
        self._index = SequenceIndex()
        self._noted = last
        """The last sequence in the index."""
        self.first = first
        """The first sequence that has not been purged."""
        self.last = last
        """The last sequence that is durable."""

    def appended(self, sequence: int, batch: LogBatch) -> None:
        """Note a batch that has become durable, behind all others."""
        self.last = sequence
        self._tail.append(batch)
        if sequence >= self._noted + INDEX_EVERY:
            self._noted = sequence
            self._index.note(sequence, batch.until)

    def cached(self, since: int, until: int, most: int) -> LoggedMessages | None:
        """The first `most` messages of a span if they are cached, otherwise None."""
        tail = self._tail
        if since >= tail.since:
            return tail.read(since, until, most)
        for at, span in enumerate(self._spans):
            if not span.since <= since < span.until:
                continue
            found = span.read(since, until, most)
            if not cut_short(found, most) and span.until < until:
                if span.until < tail.since:
                    continue
                found += tail.read(span.until, until, most - len(found))
            self._spans.append(self._spans.pop(at))
            return found
        return None

    async def collect(self, since: int, until: int, most: int) -> LoggedMessages:
        """Read messages into the cache; StoreError if the server does not answer or batches are missing."""
        at = await self.locate(since)
        edge = since
        ticks: list[int] = []
        bodies: list[bytes] = []
        size = 0
        while edge < until and len(ticks) < most and size < limits.STREAM_FETCH_BYTES:
            count = min(max(1, PULL_BYTES // self._batch_bytes), PULL_BATCHES)
            pulled = [one for one in await self._stream.batches(at, count) if one[0] <= self.last]
            if not pulled:
                self._missing(edge, until)
            for sequence, batch in pulled:
                if batch.after > edge:
                    if edge >= until or len(ticks) >= most or size >= limits.STREAM_FETCH_BYTES:
                        break  # the gap lies behind what was asked for
                    self._missing(edge, batch.after)
                first = bisect_left(batch.ticks, edge)
                ticks += batch.ticks[first:]
                bodies += batch.bodies[first:]
                edge, at = max(edge, batch.until), sequence + 1
                size += sum(map(len, batch.bodies[first:]))
            self._index.note(*_place(pulled[-1]))
            self._batch_bytes = max(1, sum(batch.size for _, batch in pulled) // len(pulled))
        span = CachedSpan(since, edge, ticks, bodies, size)
        self._keep(span)
        return span.read(since, until, most)

    def _missing(self, since: int, until: int) -> NoReturn:
        raise StoreError(
            f"ticks {since} to {until} are missing: something else has deleted them, or the server has lost "
            "them; restore the stream, or delete it to start without it",
            self._stream.place,
        )

    def _keep(self, span: CachedSpan) -> None:
        self._spans = [one for one in self._spans if one.since != span.since]
        self._spans.append(span)
        cached = sum(one.size for one in self._spans)
        while len(self._spans) > 1 and (cached > CACHE_BYTES or len(self._spans) > CACHE_SPANS):
            cached -= self._spans.pop(0).size

    async def locate(self, tick: int) -> int:
        """The sequence of the batch that has a tick, or of a batch shortly before it."""
        low = max(self._index.before(tick), self.first - 1)
        high = self._index.behind(tick, self.last)
        while high - low > 1:
            middle = (low + high) // 2
            found = await self._stream.batch(middle)
            if found is None:
                high = middle
                continue
            sequence, batch = found
            self._index.note(sequence, batch.until)
            if batch.until <= tick:
                low = sequence
            else:
                high = middle
        return low + 1


def _place(found: tuple[int, LogBatch]) -> tuple[int, int]:
    return found[0], found[1].until


log = logging.getLogger(__name__)

WANTS: Final = 256
"""Reads that may wait; further ones are repeated by their callers after `on_ready`."""


class BackgroundReader:
    """Fetches in a task what is not cached; `within` cuts a span to what the log has."""

    def __init__(
        self, stream: NatsStream, reading: BatchReader, *, within: Callable[[int, int], tuple[int, int]]
    ) -> None:
        self._stream = stream
        self._reading = reading
        self._within = within
        self._wants: dict[tuple[int, int, int], None] = {}
        """Reads to be done, in order: since, until, most."""
        self._asked = asyncio.Event()
        self._damage: dict[tuple[int, int, int], str] = {}
        """Reads that have failed, and why."""
        self.on_ready: Callable[[], None] = lambda: None
        """Called when something was fetched: a `read` that returned None may be repeated."""

    @property
    def damage(self) -> str:
        """Why a read has failed; empty if none has."""
        return next(iter(self._damage.values()), "")

    def read(self, since: int, until: int, most: int) -> LoggedMessages | None:
        """The first `most` messages of a span; None if they have to be fetched first."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        if found is None and len(self._wants) < WANTS:
            self._wants[since, until, most] = None
            self._asked.set()
        return found

    async def fetch(self, since: int, until: int, most: int) -> LoggedMessages:
        """The first `most` messages of a span, fetched if they are not cached."""
        since, until = self._within(since, until)
        if since >= until:
            return []
        found = self._reading.cached(since, until, most)
        return await self._reading.collect(since, until, most) if found is None else found

    def wake(self) -> None:
        """Try again: the server can be reached again."""
        self._asked.set()

    async def run(self) -> None:
        """Fetch what `read` did not find in the cache; runs until it is cancelled."""
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
                        log.error("%s", error)  # noqa: TRY400  # the message is enough
                    self._damage[want] = str(error)
                    if failed >= len(self._wants):
                        await asyncio.sleep(limits.JOURNAL_RETRY_S)
                        failed = 0
                else:
                    failed = 0
                    self._damage.pop(want, None)
                    self.on_ready()
