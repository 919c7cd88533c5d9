"""Clients that do nothing wrong while a node is fuzzed, and say so if they are not served in time."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from penstock.core.streams import handshake
from penstock.core.streams.handshake import VERSION, Hello
from penstock.mqtt.codes import V5, Kind
from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.publish import Publish, ack_frame
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock.node.http.routes import API
from penstock_lab.experiments.fuzz.player import HOST
from penstock_lab.experiments.fuzz.targets.websocket import HANDSHAKE

if TYPE_CHECKING:
    from penstock_lab.experiments.fuzz.exchange import Door

EVERY_S: Final = 0.02
"""Interval of the messages of a resident."""
VISIT_S: Final = 0.2
"""Interval of the visits."""
SERVED_S: Final = 5.0
"""Longest time for a message to come back, and for a visitor to be answered: busy machines are slow, but a
node that stands still for seconds is not well."""
AWAKE_S: Final = 0.2
"""Most that counts of the time between two readings of the clock: in the rest this process stood still."""
TOPIC: Final = "bystander/echo"


class Unserved(Exception):
    """A bystander was not served; the message says how."""


class _Awake:
    """A clock that stands still with this process.

    A machine that stalls for ten seconds stalls the judge and the node alike, which says nothing of the node.
    """

    def __init__(self) -> None:
        self._seen_s = monotonic()
        self.now_s = 0.0

    def look(self) -> float:
        """Time for which this process has run; to be asked in intervals below AWAKE_S."""
        seen_s = monotonic()
        self.now_s += min(AWAKE_S, seen_s - self._seen_s)
        self._seen_s = seen_s
        return self.now_s


class Resident:
    """An MQTT client that stays connected and sends itself QoS 1 messages; none may be lost or late."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sent_s: list[float] = []
        self._sent_awake_s: list[float] = []
        self.round_trips_s: list[float] = []

    async def run(self) -> None:
        """Send and receive until cancelled; Unserved if a message is late, or the connection ends."""
        reader, writer = await _opened(self._port)
        try:
            writer.write(encode(Connect("bystander", keep_alive_s=0), V5))
            writer.write(encode(Subscribe(1, (Subscription(TOPIC, qos=1),)), V5))
            async with asyncio.TaskGroup() as group:
                group.create_task(self._publish(writer))
                group.create_task(self._receive(reader, writer))
        except* (OSError, EOFError) as found:
            raise Unserved(f"a bystander's connection ended: {found.exceptions[0]}") from None
        except* Unserved as several:
            raise several.exceptions[0] from None
        finally:
            writer.transport.abort()

    async def _publish(self, writer: asyncio.StreamWriter) -> None:
        awake = _Awake()
        while True:
            await asyncio.sleep(EVERY_S)
            now_s = awake.look()
            waiting = len(self._sent_s) - len(self.round_trips_s)
            if waiting and now_s - self._sent_awake_s[-waiting] > SERVED_S:
                raise Unserved(f"a bystander's message did not come back within {SERVED_S:g} s")
            number = len(self._sent_s)
            self._sent_s.append(monotonic())
            self._sent_awake_s.append(now_s)
            message = Publish(TOPIC, b"%d" % number, qos=1, packet_id=number % 0xFFFF + 1)
            writer.write(encode(message, V5))

    async def _receive(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        framer = Framer()
        while True:
            chunk = await reader.read(65_536)
            if not chunk:
                raise EOFError("the node closed it")
            for frame in framer.feed(chunk):
                if frame[0] >> 4 == Kind.PUBLISH:
                    self._arrived(frame, writer)

    def _arrived(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        message = decode(frame, V5)
        assert isinstance(message, Publish)
        expected = len(self.round_trips_s)
        if message.topic != TOPIC or message.payload != b"%d" % expected:
            raise Unserved(f"message {expected} should have come, not {message.payload[:40]!r}")
        self.round_trips_s.append(monotonic() - self._sent_s[expected])
        writer.write(ack_frame(Kind.PUBACK, message.packet_id))


_VISITS: Final[dict[Door, tuple[bytes, bytes]]] = {
    "mqtt": (encode(Connect("visitor"), V5), b"\x20"),
    "websocket": (HANDSHAKE, b"HTTP/1.1 101"),
    "http": (f"GET {API}/status HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(), b"HTTP/1.1 200"),
    "stream": (handshake.encode(Hello(VERSION, "program", "visitor")), b""),
}
"""The request of a visitor at each door, and the first bytes of the right answer."""


async def visits(door: Door, port: int) -> None:
    """Come again and again as a new client until cancelled; Unserved if one is not answered in time."""
    said, expected = _VISITS[door]
    while True:
        await asyncio.sleep(VISIT_S)
        answering = asyncio.create_task(_answer(port, said, len(expected) or 1))
        try:
            awake = _Awake()
            while not answering.done() and awake.look() < SERVED_S:
                await asyncio.wait([answering], timeout=EVERY_S)
            if not answering.done():
                raise Unserved(f"a visitor at the door {door} was not answered within {SERVED_S:g} s")
            answer = answering.result()
        except OSError as error:
            raise Unserved(f"a visitor at the door {door} was not let in: {error}") from None
        finally:
            answering.cancel()
            await asyncio.wait([answering])
        if not answer.startswith(expected) or not answer:
            raise Unserved(f"a visitor at the door {door} was answered {answer!r}")


async def _answer(port: int, said: bytes, size: int) -> bytes:
    """Say something to a door and return the beginning of its answer."""
    reader, writer = await _opened(port)
    try:
        writer.write(said)
        return await reader.read(size)
    finally:
        writer.transport.abort()


async def _opened(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    try:
        return await asyncio.open_connection(HOST, port)
    except OSError as error:
        raise Unserved(f"a bystander cannot connect: {error}") from None


async def ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel bystanders and wait for their end."""
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Unserved):
            await task
