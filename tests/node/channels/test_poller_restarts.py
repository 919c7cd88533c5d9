"""Restarts ask nobody for more: budgets are kept, and a node that crashes in a loop waits."""

from __future__ import annotations

import asyncio
import sqlite3
from bisect import bisect_left
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from penstock import limits
from penstock.core.channels.polling import HostBudget, Life
from penstock.errors import ChannelRefused, StoreError
from penstock.node.channels import store as sql
from penstock.node.channels.poller import Poller
from penstock.node.channels.store import CHANNELS_FILE, ChannelStore
from penstock.node.config.channels import Polling
from penstock.node.outbound.fetch import FetchResult
from tests.kit.channel_api import made
from tests.kit.channels import watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer, busy
from tests.node.channels.virtual_loop import S, ScriptedWeb, Wall, run

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from penstock.core.channels.polling import PollState
    from penstock.node.store.database import Row


async def live(
    web: ScriptedWeb,
    wall: Wall,
    options: Polling,
    urls: list[str],
    *,
    life: Life | None = None,
    budgets: Iterable[HostBudget] = (),
) -> tuple[Poller, Life]:
    """A poller that is stopped a second and a half after it began, with pages of which nothing is known."""
    poller = Poller(web, options=options, clock=wall.clock, on_fetched=lambda *_: None)
    life = poller.take_up(life, budgets)
    for url in urls:
        poller.add(url, interval_us=600 * S)
    running = asyncio.create_task(poller.run())
    await asyncio.sleep(max(0, life.began_us - wall.clock.now_us()) / S + 1.5)
    await poller.close()
    await running
    return poller, life


def test_a_node_that_crashes_in_a_loop_asks_less_and_less() -> None:
    async def test() -> None:
        web, wall, life = ScriptedWeb(), Wall(), None
        options = Polling(robots="off")
        while asyncio.get_running_loop().time() < 6 * 3_600:
            _, life = await live(web, wall, options, ["https://example.org/page"], life=life)
        times = web.asked["https://example.org/page"]
        assert 10 <= len(times) <= 15  # without pauses there would be 14,000
        assert times[-1] - times[-2] >= 3_600

    run(test())


def test_the_budget_of_a_domain_outlives_the_node() -> None:
    async def test() -> None:
        web, wall = ScriptedWeb(), Wall()
        options = Polling(robots="off", host_polls=20)
        urls = [f"https://example.org/{number}" for number in range(30)]
        kept: dict[str, HostBudget] = {}
        for _ in range(100):
            poller, _ = await live(web, wall, options, urls, budgets=kept.values())
            used, idle = poller.budgets()
            kept |= {budget.name: budget for budget in used}
            for name in idle:
                del kept[name]
        times = sorted(at for asked in web.asked.values() for at in asked)
        assert max(bisect_left(times, at + 3_600) - place for place, at in enumerate(times)) <= 20

    run(test())


def test_a_budget_is_handed_out_once_and_not_for_longer_than_it_counts() -> None:
    async def test() -> None:
        poller = Poller(ScriptedWeb(), options=Polling(), clock=Wall().clock, on_fetched=lambda *_: None)
        now_us = poller._clock.now_us()
        lowered = HostBudget("slow.example", share=0.5, lowered_us=now_us)
        poller.take_up(None, [lowered, HostBudget("fast.example", polls_us=now_us + 60 * S)])
        assert poller.budgets() == ([], [])
        await asyncio.sleep(120)
        assert poller.budgets() == ([], ["fast.example"])
        assert poller.budgets() == ([], [])
        await asyncio.sleep(11 * 3_600)
        assert poller.budgets() == ([], ["slow.example"])
        await poller.close()

    run(test())


def test_domains_of_which_nothing_is_polled_do_not_hide_that_nobody_answers() -> None:
    async def test() -> None:
        web = ScriptedWeb()
        poller = Poller(web, options=Polling(robots="off"), clock=Wall().clock, on_fetched=lambda *_: None)
        later_us = poller._clock.now_us() + 3_600 * S
        poller.take_up(None, [HostBudget(f"{name}.example", polls_us=later_us) for name in "xyz"])
        urls = ["https://a.example/", "https://b.example/"]
        for url in urls:
            web.answers[url] = lambda _: FetchResult(error="The name is not known (DNS).")
            poller.add(url, interval_us=600 * S)
        running = asyncio.create_task(poller.run())
        await asyncio.sleep(1)
        assert [poller.state(url).errors for url in urls] == [1, 0]
        assert "this node may be offline" in poller.why(urls[1])
        await poller.close()
        await running

    run(test())


