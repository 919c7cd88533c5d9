"""Feeds that come in parts, and pages whose hub tells of changes."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import socket
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

import aiohttp
import msgspec
from aiohttp import web

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.difference import Content
from penstock.errors import ChannelRefused
from penstock.node.channels.channel import Channel, ChannelFacts
from penstock.node.channels.registry import HostRules
from penstock.node.channels.websub import WebSubPushes
from penstock.node.config.channels import ChannelSettings
from penstock.node.config.notify import NotifySettings
from penstock.node.config.read import LoadedConfig
from penstock.node.config.schema import Config, Http, Listener
from penstock.node.service import Node
from tests.kit.channels import Watched, first_version, polling, watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pytest

CONTENT = Content("feed", ())
RSS = """<?xml version="1.0"?><rss version="2.0" xmlns:a="http://www.w3.org/2005/Atom"><channel>
<title>News</title>{head}{items}</channel></rss>"""


def rss(items: Iterable[str], head: str = "") -> bytes:
    found = "".join(f"<item><guid>{name}</guid><title>{name}</title></item>" for name in items)
    return RSS.format(head=head, items=found).encode()


async def test_a_feed_sent_in_parts_loses_no_items() -> None:
    async with WebServer() as server, watching() as node:
        parts = False

        def page(_: web.BaseRequest) -> web.Response:
            kind = {"Content-Type": "application/rss+xml", "ETag": f'"{parts}"'}
            if parts:
                return web.Response(status=226, body=rss(["third"]), headers={**kind, "IM": "feed"})
            return web.Response(body=rss(["second", "first"]), headers=kind)

        url = server.page("/feed", page)
        await node.channels.subscribe("feed:ann", url)
        await first_version(node, url)
        parts = True
        await until(lambda: node.told.heard)
        items = node.told.heard[0][1].items
        assert [(item.kind, item.title) for item in items] == [("new", "third")]
        parts = False
        await asyncio.sleep(0.3)
        assert all(item.kind != "new" for _, one in node.told.heard[1:] for item in one.items)


def kept(*_: object) -> None:
    """Nothing is kept."""


class Hub:
    """A WebSub hub of one subscriber."""

    def __init__(self) -> None:
        self.asked: dict[str, str] = {}

    async def take(self, request: web.BaseRequest) -> web.Response:
        form = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.asked = form
        query = {name: form[name] for name in ("hub.mode", "hub.topic", "hub.lease_seconds")}
        async with (
            aiohttp.ClientSession() as session,
            session.get(form["hub.callback"], params=query | {"hub.challenge": "echo"}) as answer,
        ):
            assert await answer.text() == "echo"
        return web.Response(status=202)

    async def push(self, body: bytes, *, key: str = "") -> int:
        signature = hmac.new((key or self.asked["hub.secret"]).encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Hub-Signature": f"sha256={signature}", "Content-Type": "application/rss+xml"}
        async with (
            aiohttp.ClientSession() as session,
            session.post(self.asked["hub.callback"], data=body, headers=headers) as answer,
        ):
            return answer.status


def reachable(data: str = "") -> Config:
    """A node that hubs on this machine can reach."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    return Config(
        listeners=(Listener(port=0),),
        http=Http(port=port, base_url=f"http://127.0.0.1:{port}"),
        data=data,
        sys_interval_s=0,
        channels=ChannelSettings(enabled=True, interval_s=0.1, polling=polling(), allocate_s=0.2),
        notify=NotifySettings(networks=("127.0.0.0/8",)),
    )


async def test_a_hub_that_agreed_is_not_asked_again_by_a_node_that_is_started_again(tmp_path: Path) -> None:
    config = reachable(str(tmp_path))
    hub = Hub()
    async with WebServer() as server:
        server.page("/hub", hub.take)
        head = f'<a:link rel="hub" href="{server.url("/hub")}"/>'
        url = server.put("/feed", rss(["first"], head), content_type="application/rss+xml")
        async with Node(LoadedConfig(config)) as node:
            assert node.channels is not None
            node.channels.add(url)
            await until(lambda: node.channels and "sends changes" in node.channels.why(url))
        async with Node(LoadedConfig(config)) as node:
            assert node.channels is not None
            assert "sends changes, so polls are only a back-up" in node.channels.why(url)
            assert await hub.push(rss(["second"])) == 200
            await until(lambda: node.channels and node.channels.deltas(url))
        assert server.counts["/hub"] == 1


