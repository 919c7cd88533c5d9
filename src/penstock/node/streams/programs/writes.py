"""Writes of programs into streams: rows of writers, and batches that were staged and committed.

A message of a program carries its writer and a growing number; messages that the log has already are
skipped. A request is answered when all its messages are durable, repeated ones included, and in order.
`patiently` waits for the disk, and tells the program the reason when that takes too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.streams import wire
from penstock.errors import MqttError, PenstockError, StreamRefused
from penstock.mqtt.codes import Kind
from penstock.mqtt.packets.properties import Properties, encode_properties
from penstock.mqtt.topics import check_topic
from penstock.node.streams.log.dedup import WRITER
from penstock.node.streams.programs.staging import StagedBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from penstock.core.streams.requests import Commit, Row, Staged
    from penstock.node.streams.programs.staging import Staging
    from penstock.node.streams.tree.hosted import HostedStream

log = logging.getLogger(__name__)


class Patience:
    """Tells code that waits, and asks now and then, when a fault has lasted too long."""

    def __init__(self, fault: Callable[[], str]) -> None:
        self._fault = fault
        self._since_s: float | None = None

    def over(self) -> str:
        """The fault, if there has been one at every call for too long; empty: go on waiting."""
        why = self._fault()
        now_s = asyncio.get_running_loop().time()
        self._since_s = None if not why else now_s if self._since_s is None else self._since_s
        late = self._since_s is not None and now_s - self._since_s >= limits.STREAM_STALLED_S
        return why if late else ""


async def patiently(waiting: asyncio.Future[None], fault: Callable[[], str]) -> None:
    """Wait for a write; StreamRefused, with the reason, if nothing can be made durable for a while.

    The write goes on all the same: a program that repeats its request finds it done, or waits again.
    """
    patience = Patience(fault)
    while True:
        done, _ = await asyncio.wait((waiting,), timeout=limits.STREAM_STALLED_S / 10)
        if done:
            return waiting.result()
        if why := patience.over():
            raise StreamRefused(f"not durable yet, the node keeps trying: {why}", code="full")


ROW_BITS: Final = 32
"""The number of a staged row is the number of its batch, followed by so many bits for its index, from 1."""

_HEAD_BYTES: Final = 8_192
"""Bound for the rest of a record, beside payload, topic and properties: names of up to 1,024 letters, and
numbers."""


class WriterLine:
    """The messages of one writer on their way into one stream, in order."""

    def __init__(self, hosted: HostedStream, writer: str, *, clock: Callable[[], int]) -> None:
        self._hosted = hosted
        self._clock = clock
        self.origin = WRITER + writer
        self.turn = asyncio.Lock()
        """Held by the caller of `put`."""
        self._open: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Writes that are not acknowledged: the last number of each, and its future."""

    @property
    def idle(self) -> bool:
        """Whether nothing is waiting or being put."""
        return not self._open and not self.turn.locked()

    async def put(self, numbers: Sequence[int], rows: Sequence[Row], *, sender: str) -> asyncio.Future[None]:
        """Log the rows that are new; returns what to wait for. StreamError or StreamRefused if refused."""
        hosted = self._hosted
        await self._room(len(rows))
        known = hosted.marks.highest(self.origin)
        fresh = [(number, row) for number, row in zip(numbers, rows, strict=True) if number > known]
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not fresh:
            return self._repeated(numbers[-1], future)
        now_us = self._clock()
        bodies = [
            wire.encode_record(
                wire.Record(
                    row.topic,
                    row.payload,
                    row.ts_us or now_us,
                    sender,
                    number,
                    properties=row_properties(row),
                    origin=self.origin,
                    number=number,
                )
            )
            for number, row in fresh
        ]
        ticks = hosted.publish_many(bodies, lambda: self._done(future))
        for (number, _), tick in zip(fresh, ticks, strict=True):
            hosted.marks.note(self.origin, number, tick)
        self._open.append((fresh[-1][0], future))
        return future

    async def acknowledged(self) -> None:
        """Wait until all rows that were put are acknowledged."""
        if self._open:
            await patiently(self._open[-1][1], lambda: self._hosted.log.fault)

    async def _room(self, count: int) -> None:
        """Wait while too many messages of the stream are unacknowledged, unless a fault lasts too long."""
        patience = Patience(lambda: self._hosted.log.fault)
        while not patience.over():
            figures = self._hosted.pubend.statistics()
            if figures.waiting + figures.held + count <= limits.STREAM_UNACKED or not (
                figures.waiting or figures.held
            ):
                return
            await asyncio.sleep(limits.STREAM_ROOM_S)

    def _repeated(self, last: int, future: asyncio.Future[None]) -> asyncio.Future[None]:
        for number, waiting in self._open:
            if number >= last:
                return waiting
        future.set_result(None)
        return future

    def _done(self, future: asyncio.Future[None]) -> None:
        while self._open:
            _, first = self._open.popleft()
            if not first.done():
                first.set_result(None)
            if first is future:
                return


