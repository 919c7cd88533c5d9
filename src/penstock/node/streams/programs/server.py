"""Serves programs that read and write streams without MQTT: answers their requests and checks access.

The listener has greeted the program; `connected` runs as long as its connection.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.client.streams.connection import keep_alive
from penstock.core.streams.requests import (
    Abort,
    Append,
    Begin,
    Begun,
    Commit,
    Describe,
    Described,
    Done,
    Fetch,
    Figures,
    Forget,
    Leave,
    Place,
    Placed,
    Settle,
    Split,
    Stage,
)
from penstock.errors import StoreError, StreamRefused
from penstock.node.streams.programs.names import Consumers, Writers
from penstock.node.streams.programs.program_connection import AnswerMemory, ProgramConnection, RequestMemory
from penstock.node.streams.programs.reads import SpanReads
from penstock.node.streams.programs.staging import FILE, Staging
from penstock.node.streams.programs.writes import StagedCommits, WriterLines, check_rows, patiently

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from penstock.core.streams.handshake import Hello
    from penstock.core.streams.requests import Answer, Request, Row
    from penstock.node.broker.broker import Broker
    from penstock.node.config.streams import Neighbour
    from penstock.node.streams.status import ConsumerRow
    from penstock.node.streams.tree.directory import StreamContext
    from penstock.node.streams.tree.hosted import HostedStream

log = logging.getLogger(__name__)

_BODY_BYTES: Final = limits.STREAM_BODY_BYTES - (1 << 18)
"""Largest payload: the rest of a record is for its topic and properties, which have bounds of their own."""


class ProgramServer:
    """Serves all programs of a node."""

    def __init__(
        self,
        context: StreamContext,
        broker: Broker,
        *,
        neighbours: Sequence[Neighbour] = (),
        has_users: Callable[[], bool],
        folder: Path | None = None,
    ) -> None:
        """`folder` is where staged rows are stored; None: in memory."""
        self._directory = context.directory
        self._hosted = context.directory.hosted
        self._state = context.state
        self._broker = broker
        self._neighbours = neighbours
        """Their addresses are told to programs that ask for a stream hosted there."""
        self._consumers = Consumers(context, has_users=has_users)
        self._reads: dict[str, SpanReads] = {}
        self._staging = Staging(None if folder is None else folder / FILE)
        self._lines = WriterLines(context.clock)
        self._batches = StagedCommits(self._hosted, self._lines, self._staging)
        self._writers = Writers(context, has_users=has_users)
        self._programs: set[ProgramConnection] = set()
        self._requests, self._answers = RequestMemory(), AnswerMemory()
        self._timer_task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load names and carry out decided commits, in the running loop; the hosted streams are open."""
        turn = asyncio.Lock()
        self._reads = {name: SpanReads(hosted, turn) for name, hosted in self._hosted.items()}
        self._writers.start()
        self._consumers.start()
        await self._batches.start()
        self._timer_task = asyncio.get_running_loop().create_task(self._count_silence())

    async def close(self) -> None:
        """Stop, and close the file of staged rows; the listener ends the connections."""
        if self._timer_task is not None:
            self._timer_task.cancel()
            await asyncio.gather(self._timer_task, return_exceptions=True)
        await self._batches.close()
        await self._staging.close()

    async def serve(
        self, hello: Hello, user: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Serve a program that the listener has greeted, until its connection ends."""
        connected = writer.get_extra_info("socket")
        if connected is not None:
            keep_alive(connected)
        frame_bytes = min(limits.STREAM_FRAME_BYTES, limits.STREAM_REQUEST_BYTES + self._most_bytes)
        program = ProgramConnection(
            writer, name=hello.name, user=user, frame_bytes=frame_bytes, requests=self._requests
        )
        self._programs.add(program)
        try:
            await program.run(reader, self._answer)
        finally:
            self._programs.discard(program)
            for stream, consumer in program.consumers:
                self._consumers.disconnected(stream, consumer)

    def figures(self) -> tuple[ConsumerRow, ...]:
        """The status of all consumers."""
        return self._consumers.rows()

    @property
    def programs(self) -> int:
        """Number of connected programs."""
        return len(self._programs)

    @property
    def _most_bytes(self) -> int:
        return min(self._broker.terms.maximum_packet_bytes, _BODY_BYTES)

    # -- requests --------------------------------------------------------------------------------------------

    async def _answer(self, program: ProgramConnection, request: Request) -> Answer | None:
        """Make the answer to a request; None if it has been sent already."""
        match request:
            case Describe(number):
                return Described(number, self._directory.node, self._described(program), self._most_bytes)
            case Fetch() | Split() | Place() | Settle() | Forget():
                return await self._read(program, request, self._readable(program, request.stream))
            case Begin():
                return await self._begin(program, request)
            case Leave():
                return await self._leave(program, request)
            case Append():
                return await self._append(program, request)
            case Stage() | Commit() | Abort():
                return await self._stage(program, request)

    async def _read(
        self,
        program: ProgramConnection,
        request: Fetch | Split | Place | Settle | Forget,
        hosted: HostedStream,
    ) -> Answer | None:
        stream = hosted.name
        consumer = "" if isinstance(request, Split) else request.consumer
        if consumer:
            self._use_consumer(program, stream, consumer)
        match request:
            case Fetch():
                if request.wait_ms:
                    await self._reads[stream].wait(request)
                async with program.answering:
                    with self._answers.reserve(request.most_bytes) as most_bytes:
                        await program.send(await self._reads[stream].fetch(request, most_bytes))
                return None
            case Split():
                return await self._reads[stream].split(request)
            case Place(number):
                return Placed(number, self._consumers.place(stream, consumer))
            case Settle(number, until=until):
                durable = self._durable()
                self._consumers.settle(hosted, consumer, until, lambda: _set(durable), user=program.user)
            case Forget(number):
                durable = self._durable()
                self._consumers.forget(stream, consumer, lambda: _set(durable))
        await self._stored(durable)
        return Done(number)

    async def _begin(self, program: ProgramConnection, request: Begin) -> Begun:
        hosted = self._writable(program, request.stream)
        key = (request.stream, request.writer)
        durable = self._durable()
        self._writers.begin(
            key, request.token, resume=request.resume, done=lambda: _set(durable), user=program.user
        )
        program.tokens[key] = request.token
        await self._stored(durable)
        line = self._lines.line(hosted, request.writer)
        async with line.turn:  # messages that an earlier program has under way count as well
            program.broken.discard(key)
            last = hosted.marks.highest(line.origin)
            await line.acknowledged()  # the program does not send again what it is told to be logged
            return Begun(request.id, last, hosted.hosting.topics, self._most_bytes)

    async def _leave(self, program: ProgramConnection, request: Leave) -> Done:
        hosted = self._writable(program, request.stream)
        durable = self._durable()
        async with self._lines.line(hosted, request.writer).turn:
            key = (request.stream, request.writer)
            self._writers.leave(key, request.token, done=lambda: _set(durable))
        await self._stored(durable)
        return Done(request.id)

    async def _append(self, program: ProgramConnection, request: Append) -> Done:
        hosted = self._writable(program, request.stream)
        key = (request.stream, request.writer)
        self._writers.check(key, program.tokens.get(key))
        line = self._lines.line(hosted, request.writer)
        async with line.turn:
            if key in program.broken:
                raise StreamRefused("an earlier message was refused: begin again", code="refused")
            try:
                self._writers.check(key, program.tokens.get(key))
                self._check(program, hosted, request.rows)
                waiting = await line.put(request.numbers, request.rows, sender=request.writer)
            except BaseException:
                program.broken.add(key)
                raise
        await patiently(waiting, lambda: hosted.log.fault)
        return Done(request.id)

    async def _stage(self, program: ProgramConnection, request: Stage | Commit | Abort) -> Done:
        hosted = self._writable(program, request.stream)
        match request:
            case Stage(attempt=attempt, part=part, rows=rows):
                self._check(program, hosted, rows)
                await self._staging.stage(hosted.name, attempt, part, rows)
            case Commit():
                key = (request.stream, request.writer)
                self._writers.commits(key, once=request.once, user=program.user)
                await self._batches.commit(request)
            case Abort(attempts=attempts):
                await self._staging.drop(hosted.name, attempts)
        return Done(request.id)

    def _durable(self) -> asyncio.Future[None]:
        """A future for a change of the state file; StreamRefused if too many wait while it has a fault."""
        state = self._state
        if state.fault and state.waiting >= limits.STREAM_UNKEPT:
            raise StreamRefused(f"nothing can be stored at the moment: {state.fault}", code="full")
        return asyncio.get_running_loop().create_future()

    async def _stored(self, durable: asyncio.Future[None]) -> None:
        """Wait until a change of the state file is durable."""
        await patiently(durable, lambda: self._state.fault)

    # -- access ----------------------------------------------------------------------------------------------

    def _stream(self, program: ProgramConnection, stream: str) -> HostedStream:
        """A stream hosted here; StreamRefused says where else it is, as far as the program may know."""
        hosted = self._hosted.get(stream)
        if hosted is not None:
            return hosted
        names = {
            one.name: one for one in self._directory.known.values() if self._may_know(program, one.topics)
        }
        known = names.get(stream)
        if known is not None:
            where = self._figures_of(stream, known.topics, known.host).whereabouts
            raise StreamRefused(f"stream '{stream}' is hosted by {where}: connect there", code="elsewhere")
        there = ", ".join(sorted(names)) or "none"
        raise StreamRefused(f"unknown stream '{stream}'; known streams: {there}", code="unknown")

    def _readable(self, program: ProgramConnection, stream: str) -> HostedStream:
        hosted = self._stream(program, stream)
        if not self._may_read(program, hosted.hosting.topics):
            raise StreamRefused(f"not allowed to read stream '{stream}'", code="denied")
        return hosted

    def _writable(self, program: ProgramConnection, stream: str) -> HostedStream:
        """A stream with topics that the program may publish on; each message is checked later.

        A program that may not write anything may not use writers and batches either.
        """
        hosted = self._stream(program, stream)
        if not self._may_write(program, hosted.hosting.topics):
            raise StreamRefused(f"not allowed to write into stream '{stream}'", code="denied")
        return hosted

    def _may_write(self, program: ProgramConnection, topics: tuple[str, ...]) -> bool:
        """Whether a program may publish on some topics of a stream."""
        may = self._broker.gate.may_publish_within
        return any(may(program.user, program.name, one) for one in topics)

    def _may_know(self, program: ProgramConnection, topics: tuple[str, ...]) -> bool:
        return self._may_read(program, topics) or self._may_write(program, topics)

    def _may_read(self, program: ProgramConnection, topics: tuple[str, ...]) -> bool:
        gate = self._broker.gate
        return gate.open or all(gate.may_subscribe(program.user, program.name, one) for one in topics)

    def _check(self, program: ProgramConnection, hosted: HostedStream, rows: tuple[Row, ...]) -> None:
        gate = self._broker.gate
        topics = check_rows(hosted, rows, most_bytes=self._most_bytes)
        if gate.open:
            return
        for topic in topics:
            if not gate.may_publish(program.user, program.name, topic):
                raise StreamRefused(f"not allowed to publish on '{topic}'", code="denied")

    def _described(self, program: ProgramConnection) -> tuple[Figures, ...]:
        return tuple(
            self._figures_of(known.name, known.topics, known.host)
            for known in self._directory.known.values()
            if self._may_read(program, known.topics)
        )

    def _figures_of(self, name: str, topics: tuple[str, ...], host: str) -> Figures:
        hosted = self._hosted.get(name)
        if hosted is None:
            urls = (one.url for one in self._neighbours if one.name == host)
            return Figures(name, topics, host, here=False, url=next(urls, ""))
        figures = hosted.log.figures()
        return Figures(
            name,
            topics,
            host,
            here=True,
            begin=hosted.begin,
            end=hosted.end,
            acked=hosted.pubend.acked,
            messages=figures.messages,
            bytes=figures.bytes,
        )

    def _use_consumer(self, program: ProgramConnection, stream: str, consumer: str) -> None:
        """Note that a connection uses a consumer; StreamRefused if it may not."""
        self._consumers.check(stream, consumer, program.user)
        if (stream, consumer) not in program.consumers:
            if len(program.consumers) >= limits.STREAM_CONSUMERS:
                raise StreamRefused(
                    f"too many consumers: {limits.STREAM_CONSUMERS:,} on this connection; open another one",
                    code="refused",
                )
            program.consumers.add((stream, consumer))
            self._consumers.connected(stream, consumer)

    # -- silence ---------------------------------------------------------------------------------------------

    async def _count_silence(self) -> None:
        """Count for how long consumers, writers and staged rows are not used; runs until it is cancelled."""
        while True:
            await asyncio.sleep(limits.STREAM_IDLE_COUNT_S)
            try:
                await self.older(limits.STREAM_IDLE_COUNT_S)
            except StoreError as error:
                log.error("%s", error)  # noqa: TRY400

    async def older(self, passed_s: float) -> None:
        """Count time that has passed, and forget what was unused for too long."""
        self._consumers.older(passed_s)
        busy = {(one.stream, one.writer) for one in await self._staging.unfinished()}
        busy |= {key for program in self._programs for key in program.tokens}
        self._writers.older(passed_s, busy=busy)
        for stream, writer in await self._staging.older(passed_s):
            self._writers.forget_numbers(stream, writer)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
