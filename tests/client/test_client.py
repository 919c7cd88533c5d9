"""A client and a node: publishing and subscribing as a program does it, over real sockets."""

from __future__ import annotations

import asyncio
import json
import ssl
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Literal

import pytest
import uvloop

from penstock import Client, limits
from penstock.client import Will
from penstock.errors import (
    ConnectionLost,
    ConnectRefused,
    InputError,
    MqttError,
    PolicyError,
    PublishRefused,
    SubscribeRefused,
    Unreachable,
)
from penstock.model import Digest, Event
from penstock.mqtt.codes import Reason
from penstock.node.broker.listeners import Listeners
from penstock.node.config.schema import Bounds, Config, Listener, Queues, Rule, User
from penstock.policy.text.python_form import drop, policy
from tests.kit import certificates
from tests.kit.passwords import cheap
from tests.kit.peer import node, run
from tests.kit.vitals import VITALS, accounted, events, pulse, url
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from penstock.node.broker.status import Account
    from tests.kit.peer import Running


# -- messages ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_messages_arrive_in_order(qos: int) -> None:
    async with node() as running, Client(url(running)) as one, Client(url(running)) as other:
        subscription = await one.subscribe("ward/+/pulse", qos=qos)
        for number in range(50):
            await other.publish(f"ward/{number % 3}/pulse", str(number), qos=qos)
        found = await events(subscription, 50)
        assert [event.payload for event in found] == [b"%d" % number for number in range(50)]
        assert [event.topic for event in found[:3]] == ["ward/0/pulse", "ward/1/pulse", "ward/2/pulse"]
        assert [event.seq for event in found] == list(range(1, 51))
        assert subscription.granted_qos == qos
        sent = other.statistics().sent
        assert sent.conserved
        assert (sent.published, sent.sent, sent.acknowledged) == (50, 50, 50 if qos else 0)
        assert one.statistics().received.conserved


async def test_a_message_keeps_what_it_carries() -> None:
    async with node() as running, Client(url(running)) as client:
        subscription = await client.subscribe("#", retain_as_published=True)
        await client.publish(
            "a",
            "{}",
            retain=True,
            properties={"unit": "bpm", "": "ü"},
            content_type="application/json",
            expiry_s=60,
            response_topic="b",
            correlation_data=b"\0",
        )
        (event,) = await events(subscription, 1)
        assert event.properties == (("unit", "bpm"), ("", "ü"))
        assert event.content_type == "application/json"
        assert event.packet.retain
        found = event.packet.properties
        assert (found.response_topic, found.correlation_data) == ("b", b"\0")
        assert found.message_expiry_s in (59, 60)


async def test_the_node_says_what_became_of_a_message() -> None:
    config = Config(data="", acl=(Rule(allow=False, topic="secret/#"), Rule()))
    async with node(config) as running, Client(url(running)) as client:
        assert (await client.publish("nobody", qos=1)).reason == Reason.NO_MATCHING_SUBSCRIBERS
        with pytest.raises(PublishRefused, match="'secret/a': 0x87 not authorized") as error:
            await client.publish("secret/a", qos=2)
        assert error.value.reason == Reason.NOT_AUTHORIZED
        assert client.statistics().sent.refused == 1
        await client.publish("nobody", qos=2)  # the connection lives


async def test_what_the_node_does_not_take_is_refused_here() -> None:
    config = Config(data="", bounds=Bounds(packet_bytes=1_000))
    async with node(config) as running, Client(url(running)) as client:
        for qos in (0, 1, 2):
            with pytest.raises(MqttError, match="the server accepts 1000"):
                await client.publish("a", bytes(1_000), qos=qos)
        assert (await client.publish("a", bytes(900), qos=1)).reason == 0x10
        sent = client.statistics().sent
        assert (sent.published, sent.refused_early, sent.sent, sent.in_flight) == (4, 3, 1, 0)
        assert sent.conserved


