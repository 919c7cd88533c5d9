"""A client that comes and goes while acknowledgements are held back: by seed, against what MQTT promises."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.mqtt.packets.connect import Pingreq, Pingresp
from penstock.mqtt.packets.publish import Puback, Pubcomp, Publish, Pubrec, Pubrel
from tests.kit.effort import seeds
from tests.kit.peer import run
from tests.kit.stream_nodes import ORDERS, streams_node

if TYPE_CHECKING:
    from typing import Any

    from tests.kit.peer import Peer
    from tests.kit.stream_nodes import WithStreams

KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 1000}
TOPICS = ("orders/a", "orders/b", "bids", "other")
STREAMS = {"host": [*ORDERS["host"], {"name": "bids", "topics": ["bids"]}]}


class Gate:
    """Lets commits through, or not."""

    def __init__(self, running: WithStreams) -> None:
        self._logs: list[tuple[Any, Any]] = []
        self._waiting: list[tuple[Any, int, int]] = []
        self.open = True
        for hosted in running.streams.hosted.values():
            log: Any = hosted.log
            self._logs.append((log, log._committed))
            log._committed = self._for(log._committed)

    def _for(self, committed: Any) -> Any:
        def told(until: int, claimed: int) -> None:
            if self.open:
                committed(until, claimed)
            else:
                self._waiting.append((committed, until, claimed))

        return told

    def set(self, *, is_open: bool) -> None:
        self.open = is_open
        if is_open:
            waiting, self._waiting = self._waiting, []
            for committed, until, claimed in waiting:
                committed(until, claimed)


class Client:
    """Sends again what was not answered, as MQTT wants it, and checks the order of answers."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self.sent: list[Publish] = []
        self.acknowledged: set[bytes] = set()
        self._unanswered: dict[int, Publish] = {}
        self._released: dict[int, None] = {}
        self._order: dict[int, list[int]] = {1: [], 2: []}
        """Packet identifiers by QoS in the order of their sending over this connection."""
        self.peer: Peer | None = None

    @property
    def quiet(self) -> bool:
        return not self._unanswered and not self._released

    async def connect(self, running: WithStreams) -> None:
        self.peer = await running.connect("p", **KEPT)
        self._order = {1: [], 2: []}
        for packet_id, one in self._unanswered.items():
            self._order[one.qos].append(packet_id)
            self.peer.send(Publish(one.topic, one.payload, qos=one.qos, packet_id=packet_id, dup=True))
        for packet_id in self._released:
            self.peer.send(Pubrel(packet_id))

    def publish(self) -> None:
        assert self.peer is not None
        free = [n for n in range(1, 13) if n not in self._unanswered and n not in self._released]
        if not free:
            return
        packet_id = self._rng.choice(free)
        qos, topic = self._rng.choice((1, 2)), self._rng.choice(TOPICS)
        one = Publish(topic, b"%d" % len(self.sent), qos=qos, packet_id=packet_id)
        self.sent.append(one)
        self._unanswered[packet_id] = one
        self._order[qos].append(packet_id)
        self.peer.send(one)

    async def listen(self) -> None:
        """Take what is answered up to now."""
        assert self.peer is not None
        self.peer.send(Pingreq())
        while not isinstance(packet := await self.peer.next(), Pingresp):
            assert isinstance(packet, Puback | Pubrec | Pubcomp), packet
            self._answered(packet)

    def _answered(self, packet: Puback | Pubrec | Pubcomp) -> None:
        assert self.peer is not None
        number = packet.packet_id
        if isinstance(packet, Pubcomp):
            self._released.pop(number)
            return
        assert packet.reason < 0x80
        qos = 1 if isinstance(packet, Puback) else 2
        assert self._order[qos].pop(0) == number, "answers are out of order"
        self.acknowledged.add(self._unanswered.pop(number).payload)
        if qos == 2:
            self._released[number] = None
            self.peer.send(Pubrel(number))


async def story(seed: int) -> None:
    rng = Random(seed)
    async with streams_node(STREAMS) as running:
        gate = Gate(running)
        client = Client(rng)
        await client.connect(running)
        for _ in range(40):
            match rng.randrange(8):
                case 0:
                    assert client.peer is not None
                    client.peer.abort()
                    if rng.random() < 0.5:  # else the session is taken over
                        await asyncio.sleep(0.002)
                    await client.connect(running)
                case 1:
                    gate.set(is_open=not gate.open)
                case 2:
                    await client.listen()
                case _:
                    client.publish()
        gate.set(is_open=True)
        async with asyncio.timeout(120):
            while not client.quiet:
                await client.listen()
                await asyncio.sleep(0.002)
        logged = [*await running.records("orders"), *await running.records("bids")]
        streams = [one for one in client.sent if one.topic != "other"]
        twice = [one.payload for one in streams if one.qos == 2]
        found = [one.payload for one in logged]
        assert set(found) == {one.payload for one in streams} <= client.acknowledged
        assert all(found.count(payload) == 1 for payload in twice), seed
        session = running.broker.sessions.get("p")
        assert session is not None
        assert not session.unanswered
        assert all(hosted.marks.clients() == {} for hosted in running.streams.hosted.values())


@pytest.mark.parametrize("seed", range(12))
async def test_a_client_that_comes_and_goes(seed: int) -> None:
    await story(seed)


@pytest.mark.slow
def test_many_clients_that_come_and_go() -> None:
    for seed in seeds(100, 300):
        run(story(seed))
