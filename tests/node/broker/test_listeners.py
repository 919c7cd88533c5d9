"""The doors: every kind carries bytes both ways, with a transport's flow control; what is wrong is named."""

from __future__ import annotations

import asyncio
import socket
import ssl
import warnings
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Literal, cast

import aiohttp
import pytest
import uvloop

from penstock import limits
from penstock.errors import NodeError
from penstock.node.access.tls import TlsHandshakes
from penstock.node.broker.listeners import Listeners
from penstock.node.broker.websocket import frame
from penstock.node.config import certificates as files
from penstock.node.config.schema import Bounds, Listener
from tests.kit import certificates
from tests.kit.waiting import until
from tests.kit.websocket import raw_websocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine
    from pathlib import Path


_loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}


@pytest.fixture(autouse=True, params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test with either event loop: their transports are not the same."""
    monkeypatch.setitem(_loops, "chosen", _loops[request.param])


def run(scenario: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=_loops["chosen"]) as runner:
        runner.run(scenario)


class Echo(asyncio.Protocol):
    """Sends back what comes, and remembers what it was told."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.received = 0
        self.lost = asyncio.Event()
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        if len(data) < 1_000:
            self.transport.write(data)

    def pause_writing(self) -> None:
        self.heard.append("pause")

    def resume_writing(self) -> None:
        self.heard.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.lost.set()


class Open:
    """Listeners that are open, and the connections made through them."""

    def __init__(self, doors: Listeners, made: list[Echo]) -> None:
        self.doors = doors
        self.made = made

    @property
    def port(self) -> int:
        return self.doors.listeners[0].port


@asynccontextmanager
async def opened(*listeners: Listener, bounds: Bounds | None = None) -> AsyncIterator[Open]:
    made: list[Echo] = []

    def connection(_: Listener) -> Echo:
        made.append(Echo())
        return made[-1]

    doors = Listeners(connection)
    try:
        await doors.open(listeners, bounds or Bounds())
        yield Open(doors, made)
    finally:
        await doors.close()


WEB = Listener(kind="websocket", port=0)


def test_tcp_carries_bytes() -> None:
    async def scenario() -> None:
        async with opened(Listener(port=0)) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            await door.made[0].lost.wait()

    run(scenario())


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65_535, 65_536, 100_000])
def test_frames_are_those_of_the_rfc(size: int) -> None:
    made = frame(bytes(size))
    assert made[0] == 0x82
    header = {True: 2, False: 4}[size < 126] if size < 65_536 else 10
    assert len(made) == header + size
    assert made[1] == (size if size < 126 else 126 if size < 65_536 else 127)
    if size >= 126:
        assert int.from_bytes(made[2:header], "big") == size


def test_websocket_carries_bytes_however_they_are_cut() -> None:
    async def scenario() -> None:
        async with opened(WEB) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"]) as client:
                assert client.protocol == "mqtt"
                for part in (b"he", b"l", b"lo"):
                    await client.send_bytes(part)
                got = b""
                while len(got) < 5:
                    got += await client.receive_bytes(timeout=120)
                assert got == b"hello"
                await client.ping()
                door.made[0].transport.writelines([b"a" * 70_000, b"b"])
                assert await client.receive_bytes(timeout=120) == b"a" * 70_000 + b"b"
            await asyncio.wait_for(door.made[0].lost.wait(), 120)

    run(scenario())


def test_text_ends_a_websocket() -> None:
    async def scenario() -> None:
        async with opened(WEB) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"]) as client:
                await client.send_str("hello")
                assert (await client.receive(timeout=120)).type is aiohttp.WSMsgType.CLOSE
                assert client.close_code == aiohttp.WSCloseCode.UNSUPPORTED_DATA
            await asyncio.wait_for(door.made[0].lost.wait(), 120)
            assert door.made[0].received == 0

    run(scenario())