async def test_wrong_arguments_are_refused() -> None:
    async with node() as running, Client(url(running)) as client:
        with pytest.raises(InputError, match="reconnect_most_s is 0"):
            Client(url(running), reconnect_most_s=0)
        with pytest.raises(InputError, match="qos is 3"):
            await client.publish("a", qos=3)
        with pytest.raises(InputError, match="expiry_s is -1"):
            client.publish_nowait("a", expiry_s=-1)
        with pytest.raises(MqttError, match="wildcard in 'a/\\+'"):
            await client.publish("a/+")
        with pytest.raises(MqttError, match=r"\+ and # must be whole levels"):
            await client.subscribe("a+")
        with pytest.raises(InputError, match="when_slow is 'sleep'"):
            await client.subscribe("a", when_slow="sleep")  # type: ignore[arg-type]
        with pytest.raises(InputError, match="acknowledge is 'never'"):
            await client.subscribe("a", acknowledge="never")  # type: ignore[arg-type]
        await client.subscribe("a")
        with pytest.raises(InputError, match="has subscribed to 'a' already"):
            await client.subscribe("a")


# -- policies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [VITALS, policy(drop.within(50, 100), attribute="pulse")])
def test_the_node_drops_by_the_policy_of_a_slow_program(given: str) -> None:
    async def test() -> None:
        config = Config(data="", queues=Queues(events=20))
        async with node(config) as running, Client(url(running)) as slow, Client(url(running)) as sensor:
            subscription = await slow.subscribe("ward", policy=given, buffer_events=10)
            total = 600
            for number in range(total):
                await sensor.publish("ward", pulse(200 if number == 300 else 60 + number % 30, size=4_000))
                await asyncio.sleep(0)
            await until(lambda: running.broker.status().account.accepted == total)
            assert not slow.statistics().reading
            items = await accounted(subscription, total)
            digests = [item for item in items if isinstance(item, Digest)]
            assert digests
            assert all(cause.filter == "within" or not cause.level for d in digests for cause, _ in d.causes)
            if given is VITALS:
                assert 60 <= digests[0].attributes[0][1].mean <= 90  # type: ignore[operator]
            critical = [item for item in items if isinstance(item, Event) and b"200" in item.payload]
            assert len(critical) == 1
            found = subscription.statistics()
            assert found.conserved
            assert found.taken + found.taken_digested == total
            assert found.digested == running.broker.status().account.digested
            assert running.account_holds()

    run(test())


async def test_large_messages_wait_at_the_node_too() -> None:
    async with node() as running, Client(url(running)) as slow, Client(url(running)) as sensor:
        subscription = await slow.subscribe("ward")
        total = 100
        for _ in range(total):
            await sensor.publish("ward", bytes(200_000))
            await asyncio.sleep(0)
        await until(lambda: running.broker.status().account.accepted == total)
        await until(lambda: not slow.statistics().reading)
        assert subscription.buffer().bytes <= limits.QUEUE_BYTES
        await accounted(subscription, total)
        assert not subscription.buffer().filters  # nothing was dropped on this side


def account_of(running: Running, client_id: str) -> Account:
    return next(each.account for each in running.broker.status().clients if each.client_id == client_id)


@pytest.mark.parametrize("wish", [None, "compact", "json", "off"])
async def test_a_client_asks_for_digests_unless_it_is_told_not_to(
    wish: Literal["compact", "json", "off"] | None,
) -> None:
    config, total = Config(data="", queues=Queues(events=10)), 100
    async with (
        node(config) as running,
        Client(url(running)) as watching,
        Client(url(running), client_id="slow") as slow,
        Client(url(running)) as sensor,
    ):
        watched = await watching.subscribe("$digest/#")
        subscription = await slow.subscribe("ward", digests=wish)
        for _ in range(total):  # more than the slow client's buffer takes
            await sensor.publish("ward", bytes(200_000), qos=1)
        if wish != "off":
            await accounted(subscription, total)
            assert running.broker.status().account.counted == 0
        else:
            found: list[object] = []
            while (account := account_of(running, "slow")).queued or len(found) < account.delivered:
                found.append(await subscription.get())
            assert all(isinstance(each, Event) for each in found)
            told = 0
            while len(found) + told < total:
                event = await watched.get()
                assert isinstance(event, Event)
                assert event.topic == "$digest/ward"
                digest = json.loads(event.payload)
                assert (digest["client"], digest["filter"]) == ("slow", "ward")
                told += digest["count"]
            assert told == account_of(running, "slow").counted > 0
        assert running.account_holds()


