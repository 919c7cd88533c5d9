"""WebSockets byte by byte: a live listener of a broker, and clients that break the rules of RFC 6455."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.mqtt.packets.connect import Connect
from penstock.mqtt.packets.packet import encode
from penstock.node.broker.listeners import Listeners
from penstock.node.broker.websocket import MaskedFrames
from penstock.node.config.schema import Bounds, Listener
from tests.kit.peer import node
from tests.kit.waiting import until
from tests.kit.websocket import raw_websocket

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.kit.peer import Running

PING = b"\x89\x80\0\0\0\0"
CONNECT = encode(Connect(client_id="c"), 5)
WAIT_S = 120


def masked(payload: bytes, *, first: int = 0x82, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """A frame as a client must send it."""
    size = len(payload)
    if size < 126:
        length = bytes((0x80 | size,))
    elif size < 1 << 16:
        length = b"\xfe" + size.to_bytes(2, "big")
    else:
        length = b"\xff" + size.to_bytes(8, "big")
    hidden = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes((first,)) + length + mask + hidden


@asynccontextmanager
async def listening() -> AsyncIterator[tuple[Running, int]]:
    """A broker with a WebSocket listener; its port."""
    async with node() as running:
        doors = Listeners(running.broker.protocol)
        await doors.open([Listener(kind="websocket", port=0)], Bounds())
        try:
            yield running, doors.listeners[0].port
        finally:
            await doors.close()


async def ask(port: int, line: str, *headers: str, more: bytes = b"") -> bytes:
    """All bytes of the answer, up to the end of the connection, which must come by itself."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(
            "\r\n".join([line, "Host: localhost", *headers, "", ""]).encode("utf-8", "surrogateescape") + more
        )
        return await asyncio.wait_for(reader.read(), WAIT_S)
    finally:
        writer.close()


UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version: 13",
)
MQTT = "Sec-WebSocket-Protocol: mqtt"


