"""How often pages are polled: by allocation, by a control table, by wish; and the logs Spark works from."""

from __future__ import annotations

import asyncio
import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from penstock.core.channels.address import topic_of
from penstock.model.control_table import DONE_FILE, VERSION_FILE, folder_of
from penstock.node.channels.channel import ChannelFacts
from penstock.node.channels.poll_log import POLLS, SUBSCRIPTIONS
from penstock.node.channels.registry import ChannelRegistry, HostRules
from penstock.node.channels.schedule import TABLE, PollSchedule
from penstock.node.config.channels import ChannelSettings, Polling
from tests.kit.channels import first_version, html, settled, watching
from tests.kit.waiting import until
from tests.kit.web_server import WebServer

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SECOND_US = 1_000_000


def schedule(web: ChannelSettings, subscribers: dict[str, int]) -> ChannelRegistry:
    """A registry whose channels have their intervals."""
    registry = ChannelRegistry(web, HostRules(web))
    for url, count in subscribers.items():
        for number in range(count):
            registry.client_began(f"client {number}", url, now_us=1)
    allocated(web, registry)
    return registry


def allocated(web: ChannelSettings, registry: ChannelRegistry, *, pushed: bool = False) -> PollSchedule:
    """The schedule, after it gave every channel its interval."""
    made = PollSchedule(web, registry, given=lambda _: None, pushed=lambda _: pushed, changed=lambda: None)
    for _ in made.allocate():
        pass
    return made


def intervals_s(registry: ChannelRegistry) -> list[float]:
    return [each.known.interval_us / SECOND_US for each in registry]


def test_alone_every_subscriber_has_the_usual_interval() -> None:
    found = schedule(ChannelSettings(interval_s=900), {"https://a.org/": 1, "https://b.org/": 1})
    assert intervals_s(found) == [900, 900]


def test_what_many_want_is_polled_more_often_at_the_same_load() -> None:
    found = schedule(ChannelSettings(interval_s=900), {"https://a.org/": 16, "https://b.org/": 1})
    popular, lonely = intervals_s(found)
    assert abs(lonely / popular - 4) < 0.01  # the square root of the ratio
    assert 900 / popular + 900 / lonely <= 17.001


def test_the_load_of_all_can_be_bounded() -> None:
    web = ChannelSettings(interval_s=900, polls_per_s=0.01)
    found = schedule(web, {f"https://{number}.org/": 5 for number in range(10)})
    assert sum(1 / each for each in intervals_s(found)) <= 0.01001


def test_a_target_for_the_delay_is_met_with_the_least_load() -> None:
    found = schedule(ChannelSettings(scheme="fast", target_s=200), {"https://a.org/": 3, "https://b.org/": 3})
    assert intervals_s(found) == [400, 400]


def test_bounds_of_intervals_hold() -> None:
    web = ChannelSettings(interval_s=900, polling=Polling(least_s=600, most_s=1_000))
    found = schedule(web, {"https://a.org/": 50, "https://b.org/": 1})
    assert intervals_s(found) == [600, 600]  # there is load to spare
    tight = msgspec.structs.replace(web, polls_per_s=1e-6)
    assert intervals_s(schedule(tight, {"https://a.org/": 50, "https://b.org/": 1})) == [1_000, 1_000]


def test_pages_that_fail_leave_their_bytes_to_nobody() -> None:
    web = ChannelSettings(interval_s=900)
    healthy = {f"https://{number}.org/": 1 for number in range(100)}
    registry = schedule(web, healthy)
    for number in range(4):
        known = ChannelFacts(since_us=1, kept=True, mean_bytes=8e6, problem="The page has more than 8 MB.")
        registry.restore(f"https://large{number}.org/", known)
    made = allocated(web, registry)
    assert intervals_s(registry) == [900] * 104
    large = registry.known("https://large0.org/")
    assert "no share of the load" in made.why(large)
    large.known.problem = ""
    allocated(web, registry)
    assert large.known.interval_us > 900 * SECOND_US  # it is expensive


def test_a_page_is_asked_for_as_allocated_unless_somebody_wants_otherwise() -> None:
    web = ChannelSettings()
    registry = ChannelRegistry(web, HostRules(web))
    registry.restore("https://a.org/", ChannelFacts(since_us=1, kept=True, every_us=70 * SECOND_US))
    made = allocated(web, registry)
    assert intervals_s(registry) == [70]
    assert "asked for an interval of 70 s" in made.why(registry.known("https://a.org/"))


def test_how_often_a_page_changes_is_said_once_it_did() -> None:
    web = ChannelSettings()
    registry = ChannelRegistry(web, HostRules(web))
    known = ChannelFacts(
        since_us=1, kept=True, found_us=50 * SECOND_US
    )  # what the estimator assumes at first
    registry.restore("https://a.org/", known)
    made = allocated(web, registry)
    assert "how often it changes is not known yet" in made.why(registry.known("https://a.org/"))
    known.counts.changes = 1
    assert "changes every 50 s or so" in made.why(registry.known("https://a.org/"))


