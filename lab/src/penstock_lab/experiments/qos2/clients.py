"""A conformant publisher and a conformant subscriber, whose sessions outlive every connection.

The publisher keeps each message until PUBREC and its packet identifier until PUBCOMP, and sends what is
missing again, with DUP, over a new connection. The subscriber hands a message on when it comes first, holds
its packet identifier until PUBREL, and drops what comes again under a held one. (paho-mqtt hands on at
PUBREL.)
"""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from penstock.errors import InputError
from penstock_lab.experiments.qos2 import wire
from penstock_lab.experiments.qos2.relay import HOST

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

WINDOW: Final = 4
"""Messages that the publisher has under way."""
AGAIN_S: Final = 0.02
"""Pause before the next attempt to connect."""
FILTER: Final = "kill/#"


class Publisher(Protocol):
    """Publishes with QoS 2."""

    @property
    def done(self) -> set[bytes]:
        """Payloads whose PUBCOMP has come."""
        ...

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        """Publish these topics and payloads, in order."""
        ...

    async def close(self) -> None:
        """End the client."""
        ...


class Subscriber(Protocol):
    """Receives with QoS 2."""

    handed_on: list[tuple[str, bytes]]
    """Topics and payloads in the order in which the program gets them."""

    async def subscribed(self) -> None:
        """Wait until the subscription is made."""
        ...

    def drop_connection(self) -> None:
        """Lose the connection, and connect again."""
        ...

    async def close(self) -> None:
        """End the client."""
        ...