@pytest.mark.parametrize("ended_by", [b"\0\0", CONNECT + b"\xf0\0", CONNECT + b"\xe0\0"])
async def test_a_ping_behind_the_end_of_a_connection_is_no_fault(
    ended_by: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as (running, port):
        reader, writer = await raw_websocket(port)
        writer.write(masked(ended_by) + PING * 3)
        assert b"\x88" in await asyncio.wait_for(reader.read(), WAIT_S)
        writer.close()
        await until(lambda: not running.broker.status().connections)
        other, writer = await raw_websocket(port)  # the listener goes on
        writer.write(masked(CONNECT))
        assert (await asyncio.wait_for(other.readexactly(3), WAIT_S))[2] == 0x20
        writer.close()
    assert not caplog.records


@pytest.mark.parametrize(
    "wrong",
    [
        b"\x82\x02\0\0",
        b"\x82" + bytes((len(CONNECT),)) + CONNECT,
        b"\x89\0",  # control frames, too
        b"\x88\x02\x03\xe8",
        masked(CONNECT) + b"\x89\0",
        b"\x82\x7e\xff\xff",  # before the payload is there
    ],
)
@pytest.mark.parametrize("cut", [0, 1])
async def test_a_frame_that_is_not_masked_ends_the_connection(
    wrong: bytes, cut: int, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as (running, port):
        reader, writer = await raw_websocket(port)
        if cut:
            writer.write(wrong[:-1])
            await asyncio.sleep(0.05)
            writer.write(wrong[-1:])
        else:
            writer.write(wrong)
        said = await asyncio.wait_for(reader.read(), WAIT_S)
        assert said.endswith(b"\x88\x23\x03\xeaframes of a client must be masked")
        writer.close()
        await until(lambda: not running.broker.status().connections)
    assert not caplog.records


async def test_a_frame_that_is_not_masked_may_come_with_the_handshake() -> None:
    async with listening() as (_, port):
        said = await ask(port, "GET /mqtt HTTP/1.1", *UPGRADE, MQTT, more=b"\x82\x02\0\0")
        assert said.startswith(b"HTTP/1.1 101")
        assert b"\x88\x23\x03\xeaframes" in said


@pytest.mark.parametrize("path", ["/", "/mqtt", "/mqtt?token=1", "/?x"])
async def test_the_path_of_the_listener_answers_and_so_does_the_root(path: str) -> None:
    async with listening() as (_, port):
        more = masked(CONNECT) + masked(b"\xe0\0")
        said = await ask(port, f"GET {path} HTTP/1.1", *UPGRADE, "Sec-WebSocket-Protocol: x, mqtt", more=more)
        head, _, frames = said.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101")
        assert b"Sec-WebSocket-Protocol: mqtt" in head
        assert frames[2] == 0x20


@pytest.mark.parametrize(
    ("line", "headers", "status", "why"),
    [
        ("GET /other HTTP/1.1", (*UPGRADE, MQTT), 404, "MQTT over WebSocket is at /mqtt"),
        ("GET /mqtt/ HTTP/1.1", (*UPGRADE, MQTT), 404, "MQTT over WebSocket is at /mqtt"),
        ("GET /other HTTP/1.1", (), 404, "MQTT over WebSocket is at /mqtt"),
        ("GET /mqtt HTTP/1.1", (), 426, "here is MQTT over WebSocket"),
        ("POST /mqtt HTTP/1.1", (*UPGRADE, MQTT, "Content-Length: 0"), 426, "here is MQTT over WebSocket"),
        (
            "GET /mqtt HTTP/1.1",
            (*UPGRADE[:3], "Sec-WebSocket-Version: 8", MQTT),
            426,
            "the version must be 13",
        ),
        ("GET /mqtt HTTP/1.1", UPGRADE, 400, "subprotocol must be mqtt; none was offered"),
        ("GET /mqtt HTTP/1.1", (*UPGRADE, MQTT + "v3.1"), 400, "subprotocol must be mqtt; offered: mqttv3.1"),
        (
            "GET /mqtt HTTP/1.1",
            (*UPGRADE, MQTT + "\udcec"),
            400,
            "subprotocol must be mqtt; offered: mqtt\\udcec",
        ),
        ("GET /mqtt HTTP/1.1", (*UPGRADE[:2], UPGRADE[3], MQTT), 400, "must be 16 bytes in base64"),
        *(
            (
                "GET /mqtt HTTP/1.1",
                (*UPGRADE[:2], f"Sec-WebSocket-Key: {key}", UPGRADE[3], MQTT),
                400,
                "must be 16 bytes in base64",
            )
            for key in ("ü" * 24, "dGhlIHNhbXBsZSBub25jZQ", "YQ==", "*" * 24)
        ),
        *(
            (
                "GET /mqtt HTTP/1.1",
                (UPGRADE[0], *connection, *UPGRADE[2:], MQTT),
                400,
                "Connection must have the value Upgrade",
            )
            for connection in (
                (),
                ("Connection: keep-alive",),
                ("Connection: \udcec\udced",),
                ("Connection: Upgrade, \udcec",),
                ("Connection: Upgradeü", "Connection: \udcff"),
            )
        ),
        ("GET * HTTP/1.1", (*UPGRADE, MQTT), 400, "*"),
        ("nonsense", (), 400, "nonsense"),
    ],
)
async def test_a_refused_handshake_is_answered_and_ended_at_once(
    line: str, headers: tuple[str, ...], status: int, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening() as (running, port):
        said = await ask(port, line, *headers)
        head, _, body = said.partition(b"\r\n\r\n")
        assert int(head.split()[1]) == status
        assert why.encode() in body
        assert not running.broker.status().connections
    assert not caplog.records


class Kept:
    """The messages that aiohttp's reader would get."""

    def __init__(self) -> None:
        self.data = b""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        self.data += data
        return False, b""


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from([0, 1, 125, 126, 300, 65_535, 65_536]) | st.integers(0, 40)),
        max_size=6,
    ),
    st.lists(st.integers(0, 70_000), max_size=8),
)
def test_frames_are_followed_however_they_are_cut(frames: list[tuple[bool, int]], cuts: list[int]) -> None:
    data, good = b"", 0
    all_masked = True
    for is_masked, size in frames:
        frame = masked(bytes(size))
        if not is_masked:  # the same without mask bit and mask
            frame = bytes((frame[0], frame[1] & 0x7F)) + frame[2:]
            all_masked = False
        data += frame
        good = len(data) if all_masked else good
    kept, refused = Kept(), 0

    def refuse() -> None:
        nonlocal refused
        refused += 1

    reader = MaskedFrames(kept, refuse=refuse)  # type: ignore[arg-type]
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for start, end in pairwise(places):
        reader.feed_data(data[start:end])
    assert refused == (not all_masked)
    assert reader.unmasked is not all_masked
    assert data.startswith(kept.data)
    assert len(kept.data) <= good + 1 if not all_masked else kept.data == data
