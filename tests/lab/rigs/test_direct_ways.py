"""A relay for direct connections finds the way of each by the name in its handshake."""

from __future__ import annotations

import asyncio

import msgspec

from penstock.node.cluster.direct.framing import framed
from penstock.node.cluster.direct.handshake import MAGIC, Hello
from penstock_lab.rigs.direct_ways import direct_ways
from penstock_lab.rigs.way import way

CHALLENGE = framed(MAGIC + b"n" * 16)


def hello(name: str) -> bytes:
    return framed(msgspec.msgpack.encode(Hello(MAGIC, b"c" * 16, b"proof", name, 1)))


async def test_each_connection_goes_through_its_way_and_is_cut_with_it() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(CHALLENGE)
        while chunk := await reader.read(100):
            writer.write(chunk)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, way(0) as to2, way(0) as to3, direct_ways({"n2": to2, "n3": to3}.get) as relay:
        relay.to = server.sockets[0].getsockname()[1]
        ends = {}
        for name in ("n2", "n3", "n4"):
            reader, writer = ends[name] = await asyncio.open_connection("127.0.0.1", relay.port)
            assert await reader.readexactly(len(CHALLENGE)) == CHALLENGE
            writer.write(hello(name))
            if name == "n4":
                assert await reader.read() == b"", "no way leads there"
            else:
                assert await reader.readexactly(len(hello(name))) == hello(name)
        to2.shut()
        assert await ends["n2"][0].read() == b""
        ends["n3"][1].write(b"still there")
        assert await ends["n3"][0].readexactly(11) == b"still there"
        for _, writer in ends.values():
            writer.transport.abort()


async def test_who_speaks_otherwise_is_closed() -> None:
    async with direct_ways(lambda _: None) as relay:
        relay.to = 1  # nobody listens there
        reader, writer = await asyncio.open_connection("127.0.0.1", relay.port)
        assert await reader.read() == b""
        writer.transport.abort()
