"""mosquitto_sub with a maximum packet size of 40 receives every packet of 40 bytes or less, none larger."""

from __future__ import annotations

import asyncio
import shutil
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING, Final

import pytest

from penstock.mqtt.codes import V5
from penstock.mqtt.packets.packet import encode
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.packets.publish import Publish
from tests.kit.peer import WAIT_S, node
from tests.kit.waiting import until

if TYPE_CHECKING:
    from tests.kit.peer import Running

MOSQUITTO_SUB: Final = shutil.which("mosquitto_sub")
MOST: Final = 40
SIZES: Final = range(1, 46)
"""Bytes of the payloads, on both sides of every bound; an empty one ends a run."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(MOSQUITTO_SUB is None, reason="mosquitto_sub is not installed"),
]


def packet_bytes(topic: str, payload: int, qos: int, properties: Properties = NONE) -> int:
    packet = Publish(topic, bytes(payload), qos=qos, packet_id=1 if qos else 0, properties=properties)
    return len(encode(packet, V5))


async def heard(running: Running, topic: str, qos: int, *options: str) -> tuple[str, list[int]]:
    """The client identifier of mosquitto_sub, and the lengths of the messages that it prints."""
    assert MOSQUITTO_SUB is not None
    how = ["-h", "127.0.0.1", "-p", str(running.port), "-V", "5", "-t", topic, "-q", str(qos), "-F", "%l"]
    how += ["-D", "connect", "maximum-packet-size", str(MOST), *options]
    before = running.broker.status().subscriptions
    program = await asyncio.create_subprocess_exec(MOSQUITTO_SUB, *how, stdout=PIPE)
    try:
        await until(lambda: running.broker.status().subscriptions > before)
        sender = await running.connect("sender")
        for payload in (*SIZES, 0):
            if qos == 0:
                sender.publish0(topic, b"x" * payload)
            elif qos == 1:
                await sender.publish1(topic, b"x" * payload)
            else:
                await sender.publish2(topic, b"x" * payload)
        assert program.stdout is not None
        found: list[int] = []
        while not found or found[-1]:
            found.append(int(await asyncio.wait_for(program.stdout.readline(), WAIT_S)))
        (name,) = (each.client_id for each in running.broker.status().clients if each.subscriptions)
        return name, found[:-1]
    finally:
        program.terminate()
        await program.wait()


@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("named", [True, False])
async def test_mosquitto_sub_gets_what_fits(qos: int, named: bool) -> None:
    topic = "ward/1"
    async with node() as running:
        # Without -i mosquitto_sub sends an empty client identifier, and is told in the CONNACK which it has.
        name, found = await heard(running, topic, qos, *(("-i", "small") if named else ()))
        assert (name == "small") == named
        assert found == [each for each in SIZES if packet_bytes(topic, each, qos) <= MOST]
        assert packet_bytes(topic, found[-1], qos) == MOST
        account = running.broker.status().account
        assert account.oversized == account.counted == len(SIZES) - len(found)
        assert account.delivered + account.counted == account.accepted == len(SIZES) + 1
        assert running.account_holds()


@pytest.mark.parametrize("qos", [0, 1, 2])
async def test_subscription_identifiers_count(qos: int) -> None:
    topic = "ward/1"
    async with node() as running:
        _, found = await heard(running, topic, qos, "-D", "subscribe", "subscription-identifier", "300")
        numbered = Properties(subscription_ids=(300,))
        assert found == [each for each in SIZES if packet_bytes(topic, each, qos, numbered) <= MOST]
        assert packet_bytes(topic, found[-1], qos, numbered) == MOST
