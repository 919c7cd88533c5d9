"""The service of notifications: outbox, dispatcher and transports put together.

`NotifyService` implements `Notifier` for channels; `node/http/notify.py` answers HTTP requests with it.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Final

from msgspec.structs import asdict

from penstock import limits
from penstock.core.channels.delta import Change, Delta
from penstock.core.queues import QueueOptions
from penstock.errors import ChannelError, ChannelRefused, PolicyError, StoreError
from penstock.model.instant import SECOND_US, to_us
from penstock.node.access.rate import RateLimits
from penstock.node.access.secret import own_secret
from penstock.node.broker.policies import Policies
from penstock.node.clock import wall_us
from penstock.node.notify import subscriber_queue as outbox_tables
from penstock.node.notify import webhook
from penstock.node.notify import websub_hub as hub_tables
from penstock.node.notify.commands import ChatCommands
from penstock.node.notify.dispatch import Dispatcher
from penstock.node.notify.feeds import AtomFeeds
from penstock.node.notify.outbox import Outbox
from penstock.node.notify.status import NotifyFigures, NotifyStatus
from penstock.node.notify.subscribers import PULL_KINDS, SubscriberNames
from penstock.node.notify.transport import Delivered, Notification, redacted
from penstock.node.notify.writer import OutboxWriter
from penstock.node.outbound.post import Poster
from penstock.node.store.database import Database
from penstock.policy.columns import Plan
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.core.channels.subscriptions import ChannelApi, ChannelSubscription
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant
    from penstock.node.config.schema import Config
    from penstock.node.notify.status import OutboxStatistics
    from penstock.node.notify.transport import Transport
    from penstock.node.notify.websub_hub import WebSubHub
    from penstock.node.store.database import Row


log = logging.getLogger(__name__)

STORE: Final = "notify.sqlite"
"""Name of the outbox in a node's data folder."""

OLD_STORE: Final = "telling.sqlite"
"""Name that the outbox had before; a file of this name is renamed when the node starts."""

SCHEMA: Final = 1
"""Version of the file; another one is refused."""


