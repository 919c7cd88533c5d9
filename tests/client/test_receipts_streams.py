"""A client hands out each message of a stream once; which subscription gets the one copy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.client import Client
from penstock.client.receipts import StreamPositions
from penstock.errors import InputError, SubscribeRefused
from penstock.model.event import Event, stamp_of, stamped, unstamped
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.packets.publish import Publish
from tests.kit.stream_nodes import streams_node

if TYPE_CHECKING:
    from penstock.client.subscription import Subscription


def at(stream: str, tick: int) -> tuple[tuple[str, str], ...]:
    return stamped((("other", "one"),), stream, tick)


def test_a_stamp_is_read_where_it_is_and_nowhere_else() -> None:
    assert stamp_of(at("s", 7)) == ("s", 7)
    assert unstamped(at("s", 7)) == (("other", "one"),)
    assert unstamped((*at("s", 7), ("stream", "t"), ("tick", "8"))) == (("other", "one"),)
    for user in (
        (),
        (("tick", "7"),),
        (("tick", "7"), ("stream", "s")),
        (("stream", "s"), ("tick", "-7")),
        (("stream", "s"), ("tick", "\u0663")),
        (("stream", "s"), ("tick", "1" * 20)),
        (("stream", ""), ("tick", "7")),
        (*at("s", 7), ("more", "")),
    ):
        assert stamp_of(user) is None
        assert unstamped(user) == user


def test_each_stream_is_followed_on_its_own() -> None:
    places = StreamPositions()
    assert places.start is None
    for stream, tick, new in (("s", 5, 1), ("t", 2, 1), ("s", 5, 0), ("s", 4, 0), ("s", 6, 1), ("t", 3, 1)):
        assert places.passes(at(stream, tick)) is bool(new)
    assert places.passes((("other", "one"),))
    assert places.repeated == 2
    assert places.start == 4  # what one of them has and the other does not comes again, and is known


def test_what_lies_before_the_start_is_not_wanted() -> None:
    places = StreamPositions(10)
    assert places.start == 10
    assert not places.passes(at("s", 9))
    assert places.passes(at("s", 10))


def test_places_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLIENT_STREAMS", 2)
    places = StreamPositions()
    for stream in ("a", "b", "a", "c"):
        tick = 2 if places.start is not None and stream == "a" else 1
        assert places.passes(at(stream, tick))
    assert not places.passes(at("a", 2))
    assert places.passes(at("b", 1))  # forgotten: it was silent for longest


async def take(subscription: Subscription, count: int) -> list[Event]:
    found: list[Event] = []
    async with asyncio.timeout(120):
        while len(found) < count:
            item = await subscription.get()
            assert isinstance(item, Event)
            found.append(item)
    return found


async def test_one_copy_is_for_all_subscriptions_that_want_it() -> None:
    async with streams_node() as running, Client(f"mqtt://127.0.0.1:{running.port}") as client:
        everything = await client.subscribe("orders/#", qos=1)
        large = await client.subscribe("orders/+", qos=1, filter="keep: {gt: 1, attribute: n}")
        foreign = await client.subscribe("orders/a", qos=1, no_local=True)
        for number in range(4):
            await client.publish("orders/a", b'{"n": %d}' % number, qos=1)
        peer = await running.connect("p")
        await peer.publish1("orders/a", b'{"n": 0}')
        found = await take(everything, 5)
        assert [one.payload[-2:-1] for one in found[:4]] == [b"0", b"1", b"2", b"3"]
        assert {one.stream for one in found} == {"orders"}
        assert [one.tick for one in found] == sorted({one.tick for one in found})
        assert [one.tick for one in await take(large, 2)] == [one.tick for one in found[2:4]]
        assert [one.tick for one in await take(foreign, 1)] == [found[4].tick]
        assert [each.take() for each in (everything, large, foreign)] == [None] * 3
        assert client.statistics().received.conserved


async def test_a_program_begins_where_it_says() -> None:
    async with streams_node() as running, Client(f"mqtt://127.0.0.1:{running.port}") as client:
        for number in range(4):
            await client.publish("orders/a", b"%d" % number, qos=1)
        early = await client.subscribe("orders/a", qos=1, start="earliest")
        found = await take(early, 4)
        assert [one.payload for one in found] == [b"0", b"1", b"2", b"3"]
        await early.close()
        later = await client.subscribe("orders/a", qos=1, start=found[2].tick)
        assert [one.payload for one in await take(later, 2)] == [b"2", b"3"]
        for wrong in ("latest", -1):
            with pytest.raises(InputError):
                await client.subscribe("orders/b", start=wrong)  # type: ignore[arg-type]
        with pytest.raises(SubscribeRefused, match="cannot be shared out"):
            await client.subscribe("$share/g/orders/#", qos=1)


@pytest.mark.parametrize("qos", [1, 2])
@pytest.mark.parametrize("again", [False, True])
async def test_a_program_that_takes_up_a_session_begins_where_it_says(qos: int, again: bool) -> None:
    async with streams_node() as running:
        url = f"mqtt://127.0.0.1:{running.port}"
        publisher = await running.connect("p")
        async with Client(url, client_id="c", session_expiry_s=1000) as client:
            before = await client.subscribe("#", qos=qos, start="earliest" if again else None)
            for number in range(5):
                await publisher.publish2("orders/a", b"%d" % number)
            await take(before, 5)
        for number in range(5, 10):
            await publisher.publish2("orders/a", b"%d" % number)
        await publisher.publish2("ordinary", b"")
        async with Client(url, client_id="c", session_expiry_s=1000) as client:
            async with asyncio.timeout(120):
                while client.statistics().unclaimed < 6:  # what the session was owed
                    await asyncio.sleep(0.01)
            later = await client.subscribe("#", qos=qos, start="earliest")
            found = await take(later, 11)
            assert [one.payload for one in found if one.stream] == [b"%d" % number for number in range(10)]
            assert [one.topic for one in found if not one.stream] == ["ordinary"]
            statistics = client.statistics()
            assert (statistics.unclaimed, statistics.unacknowledged) == (0, 0)
            assert statistics.received.conserved


async def test_what_came_before_a_subscription_was_known_is_not_where_it_begins() -> None:
    async with streams_node() as running, Client(f"mqtt://127.0.0.1:{running.port}") as client:
        publisher = await running.connect("p")
        for number in range(5):
            await publisher.publish1("orders/a", b"%d" % number)
        live = await client.subscribe("orders/#", qos=1)
        asked = asyncio.create_task(client.subscribe("orders/a", qos=1, start="earliest"))
        await asyncio.sleep(0)  # it has asked, and the next message comes before the node knows that
        client._keeper.heard(
            Publish("orders/a", b"x", properties=Properties(user=stamped((), "orders", 1 << 60)))
        )
        early = await asked
        await publisher.publish1("orders/a", b"5")
        assert [one.payload for one in await take(early, 6)] == [b"%d" % number for number in range(6)]
        assert [one.payload for one in await take(live, 1)] == [b"x"]


async def test_a_session_that_the_node_has_lost_costs_nothing() -> None:
    async with streams_node() as running:
        url = f"mqtt://127.0.0.1:{running.port}"
        async with Client(url, client_id="c", reconnect_most_s=0.05) as client:
            subscription = await client.subscribe("orders/#", qos=1)
            peer = await running.connect("p")
            await peer.publish1("orders/a", b"0")
            assert (await take(subscription, 1))[0].payload == b"0"
            session = running.broker.sessions.get("c")
            assert session is not None
            session.expiry_s = 0  # it ends with the connection
            running.broker.disconnect("c")
            await peer.publish1("orders/a", b"1")
            assert (await take(subscription, 1))[0].payload == b"1"
            await peer.publish1("orders/a", b"2")
            assert (await take(subscription, 1))[0].payload == b"2"
            assert client.statistics().resumed == 0