def test_a_host_at_its_limit_is_named_as_the_reason() -> None:
    web = ChannelSettings(interval_s=900, polling=Polling(host_polls=6))
    registry = ChannelRegistry(web, HostRules(web))
    for url in ("https://a.org/1", "https://a.org/2", *(f"https://{name}.org/" for name in "bcdef")):
        registry.client_began("a", url, now_us=1)
    made = allocated(web, registry)
    assert all(1_199 < each < 1_202 for each in intervals_s(registry)[:2])
    assert "a.org is at its limit (channels.polling.host_polls" in made.why(registry.known("https://a.org/1"))
    assert "limit" not in made.why(registry.known("https://b.org/"))


def test_a_page_whose_hub_tells_of_changes_is_polled_seldom() -> None:
    web = ChannelSettings()
    registry = ChannelRegistry(web, HostRules(web))
    registry.client_began("a", "https://a.org/", now_us=1)
    allocated(web, registry, pushed=True)
    assert intervals_s(registry) == [6 * 3_600]


def put_table(folder: Path, version: int, rows: dict[str, int], *, announced: int | None = None) -> None:
    """A version of the control table, whole unless another number of rows is announced."""
    made = folder / f".{folder_of(version)}"
    made.mkdir(parents=True)
    table = pa.table({"url": list(rows), "interval_us": pa.array(rows.values(), pa.int64())})
    pq.write_table(table, made / "part-0000.parquet")
    size = (made / "part-0000.parquet").stat().st_size
    about = {
        "table": TABLE,
        "version": version,
        "rows": len(rows) if announced is None else announced,
        "made_us": 1,
        "files": {"part-0000.parquet": size},
    }
    (made / VERSION_FILE).write_text(json.dumps(about))
    (made / DONE_FILE).touch()
    os.rename(made, folder / folder_of(version))  # noqa: PTH104


async def test_a_control_table_decides_and_a_broken_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.limits.CONTROL_LOOK_S", 0.05)
    monkeypatch.setattr("penstock.limits.ALLOCATE_SOON_S", 0.02)
    async with WebServer() as server:
        url = server.put("/news", html("one"))
        put_table(tmp_path, 1, {url: 7 * SECOND_US})
        async with watching(interval_s=60.0, table=str(tmp_path)) as node:
            service = node.channels
            service.add(url)
            assert service.channel(url).interval_us == 7 * SECOND_US
            assert "The control table gives it 7 s (allocation, version 1)." in service.why(url)
            put_table(tmp_path, 2, {url: 8 * SECOND_US}, announced=5)
            await until(lambda: service.status().faults)
            assert "expected 5" in service.status().faults[0]
            assert service.status().table_version == 1
            assert service.channel(url).interval_us == 7 * SECOND_US
            put_table(tmp_path, 3, {url: -1})
            await until(lambda: "no interval of a channel" in "".join(service.status().faults))
            put_table(tmp_path, 4, {url: 9 * SECOND_US})
            await until(lambda: not service.status().faults)
            assert service.status().table_version == 4
            await until(lambda: service.channel(url).interval_us == 9 * SECOND_US)


def test_polls_and_subscriptions_are_tables(tmp_path: Path) -> None:
    async def story() -> str:
        async with WebServer() as server, watching(str(tmp_path), log=True) as node:
            url = server.put("/news", html("one"))
            async with node.client("a") as client:
                await client.subscribe(topic_of(url))
                await node.channels.subscribe("feed:ann", url)
                await first_version(node, url)
                server.put("/news", html("two"))
                await until(lambda: node.told.heard)
                server.page("/news", lambda _: None)  # type: ignore[arg-type, return-value]
                await until(lambda: node.channels.channel(url).problem)
            await until(lambda: node.channels.channel(url).clients == 0)
            return url

    url = asyncio.run(story())
    polls = pq.read_table(tmp_path / POLLS.name).to_pylist()
    assert {each["url"] for each in polls} == {url}
    assert [each["changed"] for each in polls].count(True) == 1
    assert polls[0]["status"] == 200
    assert polls[0]["bytes"] > 0
    assert polls[-1]["error"]
    assert all(one["ts"] <= other["ts"] for one, other in pairwise(polls))
    rows = pq.read_table(tmp_path / SUBSCRIPTIONS.name).to_pylist()
    told = [(each["who_kind"], each["change"], each["subscribers"]) for each in rows]
    assert told == [("mqtt", 1, 1), ("feed", 1, 2), ("mqtt", -1, 1)]


def test_every_poll_that_is_counted_is_a_row_and_pushes_as_well(tmp_path: Path) -> None:
    async def story() -> int:
        async with WebServer() as server, watching(str(tmp_path), log=True, interval_s=3_600.0) as node:
            service = node.channels
            url = server.put("/news", html("one"))
            service.add(url)
            await settled(node, url)
            server.put("/news", html("one", "two"))
            await asyncio.sleep(0.06)
            await service.check_now(url)
            assert service.channel(url).counts.changes == 1
            pushed = service._engine._pushed(url, html("one", "two", "three").encode(), "text/html")
            assert pushed is not None
            await pushed
            assert service.channel(url).counts.changes == 2
            return service.status().counts.polls

    polls = asyncio.run(story())
    rows = pq.read_table(tmp_path / POLLS.name).to_pylist()
    assert [each["status"] for each in rows] == [200] * polls
    assert [each["changed"] for each in rows] == [False] * (polls - 2) + [True, True]
