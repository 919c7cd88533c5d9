"""A connection leaves nothing behind when it has ended, however it ended."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING

import pytest

from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Connect, Disconnect
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from tests.kit.peer import node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.connection import Connection

KEPT = Properties(session_expiry_s=60)
HELLO = encode(Connect("c"), V5)


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(HELLO[:5], id="half a CONNECT"),
        pytest.param(HELLO, id="CONNECT"),
        pytest.param(encode(Connect("c", properties=KEPT), V5), id="a kept session"),
        pytest.param(HELLO + encode(Disconnect(), V5), id="DISCONNECT"),
        pytest.param(encode(Connect("c", version=V4), V4) + b"\x30\x80\x80\x01" + bytes(16_000), id="half"),
        pytest.param(HELLO + encode(Subscribe(1, (Subscription("a/#", qos=1),)), V5), id="SUBSCRIBE"),
        pytest.param(HELLO + b"\x00\x00", id="a packet of no kind"),
        pytest.param(HELLO + b"\x30\xff\xff\xff\xff\x01", id="no length"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
    ],
)
async def test_a_connection_that_has_ended_is_not_kept_in_memory(said: bytes) -> None:
    """Deadlines held it for half a minute, with the bytes it had received: clients that come and go quickly
    could fill the memory of a node."""
    async with node() as running:
        gone = watched(running.broker)
        gc.disable()
        try:
            peer = await running.dial()
            peer.writer.write(said)
            await until(lambda: len(gone) == 1)
            await asyncio.sleep(0.05)
            peer.writer.transport.abort()
            await until(lambda: not running.broker.status().connections)
            await until(lambda: gone[0]() is None)
        finally:
            gc.enable()


async def test_a_client_that_sends_no_more_reads_what_was_written_and_the_rest_waits() -> None:
    async with node() as running:
        phone = await running.connect("phone", session_expiry_s=60)
        await phone.subscribe("a", qos=0)
        session = running.broker.sessions.get("phone")
        assert session is not None
        connection = session.link
        sensor = await running.connect("sensor")
        one, two = encode(Publish("a", b"one"), V5), encode(Publish("a", b"two"), V5)
        served = running.broker.sessions.get("sensor")
        assert served is not None
        served.link.data_received(one)  # type: ignore[union-attr]
        connection.eof_received()  # type: ignore[union-attr]
        served.link.data_received(two)  # type: ignore[union-attr]
        assert (await phone.message()).payload == b"one"
        await until(lambda: not session.attached)
        again = await running.connect("phone", clean=False, session_expiry_s=60)
        assert (await again.message()).payload == b"two"
        sensor.abort()
        assert running.account_holds()


def watched(broker: Broker) -> list[weakref.ref[Connection]]:
    """The connections that come from now on, without keeping them."""
    found: list[weakref.ref[Connection]] = []
    opened = broker.opened

    def note(connection: Connection) -> None:
        found.append(weakref.ref(connection))
        opened(connection)

    broker.opened = note  # type: ignore[method-assign]
    return found