def test_a_message_larger_than_the_largest_packet_ends_a_websocket() -> None:
    async def scenario() -> None:
        async with opened(WEB, bounds=Bounds(packet_bytes=1_000)) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"]) as client:
                await client.send_bytes(bytes(100_000))
                assert (await client.receive(timeout=120)).type is aiohttp.WSMsgType.CLOSE
                assert client.close_code == aiohttp.WSCloseCode.MESSAGE_TOO_BIG
            await asyncio.wait_for(door.made[0].lost.wait(), 120)

    run(scenario())


def test_the_node_ends_a_websocket_after_its_last_words() -> None:
    async def scenario() -> None:
        async with opened(WEB) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"]) as client:
                await until(lambda: door.made)
                door.made[0].transport.write(b"bye")
                door.made[0].transport.close()
                door.made[0].transport.write(b"never said")
                assert await client.receive_bytes(timeout=120) == b"bye"
                assert (await client.receive(timeout=120)).type is aiohttp.WSMsgType.CLOSE
                assert client.close_code == aiohttp.WSCloseCode.OK
            await asyncio.wait_for(door.made[0].lost.wait(), 120)

    run(scenario())


def test_a_websocket_client_that_vanishes_is_noticed() -> None:
    async def scenario() -> None:
        async with opened(WEB) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            client = await session.ws_connect(url, protocols=["mqtt"])
            await until(lambda: door.made)
            door.made[0].transport.pause_reading()  # even while nothing is read
            transport = client.get_extra_info("socket")
            transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            assert client._response.connection is not None
            assert client._response.connection.transport is not None
            client._response.connection.transport.abort()
            await asyncio.wait_for(door.made[0].lost.wait(), 120)

    run(scenario())


def test_a_websocket_client_that_does_not_read_holds_back_the_writer() -> None:
    async def scenario() -> None:
        async with opened(WEB) as door:
            reader, writer = await raw_websocket(door.port)
            echo = door.made[0]
            written = 0
            while "pause" not in echo.heard:
                echo.transport.write(bytes(10_000))
                written += len(frame(bytes(10_000)))
                await asyncio.sleep(0)
                assert written < 100 << 20
            assert echo.transport.get_write_buffer_size() > 0
            await asyncio.sleep(0.05)
            assert echo.heard[-1] == "pause"
            await reader.readexactly(written)
            await until(lambda: echo.heard[-1] == "resume")
            assert echo.transport.get_write_buffer_size() == 0
            writer.close()

    run(scenario())


def test_a_connection_that_does_not_read_holds_back_the_websocket_client() -> None:
    total = 64 << 20

    async def scenario() -> None:
        async with opened(WEB) as door, aiohttp.ClientSession() as session:
            url = f"http://127.0.0.1:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"]) as client:
                await until(lambda: door.made)
                echo = door.made[0]
                echo.transport.pause_reading()
                assert not echo.transport.is_reading()
                sent = 0

                async def send() -> None:
                    nonlocal sent
                    while sent < total:
                        await client.send_bytes(bytes(1 << 18))
                        sent += 1 << 18

                sending = asyncio.create_task(send())
                before = -1
                while before != sent:  # until it stands still
                    before = sent
                    await asyncio.sleep(0.3)
                assert sent < total
                assert echo.received == 0
                echo.transport.resume_reading()
                await sending
                await until(lambda: echo.received == total)

    run(scenario())


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/other", {"Sec-WebSocket-Protocol": "mqtt"}, 404),
        ("/mqtt", {}, 400),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqttv3.1, chat"}, 400),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqtt", "Origin": "http://evil.example"}, 403),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqtt", "Origin": "null"}, 403),
        (
            "/mqtt",
            {"Sec-WebSocket-Protocol": "mqtt", "Origin": "http://localhost:3000", "Host": "evil.example"},
            403,
        ),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqtt", "Origin": "http://localhost:3000"}, 101),
        ("/mqtt", {"Sec-WebSocket-Protocol": "mqtt", "Origin": "https://ward.example"}, 101),
    ],
)
def test_a_handshake_is_looked_at(path: str, headers: dict[str, str], status: int) -> None:
    async def scenario() -> None:
        listener = Listener(kind="websocket", port=0, origins=("https://ward.example",))
        async with opened(listener) as door, aiohttp.ClientSession() as session:
            asked = {
                "Upgrade": "websocket",
                "Connection": "Upgrade",
                "Sec-WebSocket-Version": "13",
                "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
            } | headers
            async with session.get(f"http://127.0.0.1:{door.port}{path}", headers=asked) as answer:
                assert answer.status == status
            assert len(door.made) == (status == 101)

    run(scenario())


