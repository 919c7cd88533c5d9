"""Subscribers of the streams benchmark: at a steady rate, and catching up after they missed a lot."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final

from penstock.client import Client
from penstock.model.event import Event
from penstock.mqtt.codes import V5, Kind
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode
from penstock.mqtt.packets.publish import Publish, ack_frame
from penstock_lab.bench.streams.publishers import (
    STREAM,
    SUBJECT,
    TOPIC,
    NumberCheck,
    connected,
    create,
    due_ns,
    payload,
)
from penstock_lab.rigs.blocking_client import connect, subscribe
from penstock_lab.rigs.worker import GIVE_UP_S, WorkerFailed

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable

    from nats.js import JetStreamContext

KEEP_S: Final = 3_600
WINDOW: Final = 500
"""Publications under way while a subscriber is away."""
NEAR_S: Final = 0.1
"""A subscriber that is at most this many messages behind has caught up."""
COME_S: Final = 120.0
"""Longest wait for a subscriber to catch up."""


async def pace(publish: Callable[[int, int], None], first: int, count: int, per_s: int) -> None:
    """Publish messages at a fixed rate; each carries the time it was due."""
    begin_ns = time.monotonic_ns()
    for number in range(count):
        at_ns = begin_ns + number * 1_000_000_000 // per_s
        while (wait_s := (at_ns - time.monotonic_ns()) / 1e9) > 0:
            await asyncio.sleep(wait_s)
        publish(first + number, at_ns)
        if number % 50 == 0:
            await asyncio.sleep(0)


class MqttLatency:
    """Measures latency with one publisher and one subscriber of our stream, QoS 1."""

    def __init__(self, port: int, first: int = 1) -> None:
        self._url = f"mqtt://127.0.0.1:{port}"
        self._first = first

    def run(self, asked: tuple[int, int]) -> list[int]:
        """Publish messages at a fixed rate; return how long each took, in nanoseconds."""
        return asyncio.run(self._run(*asked))

    async def _run(self, messages: int, per_s: int) -> list[int]:
        first, self._first = self._first, self._first + messages
        seen = NumberCheck(first)
        took_ns: list[int] = []
        async with Client(self._url) as sender, Client(self._url) as receiver:
            subscription = await receiver.subscribe(TOPIC, qos=1)

            def publish(number: int, at_ns: int) -> None:
                sender.publish_nowait(TOPIC, payload(number, at_ns), qos=1)

            pacing = asyncio.create_task(pace(publish, first, messages, per_s))
            while len(took_ns) < messages:
                async with asyncio.timeout(GIVE_UP_S):
                    event = await subscription.get()
                assert isinstance(event, Event)
                took_ns.append(time.monotonic_ns() - due_ns(event.payload))
                seen.take(event.payload)
            await pacing
        return took_ns


class JetStreamLatency:
    """Measures latency with JetStream and an ordered consumer, its fastest kind of push."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._first = 1

    def run(self, asked: tuple[int, int]) -> list[int]:
        """Publish messages at a fixed rate; return how long each took, in nanoseconds."""
        return asyncio.run(self._run(*asked))

    async def _run(self, messages: int, per_s: int) -> list[int]:
        first, self._first = self._first, self._first + messages
        seen = NumberCheck(first)
        took_ns: list[int] = []
        async with connected(self._url) as sender, connected(self._url) as receiver:
            if first == 1:
                await create(sender)
            from nats.js.api import DeliverPolicy  # noqa: PLC0415  # an extra

            subscription = await receiver.subscribe(
                SUBJECT, ordered_consumer=True, deliver_policy=DeliverPolicy.NEW
            )
            publishing: set[asyncio.Task[object]] = set()

            def publish(number: int, at_ns: int) -> None:
                task = asyncio.create_task(sender.publish(SUBJECT, payload(number, at_ns)))
                publishing.add(task)
                task.add_done_callback(publishing.discard)

            pacing = asyncio.create_task(pace(publish, first, messages, per_s))
            while len(took_ns) < messages:
                message = await subscription.next_msg(timeout=GIVE_UP_S)
                took_ns.append(time.monotonic_ns() - due_ns(message.data))
                seen.take(message.data)
            await pacing
            await asyncio.gather(*publishing)
        return took_ns


class Recovery(ABC):
    """A subscriber leaves, misses messages, and comes back while others come in at a rate."""

    def __init__(self) -> None:
        self._published = 1
        """Messages published so far; the first one shows that the subscriber is connected."""

    def run(self, asked: tuple[int, int]) -> float:
        """Miss messages; return the seconds from connecting until caught up while others come in."""
        return asyncio.run(self._run(*asked))

    @abstractmethod
    async def _run(self, missed: int, per_s: int) -> float: ...

    async def _caught_up(
        self,
        seen: NumberCheck,
        take: Callable[[], Awaitable[bytes]],
        publish: Callable[[int, int], None],
        per_s: int,
        *,
        begin_s: float,
    ) -> float:
        first = self._published + 1

        def one(number: int, at_ns: int) -> None:
            self._published = number
            publish(number, at_ns)

        pacing = asyncio.create_task(pace(one, first, int(COME_S * per_s), per_s))
        try:
            async with asyncio.timeout(COME_S):
                while True:
                    body = await take()
                    seen.take(body)
                    late_ns = time.monotonic_ns() - due_ns(body)
                    if seen.next > first and late_ns < NEAR_S * 1e9:
                        return time.perf_counter() - begin_s
        except TimeoutError:
            raise WorkerFailed(
                f"{self._published - seen.next:,} messages behind after {COME_S:g} s"
            ) from None
        finally:
            pacing.cancel()
            await asyncio.gather(pacing, return_exceptions=True)