async def test_a_client_can_pack_in_its_own_buffer() -> None:
    async with node() as running, Client(url(running)) as slow, Client(url(running)) as sensor:
        subscription = await slow.subscribe("ward", policy=VITALS, when_slow="pack", buffer_events=20, qos=1)
        for number in range(200):
            await sensor.publish("ward", pulse(60 + number % 30), qos=1)
        await until(lambda: subscription.statistics().events == 200)
        assert slow.statistics().reading
        assert slow.statistics().unacknowledged == 0
        items = await accounted(subscription, 200)
        assert len(items) <= 20
        assert running.broker.status().account.digested == 0
        assert subscription.buffer().conserved
        assert subscription.statistics().conserved


@pytest.mark.parametrize("qos", [1, 2])
async def test_what_a_killed_program_was_not_done_with_comes_again(qos: int) -> None:
    async with node() as running, Client(url(running)) as sensor:
        first = Client(url(running), client_id="keeper", session_expiry_s=60, reconnect=False)
        await first.connect()
        subscription = await first.subscribe("a", qos=qos, acknowledge="done")
        for number in range(4):
            await sensor.publish("a", b"%d" % number, qos=1)
        assert [event.payload for event in await events(subscription, 2)] == [b"0", b"1"]
        subscription.done()
        assert [event.payload for event in await events(subscription, 2)] == [b"2", b"3"]
        await until(lambda: first.statistics().unacknowledged == 2)
        await sensor.publish("b", qos=1)  # the acknowledgements have come before it
        running.broker.disconnect("keeper", reason=Reason.ADMINISTRATIVE_ACTION)
        await until(lambda: not first.connected)
        async with Client(url(running), client_id="keeper", session_expiry_s=60) as second:
            again = await second.subscribe("a", qos=qos, acknowledge="done")
            assert [event.payload for event in await events(again, 2)] == [b"2", b"3"]
            again.done()
            await until(lambda: second.statistics().unacknowledged == 0)
        await first.close()


async def test_a_subscription_may_be_closed_twice_at_once() -> None:
    async with node() as running, Client(url(running)) as client:
        subscription = await client.subscribe("a")
        await asyncio.gather(subscription.close(), subscription.close())
        assert not running.broker.status().subscriptions
        second = await client.subscribe("a")
        cancelled = asyncio.create_task(second.close())
        other = asyncio.create_task(second.close())
        await asyncio.sleep(0)
        cancelled.cancel()
        await other
        assert not running.broker.status().subscriptions
        assert not (await client.subscribe("a")).buffer().items


async def test_a_policy_the_node_refuses() -> None:
    async with node() as running, Client(url(running)) as client:
        with pytest.raises(PolicyError, match=r"unknown filter 'detla' \(did you mean 'delta'\?\)"):
            await client.subscribe("a", policy="levels:\n  - drop: {detla: 5}")
        with pytest.raises(PolicyError, match="no policy 'vitals' is registered"):
            await client.subscribe("a", policy="vitals")
        with pytest.raises(PolicyError, match="'latest' looks at more than one event"):
            await client.subscribe("a", filter="keep: {latest: 1}")
        subscription = await client.subscribe("a")  # the connection lives
        await client.publish("a", "1")
        await events(subscription, 1)


async def test_a_policy_by_its_name_and_a_content_filter() -> None:
    async with (
        node(Config(data="", policies={"vitals": VITALS})) as running,
        Client(url(running)) as client,
    ):
        subscription = await client.subscribe(
            "a", policy="vitals", filter="keep: {gt: 100, attribute: pulse}"
        )
        for value in (70, 120, 80, 130):
            await client.publish("a", pulse(value))
        assert [event.payload for event in await events(subscription, 2)] == [pulse(120), pulse(130)]
        (status,) = running.broker.status().clients[0].subscriptions
        assert (status.policy, status.content_filter) == ("vitals", True)


async def test_a_forged_digest_that_makes_no_sense_is_an_event() -> None:
    async with node() as running, Client(url(running)) as client:
        subscription = await client.subscribe("a")
        for body in (b"", b"[]", b'{"count": 3}', b"\xff"):
            await client.publish("a", body, properties={"penstock-digest": "1"})
        assert len(await events(subscription, 4)) == 4


