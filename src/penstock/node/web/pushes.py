"""Pages whose hub tells us of changes (WebSub): subscribed to where one is named, polled seldom meanwhile."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from penstock import limits
from penstock.errors import ChannelRefused
from penstock.node.telling.secret import own_secret
from penstock.node.web.hubs import Hub, discovered
from penstock.node.web.post import Poster
from penstock.node.web.websub import WebSub

if TYPE_CHECKING:
    from asyncio import Task

    from aiohttp import web

    from penstock.core.channels.difference import Content
    from penstock.node.config import Config
    from penstock.node.web.channel import Channel
    from penstock.node.web.hosts import Hosts
    from penstock.node.web.hub_standing import Lease

log = logging.getLogger(__name__)

OnPush: TypeAlias = Callable[[str, bytes, str], "Task[None] | None"]
"""Takes a channel's URL, its new content and the content type; None: nobody wants it any more."""


class Pushes:
    """The subscriber at hubs, if the node can be reached by them."""

    def __init__(
        self, config: Config, hosts: Hosts, *, on_push: OnPush, keep: Callable[[str, Lease], None]
    ) -> None:
        """`keep` takes what is to be known of a channel's hub after a restart."""
        self._hosts = hosts
        self._on_push = on_push
        self._waiting: Counter[str] = Counter()
        """Pushed pages that are not compared yet, by channel."""
        self._websub: WebSub | None = None
        base_url = config.telling.base_url
        if not base_url or not config.web.websub:
            return
        polling = config.web.polling
        self._poster = Poster(networks=polling.networks, contact=polling.contact)
        secret = own_secret(Path(config.data) if config.data else None)
        self._websub = WebSub(self._poster, base_url=base_url, secret=secret, on_push=self._take, keep=keep)

    def start(self) -> None:
        """Ask hubs from now on."""
        if self._websub is not None:
            self._websub.start()

    async def close(self) -> None:
        """Ask no more; leases run on."""
        if self._websub is not None:
            await self._websub.close()
            await self._poster.close()

    def routes(self) -> list[web.RouteDef]:
        """What hubs call, for the node's HTTP port."""
        return [] if self._websub is None else self._websub.routes()

    def _take(self, url: str, data: bytes, content_type: str) -> bool:
        """A hub sent what is new on a page; whether there is room for it."""
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
        """A page was fetched, with its Link header: it names a hub, or none."""
        if self._websub is not None:
            if changed:
                self._websub.missed(channel.url)
            hub = self._allowed(
                discovered(url=channel.url, link=link, hub=content.hub, self_url=content.self_url)
            )
            known = channel.known
            found = (hub.url, hub.topic) if hub is not None else ("", "")
            if found != (known.hub, known.hub_topic):
                known.hub, known.hub_topic = found
                known.hub_lease = None
            self._websub.found(channel.url, hub if channel.polled else None)

    def _allowed(self, hub: Hub | None) -> Hub | None:
        """A page may name any hub; the operator's lists of hosts are about those as well."""
        try:
            if hub is not None:
                self._hosts.check(hub.url)
        except ChannelRefused as error:
            log.debug("a hub is not asked: %s", error)
            return None
        return hub

    def follow(self, channel: Channel) -> None:
        """A channel is polled, or is not any more."""
        known = channel.known
        if self._websub is None:
            return
        hub = self._allowed(Hub(known.hub, known.hub_topic) if known.hub else None)
        if channel.polled and hub is not None:
            self._websub.found(channel.url, hub, known.hub_lease)
        else:
            known.hub_lease = None
            self._websub.forget(channel.url)

    def active(self, url: str) -> bool:
        """Whether a hub would tell us of a change."""
        return self._websub is not None and self._websub.active(url)

    def why(self, url: str) -> str:
        """How it stands with the hub of a page; empty if it names none."""
        standing = self._websub.standing(url) if self._websub is not None else None
        if standing is None:
            return ""
        if self.active(url):
            return f"Its hub {standing.hub.url} sends changes, so polls are only a back-up."
        if standing.doubt:
            return f"Its hub {standing.hub.url} is not relied on: {standing.doubt}."
        reason = f": {standing.reason}" if standing.reason else ""
        return f"Its hub {standing.hub.url} does not send changes yet ({standing.state}{reason})."
