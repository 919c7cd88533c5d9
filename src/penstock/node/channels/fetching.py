"""One fetch of a channel: ask robots.txt, charge the budget of the host, learn from the answer.

robots.txt of a host is fetched once for all its channels and kept for a day.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock import limits
from penstock.core.channels.polling import Fetch, Life, Wait, decide, failures, learn, robots, why
from penstock.core.channels.polling.decider import spare
from penstock.core.channels.polling.failures import Outage
from penstock.core.channels.polling.robots import address, looks_like_feed, obeyed
from penstock.node.outbound.fetch import user_agent

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from penstock.core.channels.polling import Manners, PollIntent
    from penstock.core.channels.polling.robots import RobotsFile
    from penstock.core.channels.polling.values import Hold
    from penstock.model.instant import Instant
    from penstock.node.channels.queue import HostQueue, PolledChannel
    from penstock.node.outbound.fetch import FetchResult, RobotsCheck


class RobotsFiles:
    """Caches robots.txt files; one that several channels wait for is fetched once."""

    def __init__(
        self,
        fetch: Callable[[str], Awaitable[tuple[FetchResult, bool]]],
        *,
        manners: Manners,
        now_us: Callable[[], Instant],
    ) -> None:
        """`fetch` also tells whether the node seems to be offline, so that a failure is not the host's."""
        self._fetch = fetch
        self._manners = manners
        self._now_us = now_us
        self._files: OrderedDict[str, robots.RobotsFile] = OrderedDict()
        self._under_way: dict[str, asyncio.Task[robots.RobotsFile]] = {}
        self.fetched = 0
        """Number of files fetched."""

    def known(self, address: str) -> robots.RobotsFile | None:
        """Return a cached robots.txt, if it is not too old."""
        found = self._files.get(address)
        if found is None or found.until_us <= self._now_us():
            return None
        self._files.move_to_end(address)
        return found

    async def file(self, address: str, *, failures: int = 0) -> robots.RobotsFile:
        """Return a robots.txt, fetched if it is not cached; `failures`: attempts that failed, as a channel
        remembers."""
        found = self.known(address)
        if found is not None:
            return found
        task = self._under_way.get(address)
        if task is None:
            task = asyncio.create_task(self._read(address, failures))
            self._under_way[address] = task
            task.add_done_callback(lambda _: self._under_way.pop(address, None))
        return await asyncio.shield(task)

    async def _read(self, address: str, failures: int) -> robots.RobotsFile:
        self.fetched += 1
        fetched, is_offline = await self._fetch(address)
        before = self._files.get(address)
        understand = partial(
            robots.read,
            fetched.outcome,
            fetched.body,
            url=address,
            before=before,
            manners=self._manners,
            now_us=self._now_us(),
            failures=0 if is_offline else before.failures if before is not None else failures,
        )
        # Half a megabyte of rules takes a quarter of a second.
        is_small = len(fetched.body) <= limits.ROBOTS_AT_ONCE_BYTES
        found = understand() if is_small else await asyncio.to_thread(understand)
        self._files[address] = found
        self._files.move_to_end(address)
        if len(self._files) > limits.ROBOTS_FILES:
            self._files.popitem(last=False)
        return found

    def forget(self) -> None:
        """Drop all files, because the clock was set."""
        self._files.clear()

    def forget_unread(self) -> None:
        """Drop the verdicts about files that could not be read, because now they may be."""
        for place in [place for place, file in self._files.items() if not file.has_rules]:
            del self._files[place]

    async def close(self) -> None:
        """Cancel fetches under way."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class PageFetcher(Protocol):
    """Interface of what fetches for the poller."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, barred: RobotsCheck | None = None
    ) -> FetchResult:
        """Fetch a URL; network errors are part of the result, not exceptions."""
        ...


