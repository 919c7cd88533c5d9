"""Puts the parts of channels together, runs them, and restores them after a restart.

`registry` knows subscribers, `schedule` gives intervals, `poller` fetches, `results` handles what was
fetched, `compare` finds changes, `store` holds them on disk.
"""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.address import TOPIC_ROOT
from penstock.core.channels.difference.content import library
from penstock.errors import ChannelRefused
from penstock.node.broker.background import Background
from penstock.node.channels import store as sql
from penstock.node.channels.compare import Comparer, PageBody
from penstock.node.channels.noise import NoiseLearner
from penstock.node.channels.poll_log import PollLog, SubscriptionRecord
from penstock.node.channels.poller import Poller
from penstock.node.channels.registry import MQTT_KIND, ChannelRegistry, HostRules
from penstock.node.channels.results import ChangePublisher, PollResults
from penstock.node.channels.schedule import PollSchedule
from penstock.node.channels.status import ChannelsStatus
from penstock.node.channels.store import CHANNELS_FILE, ChannelStore
from penstock.node.channels.topics import ChannelTopics
from penstock.node.channels.websub import WebSubPushes
from penstock.node.channels.writer import ChannelWriter
from penstock.node.outbound.fetch import Fetcher

if TYPE_CHECKING:
    from collections.abc import Iterable

    from aiohttp import web

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.subscriptions import Notifier
    from penstock.core.channels.websub import HubLease
    from penstock.node.broker.broker import Broker
    from penstock.node.channels.channel import Channel
    from penstock.node.config.schema import Config

log = logging.getLogger(__name__)

LIBRARIES: Final = (
    "cssselect",
    "fastfeedparser",
    "feedparser",
    "jsonpath",
    "lxml.etree",
    "protego",
    "publicsuffixlist",
    "rapidfuzz.distance",
)
"""Of the extra `channels`: without them a node that should watch pages does not start."""