class NotifyService:
    """Implements `Notifier` for channels. `start` it, and `close` it at the end."""

    def __init__(self, channels: ChannelApi, config: Config, data: Path | None) -> None:
        """Open the store and make the transports; NodeError or MissingTool says why that fails."""
        settings = config.notify
        self.channels = channels
        self._secret = own_secret(data)
        self._policies = Policies(config)
        self._default = Plan(parse(f"levels: [{{keep: {{latest: {max(1, settings.queue_events // 2)}}}}}]"))
        """Plan of subscriptions without a policy: the newest half of a full queue is sent one by one."""
        self._store = Database(
            None if data is None else store_file(data),
            (*outbox_tables.TABLES, *hub_tables.TABLES),
            schema=SCHEMA,
        )
        self._poster = Poster(networks=settings.networks, contact=config.http.contact)
        self.feeds = self._feeds(config)
        self.hub: WebSubHub | None = None
        self._transports: dict[str, Transport] = {}
        self._shut: set[str] = set()
        """Transports that are no longer configured although they have subscribers; each is logged once."""
        try:
            self._make_transports(config)
        except BaseException:
            self._store.close()
            raise
        options = QueueOptions(
            capacity_events=settings.queue_events, capacity_bytes=settings.queue_bytes, digests_at_once=True
        )
        self._outbox = Outbox(self._plan, options)
        self._sending = Dispatcher(
            self._outbox,
            self._transports,
            pace=RateLimits(
                interval_us=round(60 * SECOND_US / settings.per_minute),
                burst=settings.burst,
                keys=limits.NOTIFY_PACES,
            ),
            dice=Random(),  # noqa: S311  # for pauses between retries
            give_up_us=to_us(settings.give_up_s),
            over=self._over,
        )
        self.kinds = (*self._transports, *(PULL_KINDS if self.feeds is not None else ()))
        """Kinds of subscribers that can be told."""
        self._subscribers = SubscriberNames(settings, self.kinds, self._poster)
        self._writing: OutboxWriter | None = None
        self._testing = asyncio.Lock()
        """Tests are sent one at a time."""

    def _feeds(self, config: Config) -> AtomFeeds | None:
        settings = config.notify
        if not (settings.feeds.enabled or settings.hub.enabled):
            return None
        return AtomFeeds(
            self.channels,
            secret=self._secret,
            base_url=base_url(config),
            entries=settings.feeds.entries,
            hub=settings.hub.enabled,
        )

    def _make_transports(self, config: Config) -> None:
        settings = config.notify
        if settings.webhook.enabled:
            self._transports["webhook"] = webhook.WebhookTransport(self._poster, secret=self._secret)
        if settings.hub.enabled and self.feeds is not None:
            self.hub = hub_tables.WebSubHub(
                self.channels,
                self.feeds,
                self._poster,
                settings.hub,
                leases=self._store.rows(hub_tables.LOAD),
                note=self._note,
            )
            self._transports["hub"] = self.hub
        if settings.apprise.targets:
            from penstock.node.notify.apprise import AppriseTransport  # noqa: PLC0415  # a library of its own

            self._transports["apprise"] = AppriseTransport(settings.apprise)
        if settings.xmpp.jid:
            from penstock.node.notify.xmpp import XmppTransport  # noqa: PLC0415  # a library of its own

            commands = ChatCommands(self.channels, feed_of=self.feed_of)
            self._transports["xmpp"] = XmppTransport(
                settings.xmpp,
                answer=commands.answer,
                wake=self._wake,
                returned=self._returned,
                waiting=lambda: [who for who in self._outbox.waiting() if who.startswith("xmpp:")],
                dice=Random(),  # noqa: S311  # for pauses between retries
            )

    async def start(self) -> None:
        """Restore what waits, and start the transports."""
        self._writing = OutboxWriter(self._outbox, self._store)
        for transport in self._transports.values():
            await transport.start()
        for who in list(self._outbox.waiting()):
            self._sending.wake(who)

    async def close(self) -> None:
        """Close the transports; what waits stays on disk."""
        await self._sending.close()
        for transport in self._transports.values():
            await transport.close()
        if self._writing is not None:
            await self._writing.close()
        await self._poster.close()
        self._store.close()

    def reconfigure(self, config: Config) -> None:
        """Use other registered policies; other settings take effect at the next start."""
        self._policies.reconfigure(config)

    # -- called by channels ----------------------------------------------------------------------------

    def notify(
        self, subscribed: ChannelSubscription, delta: Delta, *, now_us: Instant, again: bool = False
    ) -> None:
        """Queue a change for one subscriber; it is sent when the subscriber can be reached."""
        kind = subscribed.who.partition(":")[0]
        if kind in PULL_KINDS:
            return
        if kind not in self._transports:
            if kind not in self._shut:
                self._shut.add(kind)
                log.warning("transport %r is no longer configured; its subscribers are not notified", kind)
            return
        if not (again and self._outbox.holds(subscribed.who, delta)):
            self._outbox.put(subscribed, delta, now_us=now_us)
        self._sending.wake(subscribed.who)

    async def flush(self) -> None:
        """Wait until all changes queued so far are on disk or sent."""
        assert self._writing is not None, "start comes first"
        await self._writing.safe()

    def forget(self, who: str, url: str) -> None:
        """Drop what waits for a subscription that ended."""
        self._outbox.forget(who, url)
        if self.hub is not None and who.startswith("hub:"):
            self.hub.forgotten(who, url)
        if all(one.url == url for one in self.channels.subscriptions(who)):
            self._outbox.drop(who)
            self._sending.forget(who)

    def resumed(self, who: str, url: str) -> None:
        """Send changes during a pause as one digest."""
        self._outbox.release(who, url, now_us=wall_us())
        self._sending.wake(who)

    def _note(self, row: Row) -> None:
        assert self._writing is not None, "start comes first"
        self._writing.note(row)

    def _wake(self, who: str) -> None:
        self._sending.wake(who)

    def _returned(self, who: str, what: Delta | Digest, reason: str) -> None:
        if any(True for _ in self.channels.subscriptions(who)):
            self._sending.returned(who, what, reason)

    async def _over(self, who: str, url: str) -> None:
        for one in list(self.channels.subscriptions(who)):
            if not url or one.url == url:
                with suppress(ChannelError):
                    await self.channels.unsubscribe(who, one.url)
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
            log.warning("a subscriber's policy cannot be read, the default policy is used: %s", error)
            return self._default

    # -- status ----------------------------------------------------------------------------------------

    def check(self, who: str) -> str:
        """Return the canonical name of a subscriber; ChannelError if it cannot be notified."""
        return self._subscribers.check(who)

    async def test(self, who: str, *, url: str) -> str:
        """Send a test to somebody who need not be subscribed; return what came of it as a sentence.

        It passes by the outbox: it is sent once, now, and counts nowhere. ChannelError: nobody of that name.
        """
        who = self.check(who)
        kind = who.partition(":")[0]
        transport = self._transports.get(kind)
        if transport is None or kind == "hub":
            raise ChannelRefused(f"'{who}' is not sent to: it fetches {self.feed_of(who) or 'by itself'}")
        if transport.away(who):
            raise ChannelRefused(f"{redacted(who)} is out of reach at the moment, so nothing was sent")
        now_us = wall_us()
        line = "This is a test. If you can read it, changes of pages will reach you."
        delta = Delta(url, now_us, 0, now_us, "text", "A test from Penstock", (Change(0, (), (line,)),))
        async with self._testing:
            outcome = await transport.send(Notification(who, delta, now_us))
        match outcome:
            case Delivered():
                return f"A test was sent to {redacted(who)}."
            case _:
                raise ChannelError(f"the test did not reach {redacted(who)}: {outcome.reason}")

    def feed_of(self, who: str) -> str:
        """Return the URL of a subscriber's feed; empty if there are no feeds."""
        return "" if self.feeds is None else self.feeds.user_url(who)

    def webhook_key(self, target: str) -> str:
        """Return the key of a webhook's receiver in the form that Standard Webhooks libraries read."""
        return webhook.key_text(webhook.key_of(self._secret, target))

    def statistics(self) -> OutboxStatistics:
        """Return what was sent and what waits; `conserved` says whether every change is accounted for."""
        return self._outbox.statistics()

    def figures(self) -> NotifyFigures:
        """Return the numbers for the node's status and metrics."""
        return NotifyFigures(**asdict(self.statistics()), failing=self._sending.failing)

    def status(self) -> NotifyStatus:
        """Return the status for the API, with the state of each transport."""
        return NotifyStatus(
            **asdict(self.statistics()),
            fault=self._writing.fault if self._writing is not None else "",
            sending=self._sending.statistics(),
            transports={kind: transport.statistics() for kind, transport in self._transports.items()},
        )


def store_file(data: Path) -> Path:
    """Return the path of the outbox, after renaming a file with the old name; StoreError if both exist."""
    path, old = data / STORE, data / OLD_STORE
    if not old.exists():
        return path
    if path.exists():
        raise StoreError(
            f"this is the old name of {STORE}, which is there too; move away the file that is not wanted", old
        )
    try:
        # The file itself is last: if the node dies in between, the next start finds it and goes on.
        for suffix in ("-wal", "-shm", ""):
            part = old.with_name(OLD_STORE + suffix)
            if part.exists():
                part.rename(path.with_name(STORE + suffix))
    except OSError as error:
        raise StoreError(f"cannot be renamed to {STORE}: {error}", old) from None
    log.info("%s was renamed to %s", old, STORE)
    return path


def base_url(config: Config) -> str:
    """Return the URL of the node's HTTP port: http.base_url, or else host and port."""
    if config.http.base_url:
        return config.http.base_url
    host = f"[{config.http.host}]" if ":" in config.http.host else config.http.host
    return f"http://{host}:{config.http.port}"
