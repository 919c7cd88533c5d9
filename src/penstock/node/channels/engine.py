"""Puts the parts of channels together, runs them, and restores them after a restart.

`registry` knows subscribers, `schedule` gives intervals, `poller` fetches, `results` handles what was
fetched, `compare` finds changes, `store` holds them on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.address import TOPIC_ROOT
from penstock.core.channels.difference.content import library
from penstock.errors import ChannelRefused, counted
from penstock.node.broker.background import Background
from penstock.node.channels import store as sql
from penstock.node.channels.compare import PageBody
from penstock.node.channels.poll_log import PollLog, SubscriptionRecord
from penstock.node.channels.poller import Poller
from penstock.node.channels.reader import Comparer
from penstock.node.channels.registry import ChannelRegistry, HostRules
from penstock.node.channels.results import ChangePublisher, PollResults
from penstock.node.channels.schedule import PollSchedule
from penstock.node.channels.status import ChannelsStatus
from penstock.node.channels.store import CHANNELS_FILE, ChannelStore
from penstock.node.channels.topics import ChannelTopics
from penstock.node.channels.websub import WebSubPushes
from penstock.node.channels.writer import ChannelWriter
from penstock.node.outbound.fetch import Fetcher
from penstock.node.outbound.guard import was_refused
from penstock.node.outbound.render import Renderer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.websub import HubLease
    from penstock.node.broker.broker import Broker
    from penstock.node.channels.channel import Channel
    from penstock.node.config.schema import Config
    from penstock.node.outbound.fetch import FetchResult

log = logging.getLogger(__name__)

LIBRARIES: Final = (
    "cssselect",
    "jsonpath",
    "lxml.etree",
    "protego",
    "publicsuffixlist",
    "rapidfuzz.distance",
)
"""Libraries of the extra `channels`; a node with channels does not start without them."""


class ChannelEngine:
    """Runs the parts of channels and connects them; `start` it, and `close` it before the broker."""

    def __init__(self, broker: Broker, config: Config) -> None:
        """Open the store and make the parts; StoreError, MissingTool or NodeError says why that fails."""
        for name in LIBRARIES:
            library(name)
        self.broker = broker
        self.clock = broker.clock
        settings = self.settings = config.channels
        hosts = HostRules(settings)
        self.store = ChannelStore(Path(config.data) / CHANNELS_FILE if config.data else None)
        self.registry = ChannelRegistry(settings, hosts)
        self.publisher = ChangePublisher(broker, retain=settings.retain)
        self.writer = ChannelWriter(
            self.store,
            history=settings.history,
            channel=self.registry.get,
            beside=lambda: sql.put_hosts(*self.poller.budgets()),
        )
        self.comparer = Comparer(self.store, self.writer)
        self.pushes = WebSubPushes(config, hosts, on_push=self._pushed, keep=self._agreed)
        self._log = PollLog(config) if settings.log else None
        self.results = PollResults(
            self.comparer,
            self.publisher,
            self.writer,
            self.pushes,
            channel=self.registry.get,
            clock=self.clock,
            log_to=self._log,
        )
        self._fetcher = Fetcher(settings.polling, contact=config.http.contact, check=hosts.check)
        browser = settings.browser
        self._renderer = (
            Renderer(browser, self._fetcher, contact=config.http.contact) if browser.enabled else None
        )
        self.poller = Poller(
            self._fetcher,
            options=settings.polling,
            contact=config.http.contact,
            on_fetched=self.results.fetched,
            subscribers=lambda url: self.registry.known(url).subscribers,
            barred=self.results.barred,
            rendered=self._rendered,
        )
        self.results.attach(self.poller)
        self._allocate_soon = asyncio.Event()
        """Set when subscriptions or the control table change: intervals are allocated again soon."""
        self.schedule = PollSchedule(
            settings,
            self.registry,
            given=self._interval_given,
            pushed=self.pushes.active,
            changed=self._allocate_soon.set,
        )
        self._topics = ChannelTopics(self.registry, clock=self.clock, wanted=self.wanted)
        self._background = Background()
        self._started = False
        for url, known in self.store.channels():
            self.registry.restore(url, known)
        for subscribed in self.store.subscriptions():
            self.registry.subscribe(subscribed, now_us=self.clock())

    def reconfigure(self, config: Config) -> None:
        """Fetch from other networks from now on; pages that were refused for theirs are tried again."""
        networks = config.channels.polling.networks
        if networks == self.settings.polling.networks:
            return
        self.settings = config.channels
        self._fetcher.allow(networks)
        self.pushes.allow(networks)
        again = self.poller.try_again(was_refused)
        log.info("channels.polling.networks has changed; %s tried again", counted(again, "refused page"))

    # -- start and end ---------------------------------------------------------------------------------

    async def start(self) -> None:
        """Restore what was stored, publish changes that were not published yet, and begin to poll."""
        if self.publisher.notifier is None and any(each.people for each in self.registry):
            log.warning("subscribers of channels are not notified, because `notify` is not configured")
        now_us = self.clock()
        router = self.broker.router
        router.own = (*router.own, TOPIC_ROOT)
        router.forget()
        for session in self.broker.sessions:
            for filter_ in session.held:
                self._topics.began(session.client_id, filter_)
        self.broker.listeners.append(self._topics)
        self.registry.settle(now_us=now_us)
        if self._log is not None:
            self._log.start()
        follower = self.schedule.follower
        if follower is not None:
            await follower.look()
            self._background.begin(follower.run(limits.CONTROL_LOOK_S), "new control tables are not read")
        life = self.poller.take_up(self.store.life(), self.store.hosts())
        self.writer.put([sql.put_life(life)])
        await self.flush()
        publishing_again = self._background.begin(
            self._publish_stored(self.store.untold()), "changes found before the restart are not published"
        )
        # Publishing waits for the disk; a full disk must not hold up the start.
        await asyncio.wait({publishing_again}, timeout=limits.CHANNEL_SETTLE_S)
        for channel in self.registry:
            self._follow(channel)
        self._started = True
        self.pushes.start()
        self._background.begin(self.poller.run(), "no channel is polled any more")
        self._background.begin(self._allocating(), "poll intervals are not allocated any more")
        self._background.begin(self.writer.flush_regularly(), "facts about channels are not written to disk")

    async def _publish_stored(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            channel = self.registry.get(delta.url)
            if channel is not None:
                await self.results.tell(channel, delta, before=True)

    async def close(self) -> None:
        """Stop polling, publish what was found, and write everything to disk."""
        if self._topics in self.broker.listeners:
            self.broker.listeners.remove(self._topics)
        await self.poller.close()
        await self._background.close()
        await self.pushes.close()
        await self.results.close()
        await self.comparer.close()
        if self._started:
            for channel in self.registry:
                self.results.refresh(channel)
                self.writer.changed(channel.url)
            self.writer.put([sql.end_life()])
            await self.flush()
        if self._renderer is not None:
            await self._renderer.close()
        await self._fetcher.close()
        if self._log is not None:
            await self._log.close()
        await self.writer.close()

    async def _allocating(self) -> None:
        """Allocate intervals every `allocate_s`, and soon after subscriptions change."""
        while True:
            await asyncio.sleep(limits.ALLOCATE_SOON_S)
            self._allocate_soon.clear()
            began_s = time.thread_time()
            # In slices: the event loop serves clients in between.
            for _ in self.schedule.allocate():
                await asyncio.sleep(0)
            self._forget()
            # A pause in proportion to the time used: allocating takes at most this share of a core.
            await asyncio.sleep((time.thread_time() - began_s) / limits.ALLOCATE_SHARE)
            with suppress(TimeoutError):
                async with asyncio.timeout(self.settings.allocate_s):
                    await self._allocate_soon.wait()

    async def flush(self) -> None:
        """Wait until all changes so far are on disk, but not for a disk that is full."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.CHANNEL_SETTLE_S):
                await self.writer.flush()

    # -- changes of channels ---------------------------------------------------------------------------

    def wanted(self, channel: Channel, kind: str, change: int) -> None:
        """Note that a channel has one subscriber more (+1) or less (-1)."""
        if not self._started:
            return  # restored after a restart: nothing has changed
        self.changed(channel)
        if self._log is not None:
            self._log.subscription(
                SubscriptionRecord(channel.url, kind, self.clock(), change, channel.subscribers)
            )

    def changed(self, channel: Channel) -> None:
        """Store a channel and poll it as its settings and subscribers require."""
        self.writer.changed(channel.url)
        self._allocate_soon.set()
        self._follow(channel)
        if len(self.registry) > self.settings.max_channels:
            self._forget()

    def _follow(self, channel: Channel) -> None:
        """Add a channel to the poller, or remove it, as its subscribers require."""
        if channel.polled:
            self.schedule.first(channel)
            known = channel.known
            self.poller.add(channel.url, interval_us=known.interval_us, state=known.poll)
        else:
            state = self.poller.remove(channel.url)
            channel.known.poll = channel.known.poll if state is None else state
        self.pushes.follow(channel)

    def _pushed(self, url: str, data: bytes, content_type: str) -> asyncio.Task[None] | None:
        """Compare content that a hub pushed; None if the page is no longer polled."""
        channel = self.registry.get(url)
        if channel is None or not channel.polled:
            return None
        body = PageBody(data, content_type, partial=True)
        return self._background.begin(self.results.pushed(channel, body), "content that a hub pushed is lost")

    async def _rendered(self, url: str, fetched: FetchResult) -> FetchResult:
        """Run the scripts of a page that is to be rendered; others are as they were fetched."""
        channel = self.registry.get(url)
        if channel is None or not channel.known.rules.render or fetched.error:
            return fetched
        if self._renderer is None:
            problem = "It is to be rendered, and this node renders no pages (channels.browser.enabled)."
            return replace(fetched, body=b"", error=problem)
        return await self._renderer.render(fetched)

    def _agreed(self, url: str, lease: HubLease) -> None:
        """Store what was agreed with the hub of a page."""
        channel = self.registry.get(url)
        if channel is not None:
            channel.known.hub_lease = lease
            self.writer.changed(url)

    def _interval_given(self, channel: Channel) -> None:
        self.writer.changed(channel.url)
        with suppress(ChannelRefused):  # not polled yet: the poller gets the interval with the channel
            self.poller.set_interval(channel.url, channel.known.interval_us)

    def _forget(self) -> None:
        """Remove channels that have had no subscriber for long."""
        for url in self.registry.forgettable(now_us=self.clock()):
            self.remove(url)

    def remove(self, url: str) -> None:
        """Remove a channel with its history, its retained message and its subscriptions."""
        channel = self.registry.known(url)
        self.publisher.forget(channel)
        self.registry.remove(url)
        self._follow(channel)
        self.writer.put(sql.end_channel(url))

    # -- status ----------------------------------------------------------------------------------------

    def status(self) -> ChannelsStatus:
        """Take a snapshot of all channels together."""
        follower = self.schedule.follower
        version = follower.version if follower is not None else None
        faults = (self.writer.fault, follower.fault if follower is not None else "")
        polling = self.poller.statistics()
        counts = self.results.counts
        return ChannelsStatus(
            channels=len(self.registry),
            polled=polling.channels,
            failing=sum(bool(each.problem) and each.polled for each in self.registry),
            subscriptions=self.registry.subscriptions,
            counts=msgspec.structs.replace(counts),
            balanced=counts.balanced and counts.changes == self.results.told + self.results.untold,
            published=self.publisher.published,
            handed=self.publisher.handed,
            untold=self.results.untold,
            confirming=self.results.confirming,
            fetching=polling.active,
            due=polling.ready + polling.parked,
            table_version=version.version if version is not None else 0,
            faults=tuple(fault for fault in faults if fault),
        )
