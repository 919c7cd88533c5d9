"""One fetch of a channel: what robots.txt says, who pays for it, what is learned from it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from penstock.core.channels.polling import Fetch, Life, Wait, decide, learn, restart, why
from penstock.core.channels.polling.learning import spare
from penstock.core.channels.polling.outage import Outage
from penstock.core.channels.polling.robots import address, looks_like_feed, obeyed
from penstock.node.web.fetch import user_agent
from penstock.node.web.robots import RobotsFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.channels.polling import Intent, Manners
    from penstock.core.channels.polling.robots import RobotsFile
    from penstock.model.instant import Instant
    from penstock.node.web.fetch import Barred
    from penstock.node.web.fetched import Fetched
    from penstock.node.web.host_queue import HostQueue
    from penstock.node.web.polled import Polled


class Fetches(Protocol):
    """Who fetches for the poller."""

    async def fetch(
        self, url: str, *, headers: Mapping[str, str] | None = None, barred: Barred | None = None
    ) -> Fetched:
        """Fetch an address; never raises for what the network does."""
        ...


class Visits:
    """Goes to servers on behalf of channels."""

    def __init__(
        self,
        fetcher: Fetches,
        *,
        manners: Manners,
        contact: str,
        now_us: Callable[[], Instant],
        host_of: Callable[[str], HostQueue],
        domains: Callable[[], int],
        barred: Callable[[str, str], None],
    ) -> None:
        """`domains`: of how many registrable domains channels are polled; `barred` is told of a channel why
        robots.txt keeps us away from it, and with an empty reason that it does not."""
        self._fetcher = fetcher
        self._manners = manners
        self._contact = contact
        self._now_us = now_us
        self._host_of = host_of
        self._domains = domains
        self._barred = barred
        self._outage = Outage()
        self.life = Life(0)
        """Until when nothing is fetched, because this node crashes again and again."""
        self.robots = RobotsFiles(self._fetch_robots, manners=manners, now_us=now_us)

    def decide(self, channel: Polled, now_us: Instant, *, asked: bool = False) -> Intent:
        """What to do with it, as far as that is known without a robots.txt that has not been read."""
        intent = self._decide(channel, now_us, asked=asked)
        if isinstance(intent, Fetch) and intent.robots:
            known = self.robots.known(intent.url)
            if known is not None:
                self._heed(channel, known)
                return self._decide(channel, now_us, asked=asked)
        return intent

    def _decide(self, channel: Polled, now_us: Instant, *, asked: bool) -> Intent:
        return decide(
            channel.state,
            channel.plan,
            host=channel.host.budget,
            manners=self._manners,
            now_us=now_us,
            rest=restart.hold(self.life, now_us=now_us),
            asked=asked,
        )

    def why(self, channel: Polled, now_us: Instant) -> str:
        """Why it is polled when it is, in sentences."""
        return why(
            channel.state,
            channel.plan,
            host=channel.host.budget,
            manners=self._manners,
            now_us=now_us,
            rest=restart.hold(self.life, now_us=now_us),
        )

    def shift(self, by_us: int) -> None:
        """The clock was set."""
        self.robots.forget()
        self.life = msgspec.structs.replace(self.life, began_us=self.life.began_us + by_us)

    def pay(self, host: HostQueue) -> None:
        """Pay for a fetch in the moment it is decided on, so that nobody else is promised the same."""
        host.budget = host.budget.spent(manners=self._manners, now_us=self._now_us())

    async def ask_robots(self, channel: Polled, intent: Fetch, *, asked: bool) -> Fetch | None:
        """Learn what robots.txt says, then pay for the fetch; None: the channel has to wait after all."""
        self._heed(channel, await self.robots.file(intent.url))
        again = self.decide(channel, self._now_us(), asked=asked)
        if isinstance(again, Wait) or again.robots:
            return None
        self.pay(channel.host)
        return again

    def _heed(self, channel: Polled, file: RobotsFile) -> None:
        verdict = file.verdict(channel.state.moved or channel.plan.url)
        channel.state = msgspec.structs.replace(channel.state, robots=verdict)
        self._barred(channel.plan.url, verdict.reason)
        budget = channel.host.budget
        channel.host.budget = msgspec.structs.replace(budget, spacing_us=file.spacing_us)

    async def fetch(
        self, channel: Polled, url: str, headers: Mapping[str, str], *, subscribers: int
    ) -> Fetched:
        """Fetch for a channel what was paid for, and learn from it."""
        host = channel.host
        obeys = obeyed(channel.state, url=url, manners=self._manners)
        fetched = await self._fetch_from(host, url, headers, subscribers, obeys=obeys)
        outcome, now_us = fetched.outcome, self._now_us()
        answered = outcome.status != 0
        offline = self._outage.note(host.budget.name, answered=answered, domains=self._domains())
        if offline and not answered:
            channel.state = spare(channel.state, outcome, now_us=now_us)
        else:
            own = channel.plan.url
            channel.state = learn(channel.state, outcome, url=own, manners=self._manners, now_us=now_us)
        return fetched

    async def fetch_pair(self, channel: Polled, url: str, *, subscribers: int) -> tuple[Fetched, Fetched]:
        """Fetch it twice at the same moment, in full; one of them was paid for."""
        self.pay(channel.host)
        first, second = await asyncio.gather(
            *(self.fetch(channel, url, {}, subscribers=subscribers) for _ in range(2))
        )
        return first, second

    async def _led(self, url: str, *, source: HostQueue, obeys: bool) -> str:
        """Why its domain or its robots.txt keeps us from where a redirect leads; empty: it is paid for."""
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

    async def _fetch_robots(self, url: str) -> Fetched:
        return await self._fetch_from(self._host_of(url), url, {}, 0, obeys=False)

    async def _fetch_from(
        self,
        host: HostQueue,
        url: str,
        headers: Mapping[str, str],
        subscribers: int,
        *,
        obeys: bool,
    ) -> Fetched:
        agent = user_agent(self._contact, subscribers)
        fetched = await self._fetcher.fetch(
            url,
            headers={"User-Agent": agent, **headers},
            barred=partial(self._led, source=host, obeys=obeys),
        )
        if fetched.hops:
            host = self._host_of(fetched.url)  # what follows is about who answered, not who sent us
        now_us = self._now_us()
        budget = host.budget.told(fetched.outcome, manners=self._manners, now_us=now_us)
        host.budget = budget.weighed(fetched.bytes_wire, manners=self._manners, now_us=now_us)
        return fetched