async def test_a_subscription_that_is_not_allowed() -> None:
    config = Config(data="", acl=(Rule(allow=False, topic="secret/#"), Rule()))
    async with node(config) as running, Client(url(running)) as client:
        with pytest.raises(SubscribeRefused, match="'secret/#': 0x87 not authorized") as error:
            await client.subscribe("secret/#")
        assert error.value.reason == Reason.NOT_AUTHORIZED


# -- several subscriptions -----------------------------------------------------------------------------------


async def test_overlapping_subscriptions_each_get_their_own() -> None:
    async with node() as running, Client(url(running)) as client:
        wide = await client.subscribe("ward/#")
        narrow = await client.subscribe("ward/1", qos=1)
        high = await client.subscribe("ward/+", filter="keep: {gt: 100, attribute: pulse}")
        apart = await client.subscribe("other")
        for value in (70, 120):
            await client.publish("ward/1", pulse(value), qos=1)
        await client.publish("other", "x")
        await events(apart, 1)
        both = [pulse(70), pulse(120)]
        assert [event.payload for event in await events(wide, 2)] == both
        assert [event.payload for event in await events(narrow, 2)] == both
        assert [event.payload for event in await events(high, 1)] == both[1:]
        assert [each.take() for each in (wide, narrow, high, apart)] == [None] * 4
        assert client.statistics().unacknowledged == 0


async def test_a_closed_subscription_ends_and_gives_back_what_it_held() -> None:
    async with node() as running, Client(url(running), client_id="c") as client:
        async with await client.subscribe("a", qos=1) as subscription:
            for number in range(5):
                await client.publish("a", str(number), qos=1)
            await until(lambda: subscription.statistics().events == 5)
            await events(subscription, 2)
            assert client.statistics().unacknowledged == 3
        assert [item async for item in subscription] == []
        assert subscription.statistics().abandoned == 3
        assert client.statistics().received.conserved
        assert client.statistics().unacknowledged == 0
        assert (await client.publish("a", qos=1)).reason == Reason.NO_MATCHING_SUBSCRIBERS
        assert running.broker.status().clients[0].in_flight == 0
        await client.subscribe("a")


async def test_a_program_may_publish_from_within_its_loop() -> None:
    async with node() as running, Client(url(running)) as client, Client(url(running)) as sensor:
        subscription = await client.subscribe("in", buffer_events=8)
        answers = await sensor.subscribe("out", qos=1)
        total = 400

        async def flood() -> None:
            for number in range(total):
                await sensor.publish("in", pulse(number, size=2_000))

        flooding = asyncio.create_task(flood())
        seen = 0
        while seen < total:
            item = await asyncio.wait_for(subscription.get(), 120)
            assert item is not None
            seen += item.count if isinstance(item, Digest) else 1
            await asyncio.wait_for(client.publish("out", "ok", qos=1), 120)
            answers.take()
        await flooding
        assert client.statistics().received.conserved


# -- connecting ----------------------------------------------------------------------------------------------


async def test_a_wrong_password_is_refused_with_its_reason() -> None:
    config = Config(data="", users=(User("ann", cheap("right")),), anonymous="never")
    async with node(config) as running:
        with pytest.raises(ConnectRefused, match="bad user name or password") as error:
            async with Client(url(running), user="ann", password="wrong"):  # noqa: S106
                pass
        assert error.value.reason == Reason.BAD_USER_NAME_OR_PASSWORD
        async with Client(url(running), user="ann", password="right") as client:  # noqa: S106
            assert client.connected


async def test_nobody_there() -> None:
    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(Unreachable, match="before the CONNACK: is this an MQTT port"):
        await Client(f"mqtt://127.0.0.1:{port}").connect()
    server.close()
    await server.wait_closed()
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}: Connection refused; is the node up"):
        await Client(f"mqtt://127.0.0.1:{port}").connect()
    with pytest.raises(Unreachable, match=f"127.0.0.1:{port}"):
        await Client(f"ws://127.0.0.1:{port}").connect()


@pytest.mark.parametrize(
    ("address", "problem"),
    [
        ("127.0.0.1:1883", "should be like"),
        ("http://a", "should be like"),
        ("mqtt://", "should be like"),
        ("mqtt://a:x", "is not a valid address"),
        ("mqtt://ann:secret@a", "no user and no password"),
        ("mqtt://a/b", "only ws"),
        ("ws://a/b?c", "none has a query"),
    ],
)
async def test_addresses_that_are_none(address: str, problem: str) -> None:
    with pytest.raises(InputError, match=problem):
        Client(address)


