"""Transport: the WebSub hub of the node's own feeds (W3C Recommendation of 23 January 2018).

The hub checks a request, asks the callback whether it was meant (verification of intent), grants a lease,
and then posts the feed at every change of the channel, signed with the secret of the subscriber.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.core.channels.delta import Delta
from penstock.core.channels.websub import HubFieldError, HubRequest, Verification, link_header, sign
from penstock.errors import BadAddress, ChannelError, RequestRefused
from penstock.model.instant import SECOND_US
from penstock.node.clock import wall_us
from penstock.node.notify.feeds import CONTENT_TYPE
from penstock.node.notify.transport import (
    Delivered,
    Notification,
    RecipientGone,
    RetryLater,
    SendOutcome,
    redacted,
)
from penstock.node.notify.webhook import GONE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.core.channels.subscriptions import ChannelApi
    from penstock.model.instant import Instant
    from penstock.node.config.notify import HubSettings as Settings
    from penstock.node.notify.feeds import AtomFeeds
    from penstock.node.outbound.post import Poster, PostResult
    from penstock.node.store.database import Row

log = logging.getLogger(__name__)

TABLES: Final = (
    """CREATE TABLE lease (callback TEXT, url TEXT, secret TEXT NOT NULL, until_us INTEGER NOT NULL,
    PRIMARY KEY (callback, url)) WITHOUT ROWID""",
)
LOAD: Final = "SELECT callback, url, secret, until_us FROM lease"
_PUT: Final = "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)"
_END: Final = "DELETE FROM lease WHERE callback = ? AND url = ?"

SWEEP_S: Final = 60.0
"""Interval between two searches for expired leases."""


@dataclass(frozen=True, slots=True)
class _Intent:
    """A request that the callback has not confirmed yet."""

    asked: HubRequest
    callback: str
    """Canonical URL of the callback."""
    url: str
    """The channel whose feed is asked for."""


@dataclass(frozen=True, slots=True)
class SubscriberLease:
    """Lease of a verified subscription."""

    secret: str
    until_us: Instant


class WebSubHub:
    """Accepts and verifies subscriptions, and sends feeds to subscribers named hub:CALLBACK."""

    def __init__(
        self,
        channels: ChannelApi,
        feeds: AtomFeeds,
        poster: Poster,
        settings: Settings,
        *,
        leases: Iterable[tuple[str, str, str, Instant]],
        note: Callable[[Row], None],
    ) -> None:
        self._channels = channels
        self._feeds = feeds
        self._poster = poster
        self._settings = settings
        self._note = note
        """Called with rows to store."""
        self._leases: dict[str, dict[str, SubscriberLease]] = {}
        for callback, url, secret, until_us in leases:
            self._leases.setdefault(callback, {})[url] = SubscriberLease(secret, until_us)
        self._asking: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(limits.HUB_VERIFICATIONS)
        self._sweeping: asyncio.Task[None] | None = None
        self.sent = self.refused = self.unverified = 0

    async def start(self) -> None:
        """Begin to end leases that expire."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Stop verifying."""
        tasks = [*self._asking, *([self._sweeping] if self._sweeping is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- subscribing -----------------------------------------------------------------------------------

    def take(self, form: Mapping[str, str]) -> None:
        """Accept a request, to be verified; RequestRefused says what is wrong with it."""
        intent = self._read(form)
        if len(self._asking) >= limits.HUB_WAITING:
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many subscriptions are being verified; come again",
                headers={"Retry-After": "60"},
            )
        task = asyncio.create_task(self._verify(intent))
        self._asking.add(task)
        task.add_done_callback(self._asked)

    def _read(self, form: Mapping[str, str]) -> _Intent:
        try:
            asked = HubRequest.from_form(form)
            callback = self._poster.check(asked.callback)
        except HubFieldError as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error), where=error.field) from None
        except BadAddress as error:
            raise RequestRefused(HTTPStatus.BAD_REQUEST, str(error), where="hub.callback") from None
        url = self._feeds.channel_of(asked.topic)
        if url is None:
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, "is not the address of a feed of this node", where="hub.topic"
            )
        return _Intent(asked, callback, url)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: a subscription at the hub is not verified", exc_info=error)

    async def _verify(self, intent: _Intent) -> None:
        """Ask the callback whether the request was meant (section 5.3)."""
        mode, challenge = intent.asked.mode, secrets.token_urlsafe(24)
        lease_s = intent.asked.granted_s(self._settings.lease_s)
        posted = await self._tell(
            intent,
            Verification(
                mode, intent.asked.topic, challenge, lease_s=lease_s if mode == "subscribe" else None
            ),
        )
        if not posted.ok or not hmac.compare_digest(posted.body.strip(), challenge.encode()):
            self.unverified += 1
            said = "the challenge did not come back" if posted.ok else posted.sentence()
            log.info("%s did not confirm to %s: %s", redacted(f"hub:{intent.callback}"), mode, said)
        elif mode == "subscribe":
            await self._grant(intent, lease_s)
        else:
            await self._end(intent.callback, intent.url)

    async def _grant(self, intent: _Intent, lease_s: int) -> None:
        if intent.url not in self._leases.get(intent.callback, {}):
            if sum(map(len, self._leases.values())) >= self._settings.subscriptions:
                await self._deny(intent, "this hub has no room for one subscription more")
                return
            try:
                await self._channels.subscribe(f"hub:{intent.callback}", intent.url)
            except ChannelError as error:
                await self._deny(intent, str(error))
                return
        lease = SubscriberLease(intent.asked.secret, wall_us() + lease_s * SECOND_US)
        self._leases.setdefault(intent.callback, {})[intent.url] = lease
        self._note((_PUT, (intent.callback, intent.url, lease.secret, lease.until_us)))

    async def _deny(self, intent: _Intent, reason: str) -> None:
        await self._tell(intent, Verification("denied", intent.asked.topic, reason=reason))

    async def _tell(self, intent: _Intent, said: Verification) -> PostResult:
        async with self._room:
            return await self._poster.get(intent.callback, said.to_query())

    async def _end(self, callback: str, url: str) -> None:
        if self._forget(callback, url):
            with suppress(ChannelError):
                await self._channels.unsubscribe(f"hub:{callback}", url)

    def _forget(self, callback: str, url: str) -> bool:
        found = self._leases.get(callback, {}).pop(url, None)
        if not self._leases.get(callback, True):
            del self._leases[callback]
        if found is not None:
            self._note((_END, (callback, url)))
        return found is not None

    def forgotten(self, who: str, url: str) -> None:
        """Forget the lease of a subscription that was ended."""
        self._forget(who.partition(":")[2], url)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now_us = wall_us()
            over = [
                (callback, url)
                for callback, leases in self._leases.items()
                for url, lease in leases.items()
                if lease.until_us <= now_us
            ]
            for callback, url in over:
                await self._end(callback, url)

    # -- sending ---------------------------------------------------------------------------------------

    def away(self, who: str) -> bool:  # noqa: ARG002
        """Return False: whether a callback can be reached shows when sending."""
        return False

    async def send(self, parcel: Notification) -> SendOutcome:
        """Send the feed of the changed channel as it is now; for a digest, every feed of the subscriber."""
        leases = self._leases.get(parcel.address, {})
        urls = [parcel.what.url] if isinstance(parcel.what, Delta) else list(leases)
        for url in urls:
            lease = leases.get(url)
            if lease is None or lease.until_us <= parcel.at_us:
                self._forget(parcel.address, url)
                return RecipientGone("its lease has run out", url)
            outcome = await self._send(parcel, url, lease)
            if not isinstance(outcome, Delivered):
                return outcome
        return Delivered()

    async def _send(self, parcel: Notification, url: str, lease: SubscriberLease) -> SendOutcome:
        body = self._feeds.channel(url)
        links = link_header(self._feeds.hub_url, self._feeds.channel_url(url))
        headers = {"Content-Type": CONTENT_TYPE, "Link": links}
        if lease.secret:
            headers["X-Hub-Signature"] = sign(body, lease.secret)
        posted = await self._poster.post(parcel.address, body, headers)
        if posted.ok:
            self.sent += 1
            return Delivered()
        self.refused += 1
        if posted.status == GONE:
            self._forget(parcel.address, url)
            return RecipientGone("it answered 410 Gone", url)
        return RetryLater(posted.sentence(), posted.retry_after_s(now_us=parcel.at_us))

    def statistics(self) -> dict[str, object]:
        """Return the numbers of leases and requests."""
        return {
            "leases": sum(map(len, self._leases.values())),
            "verifying": len(self._asking),
            "unverified": self.unverified,
            "sent": self.sent,
            "refused": self.refused,
        }
