"""The WebSub subscriber: a hub that a page names pushes changes, and the node polls that page seldom.

The word in a callback URL and the key of the signature are derived from the node's secret and the page, so
a node that restarts renews its subscriptions instead of making new ones. `WebSubPushes` connects the
subscriber with channels and bounds the pushed pages that wait to be compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from penstock import limits
from penstock.core.channels.address import registrable
from penstock.core.channels.websub import (
    FORM_TYPE,
    HubLink,
    HubRequest,
    HubSubscription,
    Verification,
    discover_hub,
    restored_subscription,
    signature_matches,
)
from penstock.errors import ChannelRefused, RequestRefused
from penstock.model.instant import SECOND_US
from penstock.node.access.secret import derived, own_secret, token
from penstock.node.clock import wall_us
from penstock.node.outbound.post import Poster

if TYPE_CHECKING:
    from asyncio import Task
    from collections.abc import Iterable, Mapping

    from penstock.core.channels.difference import Content
    from penstock.core.channels.websub import HubLease
    from penstock.model.instant import Instant
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.registry import HostRules
    from penstock.node.config.schema import Config
    from penstock.node.outbound.post import PostResult

log = logging.getLogger(__name__)

PATH: Final = "/websub"
"""Path below which the callbacks of hubs are."""

LEASE_S: Final = 10 * 86_400
"""Lease asked for; the hub decides."""

OnPush: TypeAlias = Callable[[str, bytes, str], bool]
"""Takes a channel's URL, its new content and the content type; False: too much waits, the hub may retry."""


