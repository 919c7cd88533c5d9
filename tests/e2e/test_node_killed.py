"""A node that is killed without a warning: nothing it acknowledged is lost."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.mqtt.packets.publish import Puback, Publish
from tests.kit.peer import Peer, run

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import AsyncIterator
    from pathlib import Path
    from typing import Any

pytestmark = pytest.mark.e2e

KEPT: dict[str, Any] = {"clean": False, "session_expiry_s": 1000}
FLIGHT = 50
"""Messages a publisher has unanswered at a time."""


@asynccontextmanager
async def service(data: Path) -> AsyncIterator[tuple[Process, int]]:
    """`penstock up` on a free port."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "penstock", "up", "--json", "--data", str(data)),
        *("--port", "0", "--http-port", "0"),
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        said = json.loads(await asyncio.wait_for(process.stdout.readline(), 60))
        yield process, said["listeners"][0]["port"]
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def connect(port: int, client_id: str, **how: Any) -> Peer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    peer = Peer(reader, writer)
    await peer.hello(client_id, **how)
    return peer


async def publish_until_killed(sender: Peer, process: Process, *, kill_after: int) -> int:
    """Publish QoS 1 in order until the node dies; how many were acknowledged."""
    sent = acknowledged = 0
    try:
        while True:
            while sent - acknowledged < FLIGHT:
                sender.send(Publish("a", b"%d" % sent, qos=1, packet_id=sent % 60_000 + 1))
                sent += 1
            packet = await sender.next()
            if packet is None:
                break
            assert isinstance(packet, Puback)
            acknowledged += 1
            if acknowledged == kill_after:
                process.send_signal(signal.SIGKILL)
    except ConnectionError:
        pass
    return acknowledged


@pytest.mark.parametrize("attached", [False, True])
def test_nothing_acknowledged_is_lost(tmp_path: Path, attached: bool) -> None:
    async def before() -> int:
        async with service(tmp_path) as (process, port):
            receiver = await connect(port, "r", **KEPT)
            await receiver.subscribe("a", qos=1)
            await receiver.settled()
            if not attached:
                receiver.abort()
            sender = await connect(port, "s")
            acknowledged = await publish_until_killed(sender, process, kill_after=3_000)
            for peer in (sender, receiver):
                peer.abort()
            return acknowledged

    async def after(acknowledged: int) -> None:
        async with service(tmp_path) as (_, port):
            receiver = await connect(port, "r", **KEPT)
            assert receiver.connack.session_present
            found = [int(payload) for payload in await receiver.payloads(acknowledged)]
            assert found == list(range(acknowledged))  # it acknowledged none of them before
            receiver.abort()

    acknowledged = run(before())
    assert acknowledged >= 3_000
    run(after(acknowledged))


def test_a_node_that_is_told_to_end_keeps_all_and_starts_again(tmp_path: Path) -> None:
    async def before() -> None:
        async with service(tmp_path) as (process, port):
            sender = await connect(port, "s")
            await sender.publish1("t", b"kept", retain=True)
            process.send_signal(signal.SIGTERM)
            assert await sender.closed()
            sender.abort()
            assert await asyncio.wait_for(process.wait(), 120) == 0

    async def after() -> None:
        async with service(tmp_path) as (_, port):
            client = await connect(port, "c")
            await client.subscribe("t")
            assert (await client.message()).payload == b"kept"
            client.abort()

    run(before())
    run(after())
