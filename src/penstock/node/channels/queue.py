"""Queues of polled channels: a heap of due times, a queue of each host, and a queue for a free fetch.

A channel is in one of these places, or being fetched. `HostQueue` holds the budget of a registrable
domain and the channels that wait for it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Final

from penstock.core.channels.address import registrable
from penstock.core.channels.polling import HostBudget, Wait
from penstock.core.channels.polling.values import shifted
from penstock.model.instant import SECOND_US
from penstock.node.broker.deadlines import Deadlines

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Callable, Iterable

    from penstock.core.channels.polling import Fetch, Manners, PollIntent, PollPlan, PollState
    from penstock.model.instant import Instant
    from penstock.node.config.channels import Polling
    from penstock.node.outbound.fetch import FetchResult


class PolledChannel:
    """A channel that the poller polls."""

    __slots__ = ("due_us", "host", "hurried", "parked", "plan", "removed", "state", "task", "wanted_us")

    def __init__(self, plan: PollPlan, state: PollState, host: HostQueue) -> None:
        self.plan = plan
        self.state = state
        self.host = host
        self.due_us: Instant | None = None
        """When to decide about it again; None: it is in a queue, or being fetched."""
        self.parked = False
        """Whether it is in the queue of its host or in the queue for a free fetch."""
        self.removed = False
        self.wanted_us = plan.wanted_us
        """Interval given by the allocation."""
        self.hurried = False
        """Whether the next poll comes within minutes, because the page is new."""
        self.task: Task[FetchResult | None] | None = None
        """Task of the fetch under way."""

    def timer(self) -> Instant | None:
        """When to decide; the key in the heap."""
        return None if self.removed else self.due_us


class HostQueue:
    """A registrable domain. Channels wait here while its budget is used up; only the domain is woken."""

    __slots__ = ("active", "budget", "channels", "due_us", "kept", "queued", "waiting")

    def __init__(self, budget: HostBudget) -> None:
        self.budget = budget
        self.kept: HostBudget | None = None
        """Budget as it was stored last; None: it is not stored."""
        self.active = 0
        """Fetches under way."""
        self.queued = 0
        """Channels that wait for this host."""
        self.channels = 0
        """Number of channels that are fetched from this host."""
        self.waiting: deque[PolledChannel] = deque()
        self.due_us: Instant | None = None
        """When the host has budget again; None: no channel waits for it."""

    def timer(self) -> Instant | None:
        """When to decide; the key in the heap."""
        return self.due_us

    def park(self, channel: PolledChannel) -> None:
        """Append a channel to the queue, unless it is in a queue already."""
        if not channel.parked:
            channel.parked = True
            self.waiting.append(channel)

    def unpark(self) -> PolledChannel:
        """Remove and return the channel that has waited longest."""
        channel = self.waiting.popleft()
        channel.parked = False
        return channel

    def unused(self, now_us: Instant) -> bool:
        """Whether nothing uses the host, so that it can be removed."""
        busy = self.channels or self.active or self.waiting or self.kept is not None
        return not busy and self.budget.idle(now_us)


HORIZON_US: Final = 3_600 * SECOND_US
"""Longest time a removed channel stays in the heap."""
HOSTS_LEAST: Final = 64
"""Number of hosts above which unused ones are removed."""


class PollQueue:
    """Asks `decide` what to do with a channel that is due, and calls `begin` to fetch it."""

    def __init__(
        self,
        options: Polling,
        *,
        manners: Manners,
        decide: Callable[[PolledChannel, Instant], PollIntent],
        begin: Callable[[PolledChannel, Fetch], None],
        sooner: Callable[[], None],
    ) -> None:
        """`sooner` is called when `next_us` moves to an earlier time."""
        self._options = options
        self._manners = manners
        self._decide = decide
        self._begin = begin
        self._sooner = sooner
        self._hosts: dict[str, HostQueue] = {}
        self._prune_at = HOSTS_LEAST
        self._used: dict[HostQueue, None] = {}
        """Hosts whose budget has to be stored: it may have changed, or still counts."""
        self._deadlines: Deadlines[PolledChannel | HostQueue] = Deadlines(horizon_us=HORIZON_US)
        self._ready: deque[PolledChannel] = deque()
        """Channels that are due while the bound of fetches is reached."""
        self.active = 0
        """Fetches under way."""

    def begun(self, host: HostQueue) -> None:
        """Count a fetch that begins."""
        self.active += 1
        host.active += 1
        self._used[host] = None

    def ended(self, channel: PolledChannel, host: HostQueue, now_us: Instant) -> None:
        """Count a fetch that ended, plan the next one of the channel, and begin those that wait."""
        self.active -= 1
        host.active -= 1
        self.look(channel, now_us)
        self._serve(host, now_us)
        for _ in range(len(self._ready)):
            if self.active >= self._options.fetches:
                break
            ready = self._ready.popleft()
            ready.parked = False
            ready.host.queued -= 1
            self.look(ready, now_us)
            self._serve(ready.host, now_us)

    def due(self, now_us: Instant) -> None:
        """Decide about all channels and hosts that are due."""
        for one in self._deadlines.due(now_us=now_us):
            if isinstance(one, HostQueue):
                self._serve(one, now_us)
            else:
                self.look(one, now_us)

    def next_us(self) -> Instant | None:
        """Return when to call `due` again."""
        return self._deadlines.next_us()

    def look(self, channel: PolledChannel, now_us: Instant) -> None:
        """Decide about a channel: begin its fetch, or put it into the heap or a queue."""
        if channel.removed or channel.parked or channel.task is not None:
            return
        intent = self._decide(channel, now_us)
        if isinstance(intent, Wait) and not intent.host:
            channel.due_us = intent.until_us
            self._watch(channel, now_us)
        elif isinstance(intent, Wait) or self._is_busy(channel.host):
            channel.host.park(channel)
            self._await_budget(channel.host, now_us)
        elif self.active >= self._options.fetches:
            channel.parked = True
            channel.host.queued += 1
            self._ready.append(channel)
        else:
            self._begin(channel, intent)

    def _serve(self, host: HostQueue, now_us: Instant) -> None:
        """Begin fetches of channels that wait for a host, as far as its budget allows."""
        for _ in range(len(host.waiting)):
            if self._is_busy(host) or host.budget.hold(manners=self._manners, now_us=now_us) is not None:
                break
            self.look(host.unpark(), now_us)
        self._await_budget(host, now_us)

    def _await_budget(self, host: HostQueue, now_us: Instant) -> None:
        """Put a host into the heap for when it has budget; a busy host is woken by the end of a fetch."""
        host.due_us = None
        if host.waiting and not self._is_busy(host):
            hold = host.budget.hold(manners=self._manners, now_us=now_us)
            assert hold is not None, "those who could begin were let wait"
            host.due_us = hold.until_us
            self._watch(host, now_us)

    def _is_busy(self, host: HostQueue) -> bool:
        return host.active + host.queued >= self._options.host_fetches

    def _watch(self, one: PolledChannel | HostQueue, now_us: Instant) -> None:
        before_us = self._deadlines.next_us()
        self._deadlines.watch(one, now_us=now_us)
        if self._deadlines.next_us() != before_us:
            self._sooner()

    def host_of(self, url: str, now_us: Instant) -> HostQueue:
        """Return the host of a URL, by registrable domain; unused hosts are removed now and then."""
        name = registrable(url)
        host = self._hosts.get(name)
        if host is None:
            if len(self._hosts) >= self._prune_at:
                self._hosts = {key: one for key, one in self._hosts.items() if not one.unused(now_us)}
                self._used = {one: None for one in self._used if one.budget.name in self._hosts}
                self._prune_at = max(HOSTS_LEAST, 2 * len(self._hosts))
            host = self._hosts[name] = HostQueue(HostBudget(name))
        return host

    def used(self, url: str, now_us: Instant) -> HostQueue:
        """Return the host of a URL that is fetched for a channel, such as robots.txt or a redirect."""
        host = self.host_of(url, now_us)
        self._used[host] = None
        return host

    def restore(self, budgets: Iterable[HostBudget], now_us: Instant) -> None:
        """Restore the budgets of hosts."""
        for budget in budgets:
            host = self._hosts[budget.name] = HostQueue(budget.settled(now_us))
            host.kept = budget
            self._used[host] = None

    def budgets(self, until_us: Instant) -> tuple[list[HostBudget], list[str]]:
        """Return budgets to store, and names of hosts whose stored budget may be deleted."""
        counting: list[HostBudget] = []
        idle: list[str] = []
        for host in list(self._used):
            if not host.budget.idle(until_us):
                if host.budget is not host.kept:
                    counting.append(host.budget)
                host.kept = host.budget
                continue
            if host.kept is not None:
                idle.append(host.budget.name)
                host.kept = None
            if not host.active:
                del self._used[host]
        return counting, idle

    @property
    def hosts(self) -> int:
        """Number of registrable domains known."""
        return len(self._hosts)

    def domains(self, most: int) -> int:
        """Count the domains with polled channels, up to a bound."""
        polled = (host for host in self._hosts.values() if host.channels)
        return sum(1 for _ in islice(polled, most))

    def settle(self, channel: PolledChannel, now_us: Instant) -> None:
        """Move a channel to another host, after a permanent redirect."""
        host = self.host_of(channel.state.moved or channel.plan.url, now_us)
        if host is not channel.host and not channel.removed:
            channel.host.channels -= 1
            host.channels += 1
            channel.host = host

    def shift(self, channels: Iterable[PolledChannel], by_us: int, now_us: Instant) -> None:
        """Adjust to a clock that was set: no wait gets longer, and not all channels become due at once."""
        self._deadlines = Deadlines(horizon_us=HORIZON_US)
        for host in self._hosts.values():
            host.budget = host.budget.shifted(by_us)
            if host.due_us is not None:
                host.due_us += by_us
                self._watch(host, now_us)
        for channel in channels:
            channel.state = shifted(channel.state, by_us)
            channel.plan = replace(channel.plan, since_us=channel.plan.since_us + by_us)
            self.look(channel, now_us)

    def waiting(self) -> tuple[int, int]:
        """Count the channels that wait for a free fetch, and those that wait for their host."""
        return len(self._ready), sum(len(host.waiting) for host in self._hosts.values())
