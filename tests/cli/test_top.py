"""`penstock top` against a node, against nothing, and against another server."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from penstock.cli import terminal
from penstock.cli.app import app
from penstock.errors import InputError
from penstock_lab.rigs.ports import free_port
from tests.kit.http_node import VITALS, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TOKEN = "correct-horse-battery-staple"  # noqa: S105


async def run(*arguments: str) -> tuple[str, BaseException | None]:
    """The command's output, and the error it raised."""
    found = await asyncio.to_thread(CliRunner().invoke, app, ["top", *arguments])
    return found.stdout, found.exception


async def test_a_look_at_a_node_with_a_slow_receiver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal.out, "_width", 160)  # a narrow terminal cuts names
    async with running() as node:
        await node.stalled("[red]phone\u202e", "ward/#", policy=VITALS)
        text, _ = await run("--node", node.url, "--once")
        assert "[red]phone\\u202e" in text
        assert "behind" in text
        assert "✓" in text
        shown, _ = await run("--node", f"{node.url}/", "--json")
        assert json.loads(shown)["slow"][0]["subscription"]["policy"] == "vitals"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 160])
async def test_a_narrow_terminal_shows_fewer_columns(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setattr(terminal.out, "_width", width)
    async with running() as node:
        await node.stalled("a-client-with-quite-a-long-name", "ward/#", policy=VITALS)
        text, _ = await run("--node", node.url, "--once")
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert any("a-client" in line and "behind" in line for line in lines), "name and state are always there"
    assert ("dropped by" in text) == (width >= 110)
    assert ("p99" in text) == (width >= 90)


async def test_the_first_node_of_a_list_that_answers_is_shown() -> None:
    async with running() as node:
        dead = f"http://127.0.0.1:{free_port()}"
        shown, error = await run("--node", f"{dead},{node.url}", "--json")
        assert error is None
        assert json.loads(shown)["slow"] == []
    _, error = await run("--node", f"{dead},{node.url}", "--once")
    assert isinstance(error, InputError)
    assert "no node answers: " in str(error)
    assert str(error).count("refused") == 2


async def test_a_token_is_asked_for_and_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(token=TOKEN) as node:
        _, error = await run("--node", node.url, "--once")
        assert isinstance(error, InputError)
        assert "no token" in str(error)
        assert (await run("--node", node.url, "--json", "--token", TOKEN))[1] is None
        monkeypatch.setenv("PENSTOCK_TOKEN", TOKEN)
        assert (await run("--node", node.url, "--json"))[1] is None


@asynccontextmanager
async def server(answer: bytes) -> AsyncIterator[str]:
    """Somebody who says this to everybody."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as listening:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "404 Not Found"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n", "302"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n", "not a node's"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", "without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {}\n\n", "another version"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: {\n\n", "another version"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "is that the port of MQTT?"),
        (b"", "is that the port of MQTT?"),
    ],
)
async def test_something_else_than_a_node(answer: bytes, told: str) -> None:
    async with server(answer) as url:
        _, error = await run("--node", url, "--once")
        assert isinstance(error, InputError)
        assert told in str(error)


@pytest.mark.parametrize(
    "url", ["127.0.0.1:x", "ftp://x", "http://", "http://x:y", "http://[::1", "file:///etc"]
)
def test_an_address_that_is_none(url: str) -> None:
    _, error = asyncio.run(run("--node", url))
    assert isinstance(error, InputError)
    assert "--node" in str(error)


def test_nobody_there() -> None:
    _, error = asyncio.run(run("--node", "http://127.0.0.1:1"))
    assert isinstance(error, InputError)
    assert "is the node up, and is --node right?" in str(error)


def test_the_environment_names_the_http_port_not_the_mqtt_one() -> None:
    both = {"PENSTOCK_URL": "mqtt://127.0.0.1:1", "PENSTOCK_HTTP_URL": "http://127.0.0.1:2"}
    result = CliRunner().invoke(app, ["top", "--once"], env=both)
    assert isinstance(result.exception, InputError)
    assert "http://127.0.0.1:2" in str(result.exception)
