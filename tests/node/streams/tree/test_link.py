"""One link: control overtakes data, a rate holds, large messages go in pieces."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.streams import handshake, wire
from penstock.core.streams.handshake import Offer, Offered
from penstock.core.streams.messages import Ack, Data
from penstock.node.config.streams import Neighbour
from penstock.node.streams.tree.link import Link
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest

    from penstock.core.streams.handshake import LinkFrame


class Far:
    """The other end: reads when it is told to."""

    def __init__(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.link = link
        self.reader = reader
        self.writer = writer
        self.heard: list[LinkFrame] = []
        self._frames = wire.FrameReader(handshake.decode_said)

    async def hear(self, count: int) -> list[LinkFrame]:
        while len(self.heard) < count:
            data = await self.reader.read(1_000)
            assert data
            self.heard += self._frames.feed(data)
        return self.heard


@asynccontextmanager
async def joined(**settings: float) -> AsyncIterator[Far]:
    near, far = socket.socketpair(socket.AF_UNIX)
    for one in (near, far):
        one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4_096)
    link = Link(Neighbour("other", **settings))  # type: ignore[arg-type]
    reader, writer = await asyncio.open_connection(sock=near)
    other = Far(link, *await asyncio.open_connection(sock=far, limit=4_096))
    link.open(writer)
    task = asyncio.create_task(link.run(reader, received=print))
    try:
        yield other
    finally:
        link.end("done")
        await task
        other.writer.transport.abort()


def data(number: int, size: int = 1_000) -> Data:
    return Data("p", number, number, bytes(size))


async def test_control_overtakes_data_that_waits() -> None:
    async with joined() as far:
        for number in range(400):
            far.link.send(data(number))
        await until(lambda: far.link.sent_bytes > 0)
        await asyncio.sleep(0.05)  # buffers are full now
        far.link.send(Ack("p", 7))
        far.link.send_first(Offer(()))
        heard = await far.hear(402)
        place = heard.index(Offer(()))
        assert heard[place + 1] == Ack("p", 7)
        assert place < 150
        assert [one.tick for one in heard if isinstance(one, Data)] == list(range(400))


async def test_a_rate_holds_and_control_goes_first() -> None:
    async with joined(bytes_per_s=40_000.0) as far:
        since_s = time.monotonic()
        for number in range(20):
            far.link.send(data(number))
        await asyncio.sleep(0.05)
        far.link.send(Ack("p", 7))
        heard = await far.hear(21)
        assert time.monotonic() - since_s > 0.45  # 20 kB
        assert heard.index(Ack("p", 7)) < 8


async def test_another_rate_is_kept_to_at_once() -> None:
    async with joined(bytes_per_s=200) as far:
        far.link.send(data(1, 100_000))
        assert len(await far.reader.readexactly(512)) == 512  # the next would follow in seconds
        far.link.change(bytes_per_s=0, enabled=True)
        await asyncio.wait_for(far.reader.readexactly(99_000), 120)


async def test_a_very_slow_link_is_never_silent_for_long() -> None:
    async with joined(bytes_per_s=10) as far:
        far.link.send(data(1))
        assert len(await far.reader.read(1_000)) == 10 * limits.STREAM_ALIVE_S


async def test_a_message_larger_than_a_write_goes_in_pieces() -> None:
    async with joined() as far:
        far.link.send(data(1, 10 * limits.STREAM_WRITE_BYTES + 7))
        far.link.send(data(2, 3))
        first, second = await far.hear(2)
        assert first == data(1, 10 * limits.STREAM_WRITE_BYTES + 7)
        assert second == data(2, 3)
        assert far.link.sent == 2


async def test_what_finds_no_room_is_counted_and_dropped() -> None:
    async with joined(queue_bytes=5_000) as far:
        for number in range(10):
            far.link.send(data(number))
        assert far.link.queue.statistics().refused == 6
        assert len(await far.hear(4)) == 4


async def test_one_who_takes_nothing_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STREAM_CONTROL_BYTES", 20_000)
    async with joined(queue_bytes=1) as far:
        for number in range(1_000):
            far.link.send(Ack("p", number))
        assert "queue full" in far.link._why
        await until(lambda: not far.link.up)
        assert len(far.link.queue) == 0


async def test_of_several_offers_the_last_is_said() -> None:
    async with joined() as far:
        far.link.send(data(1, 10 * limits.STREAM_WRITE_BYTES))
        await far.hear(0)
        for number in range(100):
            far.link.send_first(Offer((Offered("orders", (f"orders/{number}",), "other"),)))
        assert await far.hear(1) == [Offer((Offered("orders", ("orders/99",), "other"),))]
        assert len(await far.hear(2)) == 2