class _Raw:
    """A client of bytes, which connects again whenever the connection is lost."""

    def __init__(self, client_id: str, version: int, port: int) -> None:
        self.version = version
        self._client_id = client_id
        self._port = port
        self._writer: asyncio.StreamWriter | None = None
        """The connection, once the node has answered the CONNECT."""
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while True:
            with suppress(OSError):
                await self._connection()
            self._writer = None
            await asyncio.sleep(AGAIN_S)

    async def _connection(self) -> None:
        reader, writer = await asyncio.open_connection(HOST, self._port)
        try:
            writer.write(wire.connect(self._client_id, self.version))
            buffer = bytearray()
            while chunk := await reader.read(65_536):
                buffer += chunk
                for frame in wire.cut(buffer):
                    seen = wire.read(frame, self.version)
                    if seen.kind == wire.CONNACK:
                        self._writer = writer
                        self.resumed(present=seen.present)
                    else:
                        self.arrived(seen)
        finally:
            writer.transport.abort()

    def send(self, frame: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(frame)

    def resumed(self, *, present: bool) -> None:
        raise NotImplementedError

    def arrived(self, seen: wire.Seen) -> None:
        raise NotImplementedError

    def drop_connection(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()

    async def close(self) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


class RawPublisher(_Raw):
    """Always takes the lowest free packet identifier."""

    def __init__(self, version: int, port: int) -> None:
        super().__init__("publisher", version, port)
        self.done: set[bytes] = set()
        self._waiting: list[tuple[str, bytes]] = []
        self._under_way: dict[int, tuple[str, bytes]] = {}
        """Messages without PUBCOMP, by packet identifier, in order."""
        self._released: set[int] = set()
        """Packet identifiers with PUBREC."""

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        self._waiting += messages
        self._more()

    def resumed(self, *, present: bool) -> None:
        if not present:  # the node knows nothing: what has a PUBREC is its own, all else is new
            for packet_id in self._released:
                self.done.add(self._under_way.pop(packet_id)[1])
            self._released.clear()
        for packet_id, (topic, payload) in self._under_way.items():
            if packet_id in self._released:
                self.send(wire.ack(wire.PUBREL, packet_id))
            else:
                self.send(wire.publish(packet_id, topic, payload, self.version, dup=present))
        self._more()

    def _more(self) -> None:
        while self._writer is not None and self._waiting and len(self._under_way) < WINDOW:
            packet_id = next(number for number in range(1, WINDOW + 1) if number not in self._under_way)
            topic, payload = self._under_way[packet_id] = self._waiting.pop(0)
            self.send(wire.publish(packet_id, topic, payload, self.version, dup=False))

    def arrived(self, seen: wire.Seen) -> None:
        packet_id = seen.packet_id
        if seen.kind == wire.PUBREC and packet_id in self._under_way:
            self._released.add(packet_id)
            self.send(wire.ack(wire.PUBREL, packet_id))
        elif seen.kind == wire.PUBCOMP and packet_id in self._released:
            self._released.discard(packet_id)
            self.done.add(self._under_way.pop(packet_id)[1])
            self._more()


class RawSubscriber(_Raw):
    """Subscribes when the node has no session for it."""

    def __init__(self, version: int, port: int) -> None:
        super().__init__("subscriber", version, port)
        self.handed_on: list[tuple[str, bytes]] = []
        self._held: set[int] = set()
        self._subscribed = asyncio.Event()

    async def subscribed(self) -> None:
        await self._subscribed.wait()

    def resumed(self, *, present: bool) -> None:
        if not present:
            self._held.clear()
            self.send(wire.subscribe(1, FILTER, self.version))

    def arrived(self, seen: wire.Seen) -> None:
        if seen.kind == wire.SUBACK:
            self._subscribed.set()
        elif seen.kind == wire.PUBLISH:
            if seen.packet_id not in self._held:
                self._held.add(seen.packet_id)
                self.handed_on.append((seen.topic, seen.payload))
            self.send(wire.ack(wire.PUBREC, seen.packet_id))
        elif seen.kind == wire.PUBREL:
            self._held.discard(seen.packet_id)
            self.send(wire.ack(wire.PUBCOMP, seen.packet_id))


class _Paho:
    """A client of paho-mqtt, in the thread that it makes for itself."""

    def __init__(self, client_id: str, version: int, port: int) -> None:
        try:
            import paho.mqtt.client as paho  # noqa: PLC0415  # only this client needs it
            from paho.mqtt.enums import CallbackAPIVersion  # noqa: PLC0415
            from paho.mqtt.packettypes import PacketTypes  # noqa: PLC0415
            from paho.mqtt.properties import Properties  # noqa: PLC0415
        except ImportError:
            raise InputError("--client paho needs paho-mqtt: pip install paho-mqtt") from None
        v5 = version == wire.V5
        self._client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            protocol=paho.MQTTv5 if v5 else paho.MQTTv311,
            clean_session=None if v5 else False,
        )
        self._client.reconnect_delay_set(AGAIN_S, AGAIN_S)  # type: ignore[arg-type]  # seconds, whole or not
        self._client.max_inflight_messages_set(WINDOW)
        self._client.on_connect = self._connected
        how: dict[str, Any] = {}
        if v5:
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = wire.KEPT_S
            how = {"clean_start": False, "properties": properties}
        self._client.connect_async(HOST, port, **how)

    def _connected(self, _client: Any, _data: Any, flags: Any, _reason: Any, _properties: Any) -> None:
        if not flags.session_present:
            self.began()

    def began(self) -> None:
        """The node has a new session for the client."""

    def drop_connection(self) -> None:
        connection: Any = self._client.socket()
        if connection is not None:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    async def close(self) -> None:
        self._client.disconnect()
        await asyncio.to_thread(self._client.loop_stop)


class PahoPublisher(_Paho):
    """Publishes with paho-mqtt."""

    def __init__(self, version: int, port: int) -> None:
        super().__init__("publisher", version, port)
        self._payloads: dict[int, bytes] = {}
        """Payloads by packet identifier."""
        self._completed: list[int] = []
        """Packet identifiers with PUBCOMP; its thread may be faster than `publish` returns."""
        self._client.on_publish = self._published
        self._client.loop_start()

    @property
    def done(self) -> set[bytes]:
        """Payloads whose PUBCOMP has come."""
        return {self._payloads[mid] for mid in list(self._completed)}

    def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        for topic, payload in messages:
            self._payloads[self._client.publish(topic, payload, qos=2).mid] = payload

    def _published(self, _client: Any, _data: Any, mid: int, _reason: Any, _properties: Any) -> None:
        self._completed.append(mid)


class PahoSubscriber(_Paho):
    """Subscribes with paho-mqtt."""

    def __init__(self, version: int, port: int) -> None:
        super().__init__("subscriber", version, port)
        self.handed_on: list[tuple[str, bytes]] = []
        self._loop = asyncio.get_running_loop()
        self._subscribed = asyncio.Event()
        self._client.on_message = self._message
        self._client.on_subscribe = self._answered
        self._client.loop_start()

    def began(self) -> None:
        self._client.subscribe(FILTER, qos=2)

    async def subscribed(self) -> None:
        await self._subscribed.wait()

    def _answered(self, *_: Any) -> None:
        self._loop.call_soon_threadsafe(self._subscribed.set)

    def _message(self, _client: Any, _data: Any, message: Any) -> None:
        self.handed_on.append((message.topic, message.payload))


CLIENTS: Final[dict[str, tuple[Callable[[int, int], Publisher], Callable[[int, int], Subscriber]]]] = {
    "raw": (RawPublisher, RawSubscriber),
    "paho": (PahoPublisher, PahoSubscriber),
}
"""Name → publisher and subscriber, each made of MQTT version and port."""
