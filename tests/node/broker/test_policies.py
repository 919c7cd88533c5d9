"""Policies, content filters and digests as clients meet them, over real sockets."""

from __future__ import annotations

import json
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from penstock.errors import PolicyError
from penstock.model.digest import Cause, Digest
from penstock.model.digest_wire import COMPACT_MARK, JSON_MARK, from_message, to_compact, to_json
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.publish import Publish
from penstock.node.config.schema import Config, Installed, Queues
from penstock.node.store.tables import STORE, Store
from tests.kit.digests_received import away, body, is_digest
from tests.kit.peer import node
from tests.kit.vitals import VITALS, pulse

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.node.broker.status import SubscriptionStatus
    from tests.kit.peer import Peer, Running

SMALL = Queues(events=10)


def subscription(running: Running, client_id: str) -> SubscriptionStatus:
    client = next(each for each in running.broker.status().clients if each.client_id == client_id)
    return client.subscriptions[0]


@pytest.mark.parametrize("form", ["", "compact", "json"])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_full_queue_keeps_what_its_policy_says_and_digests_the_rest(
    tmp_path: Path, form: str, *, restarted: bool
) -> None:
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            node(Config(data="", queues=SMALL), store=Store(tmp_path / STORE))
        )
        phone = await running.connect("phone", session_expiry_s=100)
        asked = (("policy", VITALS), *((("digests", form),) if form else ()))
        answer = await phone.subscribe("ward/pulse", qos=1, user=asked)
        assert answer.reasons == (1,)
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        values = [70, 71, 72, 150, 73, 74, 75, 30, 76, 77, 78, 79]
        for value in values:
            await sensor.publish1("ward/pulse", pulse(value))
        status = subscription(running, "phone")
        assert (status.policy, status.packs, status.level) == ("vitals", 1, 1)
        if restarted:
            await stack.aclose()
            running = await stack.enter_async_context(
                node(Config(data="", queues=SMALL), store=Store(tmp_path / STORE))
            )
        phone = await running.connect("phone", clean=False, session_expiry_s=100)
        found = [await phone.message() for _ in range(status.items)]
        kept = [body(each)["pulse"] for each in found if not is_digest(each)]
        assert {150, 30} <= set(kept)
        digests = [body(each) for each in found if is_digest(each)]
        assert len(kept) + sum(each["count"] for each in digests) == len(values)
        assert {each.topic for each in found} == {"ward/pulse"}
        marks = {each.properties.user[0] for each in found if is_digest(each)}
        types = {each.properties.content_type for each in found if is_digest(each)}
        if form == "json":
            assert (marks, types) == ({JSON_MARK}, {"application/json"})
            assert digests[0]["filter"] == "ward/pulse"
        else:
            assert (marks, types) == ({COMPACT_MARK}, {"digest/2"})
        first = digests[0]
        assert first["level"] == 1
        assert first["seq"] == [1, 3]
        assert first["causes"] == [{"level": 1, "position": 1, "filter": "within", "count": 3}]
        assert first["attributes"]["pulse"]["mean"] == 71
        status = subscription(running, "phone")
        assert status.digests == len(digests)
        if not restarted:
            assert [(each.filter, each.dropped) for each in status.filters] == [("within", 8)]
        assert running.account_holds()


