"""The poller: fetches channels when they are due, with one task per fetch and a bounded number of fetches.

`core.channels.polling` decides what is fetched when; `queue` starts channels, `fetching` runs one fetch.
"""

from __future__ import annotations

import asyncio
import logging
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.polling import Fetch, FetchOutcome, PollState, Wait, learn, plan, take_hints
from penstock.core.channels.polling.decider import anew, complain
from penstock.core.channels.polling.failures import DOMAINS, begun
from penstock.core.channels.polling.values import settled
from penstock.errors import ChannelRefused
from penstock.model.instant import SECOND_US, to_us
from penstock.node.channels.fetching import FetchRunner, PageFetcher
from penstock.node.channels.queue import PolledChannel, PollQueue
from penstock.node.channels.status import PollerCounters, PollerStatistics
from penstock.node.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from penstock.core.channels.polling import HostBudget, Life
    from penstock.core.channels.polling.http_rules import FeedSchedule
    from penstock.node.channels.queue import HostQueue
    from penstock.node.config.channels import Polling
    from penstock.node.outbound.fetch import FetchResult

log: Final = logging.getLogger(__name__)


class Poller:
    """Many channels on one loop.

    `on_fetched` is called, and awaited if it is asynchronous, after every fetch of a channel with its own
    address, what came, and the state it left; until it is done the fetch counts as under way. It may call
    `hint` and `complain`. `barred` is called with an address and why its robots.txt keeps us away, `rendered`
    with an address and what was fetched, before anything else is done with it.
    """

    def __init__(  # noqa: PLR0913
        self,
        fetcher: PageFetcher,
        *,
        options: Polling,
        on_fetched: Callable[[str, FetchResult, PollState], Any],
        contact: str = "",
        subscribers: Callable[[str], int] = lambda _: 0,
        barred: Callable[[str, str], None] = lambda *_: None,
        rendered: Callable[[str, FetchResult], Awaitable[FetchResult]] | None = None,
        clock: Clock | None = None,
        sleep_s: float = limits.POLLER_SLEEP_S,
    ) -> None:
        self._options = options
        self._manners = options.manners()
        self._on_fetched = on_fetched
        self._subscribers = subscribers
        self._clock = clock or Clock()
        self._sleep_s = sleep_s
        self._channels: dict[str, PolledChannel] = {}
        self._wake = asyncio.Event()
        self._visits = FetchRunner(
            fetcher,
            manners=self._manners,
            contact=contact,
            now_us=self._clock.now_us,
            host_of=lambda url: self._turns.used(url, self._clock.now_us()),
            domains=lambda: self._turns.domains(DOMAINS),
            barred=barred,
            rendered=rendered,
        )
        self._turns = PollQueue(
            options,
            manners=self._manners,
            decide=self._visits.decide,
            begin=self._begin_turn,
            sooner=self._wake.set,
        )
        self._counts = PollerCounters()
        self._closed = False

    # -- over restarts ---------------------------------------------------------------------------------

    def take_up(self, life: Life | None, budgets: Iterable[HostBudget]) -> Life:
        """Restore budgets of the last run, before channels are added; `life` is None if it ended in order.

        Returns what to store about this run until it is closed.
        """
        now_us = self._clock.now_us()
        self._turns.restore(budgets, now_us)
        found = self._visits.life = begun(life, manners=self._manners, now_us=now_us)
        if found.began_us > now_us:
            log.warning(
                "this node crashed %d times soon after it began to poll; it begins in %.0f s",
                found.crashes,
                (found.began_us - now_us) / SECOND_US,
            )
        return found

    def budgets(self) -> tuple[list[HostBudget], list[str]]:
        """Return budgets to store, and names of domains whose stored budget may be deleted."""
        return self._turns.budgets(self._clock.now_us() + to_us(limits.CHANNEL_WRITE_S))

    # -- channels --------------------------------------------------------------------------------------

    def add(self, url: str, *, interval_us: int, state: PollState | None = None) -> None:
        """Poll a channel from now on, by its canonical URL, with its stored state if there is one.

        One that is new is fetched as soon as can be, one that was known when its turn comes.
        """
        if url in self._channels:
            self.set_interval(url, interval_us)
            return
        now_us = self._clock.now_us()
        known = PollState() if state is None else settled(state, now_us=now_us)
        planned = plan(url, interval_us=interval_us, manners=self._manners, since_us=now_us)
        host = self._turns.host_of(known.moved or url, now_us)
        host.channels += 1
        channel = PolledChannel(planned, known, host)
        self._channels[url] = channel
        self._turns.look(channel, now_us)

    def remove(self, url: str) -> PollState | None:
        """Stop polling a channel and cancel its fetch; return its state, None if it was not polled."""
        channel = self._channels.pop(url, None)
        if channel is None:
            return None
        channel.removed = True
        channel.host.channels -= 1
        if channel.task is not None:
            channel.task.cancel()
        return channel.state

    def set_interval(self, url: str, interval_us: int) -> None:
        """Change the interval of a channel."""
        channel = self._known(url)
        if channel.wanted_us != interval_us:
            channel.wanted_us = interval_us
            since_us = channel.plan.since_us
            if channel.hurried:
                interval_us = min(interval_us, to_us(limits.THIRD_LOOK_S))
            channel.plan = plan(url, interval_us=interval_us, manners=self._manners, since_us=since_us)
            self._turns.look(channel, self._clock.now_us())

    def hurry(self, url: str, soon: bool) -> None:
        """Fetch a new page once more within minutes, or go back to its interval."""
        channel = self._known(url)
        if channel.hurried != soon:
            channel.hurried = soon
            wanted_us = channel.wanted_us
            channel.wanted_us = -1
            self.set_interval(url, wanted_us)

    def forget_validators(self, url: str) -> None:
        """Ask for the page in full next time."""
        channel = self._known(url)
        channel.state = msgspec.structs.replace(channel.state, etag="", last_modified="")

    def hint(self, url: str, said: FeedSchedule) -> None:
        """Use what a feed says about its own schedule."""
        channel = self._known(url)
        channel.state = take_hints(channel.state, said)

    def complain(self, url: str, problem: str) -> None:
        """Count the last answer as an error, because it could not be read."""
        channel = self._known(url)
        channel.state = complain(channel.state, problem)

    def try_again(self, refused: Callable[[str], bool]) -> int:
        """Fetch pages soon whose problem, or that of their robots.txt, is of this kind; return how many."""
        self._visits.robots.forget_unread()
        now_us = self._clock.now_us()
        count = 0
        for channel in self._channels.values():
            robots = channel.state.robots
            if refused(channel.state.problem) or (robots is not None and refused(robots.reason)):
                channel.state = anew(channel.state)
                self._turns.look(channel, now_us)
                count += 1
        return count

    def state(self, url: str) -> PollState:
        """Return the state of a channel, to be stored."""
        return self._known(url).state

    def why(self, url: str) -> str:
        """Explain in sentences why a channel is polled when it is."""
        channel = self._known(url)
        if channel.task is not None:
            return "It is being fetched now."
        return self._visits.why(channel, self._clock.now_us())

    def statistics(self) -> PollerStatistics:
        """Take a snapshot of the poller."""
        ready, parked = self._turns.waiting()
        return self._counts.snapshot(
            channels=len(self._channels),
            hosts=self._turns.hosts,
            active=self._turns.active,
            ready=ready,
            parked=parked,
            robots=self._visits.robots.fetched,
        )

    # -- fetching on demand ----------------------------------------------------------------------------

    async def poll_now(self, url: str) -> FetchResult | None:
        """Fetch it now, if its server and the budgets allow that; else ChannelRefused says why not.

        None: it was stopped, or robots.txt turned out to forbid it.
        """
        channel = self._known(url)
        return await self._end_of(channel, channel.task or self._begin_asked(channel))

    async def again(self, url: str) -> FetchResult | None:
        """Fetch it once more, in full, while its poll is under way; it is not handed to `on_fetched`.

        It waits until the host allows another fetch; None: that would take too long.
        """
        channel = self._known(url)
        until_us = self._clock.now_us() + to_us(limits.CONFIRM_WAIT_S)
        while (hold := self._visits.hold(channel)) is not None:
            if hold.until_us > until_us or self._closed:
                return None
            await asyncio.sleep((hold.until_us - self._clock.now_us()) / SECOND_US)
        subscribers = self._subscribers(url)
        fetched = await self._visits.fetch_again(channel, subscribers=subscribers)
        self._counts.fetched(fetched, problem=bool(fetched.error))
        return fetched

    async def sample(self, url: str) -> FetchResult:
        """Fetch it in full, not for `on_fetched`; ChannelRefused says why that is not possible now."""
        channel = self._known(url)
        intent = self._visits.decide(channel, self._clock.now_us(), asked=True)
        if isinstance(intent, Wait) or channel.task is not None:
            raise ChannelRefused(intent.reason if isinstance(intent, Wait) else "it is being fetched now")
        fetched = await self._visits.fetch_again(channel, subscribers=self._subscribers(url))
        self._counts.fetched(fetched, problem=bool(fetched.error))
        # Nobody has compared what came: the next poll must not be answered that it is the same.
        channel.state = msgspec.structs.replace(channel.state, etag="", last_modified="")
        return fetched

    async def _end_of(
        self, channel: PolledChannel, task: asyncio.Task[FetchResult | None]
    ) -> FetchResult | None:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if channel.removed and task.cancelled():
                return None
            raise

    def _begin_asked(self, channel: PolledChannel) -> asyncio.Task[FetchResult | None]:
        intent = self._visits.decide(channel, self._clock.now_us(), asked=True)
        if isinstance(intent, Wait):
            raise ChannelRefused(intent.reason)
        if self._turns.active >= self._options.fetches or self._closed:
            raise ChannelRefused(f"all {self._options.fetches} fetches are under way; try again in a moment")
        return self._begin(channel, intent, asked=True)

    # -- the loop --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Poll until closed."""
        while not self._closed:
            self._wake.clear()
            self._follow_clock()
            self._turns.due(self._clock.now_us())
            pause_s = self._sleep_s
            next_us = self._turns.next_us()
            if next_us is not None:
                pause_s = min(max((next_us - self._clock.now_us()) / SECOND_US, 0.0), pause_s)
            try:
                async with asyncio.timeout(pause_s):
                    await self._wake.wait()
            except TimeoutError:
                pass

    def _follow_clock(self) -> None:
        jump_us = self._clock.follow()
        if jump_us:
            log.warning("the clock was set by %.1f s; polls are planned anew", jump_us / SECOND_US)
            self._visits.shift(jump_us)
            self._turns.shift(self._channels.values(), jump_us, self._clock.now_us())

    async def close(self) -> None:
        """Stop polling and cancel fetches under way."""
        self._closed = True
        self._wake.set()
        tasks = [channel.task for channel in self._channels.values() if channel.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._visits.robots.close()

    def _begin_turn(self, channel: PolledChannel, intent: Fetch) -> None:
        if self._closed:
            return
        if channel.due_us is not None:
            self._counts.late(self._clock.now_us() - channel.due_us)
        self._begin(channel, intent)

    def _begin(
        self, channel: PolledChannel, intent: Fetch, *, asked: bool = False
    ) -> asyncio.Task[FetchResult | None]:
        host = channel.host
        channel.due_us = None
        self._turns.begun(host)
        self._visits.pay(host)
        task = asyncio.create_task(self._poll(channel, intent, asked=asked))
        task.add_done_callback(lambda ended: self._end(channel, host, ended))
        channel.task = task
        return task

    async def _poll(self, channel: PolledChannel, intent: Fetch, *, asked: bool) -> FetchResult | None:
        """Make one fetch: read robots.txt, fetch, call `on_fetched`."""
        if intent.robots:
            again = await self._visits.ask_robots(channel, intent, asked=asked)
            if again is None:
                return None
            intent = again
        subscribers = self._subscribers(channel.plan.url)
        fetched = await self._visits.fetch(channel, intent.url, intent.headers, subscribers=subscribers)
        self._counts.fetched(fetched, problem=bool(channel.state.problem))
        await self._tell(channel, fetched)
        return fetched

    async def _tell(self, channel: PolledChannel, fetched: FetchResult) -> None:
        """Call `on_fetched`; an exception there is logged and does not stop polling."""
        if channel.removed:
            return
        try:
            answer = self._on_fetched(channel.plan.url, fetched, channel.state)
            if isawaitable(answer):
                await answer
        except Exception:
            self._counts.failed()
            log.exception("the answer of %s could not be handled", channel.plan.url)

    def _end(self, channel: PolledChannel, host: HostQueue, task: asyncio.Task[FetchResult | None]) -> None:
        """Finish a fetch, successful or not."""
        channel.task = None
        now_us = self._clock.now_us()
        error = None if task.cancelled() else task.exception()
        if error is not None:  # a bug must not cause a storm of requests
            log.error("polling %s failed", channel.plan.url, exc_info=error)
            outcome = FetchOutcome(error=f"An error of this program: {error}")
            own = channel.plan.url
            channel.state = learn(channel.state, outcome, url=own, manners=self._manners, now_us=now_us)
        self._turns.settle(channel, now_us)
        self._turns.ended(channel, host, now_us)

    def _known(self, url: str) -> PolledChannel:
        channel = self._channels.get(url)
        if channel is None:
            raise ChannelRefused(f"{url} is not polled by this node")
        return channel
