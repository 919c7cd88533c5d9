"""A WebSub hub for the node's own feeds (W3C Recommendation of 23 January 2018).

Who subscribes is asked first whether it meant it (verification of intent), gets a lease, and is then sent the
feed whenever the channel changes, signed with the secret it gave.
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
from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US
from penstock.node.http.problems import Refused
from penstock.node.telling.door import Later, Outcome, Over, Parcel, Reached, shown
from penstock.node.telling.feeds import CONTENT_TYPE
from penstock.node.telling.hub_intent import intent_of
from penstock.node.telling.webhook import GONE
from penstock.node.web.clock import wall_us

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from penstock.model.instant import Instant
    from penstock.node.database import Row
    from penstock.node.telling.feeds import Feeds
    from penstock.node.telling.hub_intent import Intent
    from penstock.node.telling.settings import Hub as Settings
    from penstock.node.web.desk import Desk
    from penstock.node.web.post import Poster

log = logging.getLogger(__name__)

TABLES: Final = (
    """CREATE TABLE lease (callback TEXT, url TEXT, secret TEXT NOT NULL, until_us INTEGER NOT NULL,
    PRIMARY KEY (callback, url)) WITHOUT ROWID""",
)
LOAD: Final = "SELECT callback, url, secret, until_us FROM lease"
_PUT: Final = "INSERT OR REPLACE INTO lease VALUES (?, ?, ?, ?)"
_END: Final = "DELETE FROM lease WHERE callback = ? AND url = ?"

SWEEP_S: Final = 60.0
"""Between looks for leases that have run out."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A verified subscription."""

    secret: str
    until_us: Instant


