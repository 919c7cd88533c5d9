"""A broker on a real loopback socket, and clients that say and see every packet."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar

from penstock.mqtt.codes import V5
from penstock.mqtt.packets.connect import Connack, Connect, Pingreq, Pingresp
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.packet import decode, encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe
from penstock.node.access.gate import Gate
from penstock.node.broker.broker import Broker
from penstock.node.broker.listeners import set_inherited_options
from penstock.node.config.schema import Config
from penstock.node.observe.status import Observed
from tests.kit.flows import start_flows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Coroutine

    from penstock.core.slots.statistics import FlowStatistics
    from penstock.mqtt.packets.connect import Will
    from penstock.mqtt.packets.packet import Packet
    from penstock.node.slots.flows import Flows
    from penstock.node.store.tables import Store

T = TypeVar("T")
WAIT_S = 120
"""Far more than anything here takes, on a machine that is busy with other things."""


def run(test: Coroutine[None, None, T]) -> T:
    """Run a test in a loop of its own."""

    async def bounded() -> T:
        return await asyncio.wait_for(test, 300)

    return asyncio.run(bounded())


class Running:
    """A broker and its port."""

    def __init__(self, broker: Broker, port: int, *, flows: Flows | None = None) -> None:
        self.broker = broker
        self.flows = flows
        self.observed = Observed(broker, flows=flows)
        self.port = port
        self.peers: list[Peer] = []

    async def connect(self, client_id: str = "c", **how: Any) -> Peer:
        """A client whose CONNECT was answered."""
        peer = await self.dial()
        await peer.hello(client_id, **how)
        return peer

    async def dial(self) -> Peer:
        """A client that has said nothing yet."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        return peer

    def flow_rows(self) -> list[FlowStatistics] | None:
        """Flows of constant rate; None if no listener has slots."""
        return None if self.observed.flows is None else self.observed.flows.rows()

    def account_holds(self) -> bool:
        """Whether every event is accounted for, everywhere."""
        status = self.broker.status()
        each = [s.account for client in status.clients for s in client.subscriptions]
        return status.account.balanced and all(one.balanced for one in each)


@asynccontextmanager
async def node(config: Config | None = None, *, store: Store | None = None) -> AsyncIterator[Running]:
    """A broker that listens."""
    config = config or Config(data="")
    broker = Broker(config, gate=Gate(config), store=store)
    broker.start()
    flows = start_flows(broker)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: broker.protocol(config.listeners[0]), "127.0.0.1", 0)
    set_inherited_options(server)
    running = Running(broker, server.sockets[0].getsockname()[1], flows=flows)
    try:
        yield running
    finally:
        server.close()
        if flows is not None:
            flows.close()
        await broker.close()
        for peer in running.peers:
            peer.writer.close()
            with suppress(ConnectionError):
                await peer.writer.wait_closed()


class Peer:
    """One client's end of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.version = V5
        self.connack = Connack()
        self._framer = Framer()
        self._frames: list[bytes] = []
        self._packet_id = 0
        self._aside: deque[Publish] = deque()

    async def hello(
        self,
        client_id: str,
        *,
        version: int = V5,
        clean: bool = True,
        keep_alive_s: int = 60,
        will: Will | None = None,
        username: str | None = None,
        password: bytes | None = None,
        **properties: Any,
    ) -> Self:
        """CONNECT, and what is answered."""
        self.version = version
        self.send(
            Connect(
                client_id=client_id,
                version=version,
                clean_start=clean,
                keep_alive_s=keep_alive_s,
                will=will,
                username=username,
                password=password,
                properties=Properties(**properties) if properties else NONE,
            )
        )
        self.connack = await self.expect(Connack)
        return self

    # -- bytes -----------------------------------------------------------------------------------------------

    def send(self, packet: Packet) -> None:
        self.writer.write(encode(packet, self.version))

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def next(self) -> Packet | None:
        """The next packet; None if the connection is closed."""
        return self._aside.popleft() if self._aside else await self._arrived()

    async def _arrived(self) -> Packet | None:
        while not self._frames:
            chunk = await asyncio.wait_for(self.reader.read(1 << 16), WAIT_S)
            if not chunk:
                return None
            self._frames = self._framer.feed(chunk)
        return decode(self._frames.pop(0), self.version)

    async def expect(self, kind: type[T]) -> T:
        """The next packet, which must be of this kind."""
        packet = await self.next()
        assert isinstance(packet, kind), packet
        return packet

    async def silent(self) -> bool:
        """Whether nothing is on its way: a PINGREQ is answered by a PINGRESP alone."""
        self.send(Pingreq())
        return isinstance(await self.next(), Pingresp)

    async def closed(self) -> bool:
        """Whether the connection is closed now, whatever was said before."""
        try:
            while await self.next() is not None:
                pass
        except ConnectionError:
            pass
        return True

    def abort(self) -> None:
        """Vanish without a word."""
        self.writer.transport.abort()

    # -- packets ---------------------------------------------------------------------------------------------

    def packet_id(self) -> int:
        self._packet_id += 1
        return self._packet_id

    async def subscribe(
        self,
        *filters: str,
        qos: int = 0,
        user: tuple[tuple[str, str], ...] = (),
        number: int | None = None,
        **options: Any,
    ) -> Suback:
        properties = Properties(user=user, subscription_ids=(number,) if number else ())
        self.send(
            Subscribe(
                self.packet_id(),
                tuple(Subscription(each, qos, **options) for each in filters),
                properties if user or number else NONE,
            )
        )
        return await self.answer(Suback)

    async def unsubscribe(self, *filters: str) -> Unsuback:
        self.send(Unsubscribe(self.packet_id(), filters))
        return await self.answer(Unsuback)

    def publish0(self, topic: str, payload: bytes, *, retain: bool = False, **properties: Any) -> None:
        self.send(
            Publish(
                topic,
                payload,
                retain=retain,
                properties=Properties(**properties) if properties else NONE,
            )
        )

    async def publish1(
        self, topic: str, payload: bytes, *, retain: bool = False, **properties: Any
    ) -> Puback:
        self.send(
            Publish(
                topic,
                payload,
                qos=1,
                retain=retain,
                packet_id=self.packet_id(),
                properties=Properties(**properties) if properties else NONE,
            )
        )
        return await self.answer(Puback)

    async def answer(self, kind: type[T]) -> T:
        """The next packet of this kind; messages on the way are kept for later."""
        while True:
            packet = await self._arrived()
            if not isinstance(packet, Publish):
                assert isinstance(packet, kind), packet
                return packet
            self._aside.append(packet)

    async def publish2(self, topic: str, payload: bytes, **properties: Any) -> None:
        number = self.packet_id()
        found = Properties(**properties) if properties else NONE
        self.send(Publish(topic, payload, qos=2, packet_id=number, properties=found))
        assert (await self.answer(Pubrec)).packet_id == number
        self.send(Pubrel(number))
        assert (await self.answer(Pubcomp)).packet_id == number

    async def settled(self) -> None:
        """All that was sent so far has been dealt with."""
        assert await self.silent()

    async def message(self) -> Publish:
        """The next message, acknowledged."""
        packet = await self.expect(Publish)
        if packet.qos == 1:
            self.send(Puback(packet.packet_id))
        elif packet.qos == 2:
            self.send(Pubrec(packet.packet_id))
            assert (await self.answer(Pubrel)).packet_id == packet.packet_id
            self.send(Pubcomp(packet.packet_id))
        return packet

    async def payloads(self, count: int) -> list[bytes]:
        """Of the next messages."""
        return [(await self.message()).payload for _ in range(count)]
