"""Who is told of dropped events: those with a policy or who ask in their stream, others on `$digest/…`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.connect import Pingreq, Pingresp
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.node.config.schema import Config, Installed, Queues, Rule
from penstock.node.store.tables import Store
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import node

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.broker.status import Account
    from tests.kit.peer import Peer, Running

SMALL = Queues(events=10)
SENT = 30
"""Events for a queue of 10: one place is the digest's, so 21 are dropped and 9 delivered."""
DROPPED = 21
LEFT = [b"%d" % number for number in range(DROPPED, SENT)]

Default = Literal["policy", "all", "none"]


def account(running: Running, client_id: str) -> Account:
    found = next(each for each in running.broker.status().clients if each.client_id == client_id)
    return found.account


async def overflowed(running: Running, client_id: str, topic: str = "a", **how: Any) -> Peer:
    """A client whose queue has overflown while it was away, and who is back; `how` is how it subscribed."""
    version = how.pop("version", V5)
    kept: dict[str, Any] = {"session_expiry_s": 100} if version == V5 else {"clean": False}
    client = await running.connect(client_id, version=version, **kept)
    await client.subscribe(topic, **how)
    await away(running, client, client_id)
    sender = await running.connect(f"sender for {client_id}")
    for number in range(SENT):
        sender.publish0(topic.replace("+", "b").replace("#", "b"), b"%d" % number)
    await sender.settled()
    return await running.connect(client_id, **({"version": version} | kept | {"clean": False}))


async def everything(client: Peer) -> tuple[list[bytes], list[Publish]]:
    """Items on their way to a client: payloads of events, and digests."""
    client.send(Pingreq())
    events: list[bytes] = []
    digests: list[Publish] = []
    while not isinstance(packet := await client.next(), Pingresp):
        assert isinstance(packet, Publish)
        if packet.qos == 1:
            client.send(Puback(packet.packet_id))
        if is_digest(packet) or packet.topic.startswith("$digest/"):
            digests.append(packet)
        else:
            events.append(packet.payload)
    return events, digests


@pytest.mark.parametrize("default", ["policy", "all", "none"])
@pytest.mark.parametrize("asked", ["", "on", "off"])
@pytest.mark.parametrize("policy", ["", "named", "installed"])
async def test_digests_come_in_the_stream_of_those_who_ask(default: Default, asked: str, policy: str) -> None:
    config = Config(
        data="",
        queues=Queues(events=10, digests=default),
        policies={"newest": "levels: [{keep: {latest: 3}}]"},
        install=(Installed(policy="newest", client="*", filter="a"),) if policy == "installed" else (),
    )
    user: tuple[tuple[str, str], ...] = (("digests", asked),) if asked else ()
    if policy == "named":
        user += (("policy", "newest"),)
    in_stream = asked == "on" if asked else default == "all" or (default == "policy" and bool(policy))
    async with node(config) as running:
        client = await overflowed(running, "c", user=user)
        events, digests = await everything(client)
        told = account(running, "c")
        assert bool(digests) == in_stream
        assert {each.topic for each in digests} <= {"a"}
        assert len(events) == told.delivered
        assert sum(body(each)["count"] for each in digests) == told.digested
        assert told.counted == (0 if in_stream else SENT - told.delivered)
        assert told.delivered + told.digested + told.counted == told.accepted == SENT
        assert running.broker.status().clients[0].subscriptions[0].digests_in_stream is in_stream
        assert running.account_holds()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("version", [V4, V5])
async def test_others_are_told_on_a_topic_of_its_own(version: int, qos: int) -> None:
    async with node(Config(data="", queues=SMALL)) as running:
        watcher = await running.connect("watcher", version=version)
        await watcher.subscribe("$digest/#", qos=qos)
        await watcher.subscribe("#")  # which does not match a topic that begins with $
        client = await overflowed(running, "c", "a/+", version=version)
        assert (await everything(client)) == (LEFT, [])
        for number in range(SENT):  # what the watcher gets as itself
            assert (await watcher.message()).payload == b"%d" % number
        message = await watcher.message()
        assert message.topic == "$digest/a/*"
        assert message.qos == qos
        assert not is_digest(message)
        assert message.properties.content_type == ("application/json" if version == V5 else None)
        told = body(message)
        assert (told["client"], told["filter"], told["count"]) == ("c", "a/+", DROPPED)
        assert told["causes"] == [{"level": 0, "position": 0, "filter": "oldest", "count": DROPPED}]
        assert await watcher.silent()
        assert account(running, "c").counted == DROPPED
        shown = [each for client in running.broker.status().clients for each in client.subscriptions]
        assert not any(each.digests_in_stream for each in shown)
        assert account(running, "watcher").delivered == SENT + 1
        assert running.account_holds()


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_client_may_hear_of_its_own_drops(version: int) -> None:
    async with node(Config(data="", queues=SMALL)) as running:
        kept: dict[str, Any] = {"version": version} | (
            {"session_expiry_s": 100} if version == V5 else {"clean": False}
        )
        first = await running.connect("c", **kept)
        await first.subscribe("$digest/a", qos=1)
        await away(running, first, "c")
        again = await running.connect("c", **(kept | {"clean": False}))
        client = await overflowed_again(running, again, kept)
        events, digests = await everything(client)
        if not digests:
            digests = [await client.message()]
        assert events == LEFT
        assert [body(each)["count"] for each in digests] == [DROPPED]
        assert running.account_holds()


async def overflowed_again(running: Running, client: Peer, kept: dict[str, Any]) -> Peer:
    """The client subscribes to `a` as well, misses events, and is back."""
    await client.subscribe("a")
    await away(running, client, "c")
    sender = await running.connect("s")
    for number in range(SENT):
        sender.publish0("a", b"%d" % number)
    await sender.settled()
    return await running.connect("c", **(kept | {"clean": False}))


