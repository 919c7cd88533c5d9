"""Clients that do not read: where their messages wait, and that nobody else does."""

from __future__ import annotations

import asyncio
import random
import socket

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.mqtt.codes import V4, V5
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.publish import Publish
from penstock.node.config.schema import Config, Queues
from tests.kit.digests_received import body, is_digest
from tests.kit.peer import Peer, Running, node, run

MOST_SWALLOWED = 2_500
"""Events of 100 bytes that may be gone into buffers before the receiver's policy takes over."""


async def stalled(running: Running, client_id: str, filter_: str, *, version: int, policy: str = "") -> Peer:
    """A client that subscribes, and reads nothing from then on."""
    peer = await running.connect(client_id, version=version)
    digests = (("digests", "on"),) if version == V5 else ()
    await peer.subscribe(filter_, user=(("policy", policy),) if policy else digests)
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
    return peer


@pytest.mark.parametrize("version", [V4, V5])
async def test_a_stalled_client_swallows_little_before_its_queue_takes_over(version: int) -> None:
    async with node() as running:
        await stalled(running, "stalled", "a", version=version)
        sender = await running.connect("s")
        frames = encode(Publish("a", b"x" * 100), V5) * 1_000
        for _ in range(10):
            sender.raw(frames)
            await sender.settled()
        client = running.broker.status().clients[0]
        account = client.subscriptions[0].account
        assert client.behind
        assert account.accepted == 10_000
        assert account.delivered <= MOST_SWALLOWED
        assert account.queued == 10_000 - account.delivered
        assert running.account_holds()


async def test_a_stalled_client_that_reads_again_gets_the_newest_and_a_count_of_the_rest() -> None:
    async with node() as running:
        peer = await stalled(running, "stalled", "a", version=V5)
        sender = await running.connect("s")
        for number in range(20_000):
            sender.publish0("a", b"%099d" % number)
            if not number % 500:
                await sender.settled()
        await sender.settled()
        peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
        got: list[int] = []
        digested = 0
        while not got or got[-1] != 19_999:
            message = await peer.message()
            if is_digest(message):
                digested += body(message)["count"]
            else:
                got.append(int(message.payload))
        assert got == sorted(got)
        assert len(got) + digested == 20_000
        assert got[-999:] == list(range(19_001, 20_000))
        assert running.account_holds()


def test_one_stalled_client_among_ten_costs_the_others_nothing() -> None:
    """The others get every event, none of theirs ever waits in a queue, and no write of theirs is split."""

    async def work(stalls: int) -> tuple[int, int]:
        async with node(Config(data="", queues=Queues(events=100))) as running:
            peers = [await running.connect(f"r{number}") for number in range(10)]
            for peer in peers:
                await peer.subscribe("a")
            for peer in peers[:stalls]:
                peer.writer.transport.pause_reading()  # type: ignore[attr-defined]
            sender = await running.connect("s")
            frames = encode(Publish("a", b"x" * 100), V5) * 100
            for _ in range(40):
                sender.raw(frames)
                await sender.settled()
                for peer in peers[stalls:]:
                    assert len(await peer.payloads(100)) == 100
            clients = {each.client_id: each for each in running.broker.status().clients}
            healthy = [clients[f"r{number}"].subscriptions[0] for number in range(stalls, 10)]
            assert all(each.account.delivered == each.account.accepted == 4_000 for each in healthy)
            assert running.account_holds()
            return sum(each.account.delivered for each in healthy), sum(each.packs for each in healthy)

    assert run(work(0)) == (40_000, 0)
    assert run(work(1)) == (36_000, 0)


@pytest.mark.slow
async def test_a_client_that_reads_no_answers_is_not_read_from() -> None:
    async with node() as running:
        rude = await running.connect("rude", version=V4)
        rude.writer.transport.pause_reading()  # type: ignore[attr-defined]
        sock: socket.socket = rude.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        pings = b"\xc0\x00" * 50_000
        sent = 0

        async def flood() -> None:
            nonlocal sent
            for _ in range(400):  # 40 MB of PINGREQ
                rude.raw(pings)
                sent += len(pings)
                await asyncio.wait_for(rude.writer.drain(), 0.5)

        with pytest.raises(TimeoutError):
            await flood()
        other = await running.connect("other")
        assert await other.silent()
        assert running.broker.bytes_received < sent


POLICY = "levels: [drop: {every: 2}, keep: {latest: 5}]"


@settings(max_examples=10)
@given(seed=st.integers(0, 2**32))
def test_whatever_happens_every_event_is_accounted_for(seed: int) -> None:
    """Random publishers, receivers, stalls, detachments, returns and departures."""

    async def test() -> None:
        dice = random.Random(seed)
        async with node(Config(data="", queues=Queues(events=20))) as running:
            senders = [await running.connect(f"s{n}", version=dice.choice((V4, V5))) for n in range(2)]
            peers: dict[str, Peer] = {}

            async def attach(name: str) -> None:
                version = dice.choice((V4, V5))
                clean = dice.random() < 0.2
                kept = {"session_expiry_s": 1000, "receive_maximum": 5} if version == V5 else {}
                peer = peers[name] = await running.connect(name, version=version, clean=clean, **kept)
                if not peer.connack.session_present:
                    user = (("policy", POLICY),) if version == V5 and dice.random() < 0.5 else ()
                    await peer.subscribe("a/#", qos=dice.randrange(3), user=user)
                if dice.random() < 0.5:
                    await peer.subscribe(f"a/{dice.randrange(3)}", qos=dice.randrange(3))

            for _ in range(60):
                name = f"r{dice.randrange(4)}"
                match dice.randrange(6):
                    case 0:
                        await attach(name)
                    case 1 if name in peers:
                        peers.pop(name).abort()
                    case 2 if name in peers:
                        await peers[name].unsubscribe(f"a/{dice.randrange(3)}")
                    case _:
                        sender, topic = dice.choice(senders), f"a/{dice.randrange(3)}"
                        for _ in range(dice.randrange(60)):
                            sender.publish0(topic, b"x")
                        await sender.publish1(topic, b"y")
                assert running.account_holds()
            total = running.broker.status().account
            assert total.balanced

    run(test())