def test_the_pauses_that_a_robots_txt_asks_for_outlive_the_node() -> None:
    async def test() -> None:
        web, wall = ScriptedWeb(), Wall()
        robots = FetchResult(status=200, body=b"User-agent: *\nCrawl-delay: 30")
        web.answers["https://example.org/robots.txt"] = lambda _: robots
        urls = [f"https://example.org/{number}" for number in range(20)]
        kept: dict[str, HostBudget] = {}
        states: dict[str, PollState] = {}
        for _ in range(2):
            poller = Poller(web, options=Polling(), clock=wall.clock, on_fetched=lambda *_: None)
            poller.take_up(None, kept.values())
            for url in urls:
                poller.add(url, interval_us=1_200 * S, state=states.get(url))
            running = asyncio.create_task(poller.run())
            for _ in range(150):
                await asyncio.sleep(10)
                used, idle = poller.budgets()
                kept |= {budget.name: budget for budget in used}
                for name in idle:
                    del kept[name]
            states = {url: poller.state(url) for url in urls}
            await poller.close()
            await running
            await asyncio.sleep(60)
        times = sorted(at for url in urls for at in web.asked[url])
        assert len(times) > 40
        assert min(after - before for before, after in pairwise(times)) >= 29
        assert len(web.asked["https://example.org/robots.txt"]) == 1

    run(test())


def test_a_429_that_comes_late_is_kept_all_the_same() -> None:
    async def test() -> None:
        web, wall = ScriptedWeb(takes_s=30), Wall()
        web.answers["https://example.org/page"] = lambda _: FetchResult(status=429)
        poller = Poller(web, options=Polling(robots="off"), clock=wall.clock, on_fetched=lambda *_: None)
        poller.add("https://example.org/page", interval_us=600 * S)
        running = asyncio.create_task(poller.run())
        await asyncio.sleep(20)
        assert poller.budgets() == ([], [])
        await asyncio.sleep(20)
        ((budget,), idle) = poller.budgets()
        assert (budget.name, budget.share, idle) == ("example.org", 0.5, [])
        await poller.close()
        await running

    run(test())


async def test_a_server_that_wants_to_be_left_alone_is_after_a_restart_too(tmp_path: Path) -> None:
    async with WebServer() as server:
        server.page("/busy", busy(429, seconds="600"))
        async with watching(str(tmp_path)) as node:
            node.channels.add(server.url("/busy"))
            await until(lambda: node.channels.channel(server.url("/busy")).problem)
        async with watching(str(tmp_path)) as node:
            other = server.put("/other", "text")
            node.channels.add(other)
            with pytest.raises(ChannelRefused, match="asked to be left alone"):
                await node.channels.check_now(other)
            assert "asked to be left alone" in node.channels.why(other)
        assert server.counts["/other"] == 0


async def test_a_node_that_was_not_closed_says_what_it_waits_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with WebServer() as server:
        url = server.put("/news", "text")
        async with watching(str(tmp_path)) as node:
            assert node.channels._engine.store.life() is not None
            began_us = node.channels._engine.clock()
        store = ChannelStore(tmp_path / CHANNELS_FILE)
        assert store.life() is None
        store.write([sql.put_life(Life(began_us, crashes=16))])
        store.close()
        async with watching(str(tmp_path)) as node:
            node.channels.add(url)
            assert "This node crashed 17 times" in node.channels.why(url)
            with pytest.raises(ChannelRefused, match="crashed 17 times"):
                await node.channels.check_now(url)
        assert "crashed 17 times" in caplog.text
        async with watching(str(tmp_path)) as node:  # it was closed, so nothing is wrong
            await until(lambda: node.channels.channel(url).version)


async def test_a_node_starts_and_ends_while_its_disk_is_full_and_tells_later_what_it_had_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("CHANNEL_SETTLE_S", "CHANNEL_CLOSE_S", "JOURNAL_RETRY_S"):
        monkeypatch.setattr(limits, name, 0.05)
    full = False
    write = ChannelStore.write

    def written(store: ChannelStore, rows: Sequence[Row]) -> None:
        if full and not rows[0][0].startswith("CREATE TABLE IF NOT EXISTS"):
            raise StoreError("database or disk is full", store.path)
        write(store, rows)

    monkeypatch.setattr(ChannelStore, "write", written)
    url = "http://127.0.0.1:1/"
    async with watching(str(tmp_path)) as node:
        node.channels.add(url)
    store = ChannelStore(tmp_path / CHANNELS_FILE)
    store.write([sql.put_delta(made(url, 1))])
    store.close()
    full = True
    async with watching(str(tmp_path)) as node:
        await until(lambda: "disk is full" in str(node.channels.status().faults))
    async with watching(str(tmp_path)) as node:
        assert node.channels._engine.store.life() is None
        full = False
        await until(lambda: node.channels._engine.store.life() and not node.channels._engine.store.untold())


def test_a_file_from_before_budgets_were_kept_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / CHANNELS_FILE
    ChannelStore(path).close()
    raw = sqlite3.connect(path)
    for table in ("host", "life"):
        raw.execute(f"DROP TABLE {table}")
    raw.commit()
    raw.close()
    store = ChannelStore(path)
    assert (store.hosts(), store.life()) == ([], None)
    store.write(sql.put_hosts([HostBudget("a.example", share=0.5)], ["b.example"]))
    assert store.hosts() == [HostBudget("a.example", share=0.5)]
    store.close()
