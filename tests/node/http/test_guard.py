"""Who may use the API and the dashboard: tokens, hosts, origins, content types, headers for browsers."""

from __future__ import annotations

import asyncio
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import uvloop

from penstock import limits
from penstock.errors import NodeError
from penstock.node.config.schema import Config, Http
from penstock.node.http import server, start_http
from penstock.node.http.guard import OPEN
from penstock.node.observe.status import NodeStatus
from tests.kit.http_node import Running, running

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN = "correct-horse-battery-staple"  # noqa: S105


@pytest.mark.parametrize("path", ["/api/v1/status", "/api/v1/live", "/metrics", "/api/v1/openapi.json"])
@pytest.mark.parametrize(
    "header", [None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ü"]
)
async def test_without_the_token_nothing_is_told(path: str, header: str | None) -> None:
    async with running(token=TOKEN) as node:
        headers = {} if header is None else {"Authorization": header}
        async with node._session.get(node.url + path, headers=headers) as answer:
            assert answer.status == 401
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert answer.headers["Connection"] == "close"
            assert TOKEN not in await answer.text()


async def test_with_the_token_everything_is_told() -> None:
    async with running(token=TOKEN) as node:
        headers = {"Authorization": f"bearer {TOKEN}", "Host": "node.example:8080"}
        status, body, _ = await node.ask("GET", "/api/v1/status", headers=headers)
        assert (status, body["balanced"]) == (200, True)


async def test_the_page_itself_needs_no_token_and_holds_none() -> None:
    async with running(token=TOKEN) as node:
        for path in OPEN:
            async with node._session.get(node.url + path) as answer:
                assert answer.status == 200
                assert TOKEN not in await answer.text()


async def test_whether_the_node_is_well_is_told_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(token=TOKEN) as node:
        assert (await node.ask("GET", "/healthz"))[:2] == (200, {"done": "running"})
        assert (await node.ask("GET", "/readyz"))[:2] == (200, {"done": "ready"})
        monkeypatch.setattr(NodeStatus, "faults", ("the secret disk is full",))
        status, body, _ = await node.ask("GET", "/readyz")
        assert (status, body["detail"]) == (503, "faults: 1; with the token /api/v1/status lists them")
        assert (await node.ask("GET", "/healthz"))[0] == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:1", 200),
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("[::1]:8080", 200),
        ("evil.example", 403),
        ("evil.example:8080", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.0.2.1", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
async def test_a_name_that_was_made_to_point_here_is_refused(host: str, status: int) -> None:
    async with running() as node:
        found, body, _ = await node.ask("GET", "/api/v1/status", headers={"Host": host})
        assert found == status
        if status == 403:
            assert body["where"] == "Host"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Origin": "{url}"}, 200),
        ({"Origin": "{url}", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://["}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Type": "multipart/form-data; boundary=x"}, 415),
    ],
)
async def test_a_page_of_another_site_changes_nothing(headers: dict[str, str], status: int) -> None:
    async with running() as node:
        given = {"Content-Type": "application/json"} | headers
        given = {name: value.replace("{url}", node.url) for name, value in given.items()}
        body = b'{"topic": "a", "retain": true, "payload": "x"}'
        found, _, _ = await node.ask("POST", "/api/v1/publish", data=body, headers=given)
        assert found == status
        assert (await node.get("/status"))["retained"] == (status == 200)


async def test_every_answer_forbids_what_the_page_does_not_need() -> None:
    async with running() as node:
        for path in ("/", "/page.js", "/api/v1/status", "/api/v1/nothing", "/metrics"):
            async with node._session.get(node.url + path) as answer:
                rules = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in rules
                assert "script-src 'self';" in rules
                assert "frame-ancestors 'none'" in rules
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with await node.live() as stream:
            assert "default-src 'none'" in stream.headers["Content-Security-Policy"]


def test_the_page_fetches_nothing_from_elsewhere_and_writes_no_markup() -> None:
    folder = Path(server.__file__).parent / "page"
    assert {path.name for path in folder.iterdir()} == {file.name for file in OPEN.values()}
    for path in folder.iterdir():
        text = path.read_text().replace("http://www.w3.org/", "")
        assert "http://" not in text
        assert "https://" not in text
        assert "innerHTML" not in text
        assert "style=" not in text
        assert "onclick=" not in text


async def test_without_a_token_the_server_listens_on_loopback_only() -> None:
    async with running() as node:
        with pytest.raises(NodeError, match=r"http\.token"):
            await start_http(node.observed, Config(http=Http(host="0.0.0.0", port=0)))  # noqa: S104


async def test_a_port_in_use_is_named() -> None:
    async with running() as node:
        with pytest.raises(NodeError, match=str(node.server.port)):
            await start_http(node.observed, Config(http=Http(port=node.server.port)))


def test_a_new_token_holds_at_once_and_the_last_one_is_not_lost_in_the_open(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        async with running(token=TOKEN) as node:
            node.server.reconfigure(Config(http=Http(token="another-long-token")))  # noqa: S106
            assert (await _status(node, TOKEN), await _status(node, "another-long-token")) == (401, 200)
            node.server.reconfigure(Config(http=Http(token="")))
            assert await _status(node, "") == 200
            node.server._guard.host = "192.0.2.1"
            node.server.reconfigure(Config(http=Http(token=TOKEN)))
            node.server.reconfigure(Config(http=Http(token="")))
            assert await _status(node, "") == 401

    asyncio.run(story())
    assert "http.token is kept" in caplog.text


async def _status(node: Running, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return (await node.ask("GET", "/api/v1/status", headers=headers))[0]


# -- the door ------------------------------------------------------------------------------------------------


async def test_more_connections_than_the_bound_are_not_let_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_CONNECTIONS", 3)
    async with running() as node:
        open_ = [await asyncio.open_connection("127.0.0.1", node.server.port) for _ in range(3)]
        await asyncio.sleep(0.05)
        reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert await _rest(reader) == b""
        for _, one in [*open_, (reader, writer)]:
            one.close()
        await asyncio.sleep(0.05)
        assert (await node.get("/status"))["balanced"]


@pytest.mark.parametrize("said", [b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n"])
async def test_who_does_not_finish_its_request_is_sent_away(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "HTTP_HEAD_S", 0.05)
    async with running() as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
        writer.write(said)
        assert await _rest(reader) == b""
        writer.close()


async def test_a_head_without_end_is_sent_away() -> None:
    async with running() as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
        writer.write(b"GET / HTTP/1.1\r\nX: " + b"x" * (limits.HTTP_HEAD_BYTES + 1))
        assert await _rest(reader) == b""
        writer.close()


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_request_that_comes_byte_by_byte_is_answered(
    loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def story() -> None:
        async with running() as node:
            reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
            for byte in b"GET /icon.svg HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
                writer.write(bytes((byte,)))
                await asyncio.sleep(0)
            assert (await _rest(reader)).startswith(b"HTTP/1.1 200 OK")
            writer.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@pytest.mark.parametrize(
    "said",
    [
        b"\x16\x03\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /api/v1/publish HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: localhost\r\nX\xff: \x00\r\n\r\n",
    ],
)
def test_what_is_no_http_is_refused_and_does_not_fill_the_log(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with running() as node:
            reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
            writer.write(said)
            assert b" 400 Bad Request" in await _rest(reader)
            writer.close()
            assert (await node.get("/status"))["balanced"]

    asyncio.run(story())
    assert not [record for record in caplog.records if record.levelname in ("ERROR", "WARNING")]


async def _rest(reader: asyncio.StreamReader) -> bytes:
    try:
        return await asyncio.wait_for(reader.read(), 120)
    except ConnectionResetError:
        return b""


# -- broken bodies -------------------------------------------------------------------------------------------

POST = (
    b"POST /api/v1/policy/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n"
)
CHUNKED = POST.replace(b"Content-Length: 1000", b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    "said", [POST + b"{", POST.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")]
)
async def test_a_client_that_is_gone_is_not_worth_a_traceback(
    said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as node:
        for delay_s in (0, 0.01):
            _, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
            sock = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.write(said)
            await asyncio.sleep(delay_s)
            writer.transport.abort()
            await asyncio.sleep(0.05)
        assert (await node.get("/status"))["balanced"]
    assert not caplog.records


@pytest.mark.parametrize("pieces", [(POST, b"{"), (CHUNKED + b"5\r\nabcde\r\n", b"\xfb\r", b"38\r\n{}\r\n")])
async def test_a_body_without_an_end_is_given_up(
    pieces: tuple[bytes, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp waits for ever for the rest of a body that is broken in the middle, and stops reading."""
    monkeypatch.setattr(limits, "HTTP_BODY_S", 0.2)
    monkeypatch.setattr(limits, "HTTP_LINGER_S", 0.1)
    async with running() as node:
        reader, writer = await asyncio.open_connection("127.0.0.1", node.server.port)
        for piece in pieces:
            writer.write(piece)
            await asyncio.sleep(0.02)
        async with asyncio.timeout(60):
            said = await reader.read()  # to the end of the connection
        assert said.startswith((b"HTTP/1.1 408", b"HTTP/1.1 400"))
        writer.close()