class HubDoor:
    """Takes subscriptions, and sends to those that subscribed, who are called hub:CALLBACK."""

    def __init__(
        self,
        desk: Desk,
        feeds: Feeds,
        poster: Poster,
        settings: Settings,
        *,
        leases: Iterable[tuple[str, str, str, Instant]],
        note: Callable[[Row], None],
    ) -> None:
        self._desk = desk
        self._feeds = feeds
        self._poster = poster
        self._settings = settings
        self._note = note
        """Takes what is to be written down."""
        self._leases: dict[str, dict[str, Lease]] = {}
        for callback, url, secret, until_us in leases:
            self._leases.setdefault(callback, {})[url] = Lease(secret, until_us)
        self._asking: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(limits.HUB_VERIFICATIONS)
        self._sweeping: asyncio.Task[None] | None = None
        self.sent = self.refused = self.unverified = 0

    async def start(self) -> None:
        """Look for leases that run out."""
        self._sweeping = asyncio.create_task(self._sweep())

    async def close(self) -> None:
        """Ask nobody any more."""
        tasks = [*self._asking, *([self._sweeping] if self._sweeping is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- subscribing -------------------------------------------------------------------------------------

    def take(self, form: Mapping[str, str]) -> None:
        """Accept a request, to be verified; Refused says what is wrong with it."""
        intent = intent_of(form, self._feeds, self._poster, lease_s=self._settings.lease_s)
        if len(self._asking) >= limits.HUB_WAITING:
            raise Refused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "too many subscriptions are being verified; come again",
                headers={"Retry-After": "60"},
            )
        task = asyncio.create_task(self._verify(intent))
        self._asking.add(task)
        task.add_done_callback(self._asked)

    def _asked(self, task: asyncio.Task[None]) -> None:
        self._asking.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a bug: a subscription at the hub is not verified", exc_info=error)

    async def _verify(self, intent: Intent) -> None:
        """Ask the callback whether it meant it."""
        challenge = secrets.token_urlsafe(24)
        query = {
            "hub.mode": intent.mode,
            "hub.topic": self._feeds.channel_url(intent.url),
            "hub.challenge": challenge,
        }
        if intent.mode == "subscribe":
            query["hub.lease_seconds"] = str(intent.lease_s)
        async with self._room:
            posted = await self._poster.get(intent.callback, query)
        if not posted.ok or not hmac.compare_digest(posted.body.strip(), challenge.encode()):
            self.unverified += 1
            said = "the challenge did not come back" if posted.ok else posted.sentence()
            who = shown(f"hub:{intent.callback}")
            log.info("%s did not confirm to %s: %s", who, intent.mode, said)
        elif intent.mode == "subscribe":
            await self._subscribed(intent)
        else:
            await self._end(intent.callback, intent.url)

    async def _subscribed(self, intent: Intent) -> None:
        if intent.url not in self._leases.get(intent.callback, {}):
            if sum(map(len, self._leases.values())) >= self._settings.subscriptions:
                await self._deny(intent, "this hub has no room for one subscription more")
                return
            try:
                await self._desk.subscribe(f"hub:{intent.callback}", intent.url)
            except ChannelError as error:
                await self._deny(intent, str(error))
                return
        lease = Lease(intent.secret, wall_us() + intent.lease_s * SECOND_US)
        self._leases.setdefault(intent.callback, {})[intent.url] = lease
        self._note((_PUT, (intent.callback, intent.url, lease.secret, lease.until_us)))

    async def _deny(self, intent: Intent, reason: str) -> None:
        topic = self._feeds.channel_url(intent.url)
        query = {"hub.mode": "denied", "hub.topic": topic, "hub.reason": reason}
        async with self._room:
            await self._poster.get(intent.callback, query)

    async def _end(self, callback: str, url: str) -> None:
        if self._forget(callback, url):
            with suppress(ChannelError):
                await self._desk.unsubscribe(f"hub:{callback}", url)

    def _forget(self, callback: str, url: str) -> bool:
        found = self._leases.get(callback, {}).pop(url, None)
        if not self._leases.get(callback, True):
            del self._leases[callback]
        if found is not None:
            self._note((_END, (callback, url)))
        return found is not None

    def forgotten(self, who: str, url: str) -> None:
        """The desk ended a subscription."""
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

    # -- sending -----------------------------------------------------------------------------------------

    def away(self, who: str) -> bool:  # noqa: ARG002
        """Nobody knows before the request."""
        return False

    async def send(self, parcel: Parcel) -> Outcome:
        """The feed as it is now; in place of a digest, every feed that the subscriber has."""
        leases = self._leases.get(parcel.address, {})
        urls = [parcel.what.url] if isinstance(parcel.what, Delta) else list(leases)
        for url in urls:
            lease = leases.get(url)
            if lease is None or lease.until_us <= parcel.at_us:
                self._forget(parcel.address, url)
                return Over("its lease has run out", url)
            outcome = await self._send(parcel, url, lease)
            if not isinstance(outcome, Reached):
                return outcome
        return Reached()

    async def _send(self, parcel: Parcel, url: str, lease: Lease) -> Outcome:
        body = self._feeds.channel(url)
        links = f'<{self._feeds.hub_url}>; rel="hub", <{self._feeds.channel_url(url)}>; rel="self"'
        headers = {"Content-Type": CONTENT_TYPE, "Link": links}
        if lease.secret:
            mac = hmac.digest(lease.secret.encode(), body, "sha256").hex()
            headers["X-Hub-Signature"] = f"sha256={mac}"
        posted = await self._poster.post(parcel.address, body, headers)
        if posted.ok:
            self.sent += 1
            return Reached()
        self.refused += 1
        if posted.status == GONE:
            self._forget(parcel.address, url)
            return Over("it answered 410 Gone", url)
        return Later(posted.sentence(), posted.retry_after_s(now_us=parcel.at_us))

    def statistics(self) -> dict[str, object]:
        """How it stands."""
        return {
            "leases": sum(map(len, self._leases.values())),
            "verifying": len(self._asking),
            "unverified": self.unverified,
            "sent": self.sent,
            "refused": self.refused,
        }
