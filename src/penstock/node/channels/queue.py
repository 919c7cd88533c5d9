"""Where a polled channel waits: heap of due times, queue of its host, or queue for a free fetch.

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
    """One channel."""

    __slots__ = ("due_us", "host", "parked", "plan", "removed", "state", "task")

    def __init__(self, plan: PollPlan, state: PollState, host: HostQueue) -> None:
        self.plan = plan
        self.state = state
        self.host = host
        self.due_us: Instant | None = None
        """When to decide about it again; None: it waits elsewhere, or is being fetched."""
        self.parked = False
        """Whether it stands in a queue, of its host or for a free fetch."""
        self.removed = False
        self.task: Task[FetchResult | None] | None = None
        """The fetch under way."""

    def timer(self) -> Instant | None:
        """When to look."""
        return None if self.removed else self.due_us


class HostQueue:
    """One domain. When its budget is used up its channels wait here, and only the domain is woken."""

    __slots__ = ("active", "budget", "channels", "due_us", "kept", "queued", "waiting")

    def __init__(self, budget: HostBudget) -> None:
        self.budget = budget
        self.kept: HostBudget | None = None
        """As it was written down last; None: it is not."""
        self.active = 0
        """Fetches under way."""
        self.queued = 0
        """Channels that wait for a free fetch."""
        self.channels = 0
        """Channels that are fetched from here."""
        self.waiting: deque[PolledChannel] = deque()
        self.due_us: Instant | None = None
        """When there is budget again; None: nobody waits for it."""

    def timer(self) -> Instant | None:
        """When to look."""
        return self.due_us

    def park(self, channel: PolledChannel) -> None:
        """Let a channel wait for its turn; it does so once."""
        if not channel.parked:
            channel.parked = True
            self.waiting.append(channel)

    def unpark(self) -> PolledChannel:
        """Who waited longest."""
        channel = self.waiting.popleft()
        channel.parked = False
        return channel

    def unused(self, now_us: Instant) -> bool:
        """Whether it can be forgotten."""
        busy = self.channels or self.active or self.waiting or self.kept is not None
        return not busy and self.budget.idle(now_us)


HORIZON_US: Final = 3_600 * SECOND_US
"""A removed channel leaves the heap after this."""
HOSTS_LEAST: Final = 64
"""Hosts that are kept without looking whether they are used."""


class PollQueue:
    """Decides who begins, with `decide`, and lets them, with `begin`; it is told when a fetch has ended."""

    def __init__(
        self,
        options: Polling,
        *,
        manners: Manners,
        decide: Callable[[PolledChannel, Instant], PollIntent],
        begin: Callable[[PolledChannel, Fetch], None],
        sooner: Callable[[], None],
    ) -> None:
        """`sooner` is called when `next_us` has come closer."""
        self._options = options
        self._manners = manners
        self._decide = decide
        self._begin = begin
        self._sooner = sooner
        self._hosts: dict[str, HostQueue] = {}
        self._prune_at = HOSTS_LEAST
        self._used: dict[HostQueue, None] = {}
        """Hosts whose budget may have changed since it was written down, or is still to be kept."""
        self._deadlines: Deadlines[PolledChannel | HostQueue] = Deadlines(horizon_us=HORIZON_US)
        self._ready: deque[PolledChannel] = deque()
        """Channels whose turn has come while all fetches are under way."""
        self.active = 0
        """Fetches under way."""

    def begun(self, host: HostQueue) -> None:
        """A fetch has begun."""
        self.active += 1
        host.active += 1
        self._used[host] = None

    def ended(self, channel: PolledChannel, host: HostQueue, now_us: Instant) -> None:
        """A fetch is over: plan the next, and let others begin."""
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
        """Let everyone begin whose moment has come."""
        for one in self._deadlines.due(now_us=now_us):
            if isinstance(one, HostQueue):
                self._serve(one, now_us)
            else:
                self.look(one, now_us)

    def next_us(self) -> Instant | None:
        """When to call `due` again."""
        return self._deadlines.next_us()

    def look(self, channel: PolledChannel, now_us: Instant) -> None:
        """Decide about a channel and put it where it belongs."""
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
        """Let those who wait at a host begin, as far as its budget goes."""
        for _ in range(len(host.waiting)):
            if self._is_busy(host) or host.budget.hold(manners=self._manners, now_us=now_us) is not None:
                break
            self.look(host.unpark(), now_us)
        self._await_budget(host, now_us)

    def _await_budget(self, host: HostQueue, now_us: Instant) -> None:
        """Have a host woken when it has budget; while it is busy, the end of a fetch wakes it."""
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
        """The registrable domain of an address; those that are used no more are forgotten now and then."""
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
        """The domain of an address that is asked on behalf of a channel, as robots.txt and redirects are."""
        host = self.host_of(url, now_us)
        self._used[host] = None
        return host

    def restore(self, budgets: Iterable[HostBudget], now_us: Instant) -> None:
        """Budgets as they were kept."""
        for budget in budgets:
            host = self._hosts[budget.name] = HostQueue(budget.settled(now_us))
            host.kept = budget
            self._used[host] = None

    def budgets(self, until_us: Instant) -> tuple[list[HostBudget], list[str]]:
        """Those that count longer than this and were not handed out yet; names of those that do no more."""
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
        """Registrable domains that are known."""
        return len(self._hosts)

    def domains(self, most: int) -> int:
        """Those of which channels are polled; beyond so many they are not counted."""
        polled = (host for host in self._hosts.values() if host.channels)
        return sum(1 for _ in islice(polled, most))

    def settle(self, channel: PolledChannel, now_us: Instant) -> None:
        """A channel that has moved counts at its new host."""
        host = self.host_of(channel.state.moved or channel.plan.url, now_us)
        if host is not channel.host and not channel.removed:
            channel.host.channels -= 1
            host.channels += 1
            channel.host = host

    def shift(self, channels: Iterable[PolledChannel], by_us: int, now_us: Instant) -> None:
        """The clock was set: nobody waits for longer, and not all are due at once."""
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
        """Channels that wait for a fetch, and channels that wait for their host."""
        return len(self._ready), sum(len(host.waiting) for host in self._hosts.values())
