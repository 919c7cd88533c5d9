"""Topics across nodes, over a network that a test can disturb."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec
import pytest

from penstock.core.cluster.frames import VERSION, Carried, Wants, data_frame, encode_item
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.publish import Puback, Publish
from penstock.node.store.tables import Store
from tests.kit.cluster import Network, member, members, settled, told
from tests.kit.effort import SIZE
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.cluster import Member


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_a_message_published_anywhere_after_suback_reaches_the_subscriber(qos: int) -> None:
    async with members(Network(delay_s=0.01), "n1", "n2", "n3") as nodes:
        phone = await nodes[2].connect("phone")
        await phone.subscribe("ward/+/pulse", qos=2)
        for number, at in enumerate(nodes):
            sensor = await at.connect(f"sensor{number}")
            payload = b"%d" % number
            if qos == 0:
                sensor.publish0("ward/1/pulse", payload)
            elif qos == 1:
                assert (await sensor.publish1("ward/1/pulse", payload)).reason == Reason.SUCCESS
            else:
                await sensor.publish2("ward/1/pulse", payload)
            found = await phone.message()
            assert (found.topic, found.payload, found.qos) == ("ward/1/pulse", payload, qos)
        assert await phone.silent()


async def test_what_nobody_wants_does_not_cross_and_its_publisher_is_told() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        assert (await sensor.publish1("b", b"x")).reason == Reason.NO_MATCHING_SUBSCRIBERS
        await phone.unsubscribe("a")
        assert (await sensor.publish1("a", b"x")).reason == Reason.NO_MATCHING_SUBSCRIBERS
        assert n1.to("n2").link.account().accepted == 0


async def test_a_message_crosses_a_link_once_however_many_receivers_are_behind_it() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phones = [await n2.connect(f"phone{number}") for number in range(5)]
        for number, phone in enumerate(phones):
            await phone.subscribe("a/#", qos=number % 2)
            await phone.subscribe("+/b", qos=1)
        sensor = await n1.connect("sensor")
        await sensor.publish1("a/b", b"x")
        assert n1.to("n2").link.account().accepted == 1
        assert [(await phone.message()).payload for phone in phones] == [b"x"] * 5


async def test_properties_and_expiry_cross_and_runs_do() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        await sensor.publish1("a", b"x", user=(("k", "v"),), content_type="text/plain", message_expiry_s=60)
        found = await phone.message()
        assert found.properties.user == (("k", "v"),)
        assert found.properties.content_type == "text/plain"
        assert 0 < (found.properties.message_expiry_s or 0) <= 60
        for number in range(500):
            sensor.publish0("a", b"%d" % number)
        assert await phone.payloads(500) == [b"%d" % number for number in range(500)]


@pytest.mark.slow
async def test_a_network_that_loses_repeats_and_reorders_loses_nothing_and_repeats_nothing() -> None:
    network = Network(7, lose=0.1, repeat=0.1, delay_s=0.02)
    async with members(network, "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=2)
        sensors = [await n1.connect(f"s{number}") for number in range(2)]
        every = 30 if SIZE == "fast" else 10  # the other node has each of these before the next is sent
        for number in range(150):
            sensors[0].publish0("a", b"0:%d" % number)
            if number % every == 0:
                await sensors[1].publish2("a", b"1:%d" % number)
        total = 150 + 150 // every
        found = await phone.payloads(total)
        assert [one for one in found if one[:1] == b"0"] == [b"0:%d" % number for number in range(150)]
        assert [one for one in found if one[:1] == b"1"] == [
            b"1:%d" % number for number in range(0, 150, every)
        ]
        assert await phone.silent()
        await settled(n1, n2)
        account = n1.to("n2").link.account()
        assert account.handed == account.accepted == n2.to("n1").received == total
        assert n1.running.account_holds()
        assert n2.running.account_holds()


async def test_puback_means_in_the_hands_of_the_other_node() -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=60) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        waiting = asyncio.ensure_future(sensor.publish1("a", b"x"))
        await until(lambda: n1.to("n2").link.account().in_flight == 1)
        await asyncio.sleep(0.05)
        assert not waiting.done()
        network.thaw("n2")
        assert (await waiting).reason == Reason.SUCCESS
        assert n1.to("n2").link.account().handed == 1
        assert (await phone.message()).payload == b"x"


async def test_answers_keep_their_order_while_one_waits_for_another_node() -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=60) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("far", qos=1)
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        for number, topic in enumerate(["far", "near", "far"], start=1):
            sensor.send(Publish(topic, b"x", qos=1, packet_id=number))
        await until(lambda: n1.to("n2").link.backlog.accepted == 2)
        network.thaw("n2")
        assert [(await sensor.answer(Puback)).packet_id for _ in range(3)] == [1, 2, 3]
        assert await phone.payloads(2) == [b"x", b"x"]


async def test_a_publisher_waits_no_longer_than_configured_for_a_node_that_does_not_answer() -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=0.1) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        await sensor.publish1("a", b"x")
        assert n1.to("n2").link.account().in_flight == 1
        network.thaw("n2")
        assert (await phone.message()).payload == b"x"


async def test_suback_waits_for_the_other_nodes_and_not_for_one_that_is_away() -> None:
    network = Network()
    async with members(network, "n1", "n2", wait_s=60) as (n1, _):
        phone = await n1.connect("phone")
        network.freeze("n2")
        waiting = asyncio.ensure_future(phone.subscribe("a"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        network.thaw("n2")
        await waiting
        network.cut("n1", "n2")
        await phone.subscribe("b")
        network.mend("n1", "n2")
        await until(lambda: "b" in n1.to("n2").link.interest._filters and n1.to("n2").link.told)


async def test_a_cut_link_keeps_what_fits_and_tells_the_rest_in_digests() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=10) as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a/#", user=(("digests", "on"),))
        await phone.subscribe("a/1", user=(("digests", "on"),))
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for number in range(100):
            sensor.publish0(f"a/{number % 2}", b"%d" % number)
        await sensor.settled()
        assert n1.to("n2").link.account().queued == 10
        network.mend("n1", "n2")
        await settled(n1, n2)
        account = n1.to("n2").link.account()
        assert (account.digested, account.handed, account.balanced) == (90, 10, True)
        events, digested = await told(phone)
        assert events == [b"%d" % number for number in range(90, 100)]
        assert digested == 90 + 45  # all for a/#, half of them for a/1
        assert n2.running.account_holds()


async def test_digests_for_a_shared_subscription_go_to_one_of_its_members() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=3) as (n1, n2):
        phones = [await n2.connect(f"phone{number}") for number in range(2)]
        for phone in phones:
            await phone.subscribe("$share/g/a", user=(("digests", "on"),))
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for number in range(9):
            sensor.publish0("a", b"%d" % number)
        await sensor.settled()
        network.mend("n1", "n2")
        await settled(n1, n2)
        found = [await told(phone) for phone in phones]
        assert sorted(each for events, _ in found for each in events) == [b"6", b"7", b"8"]
        assert sum(digested for _, digested in found) == 6


# -- retained messages ---------------------------------------------------------------------------------------


async def retained(at: Member, topic: str) -> list[bytes]:
    client = await at.connect("looks")
    await client.subscribe(topic)
    found = await told(client)
    return found[0]


async def test_a_retained_message_is_at_every_node_and_the_last_writer_counts() -> None:
    async with members(Network(delay_s=0.005), "n1", "n2", "n3") as nodes:
        for number, at in enumerate(nodes):
            sensor = await at.connect("sensor")
            await sensor.publish1("a", b"%d" % number, retain=True)
            await settled(*nodes)
        for at in nodes:
            assert await retained(at, "#") == [b"2"]
        sensor = await nodes[1].connect("sensor")
        await sensor.publish1("a", b"", retain=True)
        await settled(*nodes)
        for at in nodes:
            assert await retained(at, "#") == []


async def test_a_live_subscriber_gets_a_retained_message_once() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        assert (await sensor.publish1("a", b"x", retain=True)).reason == Reason.SUCCESS
        assert await phone.payloads(1) == [b"x"]
        assert await phone.silent()
        assert n1.to("n2").link.account().accepted == 1


async def test_a_node_that_joins_gets_what_is_retained_and_brings_what_it_has() -> None:
    network = Network()
    async with member(network, "n1") as n1, member(Network(), "alone") as alone:
        sensor = await n1.connect("sensor")
        for number in range(300):
            sensor.publish0(f"kept/{number}", b"x" * 1_000, retain=True)
        await sensor.publish1("gone", b"x", retain=True)
        await sensor.publish1("gone", b"", retain=True)
        async with member(network, "n2") as n2:
            await settled(n1, n2)
            assert len(n2.broker.retained.topics("kept/#")) == 300
            assert n2.broker.retained.topics("gone") == []
            assert n2.to("n1").received == 0  # kept, and not taken for new ones
        assert alone.service.status().members == ()


async def test_after_a_partition_both_sides_have_the_later_message() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        network.cut("n1", "n2")
        one, other = await n1.connect("s"), await n2.connect("s")
        await one.publish1("a", b"first", retain=True)
        await other.publish1("a", b"second", retain=True)
        await other.publish1("b", b"first", retain=True)
        await one.publish1("b", b"second", retain=True)
        network.mend("n1", "n2")
        await settled(n1, n2)
        for at in (n1, n2):
            assert sorted(await retained(at, "#")) == [b"second", b"second"]


async def test_retained_messages_that_a_full_link_drops_are_at_the_other_node_all_the_same() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=2) as (n1, n2):
        network.cut("n1", "n2")
        sensor = await n1.connect("sensor")
        for number in range(20):
            await sensor.publish1(f"kept/{number % 10}", b"%d" % number, retain=True)
        await sensor.publish1("kept/0", b"", retain=True)
        network.mend("n1", "n2")
        await settled(n1, n2)
        assert sorted(await retained(n2, "kept/#"), key=int) == [b"%d" % number for number in range(11, 20)]


async def test_a_retained_message_that_only_some_nodes_have_when_its_node_dies_spreads() -> None:
    network = Network()
    async with members(network, "n1", "n2") as (n1, n2):
        async with member(network, "n3") as n3:
            await settled(n1, n2, n3)
            network.cut("n2", "n3")
            sensor = await n3.connect("sensor")
            await sensor.publish1("a", b"last", retain=True)
            await settled(n1, n3)
        assert await retained(n2, "a") == []
        network.cuts.clear()
        async with member(network, "n3"):  # started again, without a disk
            await settled(n1, n2)
            assert await retained(n2, "a") == [b"last"]


# -- what stays at its node ----------------------------------------------------------------------------------


async def test_topics_of_a_node_stay_there() -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("$SYS/#", "$digest/#")
        n1.broker.publish("$SYS/broker/x", b"1", retain=True)
        n1.broker.publish("$digest/a", b"{}")
        await settled(n1, n2)
        assert await phone.silent()
        assert n1.to("n2").link.account().accepted == 0
        assert n1.to("n2").link.theirs.filters == {}


async def test_a_message_of_another_node_goes_no_further() -> None:
    async with members(Network(), "n1", "n2", "n3") as nodes:
        for number, at in enumerate(nodes):
            await (await at.connect(f"phone{number}")).subscribe("a")
        sensor = await nodes[0].connect("sensor")
        await sensor.publish1("a", b"x")
        await settled(*nodes)
        assert [at.service.status().events.accepted for at in nodes] == [2, 0, 0]


# -- nodes come and go ---------------------------------------------------------------------------------------


async def test_a_restarted_node_tells_what_it_wants_and_what_waited_for_it_is_abandoned() -> None:
    network = Network()
    async with member(network, "n1") as n1:
        sensor = await n1.connect("sensor")
        async with member(network, "n2") as n2:
            await (await n2.connect("phone")).subscribe("a")
            await settled(n1, n2)
            n2.wire.send = lambda *_: None  # type: ignore[method-assign]  # killed: says no more
            sensor.publish0("a", b"lost")
            await sensor.settled()
        assert n1.service.status().away == 1
        async with member(network, "n2") as n2:
            assert n1.service.status().away == 0
            phone = await n2.connect("phone")
            await phone.subscribe("b", qos=1)
            await sensor.publish1("b", b"x")
            assert await phone.payloads(1) == [b"x"]
            status = n1.service.status()
            assert (status.events.abandoned, status.events.handed, status.balanced) == (1, 1, True)


async def test_what_is_published_while_a_node_is_restarted_reaches_its_kept_sessions(tmp_path: Path) -> None:
    network = Network()
    async with member(network, "n1") as n1:
        sensor = await n1.connect("sensor")
        store = Store(tmp_path / "store.sqlite")
        async with member(network, "n2", store=store) as n2:
            phone = await n2.connect("phone", session_expiry_s=600)
            await phone.subscribe("a", qos=1)
            await sensor.publish1("a", b"0")
            assert await phone.payloads(1) == [b"0"]
            await phone.settled()
        store.close()
        for number in range(1, 4):
            await sensor.publish1("a", b"%d" % number)
        assert n1.service.status().events.queued == 3
        store = Store(tmp_path / "store.sqlite")
        async with member(network, "n2", store=store) as n2:
            phone = await n2.connect("phone", clean=False, session_expiry_s=600)
            assert await phone.payloads(3) == [b"1", b"2", b"3"]
            await settled(n1, n2)
            events = n1.service.status().events
            assert (events.accepted, events.handed, events.abandoned) == (4, 4, 0)
        store.close()


async def test_strangers_stay_out_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    async with (
        member(network, "n1") as n1,
        member(network, "n2", cluster="lab"),
        member(network, "n3", version=VERSION + 1),
        member(network, "n4") as n4,
    ):
        assert list(n1.service._peers) == ["n4"]
        assert list(n4.service._peers) == ["n1"]
    assert "node n2 stays out: it belongs to cluster 'lab', and this is 'ward'" in caplog.text
    assert (
        f"node n3 stays out: it speaks version {VERSION + 1} of the cluster protocol, and this node {VERSION}"
        in caplog.text
    )


async def test_of_two_nodes_with_one_name_the_earlier_leaves(caplog: pytest.LogCaptureFixture) -> None:
    network = Network()
    async with (
        member(network, "n1") as first,
        member(network, "n1") as second,
        member(network, "n2") as other,
    ):
        await until(lambda: first.wire.own not in network.nodes)
        assert "Each node needs a cluster.node of its own" in caplog.text
        assert "left the cluster" in first.service.status().problem
        await settled(second, other)
        assert other.to("n1").seen == second.wire.own


async def test_damaged_frames_and_forbidden_topics_are_refused_and_others_are_not_disturbed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    network = Network()
    async with members(network, "n1", "n2", "n3") as (n1, n2, n3):
        phone = await n1.connect("phone")
        await phone.subscribe("a", qos=1)
        next_number = n1.to("n2").link.taken + 1
        for frame in (
            b"",
            b"garbage",
            data_frame(next_number, b"\xff" * 50),
            data_frame(
                next_number,
                encode_item(Carried(1, "a/#", b"", 0)) + encode_item(Carried(2, "$SYS/x", b"", 0)),
            ),
            data_frame(
                next_number + 1,
                encode_item(Wants(99, False, ["x"]))
                + encode_item(Carried(3, "a", b"", 0, properties=b"\xff\xff")),
            ),
        ):
            n1.wire.arrive(n2.wire.own, frame)
        assert n1.to("n2").damaged == 7
        assert "is each node's own" in caplog.text
        assert "are not a frame" in caplog.text
        sensor = await n3.connect("sensor")
        await sensor.publish1("a", b"x")
        assert await phone.payloads(1) == [b"x"]


async def test_complaints_about_one_node_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async with members(Network(), "n1", "n2") as (n1, n2):
        for _ in range(300):
            n1.wire.arrive(n2.wire.own, b"garbage")
        assert n1.to("n2").damaged == 300
        assert caplog.text.count("not a frame") == 100


# -- the disk ------------------------------------------------------------------------------------------------


async def test_a_message_for_a_kept_session_is_on_disk_before_the_other_node_is_told(tmp_path: Path) -> None:
    store = Store(tmp_path / "store.sqlite")
    network = Network()
    async with member(network, "n1") as n1, member(network, "n2", store=store) as n2:
        phone = await n2.connect("phone", session_expiry_s=600)
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        acknowledged: list[bool] = []
        journal = n2.broker.journal
        assert journal is not None
        before = n2.wire.send

        def send(to: object, frame: bytes) -> None:
            acknowledged.append(journal.behind)
            before(to, frame)  # type: ignore[arg-type]

        n2.wire.send = send  # type: ignore[method-assign]
        await sensor.publish1("a", b"x")
        assert acknowledged
        assert not acknowledged[-1]
        assert (await phone.message()).payload == b"x"
    store.close()


async def test_status_has_members_links_and_the_account_of_all_nodes() -> None:
    async with members(Network(), "n1", "n2", zone="east") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        sensor = await n1.connect("sensor")
        await sensor.publish1("a", b"x")
        n1.service._said_us = n2.service._said_us = 0
        await until(lambda: n2.service.status().total.handed == 1)
        status = n2.service.status()
        assert [(row.name, row.state, row.zone, row.load) for row in status.members] == [
            ("n1", "here", "east", 1)
        ]
        assert status.members[0].clients == (f"mqtt://127.0.0.1:{n1.running.port}",)
        assert (status.total.accepted, status.total.received, status.balanced) == (1, 1, True)
        assert n1.service.status().links[0].filters == 1
        assert n1.service.status().links[0].round_trip_us > 0
        assert status.faults == ()


async def test_settings_that_need_no_restart_apply_to_links_that_are_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    network = Network()
    async with members(network, "n1", "n2", "n3", queue_events=100) as (n1, n2, n3):
        phone = await n2.connect("phone")
        await phone.subscribe("a", user=(("digests", "on"),))
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for number in range(60):
            sensor.publish0("a", b"%d" % number)
        await until(lambda: n1.to("n2").link.account().queued == 60)
        settings = msgspec.structs.replace(
            n1.service._settings, queue_events=10, wait_s=0.0, move_s=0.5, zone="east", join=("tcp/h:1",)
        )
        n1.service.reconfigure(settings)
        account = n1.to("n2").link.account()
        assert (account.queued, account.digested, account.balanced) == (10, 50, True)
        assert (n1.service.moves.wait_us, n1.wire.joined) == (500_000, ("tcp/h:1",))
        assert "the new cluster.join counts when this node is alone" in caplog.text
        await until(lambda: [one.zone for one in n3.service.status().members if one.name == "n1"] == ["east"])
        network.mend("n1", "n2")
        await settled(n1, n2)
        assert await told(phone) == ([b"%d" % number for number in range(50, 60)], 50)
        network.freeze("n2")
        assert (await sensor.publish1("a", b"x")).reason == Reason.SUCCESS, "it waits for nobody"
        network.thaw("n2")


async def test_a_node_that_was_started_anew_is_taken_to_want_what_it_did_until_it_says_what_it_does() -> None:
    """It is seen before it speaks: what is published in between is for its kept sessions, too."""
    async with members(Network(), "n1", "n2") as (n1, n2):
        phone = await n2.connect("phone")
        await phone.subscribe("a", qos=1)
        await phone.subscribe("b", qos=1)
        sensor = await n1.connect("sensor")
        own = n2.service.own
        anew = own._replace(incarnation=own.incarnation + 100)
        n1.service.appeared(anew)
        for number in range(3):
            sensor.publish0("a", b"%d" % number)
        await until(lambda: n1.to("n2").link.account().accepted == 3)
        said = Wants(1, True, ["b"])
        n1.service.received(anew, data_frame(1, encode_item(said)))
        assert list(n1.to("n2").link.theirs.filters) == ["b"]
        assert (await sensor.publish1("a", b"x")).reason == Reason.NO_MATCHING_SUBSCRIBERS
        n1.service.vanished(anew)  # n1 stops without waiting for it
