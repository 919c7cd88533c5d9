"""Packets as large as a client takes are sent, larger ones are not, by their size as they go out."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.packets.connect import Disconnect, Pingreq, Pingresp
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.mqtt.packets.subscribe import Subscribe, Subscription
from penstock.node.config.schema import Config
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import Peer, Running, node

MOST = 40
TOPIC = "ward/1"


SIZES = range(45)
"""Bytes of the payloads that are published."""


def size(payload: int, qos: int, *, topic: str = TOPIC, **properties: Any) -> int:
    """Bytes of the packet that carries so many bytes."""
    found = Properties(**properties) if properties else NONE
    packet = Publish(topic, bytes(payload), qos=qos, packet_id=1 if qos else 0, properties=found)
    return len(encode(packet, V5))


async def publish_all(running: Running, qos: int, **extra: Any) -> None:
    """Publish a message of each size."""
    sender = await running.connect("s")
    for payload in SIZES:
        if qos == 0:
            sender.publish0(TOPIC, bytes(payload), **extra)
        elif qos == 1:
            await sender.publish1(TOPIC, bytes(payload), **extra)
        else:
            await sender.publish2(TOPIC, bytes(payload), **extra)
    await sender.settled()


async def received(client: Peer) -> list[Publish]:
    """All that is on its way to a client."""
    client.send(Pingreq())
    found: list[Publish] = []
    while not isinstance(packet := await client.next(), Pingresp):
        if isinstance(packet, Publish):
            found.append(packet)
            if packet.qos == 1:
                client.send(Puback(packet.packet_id))
    return found


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize(
    "extra", [{}, {"message_expiry_s": 60}, {"user": (("unit", "bpm"),)}], ids=["bare", "expiry", "user"]
)
@pytest.mark.parametrize("number", [None, 1, 200])
async def test_every_packet_that_fits_is_sent(
    qos: int, waits: bool, extra: dict[str, Any], number: int | None
) -> None:
    async with node() as running:
        how: dict[str, Any] = {"maximum_packet_size": MOST, "session_expiry_s": 100}
        client = await running.connect("small", **how)
        await client.subscribe(TOPIC, qos=qos, number=number)
        if waits:
            await away(running, client, "small")
        await publish_all(running, qos, **extra)
        if waits:
            client = await running.connect("small", clean=False, **how)
        found = await received(client)
        told = extra | ({"subscription_ids": (number,)} if number else {})
        fitting = [each for each in SIZES if size(each, qos, **told) <= MOST]
        assert [len(each.payload) for each in found] == fitting
        assert 0 < len(fitting) < len(SIZES)
        account = running.broker.status().account
        assert account.oversized == account.counted == len(SIZES) - len(fitting)
        assert account.delivered + account.counted == account.accepted == len(SIZES)
        assert running.account_holds()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("topic", ["t", TOPIC, "a/long/topic/of/28/bytes/all"])
async def test_a_topic_alias_is_used_where_it_helps_and_left_out_where_it_does_not_fit(
    qos: int, topic: str
) -> None:
    async with node() as running:
        client = await running.connect("small", maximum_packet_size=MOST, topic_alias_maximum=1)
        await client.subscribe(topic, qos=qos)
        sender = await running.connect("s")
        payloads = [40, 33, 10, 2, 0, *SIZES, 0]
        fitting = []
        known = False
        for payload in payloads:
            await sender.publish1(topic, bytes(payload)) if qos < 2 else await sender.publish2(
                topic, bytes(payload)
            )
            aliased = size(payload, qos, topic="" if known else topic, topic_alias=1) <= MOST
            if aliased or size(payload, qos, topic=topic) <= MOST:
                fitting.append(payload)
            known |= aliased
        found = await received(client)
        assert [len(each.payload) for each in found] == fitting
        assert all(len(encode(each, V5)) <= MOST for each in found)
        assert known
        # An alias is set once, and only by a packet that was sent.
        assert [each.topic for each in found if each.properties.topic_alias].count(topic) == 1
        assert running.account_holds()


async def test_what_is_too_large_for_a_receiver_with_a_policy_is_told_in_a_digest() -> None:
    async with node() as running:
        client = await running.connect("small", maximum_packet_size=600)
        policy = "attribute: pulse\nlevels: [{keep: {latest: 3}}]\ndigest: [max]"
        await client.subscribe("a", qos=1, user=(("policy", policy),))
        sender = await running.connect("s")
        for pulse, pad in ((60, 0), (70, 1_000), (80, 0)):
            await sender.publish1("a", b'{"pulse": %d, "pad": "%s"}' % (pulse, b"x" * pad))
        found = await received(client)
        assert [is_digest(each) for each in found] == [False, True, False]
        told = body(found[1])
        assert told["count"] == 1
        assert told["causes"] == [{"level": 0, "position": 0, "filter": "too-large", "count": 1}]
        assert told["attributes"]["pulse"]["max"] == 70
        account = running.broker.status().account
        assert (account.delivered, account.digested, account.counted, account.oversized) == (2, 1, 0, 1)
        assert running.account_holds()


async def test_a_digest_that_is_too_large_itself_is_counted() -> None:
    async with node() as running:
        client = await running.connect("small", maximum_packet_size=MOST)
        await client.subscribe("a", user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        watcher = await running.connect("watcher")
        await watcher.subscribe("$digest/a")
        sender = await running.connect("s")
        sender.publish0("a", bytes(1_000))
        sender.publish0("a", b"small")
        await sender.settled()
        assert [each.payload for each in await received(client)] == [b"small"]
        assert body(await watcher.message())["count"] == 1
        account = running.broker.status().clients[0].account
        assert (account.delivered, account.digested, account.counted, account.oversized) == (1, 0, 1, 1)
        assert running.account_holds()


async def test_a_client_of_few_bytes_and_no_name_connects(caplog: pytest.LogCaptureFixture) -> None:
    async with node() as running:
        client = await running.connect("", maximum_packet_size=MOST)
        assert client.connack.reason == 0
        assert client.connack.properties.assigned_client_id
        assert len(encode(client.connack, V5)) <= MOST
        tiny = await running.connect("tiny", maximum_packet_size=12)
        assert tiny.connack.reason == 0x83
        assert await tiny.closed()
        assert running.broker.status().refused == {"implementation specific": 1}
        assert [each.client_id for each in running.broker.status().clients] == [
            client.connack.properties.assigned_client_id
        ]
    assert "client 'tiny' from 127.0.0.1: CONNECT maximum packet size: 12; the CONNACK has 13 bytes" in (
        caplog.text
    )


async def test_a_client_that_takes_no_connack_leaves_a_session_alone() -> None:
    async with node() as running:
        first = await running.connect("c", session_expiry_s=100)
        await first.subscribe("a")
        tiny = await running.connect("c", maximum_packet_size=12, clean=False)
        assert tiny.connack.reason == 0x83
        assert await first.silent()
        assert running.broker.status().clients[0].subscription_count == 1


async def test_an_answer_that_does_not_fit_ends_the_connection() -> None:
    async with node() as running:
        client = await running.connect("small", maximum_packet_size=MOST)
        assert (await client.subscribe(*(f"f{number}" for number in range(35)))).reasons == (0,) * 35
        filters = tuple(Subscription(f"f{number}") for number in range(36))
        client.send(Subscribe(2, filters))  # whose SUBACK has a byte more than the client takes
        assert (await client.expect(Disconnect)).reason == Reason.PACKET_TOO_LARGE
        assert await client.closed()
        assert running.broker.status().refused == {"packet too large": 1}


async def test_a_message_for_nobody_but_its_publisher_who_wants_it_not_back_is_a_success() -> None:
    async with node(Config(data="")) as running:
        client = await running.connect("c")
        await client.subscribe("a", no_local=True)
        assert (await client.publish1("a", b"x")).reason == 0
        assert (await client.publish1("b", b"x")).reason == 0x10
        assert await client.silent()
        assert running.broker.status().unrouted == 1
