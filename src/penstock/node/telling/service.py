"""Telling people and programs what changed: the outbox, its pace, and the doors, put together."""

from __future__ import annotations

import logging
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from penstock.core.queues import QueueOptions
from penstock.errors import ChannelError, PolicyError
from penstock.model.instant import SECOND_US, to_us
from penstock.node.database import Database
from penstock.node.policies import Policies
from penstock.node.telling import hub as hub_tables
from penstock.node.telling import outbox_rows as outbox_tables
from penstock.node.telling import webhook
from penstock.node.telling.answers import TellingStatus
from penstock.node.telling.commands import Clerk
from penstock.node.telling.feeds import Feeds
from penstock.node.telling.figures import TellingFigures
from penstock.node.telling.outbox import Outbox
from penstock.node.telling.pace import Pace
from penstock.node.telling.routes import Handlers
from penstock.node.telling.secret import own_secret
from penstock.node.telling.sending import Sending
from penstock.node.telling.subscribers import READ, Subscribers
from penstock.node.telling.writing import Writing
from penstock.node.web.clock import wall_us
from penstock.node.web.post import Poster
from penstock.policy.fast import Plan
from penstock.policy.read import parse

if TYPE_CHECKING:
    from pathlib import Path

    from aiohttp import web

    from penstock.core.channels.delta import Delta
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant
    from penstock.node.config import Config
    from penstock.node.database import Row
    from penstock.node.telling.door import Door
    from penstock.node.telling.hub import HubDoor
    from penstock.node.telling.outbox_statistics import OutboxStatistics
    from penstock.node.web.desk import Desk, Subscribed

log = logging.getLogger(__name__)

STORE: Final = "telling.sqlite"
"""Its name in a node's data folder."""

SCHEMA: Final = 1
"""Of the file; another one is refused."""