async def test_a_client_that_was_not_connected_says_so() -> None:
    client = Client()
    with pytest.raises(Exception, match="not connected yet"):
        await client.publish("a")
    async with node() as running:
        client = Client(url(running))
        await client.connect()
        await client.close()
        await client.close()
        with pytest.raises(ConnectionLost, match="this client is closed"):
            await client.publish("a")
        with pytest.raises(ConnectionLost, match="this client is closed"):
            await client.subscribe("a")


async def test_closing_sends_what_waits_and_ends_the_session() -> None:
    async with node() as running, Client(url(running)) as other:
        subscription = await other.subscribe("a", qos=1)
        async with Client(url(running), client_id="c") as client:
            for number in range(500):
                client.publish_nowait("a", str(number), qos=number % 2)
        sent = client.statistics().sent
        assert (sent.sent, sent.in_flight, sent.abandoned) == (500, 0, 0)
        found = await events(subscription, 500)
        assert [event.payload for event in found] == [b"%d" % number for number in range(500)]
        await until(lambda: running.broker.sessions.get("c") is None)


async def test_a_client_that_breaks_off_leaves_its_will() -> None:
    async with node() as running, Client(url(running)) as other:
        subscription = await other.subscribe("gone")
        async with Client(url(running), will=Will("gone", b"polite"), client_id="p"):
            pass
        client = Client(url(running), will=Will("gone", b"c"), session_expiry_s=0, reconnect=False)
        await client.connect()
        assert client._keeper.connection is not None
        assert client._keeper.connection._link is not None
        client._keeper.connection._link.abort()
        assert [event.payload for event in await events(subscription, 1)] == [b"c"]
        await client.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_tls_and_websockets(tmp_path: Path, loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    files = certificates.make(tmp_path)

    async def test() -> None:
        async with node() as running:
            secure = partial(Listener, port=0, certificate=str(files.server), key=str(files.server_key))
            doors = Listeners(running.broker.protocol)
            await doors.open(
                (
                    secure(kind="tls"),
                    Listener(kind="websocket", port=0),
                    secure(kind="websockets"),
                ),
                Bounds(),
            )
            try:
                tls, web, both = (each.port for each in doors.listeners)
                trust = ssl.create_default_context(cafile=str(files.ca))
                for address in (
                    f"mqtts://localhost:{tls}",
                    f"ws://127.0.0.1:{web}",
                    f"wss://localhost:{both}",
                ):
                    await _exchange(address, trust)
                for address in (f"mqtts://localhost:{tls}", f"wss://localhost:{both}"):
                    with pytest.raises(Unreachable, match="certificate is not trusted"):
                        await Client(address).connect()
                with pytest.raises(Unreachable, match=r"is it a TLS port\?"):
                    await Client(f"mqtts://127.0.0.1:{running.port}", tls=trust).connect()
                with pytest.raises(Unreachable, match="no WebSocket there"):
                    await Client(f"ws://127.0.0.1:{web}/elsewhere").connect()
            finally:
                await doors.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(asyncio.wait_for(test(), 300))


async def _exchange(address: str, trust: ssl.SSLContext) -> None:
    async with Client(address, tls=trust) as client:
        subscription = await client.subscribe("a", qos=1)
        large = bytes(300_000)
        for payload in (b"1", large, b"3"):
            await client.publish("a", payload, qos=1)
        assert [event.payload for event in await events(subscription, 3)] == [b"1", large, b"3"]
        for number in range(200):
            client.publish_nowait("a", str(number))
        assert len(await events(subscription, 200)) == 200
        silent = await client.subscribe("b")
        async with Client(address, tls=trust) as other:
            for number in range(5):  # each arrives though its receiver says nothing meanwhile
                await other.publish("b", str(number))
                await events(silent, 1)


@pytest.mark.e2e
def test_the_package_alone_is_quickly_imported() -> None:
    script = "import sys, penstock; print('asyncio' in sys.modules, penstock.Client.__name__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "Client"]