@pytest.mark.parametrize("compact", [False, True])
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_publishers_digest_is_what_it_stands_for_and_no_event(
    tmp_path: Path, *, restarted: bool, compact: bool
) -> None:
    """A client that packs before it sends: what it dropped is counted on, whatever the policy here takes."""
    before = Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))

    async def packed(running: Running, sensor: Peer) -> None:
        for value in (71, 150, 73, 74, 75, 30, 76, 77, 78, 79):
            await sensor.publish1("ward/pulse", pulse(value))
        status = subscription(running, "phone")
        assert status.packs
        phone = await running.connect("phone", clean=False, session_expiry_s=100)
        found = [await phone.message() for _ in range(status.items)]
        digests = [each for each in found if is_digest(each) and each.payload != b"no digest"]
        assert len(found) - len(digests) + sum(body(each)["count"] for each in digests) == 12 + 5
        assert running.account_holds()

    async with node(Config(data="", queues=SMALL), store=Store(tmp_path / STORE)) as running:
        phone = await running.connect("phone", session_expiry_s=100)
        await phone.subscribe("ward/pulse", qos=1, user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        await sensor.publish1("ward/pulse", pulse(70))
        said = to_compact(before) if compact else json.dumps(to_json(before)).encode()
        await sensor.publish1("ward/pulse", said, user=(COMPACT_MARK if compact else JSON_MARK,))
        await sensor.publish1("ward/pulse", b"no digest", user=(JSON_MARK,))
        if not restarted:
            await packed(running, sensor)
    if restarted:
        async with node(Config(data="", queues=SMALL), store=Store(tmp_path / STORE)) as running:
            await packed(running, await running.connect("sensor"))


@pytest.mark.parametrize("changed", [{"attributes": {"x": {"first": 2**70}}}, {"from_us": -(2**70)}])
async def test_a_node_keeps_a_publishers_digest_with_numbers_of_any_size(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    said = to_json(Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))) | changed
    async with node(store=Store(tmp_path / STORE)) as running:
        phone = await running.connect("phone", session_expiry_s=100)
        await phone.subscribe("a", qos=1, user=(("policy", "levels: [{keep: {latest: 3}}]"),))
        await away(running, phone, "phone")
        sensor = await running.connect("sensor")
        for _ in range(2):
            await sensor.publish1("a", json.dumps(said).encode(), user=(JSON_MARK,))
        waiting = subscription(running, "phone").account.queued
        assert waiting == (10 if "attributes" in changed else 2)  # else it is no digest
    async with node(store=Store(tmp_path / STORE)) as running:
        assert subscription(running, "phone").account.queued == waiting


async def test_without_a_policy_the_oldest_go_into_one_count() -> None:
    async with node(Config(data="", queues=SMALL)) as running:
        client = await running.connect("c", session_expiry_s=100)
        await client.subscribe("a/+", user=(("digests", "on"),))
        await away(running, client, "c")
        sender = await running.connect("s")
        for number in range(30):
            sender.publish0(f"a/{number % 2}", b"%d" % number)
        await sender.settled()
        client = await running.connect("c", clean=False, session_expiry_s=100)
        first = await client.message()
        assert is_digest(first)
        assert first.topic == "a/*"
        assert body(first)["causes"] == [{"level": 0, "position": 0, "filter": "oldest", "count": 21}]
        assert await client.payloads(9) == [b"%d" % number for number in range(21, 30)]
        assert running.account_holds()


@pytest.mark.parametrize(("version", "form"), [(4, ""), (5, ""), (5, "json")])
async def test_a_publishers_digest_reaches_each_receiver_in_a_form_it_reads(version: int, form: str) -> None:
    before = Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))
    async with node(Config(data="", queues=SMALL)) as running:
        phone = await running.connect("phone", version=version)
        await phone.subscribe("a", user=(("digests", form),) if form else ())
        sensor = await running.connect("sensor")
        await sensor.publish1("a", to_compact(before), user=(("other", "1"), COMPACT_MARK))
        found = await phone.message()
        assert from_message(found.payload)[0] == before
        assert found.payload.startswith(b"{") is (version == 4 or form == "json")
        if version == 5:
            assert found.properties.user == (("other", "1"), JSON_MARK if form else COMPACT_MARK)


@pytest.mark.parametrize(("version", "form"), [(4, ""), (5, ""), (5, "json")])
async def test_a_publishers_digest_that_is_sent_again_is_in_that_form_too(version: int, form: str) -> None:
    before = Digest(5, 1, 2, 1, 5, ((Cause(1, 1, "within"), 5),))
    async with node() as running:
        phone = await running.connect("phone", session_expiry_s=100)
        await phone.subscribe("a", qos=1)
        sensor = await running.connect("sensor")
        await sensor.publish1("a", to_compact(before), user=(COMPACT_MARK,))
        assert (await phone.expect(Publish)).payload == to_compact(before)
        if form:
            await phone.subscribe("a", qos=1, user=(("digests", form),))
        await away(running, phone, "phone")
        kept = {"session_expiry_s": 100} if version == 5 else {}
        phone = await running.connect("phone", version=version, clean=False, **kept)
        again = await phone.expect(Publish)
        assert again.dup
        assert from_message(again.payload)[0] == before
        assert again.payload.startswith(b"{") is (version == 4 or form == "json")