class Telling:
    """Implements Told for the channels; `start`, and at the end `close`."""

    def __init__(self, desk: Desk, config: Config, data: Path | None) -> None:
        """Open the store and make the doors; what cannot work is a NodeError or a MissingTool."""
        settings = config.telling
        self.desk = desk
        self._secret = own_secret(data)
        self._policies = Policies(config)
        self._default = Plan(parse(f"levels: [{{keep: {{latest: {max(1, settings.queue_events // 2)}}}}}]"))
        """For subscriptions without a policy: the newest half is told one by one."""
        self._store = Database(
            None if data is None else data / STORE,
            (*outbox_tables.TABLES, *hub_tables.TABLES),
            schema=SCHEMA,
        )
        self._poster = Poster(networks=settings.networks, contact=config.web.polling.contact)
        self.feeds = self._feeds(config)
        self.hub: HubDoor | None = None
        self._doors: dict[str, Door] = {}
        self._shut: set[str] = set()
        """Kinds of subscribers that were not told, because their way was switched off."""
        try:
            self._make_doors(config)
        except BaseException:
            self._store.close()
            raise
        options = QueueOptions(capacity_events=settings.queue_events, capacity_bytes=settings.queue_bytes)
        self._outbox = Outbox(self._plan, options)
        self._sending = Sending(
            self._outbox,
            self._doors,
            pace=Pace(interval_us=round(60 * SECOND_US / settings.per_minute), burst=settings.burst),
            dice=Random(),  # noqa: S311  # of pauses
            give_up_us=to_us(settings.give_up_s),
            over=self._over,
        )
        kinds = (*self._doors, *(READ if self.feeds is not None else ()))
        self._subscribers = Subscribers(settings, kinds, self._poster)
        self._writing: Writing | None = None
        self.handlers = Handlers(self)

    def _feeds(self, config: Config) -> Feeds | None:
        settings = config.telling
        if not (settings.feeds.enabled or settings.hub.enabled):
            return None
        return Feeds(
            self.desk,
            secret=self._secret,
            base_url=base_url(config),
            entries=settings.feeds.entries,
            hub=settings.hub.enabled,
        )

    def _make_doors(self, config: Config) -> None:
        settings = config.telling
        if settings.webhook.enabled:
            self._doors["webhook"] = webhook.WebhookDoor(self._poster, secret=self._secret)
        if settings.hub.enabled and self.feeds is not None:
            self.hub = hub_tables.HubDoor(
                self.desk,
                self.feeds,
                self._poster,
                settings.hub,
                leases=self._store.rows(hub_tables.LOAD),
                note=self._note,
            )
            self._doors["hub"] = self.hub
        if settings.apprise.targets:
            from penstock.node.telling.apprise import AppriseDoor  # noqa: PLC0415  # a library of its own

            self._doors["apprise"] = AppriseDoor(settings.apprise)
        if settings.xmpp.jid:
            from penstock.node.telling.xmpp import XmppDoor  # noqa: PLC0415  # the same

            clerk = Clerk(self.desk, feed_of=self.feed_of)
            self._doors["xmpp"] = XmppDoor(
                settings.xmpp,
                answer=clerk.answer,
                wake=self._wake,
                returned=self._returned,
                waiting=lambda: [who for who in self._outbox.waiting() if who.startswith("xmpp:")],
                dice=Random(),  # noqa: S311  # of pauses
            )

    async def start(self) -> None:
        """Take up what still waits, and open the doors."""
        self._writing = Writing(self._outbox, self._store)
        for door in self._doors.values():
            await door.start()
        for who in list(self._outbox.waiting()):
            self._sending.wake(who)

    async def close(self) -> None:
        """Close the doors; what waits is on disk."""
        await self._sending.close()
        for door in self._doors.values():
            await door.close()
        if self._writing is not None:
            await self._writing.close()
        await self._poster.close()
        self._store.close()

    def reconfigure(self, config: Config) -> None:
        """Other registered policies; the rest takes effect at the next start."""
        self._policies.reconfigure(config)

    def routes(self) -> list[web.RouteDef]:
        """For the node's HTTP port."""
        return self.handlers.routes()

    # -- told by the channels ----------------------------------------------------------------------------

    def tell(self, subscribed: Subscribed, delta: Delta, *, now_us: Instant, again: bool = False) -> None:
        """Take a delta for one subscriber; it is queued, bounded, and sent when they can be reached."""
        kind = subscribed.who.partition(":")[0]
        if kind in READ:
            return
        if kind not in self._doors:
            if kind not in self._shut:
                self._shut.add(kind)
                log.warning("subscribers called %s:… are not told: `telling` has no such way any more", kind)
            return
        if not (again and self._outbox.holds(subscribed.who, delta)):
            self._outbox.put(subscribed, delta, now_us=now_us)
        self._sending.wake(subscribed.who)

    async def safe(self) -> None:
        """Return when everything told so far is on disk, or sent."""
        assert self._writing is not None, "start comes first"
        await self._writing.safe()

    def forget(self, who: str, url: str) -> None:
        """A subscription ended: nothing of it is sent any more."""
        self._outbox.forget(who, url)
        if self.hub is not None and who.startswith("hub:"):
            self.hub.forgotten(who, url)
        if all(one.url == url for one in self.desk.subscriptions(who)):
            self._outbox.drop(who)
            self._sending.forget(who)

    def released(self, who: str, url: str) -> None:
        """A subscription is paused no more: what came meanwhile is told by one digest."""
        self._outbox.release(who, url, now_us=wall_us())
        self._sending.wake(who)

    def _note(self, row: Row) -> None:
        assert self._writing is not None, "start comes first"
        self._writing.note(row)

    def _wake(self, who: str) -> None:
        self._sending.wake(who)

    def _returned(self, who: str, what: Delta | Digest, reason: str) -> None:
        if any(True for _ in self.desk.subscriptions(who)):
            self._sending.returned(who, what, reason)

    async def _over(self, who: str, url: str) -> None:
        for one in list(self.desk.subscriptions(who)):
            if not url or one.url == url:
                with suppress(ChannelError):
                    await self.desk.unsubscribe(who, one.url)
        if url:
            self._outbox.forget(who, url)
        else:
            self._outbox.drop(who)

    def _plan(self, policy: str) -> Plan:
        if not policy:
            return self._default
        try:
            return self._policies.asked(policy).plan or self._default
        except PolicyError as error:
            log.warning(
                "a subscriber's policy cannot be used any more, the newest are told instead: %s", error
            )
            return self._default

    # -- what can be asked -------------------------------------------------------------------------------

    def check(self, who: str) -> str:
        """A subscriber's name in its one spelling; ChannelError if nobody of that name can be told."""
        return self._subscribers.check(who)

    def feed_of(self, who: str) -> str:
        """The address of a subscriber's feed; empty if there are no feeds."""
        return "" if self.feeds is None else self.feeds.user_url(who)

    def webhook_key(self, target: str) -> str:
        """The key of a webhook's receiver, as its libraries expect it."""
        return webhook.key_text(webhook.key_of(self._secret, target))

    def statistics(self) -> OutboxStatistics:
        """What was told and what waits; `conserved` says whether every change is accounted for."""
        return self._outbox.statistics()

    def figures(self) -> TellingFigures:
        """The same for the node's status."""
        return TellingFigures(**self.statistics()._asdict(), failing=self._sending.failing)

    def status(self) -> TellingStatus:
        """The same with how the doors stand."""
        return TellingStatus(
            **self.statistics()._asdict(),
            fault=self._writing.fault if self._writing is not None else "",
            sending=self._sending.statistics(),
            doors={kind: door.statistics() for kind, door in self._doors.items()},
        )


def base_url(config: Config) -> str:
    """Where others reach the node's HTTP port, as far as the configuration says."""
    if config.telling.base_url:
        return config.telling.base_url
    host = f"[{config.http.host}]" if ":" in config.http.host else config.http.host
    return f"http://{host}:{config.http.port}"
