"""Shared subscriptions over real sockets: members take turns, and inherit."""

from __future__ import annotations

import asyncio

import pytest

from penstock.mqtt.packets.publish import Publish, Pubrec
from tests.kit.peer import node


async def test_a_group_shares_what_matches() -> None:
    async with node() as running:
        members = [await running.connect(f"m{number}") for number in range(3)]
        for member in members:
            await member.subscribe("$share/g/job/#", qos=1)
        sender = await running.connect("s")
        for number in range(9):
            await sender.publish1("job/x", b"%d" % number)
        found = [await member.payloads(3) for member in members]
        assert sorted(payload for each in found for payload in each) == [b"%d" % n for n in range(9)]
        members[0].abort()
        while running.broker.status().sessions > 3:
            await asyncio.sleep(0.01)
        for number in range(4):
            await sender.publish1("job/x", b"%d" % number)
        assert [len(await member.payloads(2)) for member in members[1:]] == [2, 2]
        assert running.account_holds()


@pytest.mark.parametrize("goes", ["the connection", "the subscription"])
async def test_what_a_member_of_a_group_leaves_goes_to_the_others(goes: str) -> None:
    async with node() as running:
        first = await running.connect("first", receive_maximum=3)
        await first.subscribe("$share/g/job/#", qos=2)
        sender = await running.connect("s")
        sender.send(Publish("job", b"twice", qos=2, packet_id=900))
        await sender.expect(Pubrec)
        for number in range(5):  # two in flight behind it, three wait
            await sender.publish1("job", b"%d" % number)
        assert [(await first.expect(Publish)).payload for _ in range(3)] == [b"twice", b"0", b"1"]
        second = await running.connect("second")
        await second.subscribe("$share/g/job/#", qos=1)
        if goes == "the connection":
            first.abort()
            assert await second.payloads(5) == [b"0", b"1", b"2", b"3", b"4"]
        else:
            await first.unsubscribe("$share/g/job/#")
            assert await second.payloads(3) == [b"2", b"3", b"4"]
        assert await second.silent()
        assert running.account_holds()
        assert running.broker.status().account.queued == 0


async def test_a_member_of_a_group_gets_what_the_content_filters_of_others_refuse() -> None:
    async with node() as running:
        low, high = await running.connect("low"), await running.connect("high")
        await low.subscribe("$share/g/pulse", qos=1, user=(("filter", "drop: {gt: 100}"),))
        await high.subscribe("$share/g/pulse", qos=1, user=(("filter", "drop: {le: 100}"),))
        sender = await running.connect("s")
        for number in (80, 150, 160, 90, 170, 70):
            assert (await sender.publish1("pulse", b"%d" % number)).reason == 0
        assert await low.payloads(3) == [b"80", b"90", b"70"]
        assert await high.payloads(3) == [b"150", b"160", b"170"]


async def test_a_message_that_one_member_refuses_goes_to_those_that_keep_up() -> None:
    async with node() as running:
        picky = await running.connect("picky")
        await picky.subscribe("$share/g/pulse", qos=1, user=(("filter", "drop: {gt: 100}"),))
        away = await running.connect("away", session_expiry_s=600)
        await away.subscribe("$share/g/pulse", qos=1)
        away.abort()
        session = running.broker.sessions.get("away")
        assert session is not None
        while session.link is not None:
            await asyncio.sleep(0.01)
        others = [await running.connect(f"o{number}") for number in range(2)]
        for other in others:
            await other.subscribe("$share/g/pulse", qos=1)
        sender = await running.connect("s")
        for number in range(101, 113):
            await sender.publish1("pulse", b"%d" % number)
        counts = {
            c.client_id: c.subscriptions[0].account.accepted
            for c in running.broker.status().clients
            if c.subscriptions
        }
        assert counts == {"picky": 0, "away": 0, "o0": 6, "o1": 6}


async def test_what_the_last_member_of_a_group_leaves_is_abandoned() -> None:
    async with node() as running:
        only = await running.connect("only", receive_maximum=1)
        await only.subscribe("$share/g/job", qos=1)
        sender = await running.connect("s")
        for number in range(3):
            await sender.publish1("job", b"%d" % number)
        await only.unsubscribe("$share/g/job")
        assert running.broker.status().account.abandoned == 2
        assert running.account_holds()


async def test_groups_pass_over_members_that_are_behind() -> None:
    async with node() as running:
        slow = await running.connect("slow", receive_maximum=1)
        await slow.subscribe("$share/g/a", qos=1)
        quick = await running.connect("quick")
        await quick.subscribe("$share/g/a", qos=1)
        sender = await running.connect("s")
        for number in range(20):
            await sender.publish1("a", b"%d" % number)
        counts = {c.client_id: c.subscriptions for c in running.broker.status().clients if c.subscriptions}
        assert counts["slow"][0].account.accepted == 2  # one in flight, one that showed it is behind
        assert counts["quick"][0].account.accepted == 18
        assert running.account_holds()
