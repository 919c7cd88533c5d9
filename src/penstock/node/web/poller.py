"""Polls channels when their turn comes: one heap of moments, one task per fetch, bounded fetches.

What is fetched when is decided by `core.channels.polling`; here it is done. A channel is at one place at a
time: in the heap, in the queue of its host, in the queue for a free fetch, or being fetched.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from dataclasses import replace
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from penstock import limits
from penstock.core.channels.polling import (
    Fetch,
    Outcome,
    PollState,
    Wait,
    decide,
    learn,
    plan,
    take_hints,
    why,
)
from penstock.core.channels.polling.domain import registrable
from penstock.core.channels.polling.learning import complain
from penstock.core.channels.polling.state import settled, shifted
from penstock.errors import ChannelRefused
from penstock.model.instant import SECOND_US
from penstock.node.deadlines import Deadlines
from penstock.node.web.clock import Clock
from penstock.node.web.fetch import user_agent
from penstock.node.web.host_queue import HostQueue
from penstock.node.web.polled import Polled
from penstock.node.web.poller_statistics import Counts, PollerStatistics
from penstock.node.web.robots import RobotsFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.core.channels.polling.freshness import Hints
    from penstock.core.channels.polling.robots import RobotsFile
    from penstock.node.web.fetched import Fetched
    from penstock.node.web.settings import Polling

log: Final = logging.getLogger(__name__)

HORIZON_US: Final = 3_600 * SECOND_US
"""A removed channel leaves the heap after this."""


class Fetches(Protocol):
    """Who fetches for the poller."""

    async def fetch(self, url: str, *, headers: Mapping[str, str] | None = None) -> Fetched:
        """Fetch an address; never raises for what the network does."""
        ...


class Poller:
    """Many channels on one loop.

    `on_fetched` is called, and awaited if it is asynchronous, after every fetch of a channel with its own
    address, what came, and the state it left; until it is done the fetch counts as under way. It may call
    `hint` and `complain`.
    """

    def __init__(
        self,
        fetcher: Fetches,
        *,
        options: Polling,
        on_fetched: Callable[[str, Fetched, PollState], Any],
        subscribers: Callable[[str], int] = lambda _: 0,
        clock: Clock | None = None,
        sleep_s: float = limits.POLLER_SLEEP_S,
    ) -> None:
        self._fetcher = fetcher
        self._options = options
        self._manners = options.manners()
        self._on_fetched = on_fetched
        self._subscribers = subscribers
        self._clock = clock or Clock()
        self._sleep_s = sleep_s
        self._channels: dict[str, Polled] = {}
        self._hosts: dict[str, HostQueue] = {}
        self._prune_at = 64
        self._deadlines: Deadlines[Polled | HostQueue] = Deadlines(horizon_us=HORIZON_US)
        self._ready: deque[Polled] = deque()
        """Channels whose turn has come while all fetches are under way."""
        self._active = 0
        self._wake = asyncio.Event()
        self._robots = RobotsFiles(self._fetch_robots, manners=self._manners, now_us=self._clock.now_us)
        self._counts = Counts()
        self._closed = False

    # -- what is polled --------------------------------------------------------------------------------------

    def add(self, url: str, *, interval_us: int, state: PollState | None = None) -> None:
        """Poll a channel from now on, by its canonical address; with what was known about it before, if any.

        One that is new is fetched as soon as can be, one that was known when its turn comes.
        """
        if url in self._channels:
            self.set_interval(url, interval_us)
            return
        now_us = self._clock.now_us()
        known = PollState() if state is None else settled(state, now_us=now_us)
        planned = plan(url, interval_us=interval_us, manners=self._manners, since_us=now_us)
        host = self._host(known.moved or url)
        host.channels += 1
        channel = Polled(planned, known, host)
        self._channels[url] = channel
        self._look(channel, now_us)

    def remove(self, url: str) -> PollState | None:
        """Poll it no more; what is known about it, None if it was not polled. A fetch under way is ended."""
        channel = self._channels.pop(url, None)
        if channel is None:
            return None
        channel.removed = True
        channel.host.channels -= 1
        if channel.task is not None:
            channel.task.cancel()
        return channel.state

    def set_interval(self, url: str, interval_us: int) -> None:
        """Poll it more or less often."""
        channel = self._known(url)
        if channel.plan.wanted_us != interval_us:
            since_us = channel.plan.since_us
            channel.plan = plan(url, interval_us=interval_us, manners=self._manners, since_us=since_us)
            self._look(channel, self._clock.now_us())

    def hint(self, url: str, said: Hints) -> None:
        """What a feed says about its own schedule."""
        channel = self._known(url)
        channel.state = take_hints(channel.state, said)

    def complain(self, url: str, problem: str) -> None:
        """The last answer could not be read: the sentence says why, and it counts as an error."""
        channel = self._known(url)
        channel.state = complain(channel.state, problem)

    def state(self, url: str) -> PollState:
        """What is known about a channel; to be kept over a restart."""
        return self._known(url).state

    def why(self, url: str) -> str:
        """Why it is polled when it is, in sentences."""
        channel = self._known(url)
        if channel.task is not None:
            return "It is being fetched now."
        return why(
            channel.state,
            channel.plan,
            host=channel.host.budget,
            manners=self._manners,
            now_us=self._clock.now_us(),
        )

    # -- fetching when asked ---------------------------------------------------------------------------------

    async def poll_now(self, url: str) -> Fetched | None:
        """Fetch it now, if its server and the budgets allow that; else ChannelRefused says why not.

        None: it was stopped, or robots.txt turned out to forbid it.
        """
        channel = self._known(url)
        return await self._end_of(channel, channel.task or self._begin_asked(channel))

    async def twice(self, url: str) -> tuple[Fetched, Fetched] | None:
        """Fetch it twice at the same moment, in full: what differs is noise.

        It is not handed to `on_fetched`. ChannelRefused and None as of `poll_now`.
        """
        channel = self._known(url)
        if channel.task is not None:
            raise ChannelRefused(f"{url} is being fetched now; try again in a moment")
        pair: list[Fetched] = []
        await self._end_of(channel, self._begin_asked(channel, pair=pair))
        return (pair[0], pair[1]) if len(pair) == 2 else None

    async def _end_of(self, channel: Polled, task: asyncio.Task[Fetched | None]) -> Fetched | None:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if channel.removed and task.cancelled():
                return None
            raise

    def _begin_asked(
        self, channel: Polled, *, pair: list[Fetched] | None = None
    ) -> asyncio.Task[Fetched | None]:
        now_us = self._clock.now_us()
        intent = self._decide(channel, now_us, asked=True)
        if isinstance(intent, Wait):
            raise ChannelRefused(intent.reason)
        if self._active >= self._options.fetches or self._closed:
            raise ChannelRefused(f"all {self._options.fetches} fetches are under way; try again in a moment")
        return self._begin(channel, intent, pair=pair, asked=True)

    # -- the loop --------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Poll until closed."""
        while not self._closed:
            self._wake.clear()
            jump_us = self._clock.follow()
            if jump_us:
                self._shift(jump_us)
            now_us = self._clock.now_us()
            for one in self._deadlines.due(now_us=now_us):
                if isinstance(one, HostQueue):
                    self._serve(one, now_us)
                else:
                    self._look(one, now_us)
            next_us = self._deadlines.next_us()
            pause_s = self._sleep_s
            if next_us is not None:
                pause_s = min(max((next_us - self._clock.now_us()) / SECOND_US, 0.0), pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    async def close(self) -> None:
        """Stop polling, and what is being fetched."""
        self._closed = True
        self._wake.set()
        tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._robots.close()

    def statistics(self) -> PollerStatistics:
        """How it is going."""
        return self._counts.snapshot(
            channels=len(self._channels),
            hosts=len(self._hosts),
            active=self._active,
            ready=len(self._ready),
            parked=sum(len(host.waiting) for host in self._hosts.values()),
            robots=self._robots.fetched,
        )

    def _look(self, channel: Polled, now_us: int) -> None:
        """Decide about a channel and put it where it belongs."""
        if channel.removed or channel.parked or channel.task is not None or self._closed:
            return
        intent = self._decide(channel, now_us)
        if isinstance(intent, Wait) and not intent.host:
            channel.due_us = intent.until_us
            self._watch(channel, now_us)
            return
        if isinstance(intent, Wait) or self._is_busy(channel.host):
            channel.host.park(channel)
            self._await_budget(channel.host, now_us)
        elif self._active >= self._options.fetches:
            channel.parked = True
            channel.host.queued += 1
            self._ready.append(channel)
        else:
            if channel.due_us is not None:
                self._counts.late(now_us - channel.due_us)
            self._begin(channel, intent)

    def _serve(self, host: HostQueue, now_us: int) -> None:
        """Let those who wait at a host begin, as far as its budget goes."""
        for _ in range(len(host.waiting)):
            if self._is_busy(host) or host.budget.hold(manners=self._manners, now_us=now_us) is not None:
                break
            self._look(host.unpark(), now_us)
        self._await_budget(host, now_us)

    def _await_budget(self, host: HostQueue, now_us: int) -> None:
        """Have a host woken when it has budget; while it is busy, the end of a fetch wakes it."""
        host.due_us = None
        if host.waiting and not self._is_busy(host):
            hold = host.budget.hold(manners=self._manners, now_us=now_us)
            assert hold is not None, "those who could begin were let wait"
            host.due_us = hold.until_us
            self._watch(host, now_us)

    def _is_busy(self, host: HostQueue) -> bool:
        return host.active + host.queued >= self._options.host_fetches

    def _watch(self, one: Polled | HostQueue, now_us: int) -> None:
        before_us = self._deadlines.next_us()
        self._deadlines.watch(one, now_us=now_us)
        if self._deadlines.next_us() != before_us:
            self._wake.set()

    # -- one fetch -------------------------------------------------------------------------------------------

    def _begin(
        self,
        channel: Polled,
        intent: Fetch,
        *,
        pair: list[Fetched] | None = None,
        asked: bool = False,
    ) -> asyncio.Task[Fetched | None]:
        channel.due_us = None
        self._active += 1
        host = channel.host
        host.active += 1
        self._spend(host)
        task = asyncio.create_task(self._poll(channel, intent, pair=pair, asked=asked))
        task.add_done_callback(lambda ended: self._end(channel, host, ended))
        channel.task = task
        return task

    async def _poll(
        self, channel: Polled, intent: Fetch, *, pair: list[Fetched] | None, asked: bool
    ) -> Fetched | None:
        """One fetch, from what robots.txt says to who is told."""
        if intent.robots:
            again = await self._ask_robots(channel, intent, asked=asked)
            if again is None:
                return None
            intent = again
        if pair is not None:
            pair += await self._fetch_pair(channel, intent)
            return pair[0]
        fetched = await self._fetch(channel, intent.url, intent.headers)
        await self._tell(channel, fetched)
        return fetched

    async def _ask_robots(self, channel: Polled, intent: Fetch, *, asked: bool) -> Fetch | None:
        """Learn what robots.txt says; None: the channel has to wait after all."""
        self._heed(channel, await self._robots.file(intent.url))
        again = self._decide(channel, self._clock.now_us(), asked=asked)
        if isinstance(again, Wait) or again.robots:
            return None
        self._spend(channel.host)
        return again

    def _heed(self, channel: Polled, file: RobotsFile) -> None:
        verdict = file.verdict(channel.state.moved or channel.plan.url)
        channel.state = msgspec.structs.replace(channel.state, robots=verdict)
        budget = channel.host.budget
        channel.host.budget = msgspec.structs.replace(budget, spacing_us=file.spacing_us)

    async def _fetch_robots(self, url: str) -> Fetched:
        return await self._fetch_from(self._host(url), url, {})

    async def _fetch(self, channel: Polled, url: str, headers: Mapping[str, str]) -> Fetched:
        """Fetch for a channel, and learn from it."""
        fetched = await self._fetch_from(channel.host, url, headers, self._subscribers(channel.plan.url))
        now_us = self._clock.now_us()
        own = channel.plan.url
        channel.state = learn(channel.state, fetched.outcome, url=own, manners=self._manners, now_us=now_us)
        self._counts.fetched(fetched, problem=bool(channel.state.problem))
        self._move(channel)
        return fetched

    async def _fetch_pair(self, channel: Polled, intent: Fetch) -> list[Fetched]:
        self._spend(channel.host)
        first, second = await asyncio.gather(*(self._fetch(channel, intent.url, {}) for _ in range(2)))
        return [first, second]

    async def _fetch_from(
        self, host: HostQueue, url: str, headers: Mapping[str, str], subscribers: int = 0
    ) -> Fetched:
        """Fetch on a host's account."""
        agent = user_agent(self._options.contact, subscribers)
        fetched = await self._fetcher.fetch(url, headers={"User-Agent": agent, **headers})
        now_us = self._clock.now_us()
        budget = host.budget.told(fetched.outcome, manners=self._manners, now_us=now_us)
        host.budget = budget.weighed(fetched.bytes_wire, manners=self._manners, now_us=now_us)
        return fetched

    def _spend(self, host: HostQueue) -> None:
        """Pay for a fetch in the moment it is decided on, so that nobody else is promised the same."""
        host.budget = host.budget.spent(manners=self._manners, now_us=self._clock.now_us())

    async def _tell(self, channel: Polled, fetched: Fetched) -> None:
        """Hand it over; what goes wrong there stops no polling."""
        if channel.removed:
            return
        try:
            answer = self._on_fetched(channel.plan.url, fetched, channel.state)
            if isawaitable(answer):
                await answer
        except Exception:
            self._counts.failed()
            log.exception("what was fetched from %s could not be used", channel.plan.url)

    def _end(self, channel: Polled, host: HostQueue, task: asyncio.Task[Fetched | None]) -> None:
        """A fetch is over: plan the next, and let others begin."""
        channel.task = None
        self._active -= 1
        host.active -= 1
        now_us = self._clock.now_us()
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a mistake of ours must not become a storm either
            log.error("polling %s failed", channel.plan.url, exc_info=error)
            outcome = Outcome(error=f"An error of this program: {error}")
            own = channel.plan.url
            channel.state = learn(channel.state, outcome, url=own, manners=self._manners, now_us=now_us)
        self._look(channel, now_us)
        self._serve(host, now_us)
        for _ in range(len(self._ready)):
            if self._active >= self._options.fetches:
                break
            ready = self._ready.popleft()
            ready.parked = False
            ready.host.queued -= 1
            self._look(ready, now_us)
            self._serve(ready.host, now_us)

    def _decide(self, channel: Polled, now_us: int, *, asked: bool = False) -> Fetch | Wait:
        """What to do with it, as far as that is known without a robots.txt that has not been read."""
        intent = self._decide_once(channel, now_us, asked=asked)
        if isinstance(intent, Fetch) and intent.robots:
            known = self._robots.known(intent.url)
            if known is not None:
                self._heed(channel, known)
                return self._decide_once(channel, now_us, asked=asked)
        return intent

    def _decide_once(self, channel: Polled, now_us: int, *, asked: bool) -> Fetch | Wait:
        host = channel.host.budget
        return decide(
            channel.state, channel.plan, host=host, manners=self._manners, now_us=now_us, asked=asked
        )

    # -- hosts and clocks ------------------------------------------------------------------------------------

    def _host(self, url: str) -> HostQueue:
        name = registrable(url)
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) >= self._prune_at:
                now_us = self._clock.now_us()
                self._hosts = {key: one for key, one in self._hosts.items() if not one.unused(now_us)}
                self._prune_at = max(64, 2 * len(self._hosts))
            host = self._hosts[name] = HostQueue(name)
        return host

    def _move(self, channel: Polled) -> None:
        """A channel that has moved counts at its new host."""
        host = self._host(channel.state.moved or channel.plan.url)
        if host is not channel.host and not channel.removed:
            channel.host.channels -= 1
            host.channels += 1
            channel.host = host

    def _shift(self, by_us: int) -> None:
        """The clock was set: nobody waits for longer, and not all are due at once."""
        log.warning("the clock was set by %.1f s; polls are planned anew", by_us / SECOND_US)
        self._robots.forget()
        self._deadlines = Deadlines(horizon_us=HORIZON_US)
        now_us = self._clock.now_us()
        for host in self._hosts.values():
            host.budget = host.budget.shifted(by_us)
            if host.due_us is not None:
                host.due_us += by_us
                self._watch(host, now_us)
        for channel in self._channels.values():
            channel.state = shifted(channel.state, by_us)
            since_us = channel.plan.since_us + by_us
            channel.plan = replace(channel.plan, since_us=since_us)
            self._look(channel, now_us)

    def _known(self, url: str) -> Polled:
        channel = self._channels.get(url)
        if channel is None:
            raise ChannelRefused(f"{url} is not polled by this node")
        return channel
