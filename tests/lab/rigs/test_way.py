"""A slow link carries what it is given, in order, and no faster than it says."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from penstock_lab.rigs.way import SlowLink

if TYPE_CHECKING:
    import pytest

RATE = 20_000


async def test_what_goes_down_the_link_is_limited_and_whole() -> None:
    sent = bytes(range(256)) * 40

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(5)
        writer.write(asked + sent)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, SlowLink(server.sockets[0].getsockname()[1], bytes_per_s=RATE) as link:
        start_s = asyncio.get_running_loop().time()
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        writer.write(b"hello")
        found = await reader.read(-1)
        took_s = asyncio.get_running_loop().time() - start_s
        assert found == b"hello" + sent
        assert link.carried == len(found)
        assert len(found) <= RATE * (took_s + 0.1)  # a machine may be slower, never the link faster
        writer.close()
        await writer.wait_closed()


async def test_a_link_to_nowhere_ends() -> None:
    async with SlowLink(1, bytes_per_s=RATE) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()


async def test_no_piece_waits_until_the_one_before_is_confirmed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link delays by its rate alone, on both sides, or it would have a jitter of its own."""
    at_once: list[int] = []
    copy = SlowLink._copy

    async def watched(self: SlowLink, far: socket.socket, writer: asyncio.StreamWriter) -> None:
        for sock in (far, writer.get_extra_info("socket")):
            at_once.append(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))  # noqa: PERF401
        await copy(self, far, writer)

    async def serve(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello")
        writer.close()

    monkeypatch.setattr(SlowLink, "_copy", watched)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server, SlowLink(server.sockets[0].getsockname()[1], bytes_per_s=RATE) as link:
        reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
        assert await reader.read(-1) == b"hello"
        assert len(at_once) == 2
        assert all(at_once)
        writer.close()
        await writer.wait_closed()
