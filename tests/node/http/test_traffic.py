"""Traffic as the API shows it: topics, retained messages, attributes, single messages."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from penstock import limits
from penstock.node.http import traffic
from tests.kit.http_node import Running, running

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def publishing(node: Running, topic: str, payload: bytes) -> AsyncIterator[None]:
    """Publish the same message again and again meanwhile."""

    async def repeat() -> None:
        while True:
            node.broker.publish(topic, payload)
            await asyncio.sleep(0.01)

    task = asyncio.create_task(repeat())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_topics_have_rates_and_retained_messages() -> None:
    async with running() as node:
        node.broker.publish("home/door", b"open", retain=True)
        async with publishing(node, "home/kitchen/heat", b"21.5"):
            found = await node.get("/topics?filter=home/%23")
        assert [row["topic"] for row in found["topics"]] == ["home/door", "home/kitchen/heat"]
        door, heat = found["topics"]
        assert (door["messages"], door["retained"], door["payload"]) == (0, True, "open")
        assert heat["messages"] == found["messages"] > 1
        assert heat["per_s"] == pytest.approx(heat["messages"] / found["seconds"], rel=0.05)
        assert (heat["retained"], heat["payload"]) == (False, "21.5")
        assert node.broker.router.tapped == {}


async def test_topics_beyond_the_bound_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_TOPICS", 2)
    async with running() as node:
        asking = asyncio.create_task(node.get("/topics"))
        while not node.broker.router.tapped:
            await asyncio.sleep(0.01)
        for number in range(5):
            node.broker.publish(f"t/{number}", b"x")
        found = await asking
        assert (found["messages"], len(found["topics"]), found["more"]) == (5, 2, 3)


async def test_retained_messages_are_listed_in_pages() -> None:
    async with running() as node:
        for number in range(5):
            node.broker.publish(f"r/{number}", b"%d" % number, retain=True)
        node.broker.publish("other", b"\xff\xfe", retain=True)
        page = await node.get("/retained?filter=r/%2B&offset=1&limit=2")
        assert (page["total"], [row["topic"] for row in page["retained"]]) == (5, ["r/1", "r/2"])
        other = (await node.get("/retained?filter=other"))["retained"][0]
        assert (other["payload"], other["bytes"]) == ("0xfffe", 2)


async def test_attributes_are_found_with_their_kinds_and_ranges() -> None:
    async with running() as node:
        payload = b'{"pulse": 71, "who": {"bed": "A1", "a.b": true}, "none": null}'
        async with publishing(node, "ward/1", payload):
            found = await node.get("/attributes?filter=ward/%23")
        assert found["events"] > 0
        assert {(row["path"], row["kind"]) for row in found["attributes"]} == {
            ("pulse", "number"),
            ("who.bed", "text"),
            ('who."a.b"', "true or false"),
        }
        pulse = next(row for row in found["attributes"] if row["path"] == "pulse")
        assert (pulse["least"], pulse["most"], pulse["events"]) == (71, 71, found["events"])


async def batch(answer: aiohttp.ClientResponse) -> dict[str, Any]:
    async with asyncio.timeout(120):
        while not (line := await answer.content.readline()).startswith(b"data: "):
            assert line, "the stream ended"
    found: dict[str, Any] = json.loads(line[6:])
    return found


async def test_messages_come_as_they_are_published_after_the_retained_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(traffic, "BEAT_S", 0.5)  # when a viewer that has left is noticed
    async with running() as node, aiohttp.ClientSession() as session:
        node.broker.publish("a/kept", b"before", retain=True)
        async with session.get(f"{node.url}/api/v1/messages?filter=a/%23") as answer:
            assert answer.headers["Content-Security-Policy"]
            first = await batch(answer)
            assert [(row["topic"], row["retained"]) for row in first["messages"]] == [("a/kept", True)]
            node.broker.publish("a/b", b"now")
            node.broker.publish("z", b"not asked for")
            (row,) = (await batch(answer))["messages"]
            assert (row["topic"], row["payload"], row["retained"]) == ("a/b", "now", False)
            for _ in range(limits.HTTP_MESSAGES + 7):
                node.broker.publish("a/b", b"many")
            found = await batch(answer)
            assert (len(found["messages"]), found["missed"]) == (limits.HTTP_MESSAGES, 7)
        async with asyncio.timeout(120):
            while node.broker.router.tapped:
                await asyncio.sleep(0.05)


async def test_views_of_messages_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_TAPS", 1)
    async with (
        running() as node,
        aiohttp.ClientSession() as session,
        session.get(f"{node.url}/api/v1/messages") as answer,
    ):
        await batch(answer)
        status, body, headers = await node.ask("GET", "/api/v1/topics")
        assert (status, headers["Retry-After"]) == (429, "5")
        assert "views of messages" in body["detail"]


@pytest.mark.parametrize(
    ("path", "status", "where"),
    [
        ("/topics?filter=a%23", 422, "filter"),
        ("/topics?seconds=11", 400, "seconds"),
        ("/retained?filter=", 422, "filter"),
        ("/attributes?filter=%23/a", 422, "filter"),
        ("/messages?filter=a%23", 422, "filter"),
    ],
)
async def test_wrong_questions_are_refused(path: str, status: int, where: str) -> None:
    async with running() as node:
        found, body, _ = await node.ask("GET", f"/api/v1{path}")
        assert (found, body["where"]) == (status, where)
