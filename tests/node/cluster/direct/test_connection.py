"""Connections over real sockets: frames of every size, ends that are silent, and ends that are no node."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.node.cluster.direct.connection import DirectConnection
from penstock.node.cluster.direct.framing import framed
from penstock.node.cluster.direct.handshake import Acceptor, Connector
from penstock_lab.rigs.way import way
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock_lab.rigs.way import Way

N1, N2 = Sighting("ward", "n1", 1), Sighting("ward", "n2", 2)
KEY = b"k" * 32


class End:
    """Notes what its connection reports."""

    def __init__(self) -> None:
        self.up: list[DirectConnection] = []
        self.got: list[bytes] = []
        self.ends: list[str] = []

    def begun(self, connection: DirectConnection) -> None:
        pass

    def established(self, connection: DirectConnection) -> None:
        self.up.append(connection)

    def carried(self, sender: Sighting, frame: bytes) -> None:  # noqa: ARG002
        self.got.append(frame)
        if frame == b"a bug":
            raise RuntimeError(frame)

    def ended(self, connection: DirectConnection, why: str) -> None:  # noqa: ARG002
        self.ends.append(why)


@asynccontextmanager
async def pair() -> AsyncIterator[tuple[End, End, Way]]:
    """The two ends of a connection through a way that can be cut and stalled."""
    loop = asyncio.get_running_loop()
    here, there = End(), End()

    def accept() -> DirectConnection:
        return DirectConnection(there, Acceptor(N1, lambda _: KEY, nonce=b"a" * 16), None)

    server = await loop.create_server(accept, "127.0.0.1", 0)
    async with way(server.sockets[0].getsockname()[1]) as between:
        made = DirectConnection(here, Connector(N2, N1, KEY, nonce=b"c" * 16), N1)
        await loop.create_connection(lambda: made, "127.0.0.1", between.port)
        await made.settled.wait()
        await until(lambda: there.up)
        try:
            yield here, there, between
        finally:
            for end in (here, there):
                for one in end.up:
                    one.close("")
            server.close()
            between.flowing.set()


@asynccontextmanager
async def accepting() -> AsyncIterator[tuple[End, asyncio.StreamReader, asyncio.StreamWriter]]:
    """An end that was connected to by whoever this is."""
    there = End()

    def accept() -> DirectConnection:
        return DirectConnection(there, Acceptor(N1, lambda _: KEY, nonce=b"a" * 16), None)

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        yield there, reader, writer
    finally:
        writer.transport.abort()
        server.close()
        await asyncio.sleep(0)


async def test_frames_go_both_ways_in_order_whatever_their_size() -> None:
    async with pair() as (here, there, _):
        assert [one.peer for one in there.up] == [N2]
        frames = [b"x" * size for size in (2, 3, 100, 70_000, 2, 3_000_000, 5)]
        for end in (here, there):
            for frame in frames:
                end.up[0].send(frame)
                await asyncio.sleep(0.01)
        await until(lambda: here.got == there.got == frames)
        assert here.ends == there.ends == []


async def test_a_bug_in_handling_a_frame_costs_that_frame_only() -> None:
    async with pair() as (here, there, _):
        for frame in (b"a bug", b"next"):
            here.up[0].send(frame)
        await until(lambda: there.got == [b"a bug", b"next"])


async def test_what_is_sent_before_a_farewell_is_read_and_then_both_ends_are_closed() -> None:
    async with pair() as (here, there, _):
        here.up[0].send(b"y" * 500_000)
        here.up[0].send(b"last")
        here.up[0].farewell()
        await until(lambda: here.ends and there.ends)
        assert there.got[-1] == b"last"
        assert there.ends == [""]


async def test_a_stalled_peer_gets_no_more_than_the_bound_and_is_given_up() -> None:
    async with pair() as (here, _there, between):
        between.flowing.clear()
        one = here.up[0]
        for _ in range(200):  # also what the kernel and the way have room for
            one.send(b"z" * 200_000)
        most = limits.CLUSTER_DIRECT_BUFFER_BYTES + 200_004
        assert one._transport.get_write_buffer_size() <= most
        assert one.dropped
        for _ in range(int(limits.CLUSTER_LEASE_S / limits.CLUSTER_DIRECT_LOOK_S)):
            one.look()
            assert not here.ends
        one.look()
        assert here.ends == [f"nothing has come for {limits.CLUSTER_LEASE_S:g} s"]
        assert not one.up


async def test_an_end_that_has_nothing_to_send_says_that_it_is_there() -> None:
    async with pair() as (here, there, _):
        for _ in range(10):
            here.up[0].send(b"only this way")
            await until(lambda: there.up[0]._owes)
            there.up[0].look()
            await until(lambda: not here.up[0]._waits)
            here.up[0].look()
        assert here.ends == there.ends == []
        assert here.got == [], "a sign of life is no frame"


async def test_a_large_frame_on_a_slow_way_is_no_silence() -> None:
    async with pair() as (here, there, between):
        between.flowing.clear()
        here.up[0].send(b"x" * 300_000)
        for _ in range(20):  # some of it comes, and the rest takes many looks
            between.flowing.set()
            await asyncio.sleep(0.002)
            between.flowing.clear()
            there.up[0].look()
            if there.got:
                break
            if there.up[0]._reader.partial:
                await until(lambda: not here.up[0]._waits or bool(here.ends))
            here.up[0].look()
        between.flowing.set()
        await until(lambda: there.got == [b"x" * 300_000])
        assert here.ends == []


async def test_quiet_connections_stay() -> None:
    async with pair() as (here, there, _):
        for _ in range(20):
            for end in (here, there):
                end.up[0].look()
        assert here.ends == there.ends == []


async def test_a_connection_that_is_cut_ends_at_both_ends_once() -> None:
    async with pair() as (here, there, between):
        between.cut()
        await until(lambda: here.ends and there.ends)
        here.up[0].send(b"into nothing")
        await asyncio.sleep(0.05)
        assert len(here.ends) == len(there.ends) == 1


async def test_a_frame_that_is_too_large_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTER_DIRECT_FRAME_BYTES", 1_000)
    async with pair() as (here, there, _):
        here.up[0].send(b"x" * 1_000)
        here.up[0].send(b"x" * 1_001)
        await until(lambda: there.ends)
        assert there.ends == ["a frame of 1001 bytes; 1 to 1000 are accepted"]
        assert [len(frame) for frame in there.got] == [1_000]


@pytest.mark.parametrize(
    "junk", [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 10_000, framed(b"hello"), framed(b"x" * 513), b"\0\0\0\0"]
)
async def test_garbage_ends_a_connection_before_it_is_a_node(junk: bytes) -> None:
    async with accepting() as (there, reader, writer):
        writer.write(junk)
        await until(lambda: there.ends)
        assert there.ends != [""]
        assert not there.up
        await reader.read()