class ChannelEngine:
    """The machinery behind the desk; `start` it, and `close` it before the broker."""

    def __init__(self, broker: Broker, config: Config) -> None:
        """StoreError, MissingTool or NodeError says what stands in the way."""
        for name in LIBRARIES:
            library(name)
        self._broker = broker
        self._clock = broker.clock
        settings = self._settings = config.channels
        hosts = HostRules(settings)
        self._store = ChannelStore(Path(config.data) / CHANNELS_FILE if config.data else None)
        self._registry = ChannelRegistry(settings, hosts)
        self._announcing = ChangePublisher(broker, retain=settings.retain)
        self._keeping = ChannelWriter(
            self._store,
            history=settings.history,
            channel=self._registry.get,
            beside=lambda: sql.put_hosts(*self._poller.budgets()),
        )
        self._comparing = Comparer(self._store, self._keeping)
        self._pushes = WebSubPushes(config, hosts, on_push=self._pushed, keep=self._agreed)
        self._log = PollLog(config) if settings.log else None
        self._polls = PollResults(
            self._comparing,
            self._announcing,
            self._keeping,
            self._pushes,
            channel=self._registry.get,
            clock=self._clock,
            log_to=self._log,
        )
        self._fetcher = Fetcher(settings.polling, contact=config.http.contact, check=hosts.check)
        self._poller = Poller(
            self._fetcher,
            options=settings.polling,
            contact=config.http.contact,
            on_fetched=self._polls.fetched,
            subscribers=lambda url: self._registry.known(url).subscribers,
            barred=self._polls.barred,
        )
        self._polls.attach(self._poller)
        self._restless = asyncio.Event()
        """Intervals are to be allocated anew: subscriptions or the control table have changed."""
        self._schedule = PollSchedule(
            settings,
            self._registry,
            given=self._interval_given,
            pushed=self._pushes.active,
            changed=self._restless.set,
        )
        self._contrasting = NoiseLearner(self._registry, self._poller, self._polls, clock=self._clock)
        self._topics = ChannelTopics(self)
        self._background = Background()
        self._started = False
        for url, known in self._store.channels():
            self._registry.restore(url, known)
        for subscribed in self._store.subscriptions():
            self._registry.subscribe(subscribed, now_us=self._clock())

    # -- living ----------------------------------------------------------------------------------------------

    def tell_through(self, told: Notifier) -> None:
        """Who tells subscribers other than MQTT clients; say so before `start`."""
        self._announcing.told = told

    async def start(self) -> None:
        """Take up what was kept, and poll from now on."""
        if self._announcing.told is None and any(each.people for each in self._registry):
            log.warning("there are subscribers that nobody notifies: see `notify` in the configuration")
        now_us = self._clock()
        router = self._broker.router
        router.own = (*router.own, TOPIC_ROOT)
        router.forget()
        for session in self._broker.sessions:
            for filter_ in session.held:
                self._topics.began(session.client_id, filter_)
        self._broker.listeners.append(self._topics)
        self._registry.settle(now_us=now_us)
        if self._log is not None:
            self._log.start()
        follower = self._schedule.follower
        if follower is not None:
            await follower.look()
            self._background.begin(
                follower.run(limits.CONTROL_LOOK_S), "control tables are not seen any more"
            )
        life = self._poller.take_up(self._store.life(), self._store.hosts())
        self._keeping.put([sql.put_life(life)])
        await self.settle()
        publishing_again = self._background.begin(
            self._retell(self._store.untold()), "what was found before the restart is not told"
        )
        # Publishing waits for the disk; a full disk must not hold up the start.
        await asyncio.wait({publishing_again}, timeout=limits.CHANNEL_SETTLE_S)
        for channel in self._registry:
            self._follow(channel)
        self._started = True
        self._pushes.start()
        self._background.begin(self._poller.run(), "no web page is polled any more")
        self._background.begin(self._allocating(), "intervals of web pages stay as they are")
        self._background.begin(
            self._keeping.flush_regularly(), "what is known about web pages is not written down"
        )
        self._background.begin(self._contrasting.run(), "noise of web pages is not learned any more")

    async def _retell(self, deltas: Iterable[Delta]) -> None:
        for delta in deltas:
            channel = self._registry.get(delta.url)
            if channel is not None:
                await self._polls.tell(channel, delta, before=True)

    async def close(self) -> None:
        """Stop polling, tell what was found, write everything down."""
        if self._topics in self._broker.listeners:
            self._broker.listeners.remove(self._topics)
        await self._poller.close()
        await self._background.close()
        await self._pushes.close()
        await self._polls.close()
        if self._started:
            for channel in self._registry:
                self._polls.refresh(channel)
                self._keeping.changed(channel.url)
            self._keeping.put([sql.end_life()])
            await self.settle()
        await self._fetcher.close()
        if self._log is not None:
            await self._log.close()
        await self._keeping.close()

    async def _allocating(self) -> None:
        """Give intervals anew from time to time, and soon after subscriptions have changed."""
        while True:
            await asyncio.sleep(limits.ALLOCATE_SOON_S)
            self._restless.clear()
            began_s = time.thread_time()
            for _ in self._schedule.allocate():
                await asyncio.sleep(0)
            self._forget()
            await asyncio.sleep((time.thread_time() - began_s) / limits.ALLOCATE_SHARE)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.allocate_s):
                    await self._restless.wait()

    async def settle(self) -> None:
        """Have on disk what was asked for before that is confirmed; a disk that is full is not waited for."""
        with suppress(TimeoutError):
            async with asyncio.timeout(limits.CHANNEL_SETTLE_S):
                await self._keeping.flush()

    # -- MQTT clients ----------------------------------------------------------------------------------------

    def check_client(self, client_id: str, url: str) -> None:
        """ChannelError if an MQTT client may not subscribe to a page."""
        self._registry.check_subscriber(MQTT_KIND + client_id, url)

    def client_began(self, client_id: str, url: str) -> None:
        """An MQTT client subscribed."""
        channel = self._registry.client_began(client_id, url, now_us=self._clock())
        if channel.clients[client_id] == 1:
            self._wanted(channel, "mqtt", +1)

    def client_ended(self, client_id: str, url: str) -> None:
        """It did, and does no more."""
        channel = self._registry.client_ended(client_id, url, now_us=self._clock())
        if channel is not None:
            self._wanted(channel, "mqtt", -1)

    # -- what is polled --------------------------------------------------------------------------------------

    def _wanted(self, channel: Channel, kind: str, change: int) -> None:
        """Somebody more, or less, wants a channel."""
        if not self._started:
            return  # taken up after a restart
        self._changed(channel)
        if self._log is not None:
            self._log.subscription(
                SubscriptionRecord(channel.url, kind, self._clock(), change, channel.subscribers)
            )

    def _changed(self, channel: Channel) -> None:
        self._keeping.changed(channel.url)
        self._restless.set()
        self._follow(channel)
        if len(self._registry) > self._settings.max_channels:
            self._forget()

    def _follow(self, channel: Channel) -> None:
        """Poll a channel, or poll it no more."""
        if channel.polled:
            self._schedule.first(channel)
            known = channel.known
            self._poller.add(channel.url, interval_us=known.interval_us, state=known.poll)
        else:
            state = self._poller.remove(channel.url)
            channel.known.poll = channel.known.poll if state is None else state
        self._pushes.follow(channel)

    def _pushed(self, url: str, data: bytes, content_type: str) -> asyncio.Task[None] | None:
        """A hub sent what is new on a page."""
        channel = self._registry.get(url)
        if channel is None or not channel.polled:
            return None
        body = PageBody(data, content_type, partial=True)
        return self._background.begin(self._polls.pushed(channel, body), "what a hub sent is not used")

    def _agreed(self, url: str, lease: HubLease) -> None:
        """How it stands with the hub of a page."""
        channel = self._registry.get(url)
        if channel is not None:
            channel.known.hub_lease = lease
            self._keeping.changed(url)

    def routes(self) -> list[web.RouteDef]:
        """What hubs call, for the node's HTTP port."""
        return self._pushes.routes()

    def _interval_given(self, channel: Channel) -> None:
        self._keeping.changed(channel.url)
        with suppress(ChannelRefused):  # not polled yet: it is added with its interval
            self._poller.set_interval(channel.url, channel.known.interval_us)

    def _forget(self) -> None:
        """Channels that nobody has wanted for long."""
        for url in self._registry.forgettable(now_us=self._clock()):
            self._remove(url)

    def _remove(self, url: str) -> None:
        channel = self._registry.known(url)
        self._announcing.forget(channel)
        self._registry.remove(url)
        self._follow(channel)
        self._keeping.put(sql.end_channel(url))

    # -- what can be known -----------------------------------------------------------------------------------

    def status(self) -> ChannelsStatus:
        """All channels together, at this moment."""
        follower = self._schedule.follower
        version = follower.version if follower is not None else None
        faults = (self._keeping.fault, follower.fault if follower is not None else "")
        polling = self._poller.statistics()
        counts = self._polls.counts
        return ChannelsStatus(
            channels=len(self._registry),
            polled=polling.channels,
            failing=sum(bool(each.problem) and each.polled for each in self._registry),
            subscriptions=self._registry.subscriptions,
            counts=msgspec.structs.replace(counts),
            balanced=counts.balanced and counts.changes == self._polls.told + self._polls.untold,
            published=self._announcing.published,
            handed=self._announcing.handed,
            untold=self._polls.untold,
            contrasted=self._contrasting.done,
            fetching=polling.active,
            due=polling.ready + polling.parked,
            table_version=version.version if version is not None else 0,
            faults=tuple(fault for fault in faults if fault),
        )
