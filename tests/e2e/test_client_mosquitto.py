"""Our client against Mosquitto: another implementation's server, and its own command-line clients."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys

import pytest

from penstock import Client
from tests.kit.breakable_link import way
from tests.kit.mosquitto import MOSQUITTO
from tests.kit.vitals import events
from tests.kit.waiting import until

PUB, SUB = shutil.which("mosquitto_pub"), shutil.which("mosquitto_sub")

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto is not installed"),
]


@pytest.mark.parametrize("aliases", [False, True])
async def test_messages_of_every_qos(port: int, aliases: bool) -> None:
    async with Client(f"mqtt://127.0.0.1:{port}", topic_aliases=aliases) as client:
        subscription = await client.subscribe("q/#", qos=2)
        for number in range(60):
            await client.publish(f"q/{number % 5}", str(number), qos=number % 3)
        assert sorted(int(event.payload) for event in await events(subscription, 60)) == list(range(60))
        await client.publish("kept", "r", qos=1, retain=True)
        (event,) = await events(await client.subscribe("kept"), 1)
        assert event.packet.retain
        await client.publish("kept", retain=True)
        sent = client.statistics().sent
        assert (sent.acknowledged, sent.in_flight) == (41, 0)


async def test_overlapping_subscriptions_with_a_filter_get_their_own(port: int) -> None:
    async with Client(f"mqtt://127.0.0.1:{port}") as client:
        wide = await client.subscribe("o/#")
        own = await client.subscribe("o/+", no_local=True)  # its own publications are not for it
        await client.publish("o/1", "1", qos=1)
        await events(wide, 1)
        assert wide.take() is None
        assert own.take() is None


async def test_a_session_goes_on(port: int) -> None:
    async with (
        way(port) as found,
        Client(f"mqtt://127.0.0.1:{port}") as near,
        Client(found.url, session_expiry_s=60, client_id="far") as far,
    ):
        subscription = await far.subscribe("s", qos=1)
        found.shut()
        await until(lambda: not far.connected)
        waiting = [asyncio.create_task(far.publish("s", "far", qos=2)) for _ in range(3)]
        for number in range(5):
            await near.publish("s", str(number), qos=1)
        found.open = True
        await asyncio.gather(*waiting)
        got = [event.payload for event in await events(subscription, 8)]
        assert [each for each in got if each != b"far"] == [b"%d" % number for number in range(5)]
        assert got.count(b"far") == 3
        assert far.statistics().resumed == 1


@pytest.mark.skipif(PUB is None or SUB is None, reason="Mosquitto's clients are not installed")
def test_our_commands_and_theirs(port: int) -> None:
    where = ["-h", "127.0.0.1", "-p", str(port), "-V", "mqttv5"]
    assert PUB is not None
    assert SUB is not None
    ours = [sys.executable, "-m", "penstock"]
    url = ["--node", f"mqtt://127.0.0.1:{port}"]
    subprocess.run([PUB, *where, "-t", "c", "-m", "theirs", "-r", "-q", "1"], check=True)
    shown = subprocess.run(
        [*ours, "sub", "c", "--count", "1", "--seconds", "30", *url],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    assert shown.stdout.endswith(" c (retained) theirs\n")
    subprocess.run([*ours, "pub", "c", "ours", "--retain", "--qos", "2", *url], check=True, timeout=300)
    seen = subprocess.run(
        [SUB, *where, "-t", "c", "-C", "1", "-W", "120"], capture_output=True, check=True, timeout=300
    )
    assert seen.stdout == b"ours\n"