@pytest.mark.parametrize("said", [b"", b"GET /mqtt HTTP/1.1\r\nHost: x\r\nX: "])
def test_a_handshake_that_does_not_end_is_cut_off(said: bytes) -> None:
    async def scenario() -> None:
        async with opened(WEB, bounds=Bounds(connect_s=0.1)) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(said)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(reader.readexactly(1), 120)
            writer.close()

    run(scenario())


def test_too_many_handshakes_send_away_the_oldest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WEBSOCKET_HANDSHAKES", 2)

    async def scenario() -> None:
        async with opened(WEB) as door:
            silent = []
            for _ in range(3):
                silent.append(await asyncio.open_connection("127.0.0.1", door.port))
                await asyncio.sleep(0.02)
            with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
                await asyncio.wait_for(silent[0][0].readexactly(1), 120)
            _, writer = await raw_websocket(door.port)  # sends the next away
            assert len(door.made) == 1
            _, other = await raw_websocket(door.port)  # a WebSocket does not count any more
            assert len(door.made) == 2
            assert not any(echo.lost.is_set() for echo in door.made)
            for _, each in silent:
                each.close()
            writer.close()
            other.close()

    run(scenario())


# -- TLS -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> certificates.Certificates:
    return certificates.make(tmp_path_factory.mktemp("tls"))


def trusting(ca: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=ca)


def test_tls_carries_bytes_and_refuses_old_versions(made: certificates.Certificates) -> None:
    listener = Listener(kind="tls", port=0, certificate=str(made.server), key=str(made.server_key))

    async def scenario() -> None:
        async with opened(listener) as door:
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", door.port, ssl=trusting(made.ca), server_hostname="localhost"
            )
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            writer.close()
            old = trusting(made.ca)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # that is why
                old.minimum_version = ssl.TLSVersion.TLSv1
                old.maximum_version = ssl.TLSVersion.TLSv1_1
            old.set_ciphers("ALL:@SECLEVEL=0")
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.open_connection("127.0.0.1", door.port, ssl=old, server_hostname="localhost")

    run(scenario())


@pytest.mark.parametrize("kind", ["tls", "websockets"])
def test_too_many_tls_handshakes_send_away_the_oldest(
    made: certificates.Certificates, monkeypatch: pytest.MonkeyPatch, kind: Literal["tls", "websockets"]
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES", 3)
    listener = Listener(kind=kind, port=0, certificate=str(made.server), key=str(made.server_key))

    async def scenario() -> None:
        async with opened(listener) as door:
            silent = [await asyncio.open_connection("127.0.0.1", door.port) for _ in range(3)]
            for _ in range(2):  # more than there is room for, one after the other: each is let in
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", door.port, ssl=trusting(made.ca), server_hostname="localhost"
                )
                writer.close()
            with suppress(ConnectionError):
                assert await asyncio.wait_for(silent[0][0].read(), 120) == b""
            assert not silent[1][0].at_eof()
            for _, writer in silent:
                writer.close()

    run(scenario())


def test_handshakes_that_are_sent_away_before_they_begin_are_closed(
    made: certificates.Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "TLS_HANDSHAKES", 2)
    context = files.context(
        Listener(kind="tls", port=0, certificate=str(made.server), key=str(made.server_key))
    )

    async def scenario() -> None:
        door = TlsHandshakes(context, handshake_s=120, connection=Echo)
        pairs = [socket.socketpair() for _ in range(4)]
        for ours, _ in pairs:  # in one turn of the loop, as when many connect at once
            ours.setblocking(False)
            door._accepted(ours)
        assert [ours.fileno() < 0 for ours, _ in pairs] == [True, True, False, False]
        await door.close()
        assert all(ours.fileno() < 0 for ours, _ in pairs)
        for _, theirs in pairs:
            theirs.close()

    run(scenario())


