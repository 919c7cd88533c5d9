"""The poller with the real fetcher against a real server: from a change to who is told."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from penstock.core.channels.polling import PollState
from penstock.errors import ChannelRefused
from penstock.node.channels.poller import Poller
from penstock.node.config.channels import Polling
from penstock.node.outbound.fetch import Fetcher, FetchResult
from tests.kit import web_server as pages
from tests.kit.web_server import Feed, Names, WebServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from penstock.node.channels.queue import HostQueue

OPTIONS = Polling(networks=("127.0.0.0/8",), least_s=0.02, fetch_s=5)
Told = asyncio.Queue[tuple[str, FetchResult, PollState]]


@asynccontextmanager
async def polling(options: Polling = OPTIONS) -> AsyncIterator[tuple[WebServer, Poller, Told]]:
    told: Told = asyncio.Queue()
    async with WebServer() as server:
        fetcher = Fetcher(options, resolver=Names())
        poller = Poller(fetcher, options=options, on_fetched=lambda *news: told.put_nowait(news))
        task = asyncio.create_task(poller.run())
        try:
            async with asyncio.timeout(120):
                yield server, poller, told
        finally:
            await poller.close()
            await task
            await fetcher.close()


async def test_a_feed_is_fetched_once_in_full_then_by_conditions_then_its_news_only() -> None:
    async with polling() as (server, poller, told):
        feed = Feed(server, deltas=True)
        feed.add("one")
        poller.add(feed.url, interval_us=50_000)
        seen = []
        while 226 not in seen:
            _, fetched, _ = await told.get()
            seen.append(fetched.status)
            if seen[-1] == 304:
                feed.add("two")
        assert seen[:2] == [200, 304]
        assert b"two" in fetched.body
        assert b"one" not in fetched.body
        assert server.counts["/robots.txt"] == 0  # feeds are made for programs
        assert server.asked[1].headers["if-none-match"] == '"1"'


async def test_a_page_waits_for_robots_and_a_forbidden_one_is_never_fetched() -> None:
    async with polling() as (server, poller, told):
        server.put("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
        open_page, private = server.put("/open", "text"), server.put("/private", "text")
        poller.add(private, interval_us=50_000)
        poller.add(open_page, interval_us=50_000)
        for _ in range(3):
            url, fetched, _ = await told.get()
            assert (url, fetched.error) == (open_page, "")
        assert server.counts["/robots.txt"] == 1
        assert server.counts["/private"] == 0
        assert "does not allow Penstock" in poller.why(private)
        assert server.asked[0].path == "/robots.txt"


async def test_no_redirect_leads_to_what_robots_forbids() -> None:
    async with polling() as (server, poller, told):
        server.put("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
        server.put("/private", "text")
        feed = server.put("/private.xml", "<rss/>", content_type="application/rss+xml")
        page = server.page("/page", pages.redirect(302, "/private"))
        poller.add(page, interval_us=50_000)
        _, fetched, state = await told.get()
        assert "robots.txt does not allow Penstock to fetch this address" in fetched.error
        assert state.errors == 1
        assert server.counts["/private"] == 0
        poller.remove(page)
        to_feed = server.page("/latest", pages.redirect(302, feed))
        poller.add(to_feed, interval_us=50_000)
        _, fetched, _ = await told.get()
        assert (fetched.status, fetched.error) == (200, "")  # feeds are made for programs


async def test_no_redirect_leads_to_a_domain_that_asked_to_be_left_alone() -> None:
    async with polling() as (server, poller, told):
        server.page("/busy.xml", pages.busy(429, seconds="3600"))
        there = server.url("/busy.xml", host="busy.example")
        found = []
        for name in ("/one.xml", "/two.xml"):
            poller.add(server.page(name, pages.redirect(302, there)), interval_us=3_600_000_000)
            found.append((await told.get())[1])
        assert [each.status for each in found] == [429, 302]
        assert "busy.example asked to be left alone" in found[1].error
        assert server.counts["/busy.xml"] == 1


async def test_where_a_redirect_leads_is_paid_for_with_its_robots_unless_nobody_goes_there() -> None:
    async with polling() as (server, poller, told):
        server.put("/robots.txt", "User-agent: *\nDisallow: /private", content_type="text/plain")
        paid: list[str] = []
        pay = poller._visits.pay

        def noted(host: HostQueue) -> None:
            paid.append(host.budget.name)
            pay(host)

        poller._visits.pay = noted  # type: ignore[method-assign]
        for name in ("public", "private"):
            there = server.url(f"/{name}", host=f"{name}.example")
            server.put(f"/{name}", "text")
            poller.add(server.page(f"/to/{name}", pages.redirect(302, there)), interval_us=3_600_000_000)
            await told.get()
        assert (paid.count("public.example"), paid.count("private.example")) == (2, 1)


async def test_a_page_that_moved_is_then_asked_for_at_its_new_host() -> None:
    async with polling() as (server, poller, told):
        new = server.url("/new", host="new.example")
        server.put("/new", "text")
        old = server.page("/old", pages.redirect(301, new))
        poller.add(old, interval_us=50_000)
        for _ in range(3):
            url, fetched, state = await told.get()
            assert (url, fetched.url, state.moved) == (old, new, new)
        assert server.counts["/old"] == 1
        assert server.asked[-1].host == f"new.example:{server.port}"


async def test_a_busy_server_is_left_alone() -> None:
    async with polling() as (server, poller, told):
        busy = server.page("/busy.xml", pages.busy(429, date_in_s=3_600, skew_s=-86_400))
        other = server.put("/other.xml", "<rss/>")
        poller.add(busy, interval_us=50_000)
        await told.get()
        poller.add(other, interval_us=50_000)  # of the same host, so it waits as well
        await asyncio.sleep(0.3)
        assert (server.counts["/busy.xml"], server.counts["/other.xml"]) == (1, 0)
        for url in (busy, other):
            with pytest.raises(ChannelRefused, match="asked to be left alone"):
                await poller.poll_now(url)