@pytest.mark.parametrize(
    ("prop", "text", "says"),
    [
        ("policy", "levels: [drop: {withn: [1, 2]}]", "within"),
        ("policy", "vitls", "vitals"),
        ("policy", "{", ""),
        ("filter", "keep: {gt: }", "gt"),
        ("filter", "drop: {latest: 3}", "latest"),
        ("filter", "nonsense", ""),
        ("digests", "xml", "found 'xml'; allowed: on, off, compact, json"),
    ],
)
async def test_a_bad_policy_is_refused_with_reasons_and_the_connection_lives(
    prop: str, text: str, says: str
) -> None:
    async with node(Config(data="", policies={"vitals": VITALS})) as running:
        client = await running.connect("c")
        answer = await client.subscribe("a", user=((prop, text),))
        assert answer.reasons == (Reason.IMPLEMENTATION_SPECIFIC,)
        assert says in (answer.properties.reason_string or "")
        ((name, said),) = answer.properties.user
        assert name == f"{prop}-error"
        assert said.startswith("a: ")
        assert says in said
        assert await client.silent()
        assert running.broker.status().subscriptions == 0


async def test_policies_by_name_and_by_installation() -> None:
    config = Config(
        data="",
        policies={"vitals": VITALS},
        install=(Installed(policy="vitals", client="phone-*", filter="ward/#"),),
    )
    async with node(config) as running:
        named = await running.connect("a")
        await named.subscribe("x", user=(("policy", "vitals"),))
        installed = await running.connect("phone-1")
        await installed.subscribe("ward/+/pulse")
        other = await running.connect("phone-2")
        await other.subscribe("office")
        assert [subscription(running, name).policy for name in ("a", "phone-1", "phone-2")] == [
            "vitals",
            "vitals",
            "",
        ]


async def test_a_content_filter_is_asked_before_queueing() -> None:
    async with node() as running:
        client = await running.connect("c")
        await client.subscribe("a", user=(("filter", "keep: {gt: 100, attribute: pulse}"),))
        sender = await running.connect("s")
        for value in (70, 120, 80, 130):
            sender.publish0("a", pulse(value))
        await sender.publish1("a", pulse(60))
        await sender.publish1("a", pulse(140))
        assert [body(await client.message())["pulse"] for _ in range(3)] == [120, 130, 140]
        status = subscription(running, "c")
        assert status.content_filter
        assert status.account.accepted == 3


async def test_content_filters_may_be_chains() -> None:
    async with node() as running:
        client = await running.connect("c")
        chain = "- keep: {ge: 10}\n- drop: {within: [20, 30]}"
        await client.subscribe("a", user=(("filter", chain),))
        sender = await running.connect("s")
        for value in (5, 15, 25, 35):
            sender.publish0("a", b"%d" % value)
        assert await client.payloads(2) == [b"15", b"35"]
        assert await client.silent()


async def test_another_policy_for_a_live_subscription_keeps_what_waits() -> None:
    async with node(Config(data="", policies={"vitals": VITALS})) as running:
        client = await running.connect("c", session_expiry_s=100)
        await client.subscribe("a")
        await away(running, client, "c")
        for value in (60, 150, 70):
            running.broker.publish("a", pulse(value))
        running.broker.install_policy("c", "a", "vitals")
        assert subscription(running, "c").policy == "vitals"
        assert subscription(running, "c").account.queued == 3
        with pytest.raises(PolicyError):
            running.broker.install_policy("c", "a", "unknown")
        running.broker.install_policy("c", "a", None)
        assert subscription(running, "c").policy == ""
        client = await running.connect("c", clean=False, session_expiry_s=100)
        assert [body(await client.message())["pulse"] for _ in range(3)] == [60, 150, 70]
        assert running.account_holds()


async def test_reconfiguring_changes_policies_of_live_subscriptions_and_closes_nothing() -> None:
    before = Config(data="", policies={"p": VITALS}, install=(Installed(policy="p", filter="ward/#"),))
    async with node(before) as running:
        client = await running.connect("c")
        await client.subscribe("ward/1")
        inline = await running.connect("i")
        await inline.subscribe("ward/1", user=(("policy", VITALS),))
        after = Config(data="", policies={"q": "levels: [drop: uniq]"}, queues=SMALL)
        running.broker.reconfigure(after)
        assert subscription(running, "c").policy == ""
        assert subscription(running, "i").policy == "vitals"
        with pytest.raises(PolicyError):
            running.broker.reconfigure(Config(data="", policies={"q": "levels: 7"}))
        await client.subscribe("x", user=(("policy", "q"),))
        await client.publish1("ward/1", b"x")
        assert (await client.message()).payload == b"x"
        assert (await inline.message()).payload == b"x"