async def test_a_hub_tells_of_changes_and_polls_become_a_back_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.limits.ALLOCATE_SOON_S", 0.02)
    config = reachable()
    hub = Hub()
    async with WebServer() as server, Node(LoadedConfig(config)) as made:
        node = Watched(made)
        server.page("/hub", hub.take)
        head = f'<a:link rel="hub" href="{server.url("/hub")}"/>'
        url = server.put("/feed", rss(["first"], head), content_type="application/rss+xml")
        await node.channels.subscribe("feed:ann", url)
        most_us = round(config.channels.polling.most_s * 1_000_000)
        await until(lambda: node.channels.channel(url).interval_us == most_us)
        assert "sends changes, so polls are only a back-up" in node.channels.why(url)
        assert await hub.push(rss(["forged"]), key="wrong") == 202
        assert "is not relied on: what was sent in its name is not signed" in node.channels.why(url)
        await until(lambda: node.channels.channel(url).interval_us < most_us)
        assert await hub.push(rss(["second"])) == 200
        await until(lambda: node.told.heard)
        await until(lambda: node.channels.channel(url).interval_us == most_us)
        (delta,) = (one for _, one in node.told.heard)
        assert [(item.kind, item.title) for item in delta.items] == [("new", "second")]
        server.put("/feed", rss(["third", "second", "first"], head), content_type="application/rss+xml")
        while "is not relied on: a poll found a change that it did not" not in node.channels.why(url):
            with suppress(ChannelRefused):  # too soon after the last poll
                await node.channels.check_now(url)
            await asyncio.sleep(0.01)
        assert await hub.push(rss(["fourth"])) == 200
        assert "sends changes, so polls are only a back-up" in node.channels.why(url)
        await until(lambda: len(node.told.heard) == 3)
        assert node.channels.status().balanced
        await node.channels.unsubscribe("feed:ann", url)
        await until(lambda: hub.asked["hub.mode"] == "unsubscribe")


async def test_a_hub_that_pushes_faster_than_pages_are_compared_has_to_come_again() -> None:
    config = Config(data="", http=Http(base_url="https://node.example.org"))
    compared = asyncio.Event()

    async def compare() -> None:
        await compared.wait()

    pushes = WebSubPushes(
        config, HostRules(config.channels), on_push=lambda *_: asyncio.create_task(compare()), keep=kept
    )
    pages = [f"https://example.org/{number}" for number in range(20)]
    taken = [pushes._take(page, b"", "text/html") for page in pages for _ in range(3)]
    assert taken[:6] == [True, True, False] * 2
    assert sum(taken) == limits.WEBSUB_PUSHES
    compared.set()
    await asyncio.sleep(0.01)
    assert pushes._take(pages[0], b"", "text/html")
    await pushes.close()


async def test_a_hub_on_a_refused_host_is_not_asked() -> None:
    web_ = ChannelSettings(enabled=True, deny_hosts=("intern.example.org",))
    config = Config(data="", channels=web_, http=Http(base_url="https://node.example.org"))
    pushes = WebSubPushes(config, HostRules(config.channels), on_push=lambda *_: None, keep=kept)
    for hub, asked in (("https://hub.example.org/", True), ("http://intern.example.org./a", False)):
        channel = Channel("https://example.org/feed", ChannelFacts(since_us=0, kept=True))
        content = msgspec.structs.replace(CONTENT, hub=hub)
        pushes.saw(channel, content, link="", changed=False)
        assert (bool(channel.known.hub), bool(pushes.why(channel.url))) == (asked, asked)
        channel.known.hub = canonical(hub)  # as kept from before the operator refused it
        pushes.follow(channel)
        assert bool(pushes.why(channel.url)) == asked
    await pushes.close()


async def test_the_hub_of_a_page_that_is_not_polled_any_more_is_not_asked() -> None:
    config = Config(
        data="",
        channels=ChannelSettings(enabled=True),
        http=Http(base_url="https://node.example.org"),
    )
    pushes = WebSubPushes(config, HostRules(config.channels), on_push=lambda *_: None, keep=kept)
    channel = Channel("https://example.org/feed", ChannelFacts(since_us=0))  # given up while it was compared
    content = msgspec.structs.replace(CONTENT, hub="https://hub.example.org/")
    pushes.saw(channel, content, link="", changed=False)
    assert not pushes.why(channel.url)
    channel.known.kept = True
    pushes.follow(channel)
    assert "hub.example.org" in pushes.why(channel.url)
    await pushes.close()