class WebSubSubscriber:
    """Subscribes to pages at their hubs, and answers what hubs ask."""

    def __init__(
        self,
        poster: Poster,
        *,
        base_url: str,
        secret: bytes,
        on_push: OnPush,
        keep: Callable[[str, HubLease], None] = lambda *_: None,
        now_us: Callable[[], Instant] = wall_us,
    ) -> None:
        """`keep` is called with a channel and its lease whenever that has to be stored."""
        self._poster = poster
        self._base = base_url.rstrip("/")
        self._secret = secret
        self._on_push = on_push
        self._keep = keep
        self._now_us = now_us
        self._channels: dict[str, HubSubscription] = {}
        self._words: dict[str, str] = {}
        """Channels by the last part of their callback URL."""
        self._leaving: dict[str, str] = {}
        """Topics unsubscribed from, by callback, until the hub has verified that."""
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to send requests to hubs."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Stop; leases go on, and are restored at the next start."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    # -- called by channels ----------------------------------------------------------------------------

    def found(self, url: str, hub: HubLink | None, lease: HubLease | None = None) -> None:
        """Subscribe at the hub that a page names, unless that is so already; None: it names none.

        `lease`: what was stored of this hub before a restart.
        """
        known = self._channels.get(url)
        if hub is None:
            if known is not None:
                self.forget(url)
        elif known is None or known.hub != hub:
            self._channels[url] = restored_subscription(hub, lease, base=self._base, now_us=self._now_us())
            self._words[self._word(url)] = url
            self._changed.set()

    def forget(self, url: str) -> None:
        """Unsubscribe from a page that is no longer polled."""
        standing = self._channels.pop(url, None)
        if standing is None:
            return
        word = self._word(url)
        self._words.pop(word, None)
        if standing.state == "active" and len(self._leaving) < limits.HUB_WAITING:
            self._leaving[word] = standing.hub.topic
            task = asyncio.ensure_future(self._post("unsubscribe", url, standing.hub))
            task.add_done_callback(lambda done: done.cancelled() or done.exception())

    def active(self, url: str) -> bool:
        """Whether the hub pushes changes of the page, so that slow back-up polls are enough."""
        standing = self._channels.get(url)
        return standing is not None and standing.active(self._now_us())

    def missed(self, url: str) -> None:
        """Note that a poll found a change: the hub should have pushed it."""
        if self.active(url):
            self._doubt(url, "a poll found a change that it did not send")

    def _doubt(self, url: str, reason: str) -> None:
        standing = self._channels[url]
        if standing.doubt != reason:
            log.info("%s is polled as usual, its hub %s is not relied on: %s", url, standing.hub.url, reason)
        standing.doubt = reason

    def standing(self, url: str) -> HubSubscription | None:
        """Return the state of a channel's subscription; None if its page names no hub."""
        return self._channels.get(url)

    # -- asking hubs -----------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            self._changed.clear()
            now_us = self._now_us()
            due = [url for url, one in self._channels.items() if one.due_us <= now_us]
            await self._ask_all(due)
            next_us = min((one.due_us for one in self._channels.values()), default=now_us + 3_600 * SECOND_US)
            wait_s = min(max(next_us - self._now_us(), 0) / SECOND_US, 3_600.0)
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._changed.wait()

    async def _ask_all(self, urls: list[str]) -> None:
        """Ask hubs one after the other; a hub that does not answer fails for all its pages at once."""
        silent: dict[str, str] = {}
        for url in urls:
            standing = self._channels.get(url)
            if standing is None:
                continue
            who = registrable(standing.hub.url)
            if who in silent:
                self._failed(url, standing, silent[who])
            elif not await self._ask(url, standing):
                silent[who] = standing.reason

    async def _ask(self, url: str, standing: HubSubscription) -> bool:
        """Ask a hub to push one channel; return whether there was any answer."""
        if standing.state != "active":
            standing.state = "asking"
        before_us = standing.due_us
        posted = await self._post("subscribe", url, standing.hub)
        if standing.due_us != before_us or self._channels.get(url) is not standing:
            return True  # verified, denied or given up while the request was on its way
        if posted.ok:
            standing.waits(self._now_us())
            self._store(url, standing)
        else:
            self._failed(url, standing, f"{standing.hub.url}: {posted.sentence()}")
        return posted.status != 0

    async def _post(self, mode: Literal["subscribe", "unsubscribe"], url: str, hub: HubLink) -> PostResult:
        callback = f"{self._base}{PATH}/{self._word(url)}"
        asked = HubRequest(mode, callback, hub.topic, LEASE_S, self._key(url, hub))
        return await self._poster.post(hub.url, asked.to_form(), {"Content-Type": FORM_TYPE})

    def _failed(self, url: str, standing: HubSubscription, reason: str) -> None:
        standing.refused("failed", reason, self._now_us())
        self._store(url, standing)

    def _store(self, url: str, standing: HubSubscription) -> None:
        self._keep(url, standing.lease(self._base))

    def _word(self, url: str) -> str:
        return token(self._secret, "websub", url)

    def _key(self, url: str, hub: HubLink) -> str:
        return derived(self._secret, "websub key", url, hub.url, hub.topic).hex()

    # -- requests of hubs ------------------------------------------------------------------------------

    def verify(self, word: str, query: Mapping[str, str]) -> str:
        """Answer a hub that verifies a request or denies it; return the text to answer with.

        `word` is the last part of the callback URL. RequestRefused: this node did not ask for that.
        """
        asked = Verification.from_query(query)
        if asked.mode == "unsubscribe" and self._leaving.get(word) == asked.topic:
            del self._leaving[word]
            return asked.challenge
        url = self._words.get(word, "")
        standing = self._channels.get(url)
        if standing is None or standing.hub.topic != asked.topic:
            raise RequestRefused(HTTPStatus.NOT_FOUND, "nobody here asked for this", where="hub.topic")
        if asked.mode == "denied":
            standing.refused("denied", asked.reason or "the hub gave no reason", self._now_us())
            self._store(url, standing)
            return ""
        if asked.mode != "subscribe":
            raise RequestRefused(
                HTTPStatus.NOT_FOUND, f"'{asked.mode[:80]}' is not what was asked for", where="hub.mode"
            )
        standing.verified(asked.lease_s or LEASE_S, self._now_us())
        self._store(url, standing)
        self._changed.set()
        return asked.challenge

    def check_push(self, word: str) -> str:
        """Return the URL of the page that a push is about; RequestRefused if it is not subscribed to."""
        url = self._words.get(word, "")
        if url not in self._channels:  # 410 lets the hub end the subscription
            raise RequestRefused(HTTPStatus.GONE, "nobody here is subscribed to this any more")
        return url

    def push(self, word: str, body: bytes, *, content_type: str, signature: str) -> bool:
        """Take new content of a page from its hub; return whether the signature is right.

        RequestRefused: the page is no longer subscribed to, or too many pushes wait.
        """
        url = self.check_push(word)
        standing = self._channels[url]
        if not signature_matches(body, signature, self._key(url, standing.hub)):
            self._doubt(url, "what was sent in its name is not signed as agreed")
            return False
        if not self._on_push(url, body, content_type):
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                "more was pushed than can be taken now; come again",
                headers={"Retry-After": "60"},
            )
        standing.doubt = ""
        return True