class MqttRecovery(Recovery):
    """Catches up with our MQTT client, QoS 1, at the node where the stream is published or at another."""

    def __init__(self, port: int, at: int | None = None) -> None:
        super().__init__()
        self._url = f"mqtt://127.0.0.1:{port}"
        self._at = self._url if at is None else f"mqtt://127.0.0.1:{at}"

    async def _run(self, missed: int, per_s: int) -> float:
        seen = NumberCheck(1)
        async with Client(self._url) as sender:

            async def some(until: int) -> None:
                while self._published < until:
                    self._published += 1
                    await sender.publish(TOPIC, payload(self._published), qos=1)

            def publish(number: int, at_ns: int) -> None:
                sender.publish_nowait(TOPIC, payload(number, at_ns), qos=1)

            async with self._receiver() as receiver:
                subscription = await receiver.subscribe(TOPIC, qos=1)
                await sender.publish(TOPIC, payload(1), qos=1)
                event = await subscription.get()
                assert isinstance(event, Event)
                seen.take(event.payload)
            await asyncio.gather(*(some(missed + 1) for _ in range(WINDOW)))
            begin_s = time.perf_counter()
            async with self._receiver() as receiver:
                subscription = await receiver.subscribe(TOPIC, qos=1)

                async def take() -> bytes:
                    event = await subscription.get()
                    assert isinstance(event, Event)
                    return event.payload

                return await self._caught_up(seen, take, publish, per_s, begin_s=begin_s)

    def _receiver(self) -> Client:
        return Client(self._at, client_id="late", session_expiry_s=KEEP_S)


class JetStreamRecovery(Recovery):
    """Catches up with a durable JetStream consumer that acknowledges each message, as QoS 1 does."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self._url = url

    async def _run(self, missed: int, per_s: int) -> float:
        seen = NumberCheck(1)
        publishing: set[asyncio.Task[object]] = set()
        async with connected(self._url) as sender:
            await create(sender)

            async def some(until: int) -> None:
                while self._published < until:
                    self._published += 1
                    await sender.publish(SUBJECT, payload(self._published))

            def publish(number: int, at_ns: int) -> None:
                task = asyncio.create_task(sender.publish(SUBJECT, payload(number, at_ns)))
                publishing.add(task)
                task.add_done_callback(publishing.discard)

            async with connected(self._url) as receiver:
                take = await _consume(receiver)
                await sender.publish(SUBJECT, payload(1))
                seen.take(await take())
            await asyncio.gather(*(some(missed + 1) for _ in range(WINDOW)))
            begin_s = time.perf_counter()
            async with connected(self._url) as receiver:
                take = await _consume(receiver)
                took_s = await self._caught_up(seen, take, publish, per_s, begin_s=begin_s)
            await asyncio.gather(*publishing, return_exceptions=True)
            return took_s


async def _consume(stream: JetStreamContext) -> Callable[[], Awaitable[bytes]]:
    subscription = await stream.subscribe(SUBJECT, durable="late", stream=STREAM, manual_ack=True)

    async def take() -> bytes:
        message = await subscription.next_msg(timeout=GIVE_UP_S)
        await message.ack()
        return message.data

    return take


class Crowd:
    """Many subscribers of one stream in one process, QoS 1."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: list[socket.socket] = []
        self._publisher = connect(port, "crowd-publisher")

    def run(self, asked: tuple[int, int, int]) -> int:
        """Connect more subscribers, then publish messages from a number on and read them everywhere."""
        more, first, messages = asked
        for _ in range(more):
            sock = connect(self._port, f"crowd-{len(self._sockets)}")
            subscribe(sock, TOPIC, qos=1, version=V5)
            self._sockets.append(sock)
        asyncio.run(self._publish(first, messages))
        for sock in self._sockets:
            _read(sock, first, messages)
        return len(self._sockets)

    async def _publish(self, first: int, messages: int) -> None:
        async with Client(f"mqtt://127.0.0.1:{self._port}") as client:
            for number in range(first, first + messages):
                await client.publish(TOPIC, payload(number), qos=1)


def _read(sock: socket.socket, first: int, messages: int) -> None:
    """Read all messages at every subscriber, check their order and acknowledge them."""
    framer, seen = Framer(), NumberCheck(first)
    while seen.next < first + messages:
        chunk = sock.recv(65_536)
        if not chunk:
            raise WorkerFailed("the node closed a subscriber's connection")
        for frame in framer.feed(chunk):
            packet = decode(frame, V5)
            if isinstance(packet, Publish):
                seen.take(packet.payload)
                sock.sendall(ack_frame(Kind.PUBACK, packet.packet_id))
