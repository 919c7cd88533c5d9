"""The poller on a clock that jumps: turns, budgets, bad servers, bad clocks, wishes."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from contextlib import asynccontextmanager, suppress
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.channels.polling import PollState, RedirectHop
from penstock.errors import ChannelRefused
from penstock.node.channels.poller import Poller
from penstock.node.config.channels import Polling
from penstock.node.outbound.fetch import FetchResult
from tests.kit.http_headers import Said
from tests.node.channels.virtual_loop import HOUR, START_US, S, ScriptedWeb, Wall, run

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

URL = "https://example.org/page"
OFF = Polling(robots="off", least_s=10)


class Running:
    """A poller with its web and its clock."""

    def __init__(self, options: Polling, **more: Any) -> None:
        self.web = ScriptedWeb()
        self.wall = Wall()
        self.told: list[tuple[str, FetchResult, PollState]] = []
        more.setdefault("sleep_s", 86_400)
        more.setdefault("on_fetched", lambda *told: self.told.append(told))
        self.poller = Poller(self.web, options=options, clock=self.wall.clock, **more)


@asynccontextmanager
async def polling(options: Polling = OFF, **more: Any) -> AsyncIterator[Running]:
    running = Running(options, **more)
    task = asyncio.create_task(running.poller.run())
    yield running
    await running.poller.close()
    await task
    assert running.web.under_way == 0


def channels(count: int, *, host: str = "example.org") -> list[str]:
    return [f"https://{host}/{number}" for number in range(count)]


def test_each_channel_has_its_turns_evenly_and_no_more() -> None:
    async def test() -> None:
        async with polling() as running:
            for number in range(200):
                running.poller.add(f"https://h{number}.example/", interval_us=600 * S)
            await asyncio.sleep(4_200)
            assert len(running.web.asked) == 200
            for asked in running.web.asked.values():
                assert 7 <= len(asked) <= 9
                gaps = [after - before for before, after in pairwise(asked[1:])]
                assert max(gaps) - min(gaps) < 1
            # In the steady state one tenth of the hour has one tenth of the polls, by chance ± a third.
            times = [at for asked in running.web.asked.values() for at in asked if at > 1_800]
            bins = [0] * 10
            for at in times:
                bins[int(at % 600 // 60)] += 1
            assert max(bins) < 1.6 * len(times) / 10
            assert running.poller.statistics().late_mean_us < 100_000

    run(test())


def test_fetches_at_once_are_bounded_in_all_and_per_host() -> None:
    async def test() -> None:
        options = Polling(robots="off", least_s=10, fetches=8, host_fetches=2, host_polls=100_000)
        async with polling(options) as running:
            for url in channels(50):
                running.poller.add(url, interval_us=60 * S)
            await asyncio.sleep(120)
            assert running.web.most_under_way == 2
            for number in range(100):
                running.poller.add(f"https://h{number}.example/", interval_us=60 * S)
            await asyncio.sleep(300)
            assert running.web.most_under_way == 8
            assert all(len(asked) >= 4 for asked in running.web.asked.values())

    run(test())


def test_a_domain_gets_its_budget_and_its_channels_share_it_fairly() -> None:
    async def test() -> None:
        options = Polling(robots="off", least_s=10, host_polls=60)
        async with polling(options) as running:
            urls = channels(20) + channels(20, host="www.example.org")
            for url in urls:
                running.poller.add(url, interval_us=60 * S)
            await asyncio.sleep(12 * 3_600)
            times = sorted(at for asked in running.web.asked.values() for at in asked)
            assert max(bisect_left(times, at + 3_600) - place for place, at in enumerate(times)) <= 60
            assert len(times) > 12 * 53
            counts = [len(running.web.asked[url]) for url in urls]
            assert max(counts) - min(counts) <= 2
            assert running.poller.statistics().parked > 30
            waiting = next(url for url in urls if "has had its fetches" in running.poller.why(url))
            with pytest.raises(ChannelRefused, match="has had its fetches"):
                await running.poller.poll_now(waiting)

    run(test())


BAD = {
    "no answer": FetchResult(error="The server closed the connection without an answer."),
    "half an answer": FetchResult(status=200, error="The answer was broken off."),
    "304 at once": FetchResult(status=304),
    "too many": FetchResult(status=429),
    "too many, please wait": FetchResult(status=429, headers={"retry-after": "3600"}),
    "too many, wait for ever": FetchResult(status=429, headers={"retry-after": "99999999999"}),
    "too many, do not wait": FetchResult(status=429, headers={"retry-after": "0"}),
    "unavailable": FetchResult(status=503, headers={"retry-after": "1"}),
    "server error": FetchResult(status=500),
    "not found": FetchResult(status=404),
    "gone": FetchResult(status=410),
    "forbidden": FetchResult(status=403),
    "redirect that leads nowhere": FetchResult(status=301),
    "no content": FetchResult(status=204),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_answer_ends_in_a_clear_state_and_never_in_a_storm(name: str) -> None:
    async def test() -> None:
        async with polling() as running:
            running.web.answers[URL] = lambda _: BAD[name]
            running.poller.add(URL, interval_us=10 * S)
            await asyncio.sleep(10 * 86_400)
            asked = running.web.asked[URL]
            before = len(asked)
            assert 1 <= before < 40
            assert max(sum(start <= at < start + 3_600 for at in asked) for start in asked) <= 5
            state = running.poller.state(URL)
            assert state.problem.endswith(".")
            assert state.gone == (name in ("gone", "not found"))
            assert state.problem in running.poller.why(URL)
            assert running.poller.why(URL).startswith("It is polled next at 2026-")
            for _ in range(3):  # a person may try, once in ten seconds
                with suppress(ChannelRefused):
                    await running.poller.poll_now(URL)
            assert len(running.web.asked[URL]) <= before + 1

    run(test())


def test_a_server_that_recovers_is_polled_as_before() -> None:
    async def test() -> None:
        async with polling() as running:
            running.web.answers[URL] = lambda _: BAD["server error"]
            running.poller.add(URL, interval_us=600 * S)
            await asyncio.sleep(86_400)
            del running.web.answers[URL]
            await asyncio.sleep(86_400)
            before = len(running.web.asked[URL])
            await asyncio.sleep(3_600)
            assert len(running.web.asked[URL]) - before in (6, 7)
            assert running.poller.state(URL).errors == 0

    run(test())


def test_what_cannot_be_read_or_used_stops_nothing_and_storms_nothing() -> None:
    async def test() -> None:
        holder: list[Running] = []

        async def use(url: str, fetched: FetchResult, state: PollState) -> None:
            if url.endswith("/0"):
                raise RuntimeError("out of order")
            holder[0].poller.complain(url, "It is no feed.")

        async with polling(on_fetched=use) as running:
            holder.append(running)
            for url in channels(2):
                running.poller.add(url, interval_us=600 * S)
            await asyncio.sleep(86_400)
            assert len(running.web.asked[channels(2)[0]]) > 140
            assert len(running.web.asked[channels(2)[1]]) < 20
            assert running.poller.state(channels(2)[1]).problem == "It is no feed."
            assert running.poller.statistics().unused > 140

    run(test())


def test_a_mistake_of_ours_is_no_storm_either(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with polling() as running:

            def broken(_: Any) -> FetchResult:
                raise AssertionError("our own")

            running.web.answers[URL] = broken
            running.poller.add(URL, interval_us=10 * S)
            await asyncio.sleep(86_400)
            assert 2 <= len(running.web.asked[URL]) < 15
            assert "our own" in running.poller.state(URL).problem

    run(test())
    assert "our own" in caplog.text


def test_a_network_that_is_down_is_not_the_channels_fault() -> None:
    async def test() -> None:
        async with polling() as running:
            urls = [f"https://h{number}.example/" for number in range(30)]
            down = FetchResult(error="The name is not known (DNS).")
            for url in urls:
                running.web.answers[url] = lambda _: down
                running.poller.add(url, interval_us=600 * S)
            await asyncio.sleep(20_000)
            assert max(map(len, running.web.asked.values())) <= 35
            spared = [url for url in urls if not running.poller.state(url).errors]
            assert len(spared) >= 20
            assert "this node may be offline" in running.poller.why(spared[0])
            running.web.answers.clear()
            await asyncio.sleep(700)
            assert all(running.poller.state(url).status == 200 for url in spared)
            one = urls[0]
            running.web.answers[one] = lambda _: down  # now it is that server's own fault
            await asyncio.sleep(20_000)
            assert running.poller.state(one).errors > 4

    run(test())


@pytest.mark.parametrize("jump_s", [86_400 * 365, -86_400 * 365, 7_200, -7_200])
def test_a_clock_that_is_set_brings_neither_a_storm_nor_silence(jump_s: int) -> None:
    async def test() -> None:
        async with polling(sleep_s=5) as running:
            urls = [f"https://h{number}.example/" for number in range(100)]
            for url in urls:
                running.poller.add(url, interval_us=600 * S)
            running.web.answers[urls[0]] = lambda _: BAD["too many, please wait"]
            await asyncio.sleep(1_800)
            asleep = running.web.asked.pop(urls[0])
            running.wall.set_us = jump_s * S
            before = sum(map(len, running.web.asked.values()))
            await asyncio.sleep(60)
            assert sum(map(len, running.web.asked.values())) - before < 25
            await asyncio.sleep(3_600 - 60)
            polled = sum(map(len, running.web.asked.values())) - before
            assert 99 * 6 - 99 <= polled <= 99 * 7
            assert running.web.asked[urls[0]][0] - asleep[0] >= 3_600

    run(test())


def test_a_state_that_was_kept_goes_on_and_its_turns_are_not_made_up_for() -> None:
    async def test() -> None:
        known = PollState(
            polled_us=START_US - 48 * HOUR, answered_us=START_US - 48 * HOUR, full_us=START_US - 48 * HOUR,
            etag='"1"', status=200, feed=False,
        )  # fmt: skip
        async with polling() as running:
            for url in channels(30):
                running.poller.add(url, interval_us=3_600 * S, state=known)
            await asyncio.sleep(5)
            assert sum(map(len, running.web.asked.values())) <= 2
            await asyncio.sleep(3_600)
            assert [len(asked) for asked in running.web.asked.values()] == [1] * 30
            assert all(headers["If-None-Match"] == '"1"' for headers in running.web.headers)

    run(test())


def test_an_interval_can_be_changed_and_a_channel_removed() -> None:
    async def test() -> None:
        async with polling() as running:
            running.poller.add(URL, interval_us=3_600 * S)
            await asyncio.sleep(10)
            running.poller.set_interval(URL, 60 * S)
            running.poller.add(URL, interval_us=60 * S)  # again: the same
            await asyncio.sleep(600)
            assert len(running.web.asked[URL]) in (10, 11)
            state = running.poller.remove(URL)
            assert state is not None
            assert state.status == 200
            assert running.poller.remove(URL) is None
            await asyncio.sleep(86_400)
            assert len(running.web.asked[URL]) in (10, 11)
            for ask in (running.poller.why, running.poller.state):
                with pytest.raises(ChannelRefused, match="not polled"):
                    ask(URL)

    run(test())


def test_a_channel_removed_while_it_is_fetched_is_heard_of_no_more() -> None:
    async def test() -> None:
        async with polling() as running:
            running.poller.add(URL, interval_us=60 * S)
            waiting = asyncio.create_task(running.poller.poll_now(URL))
            await asyncio.sleep(0.1)
            assert running.poller.why(URL) == "It is being fetched now."
            running.poller.remove(URL)
            assert await waiting is None
            await asyncio.sleep(600)
            assert running.told == []
            assert running.poller.statistics().active == 0

    run(test())


def test_polling_now_is_shared_and_refused_with_a_reason() -> None:
    async def test() -> None:
        async with polling() as running:
            running.poller.add(URL, interval_us=3_600 * S)
            await asyncio.sleep(60)
            both = await asyncio.gather(running.poller.poll_now(URL), running.poller.poll_now(URL))
            assert both[0] is both[1]
            assert both[0] is not None
            assert both[0].body == b"text"
            assert len(running.web.asked[URL]) == 2
            with pytest.raises(ChannelRefused, match="twice within 10 s"):
                await running.poller.poll_now(URL)
            with pytest.raises(ChannelRefused, match="not polled"):
                await running.poller.poll_now("https://example.org/other")

    run(test())


def test_a_second_fetch_is_in_full_waits_for_the_budget_and_is_paid_for() -> None:
    async def test() -> None:
        async with polling(Polling(host_polls=10)) as running:
            numbers = iter(range(100))
            running.web.answers[URL] = lambda _: FetchResult(
                status=200, headers={"etag": '"1"'}, body=b"visitor %d" % next(numbers)
            )
            running.poller.add(URL, interval_us=24 * 3_600 * S)
            await asyncio.sleep(3_600)
            told = len(running.told)
            second = await running.poller.again(URL)
            assert second is not None
            assert second.body == b"visitor 1"
            assert "If-None-Match" not in running.web.headers[-1]
            assert len(running.told) == told
            assert await running.poller.again(URL) is None  # ten an hour: the wait would be six minutes
            assert len(running.web.asked[URL]) == 2
            with pytest.raises(ChannelRefused, match="not polled"):
                await running.poller.again("https://example.org/other")

    run(test())


def test_a_new_page_is_looked_at_again_within_minutes_then_at_its_interval() -> None:
    async def test() -> None:
        async with polling() as running:
            running.web.answers[URL] = lambda _: FetchResult(status=200, body=b"x")
            running.poller.add(URL, interval_us=6 * 3_600 * S)
            await asyncio.sleep(60)
            running.poller.hurry(URL, True)
            await asyncio.sleep(600)
            assert len(running.web.asked[URL]) >= 2
            running.poller.hurry(URL, False)
            asked = len(running.web.asked[URL])
            await asyncio.sleep(2 * 3_600)
            assert len(running.web.asked[URL]) <= asked + 1

    run(test())


def test_robots_is_read_once_per_host_before_any_page_and_obeyed() -> None:
    async def test() -> None:
        async with polling(Polling(least_s=10)) as running:
            robots = "https://example.org/robots.txt"
            running.web.answers[robots] = lambda _: FetchResult(
                status=200, body=b"User-agent: *\nDisallow: /3\nCrawl-delay: 30"
            )
            for url in [*channels(5), "https://example.org/feed.xml"]:
                running.poller.add(url, interval_us=900 * S)
            await asyncio.sleep(86_400 * 2 - 60)
            assert len(running.web.asked[robots]) == 2
            assert running.web.asked[robots][0] <= min(running.web.asked["https://example.org/0"])
            assert "https://example.org/3" not in running.web.asked
            assert "does not allow Penstock" in running.poller.why("https://example.org/3")
            with pytest.raises(ChannelRefused, match="does not allow"):
                await running.poller.poll_now("https://example.org/3")
            times = sorted(at for asked in running.web.asked.values() for at in asked if at > 1)
            assert min(after - before for before, after in pairwise(times)) >= 30

    run(test())


def test_a_robots_txt_that_does_not_answer_is_asked_less_and_less() -> None:
    async def test() -> None:
        async with polling(Polling(least_s=10)) as running:
            robots = "https://example.org/robots.txt"
            running.web.answers[robots] = lambda _: FetchResult(error="No answer.")
            for url in channels(20):
                running.poller.add(url, interval_us=900 * S)
            await asyncio.sleep(86_400)
            asked = running.web.asked[robots]
            assert list(running.web.asked) == [robots]
            assert 5 <= len(asked) <= 10
            assert asked[-1] - asked[-2] > 4 * (asked[1] - asked[0])

    run(test())


def test_pages_wait_while_robots_cannot_be_had() -> None:
    async def test() -> None:
        async with polling(Polling(least_s=10)) as running:
            robots = "https://example.org/robots.txt"
            running.web.answers[robots] = lambda _: FetchResult(status=503)
            for url in channels(20):
                running.poller.add(url, interval_us=900 * S)
            await asyncio.sleep(86_400)
            assert 4 <= len(running.web.asked[robots]) <= 6
            assert list(running.web.asked) == [robots]
            assert "cannot be read" in running.poller.why(channels(1)[0])

    run(test())


def test_what_a_feed_asks_for_is_kept_to() -> None:
    async def test() -> None:
        holder: list[Running] = []

        def use(url: str, fetched: FetchResult, state: PollState) -> None:
            holder[0].poller.hint(url, Said(ttl_s=1_800))

        async with polling(on_fetched=use) as running:
            holder.append(running)
            running.poller.add(URL, interval_us=60 * S)
            await asyncio.sleep(7_200 - 1)
            assert len(running.web.asked[URL]) == 4
            assert "ttl" in running.poller.why(URL)

    run(test())


def test_a_channel_that_has_moved_counts_at_its_new_host() -> None:
    async def test() -> None:
        async with polling() as running:
            new = "https://example.net/page"
            running.web.answers[URL] = lambda _: FetchResult(
                status=200, url=new, hops=(RedirectHop(301, new),)
            )
            running.poller.add(URL, interval_us=600 * S)
            await asyncio.sleep(3_600)
            assert len(running.web.asked[URL]) == 1
            assert len(running.web.asked[new]) in (5, 6)
            assert f"fetched from {new}" in running.poller.why(URL)
            assert all(url == URL for url, _, _ in running.told)

    run(test())


def test_a_429_behind_a_redirect_is_about_the_domain_that_said_it() -> None:
    async def test() -> None:
        async with polling() as running:
            short, there, here = (
                "https://short.example/1",
                "https://busy.example/1",
                "https://short.example/2",
            )
            running.web.answers[short] = lambda _: FetchResult(
                status=429, headers={"retry-after": "3600"}, url=there, hops=(RedirectHop(302, there),)
            )
            running.poller.add(short, interval_us=600 * S)
            await asyncio.sleep(10)
            for url in (there, here):
                running.poller.add(url, interval_us=600 * S)
            await asyncio.sleep(10)
            assert [len(running.web.asked[url]) for url in (short, there, here)] == [1, 0, 1]
            assert "busy.example asked to be left alone" in running.poller.why(there)
            assert "left alone until" in running.poller.why(short)

    run(test())


def test_who_fetches_and_for_how_many_is_said() -> None:
    async def test() -> None:
        options = Polling(robots="off")
        async with polling(options, contact="https://example.com/bot", subscribers=lambda _: 37) as running:
            running.poller.add(URL, interval_us=600 * S)
            await asyncio.sleep(1)
            agent = running.web.headers[0]["User-Agent"]
            assert agent.startswith("Penstock/")
            assert agent.endswith("(+https://example.com/bot; 37 subscribers)")

    run(test())


def test_hosts_that_are_used_no_more_are_forgotten() -> None:
    async def test() -> None:
        async with polling() as running:
            for number in range(1_000):
                url = f"https://h{number}.example/"
                running.poller.add(url, interval_us=600 * S)
                await asyncio.sleep(60)
                running.poller.remove(url)
            statistics = running.poller.statistics()
            assert statistics.hosts <= 64
            assert (statistics.channels, statistics.polls) == (0, 1_000)

    run(test())
