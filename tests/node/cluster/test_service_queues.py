"""Links that are behind are packed by the policies of the receivers at the other node."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.cluster.frames import Wants, data_frame, encode_item
from penstock.core.cluster.interest import canonical
from penstock.mqtt.codes import V5
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.policy.text.forms import parse
from tests.kit.cluster import Network, members, settled, told
from tests.kit.waiting import until

if TYPE_CHECKING:
    from penstock.node.cluster.status import LinkRow
    from tests.kit.cluster import Member
    from tests.kit.peer import Peer

LATEST = "levels: [{keep: {latest: 3}}]"
FILL = 5
"""Large messages that fill the window of a link."""
EVERY = "levels: [{drop: {every: 2}}, {drop: {every: 2}}]"


async def subscribed(at: Member, name: str, filter_: str, policy: str = "", *, qos: int = 0) -> Peer:
    client = await at.connect(name)
    asked = (("policy", policy),) if policy else (("digests", "on"),)
    await client.subscribe(filter_, qos=qos, user=asked)
    return client


async def fill_window(sensor: Peer, topic: str) -> None:
    """Fill the window of a link whose other end is frozen: what follows waits, in reach of the policies."""
    for _ in range(FILL):
        sensor.publish0(topic, b"x" * 60_000)
        await sensor.settled()


async def everything(at: Member, name: str, client: Peer) -> tuple[list[bytes], int]:
    """Messages until nothing waits for a client, and events counted in digests among them."""
    events, digested = await told(client)
    session = at.broker.sessions.get(name)
    assert session is not None
    while session.delivery.waiting:
        more, further = await told(client)
        events += more
        digested += further
    more, further = await told(client)
    return events + more, digested + further


def link_row(at: Member, name: str) -> LinkRow:
    (found,) = (row for row in at.service.status().links if row.name == name)
    return found


@pytest.mark.parametrize("policy", ["", LATEST])
async def test_a_burst_that_the_queue_does_not_hold_crosses_an_idle_link(policy: str) -> None:
    async with members(Network(), "n1", "n2", queue_events=10) as (n1, n2):
        phone = await subscribed(n2, "phone", "a", policy)
        await settled(n1, n2)
        sensor = await n1.connect("sensor")
        sensor.writer.write(b"".join(encode(Publish("a", b"%d" % number), V5) for number in range(500)))
        assert await phone.payloads(500) == [b"%d" % number for number in range(500)]
        events = link_row(n1, "n2").events
        assert (events.accepted, events.digested) == (500, 0)


@pytest.mark.parametrize("how", ["cut", "frozen"])
async def test_a_link_that_is_behind_is_packed_for_each_receiver_by_its_policy(how: str) -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=40, wait_s=0.05) as (n1, n2):
        ward = await subscribed(n2, "ward", "a/#", LATEST)
        twin = await subscribed(n2, "twin", "a/#", LATEST)
        room = await subscribed(n2, "room", "a/1", EVERY)
        plain = await subscribed(n2, "plain", "a/#")
        sensor = await n1.connect("sensor")
        if how == "cut":
            network.cut("n1", "n2")
        else:
            network.freeze("n2")
            await fill_window(sensor, "a/0")
        for number in range(200):
            sensor.publish0(f"a/{number % 2}", b"%d" % number)
        await sensor.settled()
        row = link_row(n1, "n2")
        assert row.split
        assert (row.classes, row.events.balanced) == (2, True)
        assert {(one.filter, bool(one.policy)) for one in row.private} <= {
            ("a/#", True), ("a/1", True), ("", False)
        }  # fmt: skip
        assert all(one.events.balanced for one in row.private)
        if how == "cut":
            network.mend("n1", "n2")
        else:
            network.thaw("n2")
        await settled(n1, n2)
        assert not link_row(n1, "n2").split
        assert n1.to("n2").link.account().balanced
        total = {"cut": 200, "frozen": 200 + FILL}[how]
        names = {"ward": ward, "twin": twin, "room": room, "plain": plain}
        found = {client: await everything(n2, name, client) for name, client in names.items()}
        events = {client: [one for one in got if len(one) < 10] for client, (got, _) in found.items()}
        for client, of in ((ward, total), (twin, total), (plain, total), (room, 100)):
            got, digested = found[client]
            assert len(got) + digested == of, "delivered + counted in digests = accepted"
            assert events[client] == sorted(events[client], key=int), "in order"
        assert events[ward] == events[twin]
        assert events[ward][-1] == b"199"
        assert int(events[room][0]) < int(events[ward][0]), "each by its own policy"
        assert all(int(one) % 2 for one in events[room]), "never what is for others"
        assert n2.running.account_holds()


async def test_puback_of_what_a_policy_drops_does_not_wait() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=10, wait_s=120) as (n1, n2):
        phone = await subscribed(n2, "phone", "a", LATEST, qos=1)
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        await fill_window(sensor, "a")
        for number in range(100):
            sensor.publish0("a", b"%d" % number)
        await sensor.settled()
        link = n1.to("n2").link
        before = link.backlog.serial
        assert link.settled < before
        network.thaw("n2")
        await sensor.publish1("a", b"last")
        await settled(n1, n2)
        assert link.settled == link.backlog.serial
        got, digested = await everything(n2, "phone", phone)
        assert len(got) + digested == FILL + 101
        assert got[-1] == b"last"


async def test_retained_messages_reach_a_node_whose_link_is_split() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=16) as (n1, n2):
        phone = await subscribed(n2, "phone", "a/#", LATEST)
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for number in range(100):
            sensor.publish0(f"a/{number % 50}", b"%d" % number, retain=True)
            sensor.publish0(f"other/{number % 50}", b"%d" % number, retain=True)
        await sensor.settled()
        network.mend("n1", "n2")
        await settled(n1, n2)
        for topic in ("a", "other"):
            for number in range(50):
                kept = n2.broker.retained.get(f"{topic}/{number}", now_us=n2.broker.clock())
                assert kept is not None
                assert kept.payload == b"%d" % (number + 50)
        got, digested = await told(phone)
        assert len(got) + digested == 100
        assert n1.to("n2").link.account().balanced


async def test_a_receiver_whose_policy_changes_loses_nothing_that_waits_for_its_old_one() -> None:
    network = Network()
    async with members(network, "n1", "n2", queue_events=40) as (n1, n2):
        phone = await subscribed(n2, "phone", "a", EVERY)
        twin = await subscribed(n2, "twin", "a", EVERY)
        plain = await subscribed(n2, "plain", "a")
        sensor = await n1.connect("sensor")
        network.freeze("n2")
        await fill_window(sensor, "a")
        network.freeze("n1")
        for number in range(300):
            sensor.publish0("a", b"%04d" % number)
        await sensor.settled()
        assert n1.to("n2").link.backlog.split
        n2.broker.install_policy("phone", "a", LATEST)
        n2.broker.install_policy("plain", "a", LATEST)
        n2.broker.install_policy("twin", "a", None)
        network.thaw("n1")  # it learns of the change while its queue is split
        await until(lambda: len(n1.to("n2").link.theirs.classes) == 1)
        for number in range(300, 600):
            sensor.publish0("a", b"%04d" % number)
        await sensor.settled()
        network.thaw("n2")
        await settled(n1, n2)
        for name, client in (("phone", phone), ("twin", twin), ("plain", plain)):
            got, digested = await everything(n2, name, client)
            small = [one for one in got if len(one) == 4]
            assert len(set(small)) == len(small), "nothing twice"
            assert small == sorted(small)
            if client is not twin:  # without a policy now, its digests are told on another topic
                assert len(got) + digested == FILL + 600
        assert n2.running.account_holds()
        (status,) = (one for name, one in n2.broker.subscription_statuses(now_us=0) if name == "twin")
        assert status.account.accepted == FILL + 600


async def test_beyond_the_bound_receivers_count_as_those_without_a_policy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_CLASSES", 2)
    network = Network()
    async with members(network, "n1", "n2", queue_events=40) as (n1, n2):
        phones = [await subscribed(n2, f"phone{each}", f"a/{each}/#", LATEST) for each in range(4)]
        assert len(n1.to("n2").link.theirs.classes) == 2
        assert n1.to("n2").damaged == 0
        sensor = await n1.connect("sensor")
        network.cut("n1", "n2")
        for number in range(200):
            sensor.publish0(f"a/{number % 4}/x", b"%d" % number)
        await sensor.settled()
        network.mend("n1", "n2")
        await settled(n1, n2)
        for phone in phones:
            got, digested = await told(phone)
            assert len(got) + digested == 50


NAME, TEXT = canonical(parse(LATEST))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (Wants(1, True, [], began=[(1, "a", NAME)]), "whose text was not told"),
        (Wants(1, True, [], began=[(1, "a", NAME)], policies=[(NAME, "levels: 7")]), "a policy that is none"),
        (Wants(1, True, [], began=[(1, "a", "00")], policies=[("00", TEXT)]), "whose hash is not"),
        (Wants(1, True, [], began=[(1, "a", NAME), (1, "b", NAME)], policies=[(NAME, TEXT)]), "two classes"),
        (Wants(1, True, [], began=[(1, "a/#/b", NAME)], policies=[(NAME, TEXT)]), "#"),
        (
            Wants(1, True, [], began=[(n, "a", NAME) for n in range(1, 600, 2)], policies=[(NAME, TEXT)]),
            "300 classes",
        ),
    ],
)
async def test_interest_that_is_malformed_or_too_much_is_refused_with_a_word(
    wrong: Wants, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    network = Network()
    async with members(network, "n1", wait_s=0) as (n1,):
        seen, wire = network.wire("ward", "odd")
        n1.service.appeared(seen)
        n1.service.received(seen, data_frame(1, encode_item(wrong)))
        assert n1.to("odd").damaged == 1
        assert said in caplog.text
        assert n1.to("odd").link.theirs.filters == {}
        del wire
