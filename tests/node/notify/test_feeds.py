"""Atom feeds: read by a real feed parser, found only by who knows the address, not sent twice."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import aiohttp
import feedparser  # type: ignore[import-untyped]
import pytest
from yarl import URL

from penstock.node.http.notify import is_known
from tests.kit.channel_api import MemoryChannels
from tests.kit.notify_http import TOKEN, served

if TYPE_CHECKING:
    from pathlib import Path

PAGE = "http://page.example/?a=1&b=<2>"


async def test_a_channels_feed_holds_its_newest_changes() -> None:
    channels = MemoryChannels()
    async with served(channels) as at, aiohttp.ClientSession() as session:
        await channels.subscribe("feed:ann", PAGE)
        url = channels.subscriptions()[0].url
        for number in range(5):
            channels.change(PAGE, f"<script>{number}</script> \x00 & more", title="A & B")
        assert at.feeds is not None
        address = URL(at.feeds.channel_url(url), encoded=True)
        async with session.get(address) as answer:
            assert answer.status == 200
            assert answer.headers["Content-Type"].startswith("application/atom+xml")
            body, etag = await answer.read(), answer.headers["ETag"]
        feed = feedparser.parse(body)
        assert not feed.bozo
        assert feed.feed.title == "A & B"
        assert [entry.title for entry in feed.entries] == ["A & B changed"] * 3
        assert feed.entries[0].id.endswith("#penstock-5")
        assert "<script>" not in feed.entries[0].content[0].value
        assert "4" in feed.entries[0].content[0].value
        async with session.get(address, headers={"If-None-Match": f'"x", W/{etag}'}) as answer:
            assert answer.status == 304
            assert await answer.read() == b""
        channels.change(PAGE, "another")
        async with session.get(address, headers={"If-None-Match": etag}) as answer:
            assert answer.status == 200


async def test_a_subscribers_feed_is_of_all_channels_that_are_not_paused(tmp_path: Path) -> None:
    channels = MemoryChannels()
    addresses = []
    for _ in range(2):  # the address stays the same over a restart
        async with served(channels, data=tmp_path) as at, aiohttp.ClientSession() as session:
            for page in ("http://a.example/", "http://b.example/", "http://c.example/"):
                await channels.subscribe("feed:ann", page)
                channels.change(page)
            await channels.pause("feed:ann", "http://c.example/", paused=True)
            address = at.feed_of("feed:ann").split("/", 3)[3]
            addresses.append(address)
            async with session.get(URL(at.feed_of("feed:ann"), encoded=True)) as answer:
                feed = feedparser.parse(await answer.read())
            assert {entry.link for entry in feed.entries} == {"http://a.example/", "http://b.example/"}
    assert addresses[0] == addresses[1]


@pytest.mark.parametrize(
    "path",
    [
        "/feeds/channel/" + "0" * 32 + "?url=http://page.example/",
        "/feeds/user/" + "0" * 32 + "?who=feed:ann",
        "/feeds/user/x",
        "/feeds/",
        "/feeds/user/%ff?who=%ff",
    ],
)
async def test_who_does_not_know_the_address_finds_nothing(path: str) -> None:
    channels = MemoryChannels()
    async with served(channels) as at, aiohttp.ClientSession() as session:
        await channels.subscribe("feed:ann", "http://page.example/")
        base = at.feed_of("feed:ann").partition("/feeds")[0]
        async with session.get(URL(base + path, encoded=True)) as answer:
            assert answer.status == 404
        async with session.get(f"{base}/api/v1/notify") as answer:
            assert answer.status == 401  # the rest wants the token


async def test_the_api_behind_the_token() -> None:
    channels = MemoryChannels()
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with served(channels) as at, aiohttp.ClientSession(headers=headers) as session:
        base = at.feed_of("feed:ann").partition("/feeds")[0] + "/api/v1/notify"

        async def get(path: str) -> tuple[int, str]:
            async with session.get(base + path) as answer:
                return answer.status, await answer.text()

        await channels.subscribe("feed:ann", "http://page.example/")
        assert (await get(""))[0] == 200
        status, body = await get("/webhook-key?target=http://127.0.0.1/x")
        assert status == 200
        assert at.webhook_key("http://127.0.0.1/x") in body
        assert (await get("/webhook-key?target=nonsense"))[0] == 422
        await channels.subscribe("feed:bob", "http://other.example/")
        told = json.loads((await get("/subscribers?limit=1"))[1])
        assert (told["total"], [one["who"] for one in told["subscribers"]]) == (2, ["feed:ann"])
        assert "feed" in told["kinds"]
        found = json.loads((await get("/subscribers?search=OTHER"))[1])
        assert [(one["who"], one["url"]) for one in found["subscribers"]] == [
            ("feed:bob", "http://other.example/")
        ]
        assert at.feed_of("feed:ann") in (await get("/feed?who=feed:ann"))[1]
        assert (await get("/feed?url=http://page.example"))[0] == 200
        assert (await get("/feed?url=nonsense"))[0] == 422
        assert (await get("/feed"))[0] == 400
        assert 'xmlUrl="http://page.example/"' in (await get("/opml?who=feed:ann"))[1]
        assert (await get("/opml?who=feed:cid"))[0] == 404


@pytest.mark.parametrize(
    ("header", "known"),
    [('"a"', True), ('W/"a"', True), ('"b", "a"', True), ("*", True), ('"b"', False), ("", False)],
)
def test_validators(header: str, known: bool) -> None:
    assert is_known(header, '"a"') is known