OnChannelPush: TypeAlias = Callable[[str, bytes, str], "Task[None] | None"]
"""Takes a channel's URL, its new content and the content type; None: the page is no longer polled."""


class WebSubPushes:
    """Connects channels with the WebSub subscriber, which exists if hubs can reach the node."""

    def __init__(
        self,
        config: Config,
        hosts: HostRules,
        *,
        on_push: OnChannelPush,
        keep: Callable[[str, HubLease], None],
    ) -> None:
        """`keep` stores what a hub agreed to for a channel."""
        self._hosts = hosts
        self._on_push = on_push
        self._waiting: Counter[str] = Counter()
        """Number of pushed contents that are not compared yet, by channel."""
        self._websub: WebSubSubscriber | None = None
        base_url = config.http.base_url
        if not base_url or not config.channels.websub:
            return
        polling = config.channels.polling
        self._poster = Poster(networks=polling.networks, contact=config.http.contact)
        secret = own_secret(Path(config.data) if config.data else None)
        self._websub = WebSubSubscriber(
            self._poster, base_url=base_url, secret=secret, on_push=self._take, keep=keep
        )

    def allow(self, networks: Iterable[str]) -> None:
        """Ask hubs in other networks from now on."""
        if self._websub is not None:
            self._poster.allow(networks)

    def start(self) -> None:
        """Begin to send requests to hubs."""
        if self._websub is not None:
            self._websub.start()

    async def close(self) -> None:
        """Stop; leases go on."""
        if self._websub is not None:
            await self._websub.close()
            await self._poster.close()

    @property
    def subscriber(self) -> WebSubSubscriber | None:
        """Answers what hubs ask; None if no hub is asked for anything."""
        return self._websub

    def _take(self, url: str, data: bytes, content_type: str) -> bool:
        """Take content that a hub pushed; return whether there was room for it."""
        each, total = self._waiting[url], self._waiting.total()
        if each >= limits.WEBSUB_PUSHES_EACH or total >= limits.WEBSUB_PUSHES:
            return False
        task = self._on_push(url, data, content_type)
        if task is not None:
            self._waiting[url] += 1
            task.add_done_callback(lambda _: self._compared(url))
        return True

    def _compared(self, url: str) -> None:
        self._waiting[url] -= 1
        if not self._waiting[url]:
            del self._waiting[url]

    def saw(self, channel: Channel, content: Content, *, link: str, changed: bool) -> None:
        """Use the hub that a fetched page names in its Link header or content."""
        if self._websub is not None:
            if changed:
                self._websub.missed(channel.url)
            hub = self._allowed(
                discover_hub(url=channel.url, link=link, hub=content.hub, self_url=content.self_url)
            )
            known = channel.known
            found = (hub.url, hub.topic) if hub is not None else ("", "")
            if found != (known.hub, known.hub_topic):
                known.hub, known.hub_topic = found
                known.hub_lease = None
            self._websub.found(channel.url, hub if channel.polled else None)

    def _allowed(self, hub: HubLink | None) -> HubLink | None:
        """Return a hub if the operator's host lists allow it, else None."""
        try:
            if hub is not None:
                self._hosts.check(hub.url)
        except ChannelRefused as error:
            log.debug("hub refused: %s", error)
            return None
        return hub

    def follow(self, channel: Channel) -> None:
        """Subscribe to a page that is polled, or unsubscribe from one that no longer is."""
        known = channel.known
        if self._websub is None:
            return
        hub = self._allowed(HubLink(known.hub, known.hub_topic) if known.hub else None)
        if channel.polled and hub is not None:
            self._websub.found(channel.url, hub, known.hub_lease)
        else:
            known.hub_lease = None
            self._websub.forget(channel.url)

    def active(self, url: str) -> bool:
        """Whether a hub pushes changes of the page."""
        return self._websub is not None and self._websub.active(url)

    def why(self, url: str) -> str:
        """Say in a sentence whether the hub of a page pushes changes; empty if it names none."""
        standing = self._websub.standing(url) if self._websub is not None else None
        if standing is None:
            return ""
        if self.active(url):
            return f"Its hub {standing.hub.url} sends changes, so polls are only a back-up."
        if standing.doubt:
            return f"Its hub {standing.hub.url} is not relied on: {standing.doubt}."
        reason = f": {standing.reason}" if standing.reason else ""
        return f"Its hub {standing.hub.url} does not send changes yet ({standing.state}{reason})."
