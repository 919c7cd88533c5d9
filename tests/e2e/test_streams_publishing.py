"""Publishing into a stream at a node that is killed: nothing acknowledged is lost, QoS 2 is there once."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from itertools import pairwise
from random import Random
from typing import TYPE_CHECKING

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from penstock.core.streams.wire import Record, decode_record
from penstock.mqtt.packets.publish import Pubcomp, Publish, Pubrec, Pubrel
from penstock.node.streams.log.sqlite import SqliteLog
from penstock_lab.rigs.ports import free_port
from tests.e2e.real_clients import wait
from tests.kit.peer import Peer, run
from tests.kit.stream_service import configuration, service

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.e2e

KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 1000}


def logged(folder: Path) -> list[Record]:
    """The messages in the log of a node that does not run."""

    async def read() -> list[Record]:
        log = SqliteLog(folder / "data" / "streams" / "orders.log.sqlite")
        found: list[Record] = []
        since = 0
        while more := await log.fetch(since, log.end, 10_000):
            found += [decode_record(body) for _, body in more]
            since = more[-1][0] + 1
        await log.close()
        return found

    return run(read())


async def connect(port: int, client_id: str, **how: Any) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    return await Peer(reader, writer).hello(client_id, **how)


class Sender:
    """Publishes payloads 0, 1, 2, … with QoS 2 and few packet identifiers, and goes on after a crash."""

    def __init__(self, window: int) -> None:
        self.sent = 0
        self.done = 0
        self._free = list(range(1, window + 1))
        self._unanswered: dict[int, int] = {}
        """Packet identifiers of messages without a PUBREC, and their payloads; in order."""
        self._released: dict[int, None] = {}

    async def go_on(self, port: int, until: int) -> None:
        """Until so many are complete, or the connection breaks."""
        peer = await connect(port, "sender", **KEPT)
        assert peer.connack.session_present == (self.sent > 0)
        for number, payload in self._unanswered.items():
            peer.send(Publish("orders/a", b"%d" % payload, qos=2, packet_id=number, dup=True))
        for number in self._released:
            peer.send(Pubrel(number))
        try:
            while self.done < until:
                while self._free:
                    number = self._free.pop(0)
                    self._unanswered[number] = self.sent
                    peer.send(Publish("orders/a", b"%d" % self.sent, qos=2, packet_id=number))
                    self.sent += 1
                packet = await peer.next()
                if packet is None:
                    return
                if isinstance(packet, Pubrec):
                    del self._unanswered[packet.packet_id]
                    self._released[packet.packet_id] = None
                    peer.send(Pubrel(packet.packet_id))
                else:
                    assert isinstance(packet, Pubcomp)
                    del self._released[packet.packet_id]
                    self._free.append(packet.packet_id)
                    self.done += 1
        finally:
            peer.abort()


def test_qos_2_is_logged_exactly_once_whenever_the_node_is_killed(tmp_path: Path) -> None:
    port = free_port()
    config = configuration(tmp_path, port)
    dice = Random(7)

    async def test() -> int:
        sender = Sender(window=20)
        for turn in range(3):
            async with service(config) as process:
                sending = asyncio.create_task(sender.go_on(port, 2_000 + 500 * turn))
                await asyncio.sleep(0.3 + dice.random() * 0.3)
                process.send_signal(signal.SIGKILL)
                with suppress(ConnectionError):
                    await sending
        async with service(config) as process:
            await sender.go_on(port, sender.sent + 100)
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        return sender.sent

    sent = run(test())
    assert sent > 500
    found = [int(one.payload) for one in logged(tmp_path)]
    assert len(found) == len(set(found)), "something is there twice"
    assert set(range(sent - 20)) <= set(found) <= set(range(sent))
    assert all(later > earlier - 20 for earlier, later in pairwise(found))


def test_paho_and_aiomqtt_publish_across_a_crash(tmp_path: Path) -> None:
    """QoS 1 and 2 with their own re-sending: what paho calls published is there, with QoS 2 once."""
    port = free_port()
    config = configuration(tmp_path, port)
    client = paho.Client(
        CallbackAPIVersion.VERSION2, client_id="paho", clean_session=False, reconnect_on_failure=True
    )
    client.reconnect_delay_set(1, 1)

    async def before() -> None:
        async with service(config) as process:
            async with aiomqtt.Client("127.0.0.1", port, identifier="aio") as other:
                for n in range(50):
                    await other.publish("orders/aio", b"%d" % n, qos=n % 3)
            client.connect("127.0.0.1", port)
            client.loop_start()
            await asyncio.to_thread(wait, client.is_connected)
            infos.extend(client.publish("orders/1", b"%d" % n, qos=1) for n in range(300))
            infos.extend(client.publish("orders/2", b"%d" % n, qos=2) for n in range(300))
            await asyncio.to_thread(wait, lambda: sum(one.is_published() for one in infos) > 60)
            process.send_signal(signal.SIGKILL)
            await process.wait()

    async def after() -> None:
        async with service(config) as process:
            await asyncio.to_thread(wait, lambda: all(one.is_published() for one in infos))
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0

    infos: list[paho.MQTTMessageInfo] = []
    try:
        run(before())
        run(after())
    finally:
        client.disconnect()
        client.loop_stop()
    found = logged(tmp_path)
    by_topic = {topic: [int(one.payload) for one in found if one.topic == topic] for topic in TOPICS}
    assert set(by_topic["orders/1"]) == set(range(300))
    assert sorted(by_topic["orders/2"]) == list(range(300))
    acknowledged = [n for n in range(50) if n % 3]
    assert [n for n in by_topic["orders/aio"] if n % 3] == acknowledged


TOPICS = ("orders/1", "orders/2", "orders/aio")
