"""The port for direct connections: whoever is no node is closed, counted and named."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from penstock import limits
from penstock.core.cluster.view import Sighting
from penstock.errors import NodeError
from penstock.node.cluster.direct.listener import DirectListener, listen_address
from penstock.node.config.cluster import Address, ClusterSettings, address_of
from tests.kit.certificates import make
from tests.kit.waiting import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from penstock.node.cluster.direct.connection import DirectConnection

OWN = Sighting("ward", "n1", 1)


class Host:
    """The fabric of a listener, for connections that never become a node's."""

    listener: DirectListener

    def begun(self, connection: DirectConnection) -> None:
        self.listener.begun(connection)

    def established(self, connection: DirectConnection) -> None:
        raise AssertionError(connection)

    def carried(self, sender: Sighting, frame: bytes) -> None:
        raise AssertionError(sender, frame)

    def ended(self, connection: DirectConnection, why: str) -> None:
        self.listener.failed(connection, why)


@asynccontextmanager
async def listening(**settings: Any) -> AsyncIterator[tuple[DirectListener, Address]]:
    host = Host()
    host.listener = listener = DirectListener(
        ClusterSettings(name="ward", **settings), OWN, host, key_for=lambda _: None
    )
    await listener.open()
    address = address_of(listener.told)
    assert address is not None
    try:
        yield listener, address
    finally:
        await listener.close()


async def test_garbage_and_connections_that_say_nothing_are_closed_and_counted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "CLUSTER_DIRECT_HELLO_S", 0.1)
    async with listening() as (listener, address):
        writers = []
        for junk in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 100_000, b""):
            _, writer = await asyncio.open_connection(address.host, address.port)
            writer.write(junk)
            writers.append(writer)
        await until(lambda: listener.refused == 3)
        assert caplog.text.count("a direct connection from 127.0.0.1 was refused") == 1
        for writer in writers:
            writer.transport.abort()


async def test_a_node_that_stops_while_it_connects_was_not_refused() -> None:
    async with listening() as (listener, address):
        for end in (asyncio.StreamWriter.close, lambda writer: writer.transport.abort()):
            reader, writer = await asyncio.open_connection(address.host, address.port)
            await reader.readexactly(4)
            end(writer)
        await until(lambda: not len(listener._unfinished))
        assert listener.refused == 0


async def test_unfinished_connections_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CLUSTER_DIRECT_UNFINISHED", 3)
    async with listening() as (listener, address):
        writers = []
        for _ in range(10):
            _, writer = await asyncio.open_connection(address.host, address.port)
            writers.append(writer)
        await until(lambda: listener.refused == 7)
        for writer in writers:
            writer.transport.abort()


async def test_without_a_certificate_nobody_gets_as_far_as_a_handshake(tmp_path: Path) -> None:
    made = make(tmp_path)
    files = {"certificate": str(made.server), "key": str(made.server_key), "ca": str(made.ca)}
    async with listening(listen="tls/127.0.0.1:7447", **files) as (listener, address):
        assert address.protocol == "tls"
        _, writer = await asyncio.open_connection(address.host, address.port)
        writer.write(b"\0\0\0\5hello" * 100)
        await until(lambda: listener.refused == 1)
        writer.transport.abort()


async def test_the_address_that_others_are_told() -> None:
    async with listening(direct_advertise="203.0.113.5:7448") as (listener, _):
        assert listener.told == "tcp/203.0.113.5:7448"
    async with listening(direct="tcp/0.0.0.0:0", password="hush") as (listener, address):  # noqa: S106
        assert address.host == socket.gethostname()
        assert address.port


async def test_a_port_that_is_taken_is_named() -> None:
    async with listening() as (_, address):
        with pytest.raises(NodeError, match=rf"cluster\.direct tcp/127\.0\.0\.1:{address.port}: .*in use"):
            async with listening(direct=str(address)):
                pass


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, Address("tcp", "127.0.0.1", 0)),
        ({"listen": "tls/10.0.0.1:7447"}, Address("tls", "10.0.0.1", 0)),
        ({"listen": "tcp/10.0.0.1:7447", "direct": "tcp/10.0.0.2:7448"}, Address("tcp", "10.0.0.2", 7448)),
    ],
)
def test_where_a_node_listens(settings: dict[str, Any], found: Address) -> None:
    assert listen_address(ClusterSettings(name="ward", **settings)) == found