class WriterLines:
    """The lines of all writers, created when they are needed."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._lines: dict[tuple[str, str], WriterLine] = {}

    def line(self, hosted: HostedStream, writer: str) -> WriterLine:
        """The line of a writer into a stream."""
        found = self._lines.get((hosted.name, writer))
        if found is None:
            if len(self._lines) >= limits.STREAM_WRITERS:
                self._lines = {key: one for key, one in self._lines.items() if not one.idle}
            found = self._lines[hosted.name, writer] = WriterLine(hosted, writer, clock=self._clock)
        return found


class StagedCommits:
    """Commits batches of staged rows: decides on a batch, puts its rows into the stream, finishes it."""

    def __init__(self, hosted: Mapping[str, HostedStream], lines: WriterLines, staging: Staging) -> None:
        self._hosted = hosted
        self._lines = lines
        self._staging = staging
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Carry out the commits that were decided before the node ended."""
        for batch in await self._staging.unfinished():
            if batch.stream in self._hosted:
                self._begin(batch).add_done_callback(_log_failure)

    async def close(self) -> None:
        """Stop; commits that are not finished are carried out after the next start."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def commit(self, request: Commit) -> None:
        """Put the rows of a batch into the stream, once; they are durable when this returns."""
        key = (request.stream, request.writer)
        # A task that is done may still be here, until its callback runs: awaiting it would not let the loop
        # run that callback. How it failed is for those who asked for it; what it left is carried out below.
        while (before := self._under_way.get(key)) is not None and not before.done():
            await asyncio.wait((before,))
        task = asyncio.get_running_loop().create_task(self._commit(request))
        self._keep(key, task)
        await asyncio.shield(task)

    async def _commit(self, request: Commit) -> None:
        last = await self._staging.last(request.stream, request.writer)
        if last is not None and not last.done:
            await self._carry_out(last)
        attempts = tuple(one.attempt for one in request.attempts)
        if last is not None and request.batch <= last.batch:
            await self._staging.drop(request.stream, attempts)
            return
        batch = StagedBatch(
            request.stream,
            request.writer,
            request.batch,
            _with_rows(request.attempts),
            request.sender or request.writer,
            done=False,
            keep_s=limits.STREAM_STAGED_S if request.once else limits.STREAM_WRITER_S,
        )
        await self._staging.decide(batch)
        await self._carry_out(batch)

    def _begin(self, batch: StagedBatch) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._carry_out(batch))
        self._keep((batch.stream, batch.writer), task)
        return task

    def _keep(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        self._under_way[key] = task
        task.add_done_callback(partial(self._forget, key))

    def _forget(self, key: tuple[str, str], task: asyncio.Task[None]) -> None:
        if self._under_way.get(key) is task:
            del self._under_way[key]
        if not task.cancelled():
            task.exception()  # the program that asked may be gone: then nobody else looks at it

    async def _carry_out(self, batch: StagedBatch) -> None:
        hosted = self._hosted[batch.stream]
        line = self._lines.line(hosted, batch.writer)
        number = batch.batch << ROW_BITS
        waiting: asyncio.Future[None] | None = None
        async with line.turn:
            for one in batch.attempts:
                for part in range(one.parts):
                    rows = await self._staging.rows(batch.stream, one.attempt, part)
                    numbers = range(number + 1, number + 1 + len(rows))
                    waiting = await line.put(numbers, rows, sender=batch.sender)
                    number += len(rows)
        if waiting is not None:
            await patiently(waiting, lambda: hosted.log.fault)  # acknowledgements come in order
        await self._staging.finish(batch)


def row_properties(row: Row) -> bytes:
    """The MQTT 5 properties of a row as they are encoded in PUBLISH; empty if it has none."""
    if not row.content_type and not row.properties:
        return b""
    properties = Properties(content_type=row.content_type or None, user=row.properties)
    return encode_properties(properties, Kind.PUBLISH, packet="message")


def check_rows(hosted: HostedStream, rows: Sequence[Row], *, most_bytes: int) -> set[str]:
    """The topics of rows; StreamRefused if a row cannot be a message of the stream."""
    topics = {row.topic for row in rows}
    for topic in topics:
        try:
            check_topic(topic, where="topic")
        except MqttError as error:
            raise StreamRefused(str(error), code="refused") from None
        if not hosted.carries(topic):
            raise StreamRefused(
                f"topic '{topic}' does not belong to stream '{hosted.name}', whose topics are "
                + ", ".join(hosted.hosting.topics),
                code="refused",
            )
    most = min(limits.STREAM_BODY_BYTES, hosted.log.largest)
    for row in rows:
        text = len(row.topic) + len(row.content_type) + sum(len(a) + len(b) + 2 for a, b in row.properties)
        whole = len(row.payload) + 4 * text + _HEAD_BYTES  # a letter has up to four bytes
        if len(row.payload) > most_bytes or whole > most:
            raise StreamRefused(
                f"a message of {len(row.payload):,} bytes on '{row.topic}' is too large: "
                f"at most {most_bytes:,} (bounds.packet_bytes), and {most:,} with topic and properties",
                code="refused",
            )
        if not 0 <= row.ts_us < limits.STREAM_TICKS:
            raise StreamRefused(f"time {row.ts_us} is not in microseconds since 1970", code="refused")
        if len(row.properties) > limits.MQTT_USER_PROPERTIES:
            raise StreamRefused(
                f"too many user properties: {len(row.properties)}, at most {limits.MQTT_USER_PROPERTIES}",
                code="refused",
            )
        try:
            row_properties(row)
        except MqttError as error:
            raise StreamRefused(str(error), code="refused") from None
    return topics


def _with_rows(attempts: tuple[Staged, ...]) -> tuple[Staged, ...]:
    """The attempts that have rows."""
    return tuple(one for one in attempts if one.parts)


def _log_failure(task: asyncio.Task[None]) -> None:
    """Log a failed commit; it is repeated when its writer asks again, or after the next start."""
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, PenstockError):
        log.error("a committed batch is not in its stream yet: %s", error)
    elif error is not None:
        log.error("a committed batch is not in its stream yet", exc_info=error)