def test_websocket_over_tls_carries_bytes(made: certificates.Certificates) -> None:
    listener = Listener(kind="websockets", port=0, certificate=str(made.server), key=str(made.server_key))

    async def scenario() -> None:
        async with opened(listener) as door, aiohttp.ClientSession() as session:
            url = f"https://localhost:{door.port}/mqtt"
            async with session.ws_connect(url, protocols=["mqtt"], ssl=trusting(made.ca)) as client:
                await client.send_bytes(b"hello")
                assert await client.receive_bytes(timeout=120) == b"hello"

    run(scenario())


def test_a_client_without_a_certificate_is_refused_where_one_is_wanted(
    made: certificates.Certificates,
) -> None:
    listener = Listener(
        kind="tls", port=0, certificate=str(made.server), key=str(made.server_key), client_ca=str(made.ca)
    )

    async def scenario() -> None:
        async with opened(listener) as door:

            async def first_byte(context: ssl.SSLContext) -> None:
                reader, writer = await asyncio.open_connection(
                    "127.0.0.1", door.port, ssl=context, server_hostname="localhost"
                )
                try:
                    await reader.readexactly(1)  # TLS 1.3 tells the client with its first bytes
                finally:
                    writer.transport.abort()

            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await first_byte(trusting(made.ca))
            assert not any(hasattr(each, "transport") for each in door.made)
            context = trusting(made.ca)
            context.load_cert_chain(made.client, made.client_key)
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", door.port, ssl=context, server_hostname="localhost"
            )
            writer.write(b"hello")
            assert await reader.readexactly(5) == b"hello"
            shown = door.made[-1].transport.get_extra_info("peercert")
            assert shown["subject"] == ((("commonName", "ann"),),)
            writer.close()

    run(scenario())


def test_new_certificates_are_shown_to_new_connections(
    made: certificates.Certificates, tmp_path: Path
) -> None:
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(made.server.read_bytes())
    key.write_bytes(made.server_key.read_bytes())
    listener = Listener(kind="tls", port=0, certificate=str(chain), key=str(key))

    async def shown(port: int, authority: Path) -> bytes:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusting(authority), server_hostname="localhost"
        )
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found

    async def scenario() -> None:
        async with opened(listener) as door:
            before = await shown(door.port, made.ca)
            (tmp_path / "other").mkdir()
            other = certificates.make(tmp_path / "other")
            chain.write_bytes(other.server.read_bytes())
            key.write_bytes(other.server_key.read_bytes())
            door.doors.reload_certificates([listener])
            assert await shown(door.port, other.ca) != before
            chain.write_text("damaged")
            with pytest.raises(NodeError, match=r"there is no certificate in it|not a PEM file"):
                door.doors.reload_certificates([listener])
            await shown(door.port, other.ca)

    run(scenario())


# -- places that cannot be listened at -----------------------------------------------------------------------


def test_a_port_in_use_is_named() -> None:
    async def scenario() -> None:
        async with opened(Listener(port=0)) as door:
            with pytest.raises(NodeError, match=f"port {door.port} of 127.0.0.1 is in use"):
                async with opened(Listener(port=door.port)):
                    pass

    run(scenario())


@pytest.mark.parametrize(
    ("host", "said"),
    [("192.0.2.1", "is no address of this machine"), ("no-such-host.invalid", "host no-such-host.invalid")],
)
def test_an_address_that_is_not_ours_is_named(host: str, said: str) -> None:
    async def scenario() -> None:
        with pytest.raises(NodeError, match=said):
            async with opened(Listener(host=host, port=0)):
                pass

    run(scenario())