class FetchRunner:
    """Fetches pages for channels."""

    def __init__(
        self,
        fetcher: PageFetcher,
        *,
        manners: Manners,
        contact: str,
        now_us: Callable[[], Instant],
        host_of: Callable[[str], HostQueue],
        domains: Callable[[], int],
        barred: Callable[[str, str], None],
        rendered: Callable[[str, FetchResult], Awaitable[FetchResult]] | None = None,
    ) -> None:
        """`domains` counts the registrable domains with polled channels; `barred` is called with a channel
        and why robots.txt forbids fetching it, or an empty reason; `rendered` runs the scripts of the page of
        a channel, if that is asked for."""
        self._fetcher = fetcher
        self._manners = manners
        self._contact = contact
        self._now_us = now_us
        self._host_of = host_of
        self._domains = domains
        self._barred = barred
        self._rendered = rendered
        self._outage = Outage()
        self.life = Life(0)
        """Until when nothing is fetched, because the node has crashed repeatedly."""
        self.robots = RobotsFiles(self._fetch_robots, manners=manners, now_us=now_us)

    def decide(self, channel: PolledChannel, now_us: Instant, *, asked: bool = False) -> PollIntent:
        """Decide whether to fetch a channel now, as far as cached robots.txt files tell."""
        intent = self._decide(channel, now_us, asked=asked)
        if isinstance(intent, Fetch) and intent.robots:
            known = self.robots.known(intent.url)
            if known is not None:
                self._heed(channel, known)
                return self._decide(channel, now_us, asked=asked)
        return intent

    def _decide(self, channel: PolledChannel, now_us: Instant, *, asked: bool) -> PollIntent:
        return decide(
            channel.state,
            channel.plan,
            host=channel.host.budget,
            manners=self._manners,
            now_us=now_us,
            rest=failures.restart_hold(self.life, now_us=now_us),
            asked=asked,
        )

    def why(self, channel: PolledChannel, now_us: Instant) -> str:
        """Explain in sentences why a channel is polled when it is."""
        return why(
            channel.state,
            channel.plan,
            host=channel.host.budget,
            manners=self._manners,
            now_us=now_us,
            rest=failures.restart_hold(self.life, now_us=now_us),
        )

    def shift(self, by_us: int) -> None:
        """Adjust to a clock that was set."""
        self.robots.forget()
        self.life = msgspec.structs.replace(self.life, began_us=self.life.began_us + by_us)

    def pay(self, host: HostQueue) -> None:
        """Charge the budget when a fetch is decided on, so that no other fetch uses the same budget."""
        host.budget = host.budget.spent(manners=self._manners, now_us=self._now_us())

    async def ask_robots(self, channel: PolledChannel, intent: Fetch, *, asked: bool) -> Fetch | None:
        """Read robots.txt, then charge the budget; None: the channel has to wait after all."""
        verdict = channel.state.robots
        failures = verdict.failures if verdict is not None else 0
        self._heed(channel, await self.robots.file(intent.url, failures=failures))
        again = self.decide(channel, self._now_us(), asked=asked)
        if isinstance(again, Wait) or again.robots:
            return None
        self.pay(channel.host)
        return again

    def _heed(self, channel: PolledChannel, file: RobotsFile) -> None:
        verdict = file.verdict(channel.state.moved or channel.plan.url)
        channel.state = msgspec.structs.replace(channel.state, robots=verdict)
        self._barred(channel.plan.url, verdict.reason)
        budget = channel.host.budget
        channel.host.budget = msgspec.structs.replace(budget, spacing_us=file.spacing_us)

    async def fetch(
        self, channel: PolledChannel, url: str, headers: Mapping[str, str], *, subscribers: int
    ) -> FetchResult:
        """Fetch a channel that was charged for, and update its state from the answer."""
        host = channel.host
        obeys = obeyed(channel.state, url=url, manners=self._manners)
        fetched = await self._fetch_from(
            host, url, headers, subscribers, obeys=obeys, channel=channel.plan.url
        )
        outcome, now_us = fetched.outcome, self._now_us()
        answered = outcome.status != 0
        offline = self._outage.note(host.budget.name, answered=answered, domains=self._domains())
        if offline and not answered:
            channel.state = spare(channel.state, outcome, now_us=now_us)
        else:
            own = channel.plan.url
            channel.state = learn(channel.state, outcome, url=own, manners=self._manners, now_us=now_us)
        return fetched

    def hold(self, channel: PolledChannel) -> Hold | None:
        """Say why the host of a channel must not be asked now; None: it may be."""
        return channel.host.budget.hold(manners=self._manners, now_us=self._now_us())

    async def fetch_again(self, channel: PolledChannel, *, subscribers: int) -> FetchResult:
        """Fetch a channel once more, in full, and charge its host; robots.txt was asked before."""
        self.pay(channel.host)
        url = channel.state.moved or channel.plan.url
        return await self.fetch(channel, url, {}, subscribers=subscribers)

    async def _led(self, url: str, *, source: HostQueue, obeys: bool) -> str:
        """Say why a redirect must not be followed; empty: it may be, and is charged for."""
        host = self._host_of(url)
        rest = host.budget.rest(now_us=self._now_us())
        if rest is not None:
            return rest.reason
        if obeys and (not looks_like_feed(url) or self._manners.obeys_robots(feed=True)):
            where = address(url)
            if self.robots.known(where) is None:
                self.pay(host)
            reason = (await self.robots.file(where)).verdict(url).reason
            if reason:
                return reason
        if host is not source:
            self.pay(host)
        return ""

    async def _fetch_robots(self, url: str) -> tuple[FetchResult, bool]:
        host = self._host_of(url)
        fetched = await self._fetch_from(host, url, {}, 0, obeys=False)
        answered = fetched.status != 0
        offline = self._outage.note(host.budget.name, answered=answered, domains=self._domains())
        return fetched, offline and not answered

    async def _fetch_from(
        self,
        host: HostQueue,
        url: str,
        headers: Mapping[str, str],
        subscribers: int,
        *,
        obeys: bool,
        channel: str = "",
    ) -> FetchResult:
        agent = user_agent(self._contact, subscribers)
        fetched = await self._fetcher.fetch(
            url,
            headers={"User-Agent": agent, **headers},
            barred=partial(self._led, source=host, obeys=obeys),
        )
        if self._rendered is not None and channel:
            fetched = await self._rendered(channel, fetched)
        if fetched.hops:
            host = self._host_of(
                fetched.url
            )  # budget and errors belong to the server that answered, not to the one that redirected
        now_us = self._now_us()
        budget = host.budget.told(fetched.outcome, manners=self._manners, now_us=now_us)
        host.budget = budget.weighed(fetched.bytes_wire, manners=self._manners, now_us=now_us)
        return fetched
