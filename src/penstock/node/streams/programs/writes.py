"""Writes of programs into streams: rows of writers, and batches that were staged and committed.

A message of a program carries its writer and a growing number; messages that the log has already are
skipped. A request is answered when all its messages are durable, repeats included, and in order. `patiently`
waits for the disk, and tells the program the reason when that takes too long.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
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
    from collections.abc import Callable, Sequence

    from penstock.core.streams.requests import Commit, Row, Staged
    from penstock.node.streams.programs.staging import Staging
    from penstock.node.streams.service import StreamService
    from penstock.node.streams.tree.hosted import HostedStream


class Patience:
    """Of somebody who waits and looks now and then what is wrong."""

    def __init__(self, fault: Callable[[], str]) -> None:
        self._fault = fault
        self._since_s: float | None = None

    def over(self) -> str:
        """What is wrong, if something has been at every look for too long; empty: wait on."""
        why = self._fault()
        now_s = asyncio.get_running_loop().time()
        self._since_s = None if not why else now_s if self._since_s is None else self._since_s
        late = self._since_s is not None and now_s - self._since_s >= limits.STREAM_STALLED_S
        return why if late else ""


async def patiently(waiting: asyncio.Future[None], fault: Callable[[], str]) -> None:
    """Wait; StreamRefused, with the reason, if nothing can be made durable for a while.

    What is waited for goes on all the same: whoever asks again finds it done, or waits again.
    """
    patience = Patience(fault)
    while True:
        done, _ = await asyncio.wait((waiting,), timeout=limits.STREAM_STALLED_S / 10)
        if done:
            return waiting.result()
        if why := patience.over():
            raise StreamRefused(f"this is not durable yet, the node goes on trying: {why}", code="full")


log = logging.getLogger(__name__)

ROW_BITS: Final = 32
"""A staged row's number: its batch, then so many bits for its place in it, from 1."""


_HEAD_BYTES: Final = 8_192
"""Of a record beside its payload, topic and properties: names of up to 1,024 letters, numbers."""


class WriterLine:
    """The messages of one writer on their way into one stream, in order."""

    def __init__(self, hosted: HostedStream, writer: str, *, clock: Callable[[], int]) -> None:
        self._hosted = hosted
        self._clock = clock
        self.origin = WRITER + writer
        self.turn = asyncio.Lock()
        """Who holds it may `put`."""
        self._open: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Last numbers of what is not acknowledged."""

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._open and not self.turn.locked()

    async def put(self, numbers: Sequence[int], rows: Sequence[Row], *, sender: str) -> asyncio.Future[None]:
        """Log those that are new; what to wait for. StreamError or StreamRefused if they are not taken."""
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
                    properties=properties_of(row),
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
        """Wait for everything that is on its way."""
        if self._open:
            await patiently(self._open[-1][1], lambda: self._hosted.log.fault)

    async def _room(self, count: int) -> None:
        """Wait while too many messages of the stream are not acknowledged, and there is hope."""
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
    """All of them, made as they are needed."""

    def __init__(self, service: StreamService) -> None:
        self._service = service
        self._lines: dict[tuple[str, str], WriterLine] = {}

    def line(self, hosted: HostedStream, writer: str) -> WriterLine:
        """Of a writer in a stream."""
        found = self._lines.get((hosted.name, writer))
        if found is None:
            if len(self._lines) >= limits.STREAM_WRITERS:
                self._lines = {key: one for key, one in self._lines.items() if not one.idle}
            found = self._lines[hosted.name, writer] = WriterLine(
                hosted, writer, clock=self._service.broker.clock
            )
        return found


class StagedCommits:
    """Commits of staged rows: decided, carried out, done."""

    def __init__(self, service: StreamService, lines: WriterLines, staging: Staging) -> None:
        self._service = service
        self._lines = lines
        self._staging = staging
        self._under_way: dict[tuple[str, str], asyncio.Task[None]] = {}

    async def start(self) -> None:
        """Carry out what was decided before the node ended."""
        for batch in await self._staging.unfinished():
            if batch.stream in self._service.hosted:
                self._begin(batch).add_done_callback(_told)

    async def close(self) -> None:
        """Stop; what is not done is done after the next start."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def commit(self, request: Commit) -> None:
        """Put the rows into the stream once; they are there when this returns."""
        key = (request.stream, request.writer)
        while key in self._under_way:
            await asyncio.shield(self._under_way[key])
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
            _whole(request.attempts),
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
        task.add_done_callback(lambda _: self._under_way.pop(key, None))

    async def _carry_out(self, batch: StagedBatch) -> None:
        hosted = self._service.hosted[batch.stream]
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


def properties_of(row: Row) -> bytes:
    """MQTT 5 properties of a row, as they are on the wire; empty: none."""
    if not row.content_type and not row.properties:
        return b""
    properties = Properties(content_type=row.content_type or None, user=row.properties)
    return encode_properties(properties, Kind.PUBLISH, packet="message")


def check_rows(hosted: HostedStream, rows: Sequence[Row], *, most_bytes: int) -> set[str]:
    """The topics of rows; StreamRefused if a row can be no message of the stream."""
    topics = {row.topic for row in rows}
    for topic in topics:
        try:
            check_topic(topic, where="topic")
        except MqttError as error:
            raise StreamRefused(str(error), code="refused") from None
        if not hosted.carries(topic):
            raise StreamRefused(
                f"topic '{topic}' is none of stream '{hosted.name}', which takes "
                + ", ".join(hosted.hosting.topics),
                code="refused",
            )
    most = min(limits.STREAM_BODY_BYTES, hosted.log.largest)
    for row in rows:
        text = len(row.topic) + len(row.content_type) + sum(len(a) + len(b) + 2 for a, b in row.properties)
        whole = len(row.payload) + 4 * text + _HEAD_BYTES  # a letter has up to four bytes
        if len(row.payload) > most_bytes or whole > most:
            raise StreamRefused(
                f"a message on '{row.topic}' of {len(row.payload):,} bytes: up to {most_bytes:,} are taken "
                f"(bounds.packet_bytes), and with all that belongs to it {most:,}",
                code="refused",
            )
        if not 0 <= row.ts_us < limits.STREAM_TICKS:
            raise StreamRefused(f"a time of {row.ts_us} µs: give microseconds since 1970", code="refused")
        if len(row.properties) > limits.MQTT_USER_PROPERTIES:
            raise StreamRefused(
                f"{len(row.properties)} properties; at most {limits.MQTT_USER_PROPERTIES} are allowed",
                code="refused",
            )
        try:
            properties_of(row)
        except MqttError as error:
            raise StreamRefused(str(error), code="refused") from None
    return topics


def _whole(attempts: tuple[Staged, ...]) -> tuple[Staged, ...]:
    """Without those that have no rows."""
    return tuple(one for one in attempts if one.parts)


def _told(task: asyncio.Task[None]) -> None:
    """A batch that cannot be carried out waits for its writer, who asks again, or for the next start."""
    if task.cancelled():
        return
    error = task.exception()
    if isinstance(error, PenstockError):
        log.error("a batch that was committed is not in its stream yet: %s", error)
    elif error is not None:
        log.error("a batch that was committed is not in its stream yet", exc_info=error)
