"""The output of a connection: one write for each turn; who reads no answers is not read; closing frees."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.node.broker.output import Flusher, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.node.broker.session import Session


class Transport:
    """Keeps what is written to it; `held` stands for what the kernel has not taken."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.held = 0

    def write(self, data: bytes) -> None:
        self.writes.append(data)

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return self.held

    def get_extra_info(self, _: str) -> None:
        return None


class Host:
    """A broker at a standing clock."""

    def __init__(self) -> None:
        self.now_us = self.flushed_us = self.bytes_sent = 0
        self.flusher = Flusher()
        self.clock = lambda: self.now_us


class Connection:
    """A connection without a session; `holds` are its holds on reading."""

    session: Session | None = None

    def __init__(self) -> None:
        self.holds = 0

    @property
    def reading(self) -> bool:
        return not self.holds

    def hold_reading(self) -> None:
        self.holds += 1

    def release_reading(self) -> None:
        self.holds -= 1


class World:
    """An output with all that it needs."""

    def __init__(self) -> None:
        self.host, self.owner, self.transport = Host(), Connection(), Transport()
        self.host.flusher.start(asyncio.get_running_loop())
        self.output = Output(self.host, self.owner)
        transport: Any = self.transport
        self.output.transport = transport


@pytest.fixture
def no_collection() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


async def test_what_one_turn_brings_is_one_write() -> None:
    world = World()
    for part in (b"a", b"b", b"c"):
        world.output.write(part)
    assert world.transport.writes == []
    await asyncio.sleep(0)
    assert world.transport.writes == [b"abc"]
    assert world.host.bytes_sent == 3


async def test_much_does_not_wait_for_the_end_of_the_turn() -> None:
    world = World()
    world.output.write(bytes(limits.FLUSH_BYTES))
    world.output.write(b"more")
    assert [len(data) for data in world.transport.writes] == [limits.FLUSH_BYTES + 4]


async def test_nothing_overtakes_what_waits() -> None:
    world = World()
    world.output.write_now(b"first")
    world.output.write(b"second")
    world.output.write_now(b"third")
    await asyncio.sleep(0)
    assert world.transport.writes == [b"first", b"secondthird"]


async def test_a_client_that_reads_no_answers_is_not_read_until_it_does() -> None:
    world = World()
    world.output.pause()
    world.transport.held = limits.UNSENT_BYTES + 1
    world.output.write(b"answer")
    world.output.flush()
    assert world.owner.holds == 1
    world.output.write(b"another")
    world.output.flush()
    assert world.owner.holds == 1
    world.output.resume()
    assert (world.owner.holds, world.output.paused) == (0, False)


async def test_a_closed_output_writes_nothing() -> None:
    world = World()
    world.output.write(b"too late")
    world.output.close()
    await asyncio.sleep(0)
    assert world.transport.writes == []
    assert world.output.progress() == (0, 0)


@pytest.mark.usefixtures("no_collection")
async def test_a_closed_output_and_its_connection_hold_each_other_no_longer() -> None:
    world = World()
    kept = weakref.ref(world.owner)
    output = world.output
    output.close()
    del world
    assert kept() is None
