"""QoS 2 into a stream while disks fail and the node crashes: by seed, nothing lost and nothing twice."""

from __future__ import annotations

import asyncio
import shutil
from random import Random
from typing import TYPE_CHECKING

import pytest

from penstock.errors import StoreError
from penstock.mqtt.packets.publish import Pubcomp, Publish, Pubrec, Pubrel
from tests.kit.effort import seeds
from tests.kit.peer import run
from tests.kit.stream_nodes import streams_node
from tests.kit.stream_sessions import KEPT

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

    from tests.kit.peer import Peer
    from tests.kit.stream_nodes import WithStreams

LIVES = 4
"""Of the node."""


class Flaky:
    """An owner of group commits, on a disk that takes them or not."""

    def __init__(self, owner: Any, rng: Random) -> None:
        self.owner = owner
        self._rng = rng

    def write(self, work: Any) -> None:
        if self._rng.random() < 0.3:
            raise StoreError("the disk is full", None)
        self.owner.write(work)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.owner, name)


class Client:
    """Goes on over each connection where it was."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._sent = 0
        self.safe: set[bytes] = set()
        self.unanswered: dict[int, Publish] = {}
        self.released: dict[int, None] = {}

    async def connect(self, running: WithStreams) -> None:
        self.peer: Peer = await running.connect("p", **KEPT)
        for packet_id, one in self.unanswered.items():
            self.peer.send(Publish(one.topic, one.payload, qos=2, packet_id=packet_id, dup=True))
        for packet_id in self.released:
            self.peer.send(Pubrel(packet_id))

    def publish(self) -> None:
        free = [n for n in range(1, 6) if n not in self.unanswered and n not in self.released]
        if free:
            packet_id = self._rng.choice(free)
            one = self.unanswered[packet_id] = Publish(
                "orders/a", b"%d" % self._sent, qos=2, packet_id=packet_id
            )
            self._sent += 1
            self.peer.send(one)

    async def listen(self, wait_s: float) -> None:
        """Take an answer, if one comes."""
        try:
            packet = await asyncio.wait_for(self.peer.next(), wait_s)
        except TimeoutError:
            return
        if isinstance(packet, Pubcomp):
            del self.released[packet.packet_id]
            return
        assert isinstance(packet, Pubrec)
        one = self.unanswered.pop(packet.packet_id)
        if packet.reason < 0x80:  # else it was refused: the disk was full
            self.safe.add(one.payload)
            self.released[packet.packet_id] = None
            self.peer.send(Pubrel(packet.packet_id))


async def story(seed: int, base: Path) -> None:
    rng = Random(seed)
    client = Client(rng)
    for life in range(LIVES):
        async with streams_node(data=base / str(life)) as running:
            writers: list[Any] = [running.orders.log, running.streams.state]
            for one in writers:
                one._commits._backlog = Flaky(one, rng)
            await client.connect(running)
            for _ in range(60):
                if rng.random() < 0.6:
                    client.publish()
                else:
                    await client.listen(0.005)
            if life + 1 < LIVES:  # what the disk has now is what the next life finds
                shutil.copytree(base / str(life), base / str(life + 1))
            else:
                async with asyncio.timeout(120):
                    while client.unanswered or client.released:
                        await client.listen(1)
                found = await running.payloads()
                assert len(found) == len(set(found)), "one is there twice"
                assert client.safe <= set(found), "one is lost"
            for one in writers:
                one._commits._backlog = one
            client.peer.abort()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.limits.JOURNAL_RETRY_S", 0.01)


@pytest.mark.parametrize("seed", range(2))
async def test_disks_that_fail_and_nodes_that_crash(tmp_path: Path, seed: int) -> None:
    await story(seed, tmp_path)


@pytest.mark.slow
def test_many_disks_that_fail_and_nodes_that_crash(tmp_path: Path) -> None:
    for seed in seeds(100, 30):
        run(story(seed, tmp_path / str(seed)))
