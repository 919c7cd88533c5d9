"""Durable publishing by Python clients: each waits for acknowledgements, with a bounded number in flight.

Messages are numbered, so that the benchmark sees which were lost, duplicated or out of order.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from penstock.client import Client, StreamReader, StreamWriter
from penstock.errors import MissingTool
from penstock_lab.rigs.worker import WorkerFailed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable

    from nats.js import JetStreamContext

PAYLOAD_BYTES: Final = 100
STREAM: Final = "bench"
TOPIC: Final = "bench/all"
WRITTEN: Final = "written"
WRITTEN_TOPIC: Final = "written/all"
"""Stream of the StreamWriter, whose messages have numbers of their own."""
SUBJECT: Final = "bench.all"
"""Subject of the rival's stream in JetStream."""

_HEAD: Final = struct.Struct(">QQ")
_PADDING: Final = bytes(PAYLOAD_BYTES - _HEAD.size)


def payload(number: int, due_ns: int = 0) -> bytes:
    """Return a payload with the message's number and the time it was due."""
    return _HEAD.pack(number, due_ns) + _PADDING


def due_ns(body: bytes) -> int:
    """Return when the message of a payload was due."""
    found: int = _HEAD.unpack_from(body)[1]
    return found


class NumberCheck:
    """Counts messages; WorkerFailed at the first that is not the next one."""

    def __init__(self, first: int) -> None:
        self.next = first

    def take(self, body: bytes) -> None:
        """Take a message and check that its number is the next."""
        number: int = _HEAD.unpack_from(body)[0]
        if number != self.next:
            what = "came again" if number < self.next else "came early"
            raise WorkerFailed(f"message {number} {what}: {self.next} was the next")
        self.next += 1


PENDING: Final = 1 << 16
"""Publications that nats-py allows under way: more than any window here."""


class MqttPublisher:
    """Publishes with our MQTT client, QoS 1."""

    def __init__(self, port: int) -> None:
        self._url = f"mqtt://127.0.0.1:{port}"
        self._number = 0

    def run(self, asked: tuple[int, int]) -> float:
        """Publish with a bounded number in flight; return the seconds until the last acknowledgement."""
        return asyncio.run(self._run(*asked))

    async def _run(self, messages: int, window: int) -> float:
        async with Client(self._url) as client:
            until = self._number + messages

            async def one() -> None:
                while self._number < until:
                    self._number += 1
                    await client.publish(TOPIC, payload(self._number), qos=1)

            begin_s = time.perf_counter()
            await asyncio.gather(*(one() for _ in range(window)))
            return time.perf_counter() - begin_s


class WriterPublisher:
    """Publishes with our StreamWriter: a window of 1 flushes each message, a larger one as many together."""

    def __init__(self, port: int) -> None:
        self._writer = StreamWriter(f"stream://127.0.0.1:{port}", WRITTEN, f"bench-{port}")
        self._number = 0

    def run(self, asked: tuple[int, int]) -> float:
        """Publish this many messages; return the seconds until the last is acknowledged."""
        messages, window = asked
        writer = self._writer
        begin_s = time.perf_counter()
        for count in range(1, messages + 1):
            self._number += 1
            writer.write(WRITTEN_TOPIC, payload(self._number))
            if count % window == 0:
                writer.flush()
        writer.flush()
        return time.perf_counter() - begin_s


class JetStreamPublisher:
    """Publishes with nats-py to a stream with file storage."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._number = 0
        asyncio.run(self._create())

    async def _create(self) -> None:
        async with connected(self._url) as stream:
            await create(stream)

    def run(self, asked: tuple[int, int]) -> float:
        """Publish with a bounded number in flight; return the seconds until the last acknowledgement."""
        return asyncio.run(self._run(*asked))

    async def _run(self, messages: int, window: int) -> float:
        async with connected(self._url) as stream:
            begin_s = time.perf_counter()
            under_way: deque[Awaitable[Any]] = deque()
            for _ in range(messages):
                self._number += 1
                if window == 1:
                    await stream.publish(SUBJECT, payload(self._number))
                    continue
                if len(under_way) >= window:
                    await under_way.popleft()
                under_way.append(await stream.publish_async(SUBJECT, payload(self._number)))
            while under_way:
                await under_way.popleft()
            took_s = time.perf_counter() - begin_s
            info = await stream.stream_info(STREAM)
            if info.state.messages != self._number:
                raise WorkerFailed(f"{info.state.messages} of {self._number} messages are in the stream")
            return took_s


class Audit:
    """Reads a stream of ours from its beginning and checks that every message is there once and in order."""

    def __init__(self, port: int) -> None:
        self._url = f"stream://127.0.0.1:{port}"

    def run(self, asked: tuple[str, int]) -> int:
        """Read a stream; WorkerFailed unless it holds exactly this many messages, numbered from 1 on."""
        stream, messages = asked
        seen = NumberCheck(1)
        with StreamReader(self._url, stream, start="earliest", until="end") as reader:
            for message in reader:
                seen.take(message.payload)
        if seen.next != messages + 1:
            raise WorkerFailed(f"{seen.next - 1} of {messages} messages are in the stream")
        return messages


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[JetStreamContext]:
    """Connect to JetStream with nats-py; MissingTool if nats-py is not installed."""
    try:
        import nats  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingTool("this needs nats-py; pip install 'penstock[nats]'") from None
    client = await nats.connect(url)
    try:
        yield client.jetstream(publish_async_max_pending=PENDING)
    finally:
        await client.close()


async def create(stream: JetStreamContext) -> None:
    """Create the benchmark's stream with file storage and JetStream's defaults."""
    from nats.js.api import StorageType, StreamConfig  # noqa: PLC0415  # an extra

    await stream.add_stream(StreamConfig(name=STREAM, subjects=["bench.>"], storage=StorageType.FILE))
