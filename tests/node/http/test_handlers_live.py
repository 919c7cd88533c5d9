"""Live updates: computed once for all who look, bounded, ended when the server closes."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

from penstock import limits
from penstock.node.observe import rows, watch
from tests.kit.http_node import DOCUMENT, VITALS, running

if TYPE_CHECKING:
    import aiohttp


async def snapshot(stream: aiohttp.ClientResponse) -> Any:
    """The next one, as the document promises it."""
    line = await asyncio.wait_for(stream.content.readline(), 120)
    assert line.startswith(b"data: ")
    assert await stream.content.readline() == b"\n"
    found = json.loads(line[6:])
    schema = {"$ref": "#/components/schemas/Snapshot", "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(found)
    return found


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples every 20 ms."""
    monkeypatch.setattr(watch, "INTERVAL_S", 0.02)
    monkeypatch.setattr(watch, "SHARE", 1.0)


@pytest.mark.usefixtures("quick")
async def test_a_viewer_sees_the_present_at_once_and_then_what_changes() -> None:
    async with running() as node, await node.live() as stream:
        assert stream.content_type == "text/event-stream"
        assert (await snapshot(stream))["overview"]["attached"] == 0
        await node.stalled("phone", "ward/#", policy=VITALS)
        while not (found := await snapshot(stream))["slow"]:
            pass
        assert found["slow"][0]["client_id"] == "phone"
        assert found["clients"][0]["subscriptions"][0]["policy"] == "vitals"
        assert found["overview"]["balanced"]


@pytest.mark.usefixtures("quick")
async def test_a_snapshot_is_made_once_for_all_viewers_and_not_at_all_for_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = 0
    real = rows.snapshot

    def counted(*given: Any, **named: Any) -> Any:
        nonlocal made
        made += 1
        return real(*given, **named)

    monkeypatch.setattr(rows, "snapshot", counted)
    async with running() as node:
        await asyncio.sleep(0.1)
        assert made == 0
        streams = [await node.live() for _ in range(5)]
        for stream in streams:
            await snapshot(stream)
        for stream in streams * 3:
            await snapshot(stream)
        # One for each viewer's beginning, one for each second, and perhaps one that is being made.
        assert made - 5 - node.server._watch._made in (0, 1)
        assert node.server._watch._made >= 3
        for stream in streams:
            stream.close()
        while node.server._watch.viewers:
            await asyncio.sleep(0.02)
        before = made
        await asyncio.sleep(0.1)
        assert made == before


async def test_more_viewers_than_the_bound_are_sent_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_LIVE_STREAMS", 2)
    async with running() as node:
        streams = [await node.live() for _ in range(2)]
        refused = await node.live()
        assert (refused.status, refused.headers["Retry-After"]) == (503, "10")
        assert "live views are open" in (await refused.json(content_type=None))["detail"]
        for stream in streams:
            stream.close()
        while node.server._watch.viewers:
            await asyncio.sleep(0.02)
        async with await node.live() as again:
            assert again.status == 200


@pytest.mark.usefixtures("quick")
async def test_a_viewer_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_STALL_S", 0.1)
    async with running() as node:
        for number in range(limits.LIVE_CLIENTS):
            await node.client(f"{number}-" + "x" * 2_000)
        _, writer = await asyncio.open_connection("127.0.0.1", node.server.port, limit=1024)
        writer.write(b"GET /api/v1/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not node.server._watch.viewers:
            await asyncio.sleep(0.02)
        async with asyncio.timeout(120):
            while node.server._watch.viewers:
                await asyncio.sleep(0.02)
        writer.close()
        assert (await node.get("/status"))["attached"] == limits.LIVE_CLIENTS


async def test_closing_the_server_ends_all_streams() -> None:
    async with running() as node:
        stream = await node.live()
        await snapshot(stream)
        async with asyncio.timeout(120):
            await node.server.close()
            assert await stream.content.read() == b""
        stream.close()


@pytest.mark.usefixtures("quick")
async def test_the_past_of_a_subscription_grows_while_nobody_looks() -> None:
    async with running() as node:
        await node.stalled("phone", "ward/#", policy=VITALS)
        await asyncio.sleep(0.1)
        path = "/history?client=phone&filter=ward/%23"
        first = (await node.get(path))["series"]
        assert first["items"][-1] > 0
        await asyncio.sleep(0.1)
        fresh = (await node.get(f"{path}&since_us={first['at_us'][-1]}"))["series"]
        assert fresh["at_us"]
        assert min(fresh["at_us"]) > first["at_us"][-1]
        listed = await node.get("/history")
        assert listed["histories"] == [{"client_id": "phone", "filter": "ward/#"}]