async def test_a_policy_of_the_operator_for_a_client_of_mqtt_3_is_told_beside_the_stream() -> None:
    config = Config(
        data="",
        queues=SMALL,
        policies={"newest": "levels: [{keep: {latest: 3}}]\ndigest: {pulse: [max]}"},
        install=(Installed(policy="newest", client="c", filter="a"),),
    )
    async with node(config) as running:
        watcher = await running.connect("watcher")
        await watcher.subscribe("$digest/#")
        events, digests = await everything(await overflowed(running, "c", version=V4))
        assert not digests
        told = [body(each) for each in (await everything(watcher))[1]]
        assert len(events) + sum(each["count"] for each in told) == SENT
        subscriptions = [each for one in running.broker.status().clients for each in one.subscriptions]
        assert [(each.policy, each.digests_in_stream) for each in subscriptions] == [
            ("", False),
            ("newest", False),
        ]
        assert running.account_holds()


async def test_nobody_is_told_of_digests_that_were_dropped() -> None:
    """A watcher that cannot follow: what it misses is counted, and no digest of digests follows."""
    async with node(Config(data="", queues=SMALL)) as running:
        watcher = await running.connect("watcher", session_expiry_s=100)
        await watcher.subscribe("$digest/#")
        await away(running, watcher, "watcher")
        for number in range(20):
            await everything(await overflowed(running, f"c{number}", f"a{number}"))
        other = await running.connect("other")
        await other.subscribe("$digest/#")
        watcher = await running.connect("watcher", session_expiry_s=100, clean=False)
        _, digests = await everything(watcher)
        assert len(digests) == 9
        assert account(running, "watcher").counted == 11
        assert await other.silent()
        assert running.account_holds()


async def test_access_lists_apply_to_digests_as_to_the_events() -> None:
    rules = (
        Rule(client="c*"),
        Rule(client="sender*"),
        Rule(client="boss"),
        Rule(client="nurse", action="subscribe", topic="ward/#"),
        Rule(client="nurse", action="subscribe", topic="+"),
        Rule(client="auditor", action="subscribe", topic="$digest/#"),
    )
    async with node(Config(data="", queues=SMALL, acl=rules)) as running:
        nurse, boss, auditor = [await running.connect(name) for name in ("nurse", "boss", "auditor")]
        assert (await nurse.subscribe("$digest/#", "$digest/office")).reasons == (0x87, 0)
        assert (await nurse.subscribe("$digest/ward/#", "$digest/+")).reasons == (0, 0)
        assert (await boss.subscribe("$digest/#")).reasons == (0,)
        assert (await auditor.subscribe("$digest/#", "ward/1")).reasons == (0, 0x87)
        for number, topic in enumerate(("ward/1", "lab/1", "#")):
            await everything(await overflowed(running, f"c{number}", topic))
        heard = [
            [body(each)["filter"] for each in (await everything(client))[1]]
            for client in (nurse, boss, auditor)
        ]
        # `$digest/+` matches the topic of the digests of `#`, but `+` does not cover what they are about.
        assert heard == [["ward/1"], ["ward/1", "lab/1", "#"], ["ward/1", "lab/1", "#"]]
        assert running.account_holds()


async def test_what_a_subscription_asked_is_kept(tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with node(Config(data="", queues=SMALL), store=Store(store)) as running:
        client = await running.connect("c", session_expiry_s=100)
        await client.subscribe("a", qos=1, user=(("digests", "on"),))
        await client.subscribe("b", qos=1)
    async with node(Config(data="", queues=SMALL), store=Store(store)) as running:
        (restored,) = running.broker.status().clients
        assert [(each.filter, each.digests_in_stream) for each in restored.subscriptions] == [
            ("a", True),
            ("b", False),
        ]
        client = await running.connect("c", session_expiry_s=100, clean=False)
        await client.subscribe("a", qos=1)  # once more, and now it does not say
        assert not running.broker.status().clients[0].subscriptions[0].digests_in_stream


async def test_the_setting_can_be_changed_while_the_node_runs() -> None:
    async with node(Config(data="", queues=SMALL)) as running:
        client = await running.connect("c", session_expiry_s=100)
        await client.subscribe("a")
        running.broker.reconfigure(Config(data="", queues=Queues(events=10, digests="all")))
        assert running.broker.status().clients[0].subscriptions[0].digests_in_stream


async def test_a_shared_group_may_listen() -> None:
    async with node(Config(data="", queues=SMALL)) as running:
        members = [await running.connect(f"m{number}") for number in range(2)]
        for member in members:
            await member.subscribe("$share/g/$digest/#")
        for number in range(4):
            await everything(await overflowed(running, f"c{number}"))
        heard = [len((await everything(member))[1]) for member in members]
        assert sum(heard) == 4
        assert running.account_holds()


async def test_what_was_dropped_from_a_topic_as_long_as_can_be_is_counted_and_not_told() -> None:
    longest = "a" * 65_535
    async with node(Config(data="", queues=SMALL)) as running:
        watcher = await running.connect("watcher", session_expiry_s=100)
        await watcher.subscribe("$digest/#", qos=1)
        await everything(await overflowed(running, "c", longest))
        await everything(await overflowed(running, "d", "a"))
        assert (await watcher.message()).topic == "$digest/a"
        await away(running, watcher, "watcher")
        watcher = await running.connect("watcher", clean=False, session_expiry_s=100)
        assert await watcher.silent()
        assert account(running, "c").counted == DROPPED
        assert running.account_holds()
