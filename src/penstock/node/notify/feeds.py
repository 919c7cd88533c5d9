"""Atom feeds of the changes of one channel, and of all channels of one subscriber (RFC 4287).

The URL of a feed ends with an unguessable word, because feed readers cannot send a token in a header.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET

from yarl import URL

from penstock.core.channels.difference import html_of
from penstock.errors import ChannelError
from penstock.model.instant import date_of
from penstock.node.access.secret import token
from penstock.node.notify.transport import clean, title_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.subscriptions import ChannelApi

CONTENT_TYPE: Final = "application/atom+xml; charset=utf-8"
CHANNEL_PATH: Final = "/feeds/channel"
USER_PATH: Final = "/feeds/user"
HUB_PATH: Final = "/hub"
"""Paths below the base URL."""


class AtomFeeds:
    """Makes the URLs and the documents of feeds."""

    def __init__(
        self, channels: ChannelApi, *, secret: bytes, base_url: str, entries: int, hub: bool
    ) -> None:
        self._channels = channels
        self._secret = secret
        self._base = base_url.rstrip("/")
        self._entries = entries
        self.hub_url = self._base + HUB_PATH if hub else ""
        """URL of the node's WebSub hub; empty: there is none."""

    # -- URLs ------------------------------------------------------------------------------------------

    def channel_url(self, url: str) -> str:
        """Return the URL of a channel's feed."""
        return self._address(CHANNEL_PATH, "url", url)

    def user_url(self, who: str) -> str:
        """Return the URL of a subscriber's feed."""
        return self._address(USER_PATH, "who", who)

    def _address(self, path: str, name: str, value: str) -> str:
        word = token(self._secret, "feed", name, value)
        return str(URL(f"{self._base}{path}/{word}").with_query({name: value}))

    def known(self, word: str, name: str, value: str) -> bool:
        """Whether the secret word in a URL is right."""
        return hmac.compare_digest(word.encode(), token(self._secret, "feed", name, value).encode())

    def channel_of(self, topic: str) -> str | None:
        """Return the channel whose feed has this URL; None if there is none."""
        try:
            url = URL(topic).query.get("url", "")
            if topic != self.channel_url(url):
                return None
            self._channels.subscribers(url)
        except (ValueError, ChannelError):
            return None
        return url

    # -- documents -------------------------------------------------------------------------------------

    def channel(self, url: str) -> bytes:
        """Make the feed of a channel, with its newest changes."""
        deltas = self._channels.deltas(url, most=self._entries)
        title = next((delta.title for delta in deltas if delta.title), url)
        return self._document(self.channel_url(url), title, deltas, page=url, hub=self.hub_url)

    def user(self, who: str) -> bytes:
        """Make the feed of a subscriber, with the newest changes of all channels that are not paused."""
        urls = [one.url for one in self._channels.subscriptions(who) if not one.paused]
        last = [delta for url in urls for delta in self._channels.deltas(url, most=1)]
        moving = [delta.url for delta in self._newest(last)]  # only these can have one of the newest changes
        deltas = [delta for url in moving for delta in self._channels.deltas(url, most=self._entries)]
        return self._document(self.user_url(who), "What changed", self._newest(deltas))

    def _newest(self, deltas: list[Delta]) -> list[Delta]:
        return sorted(deltas, key=lambda delta: (-delta.at_us, delta.url))[: self._entries]

    def _document(
        self, self_url: str, title: str, deltas: Sequence[Delta], *, page: str = "", hub: str = ""
    ) -> bytes:
        feed = ET.Element("feed", xmlns="http://www.w3.org/2005/Atom")
        _add(feed, "id", self_url)
        _add(feed, "title", title)
        _add(feed, "updated", date_of(max((delta.at_us for delta in deltas), default=0)).isoformat())
        _add(_add(feed, "author"), "name", "Penstock")
        _add(feed, "link", rel="self", href=self_url, type="application/atom+xml")
        if page:
            _add(feed, "link", rel="alternate", href=page)
        if hub:
            _add(feed, "link", rel="hub", href=hub)
        for delta in deltas:
            entry = _add(feed, "entry")
            _add(entry, "id", f"{delta.url}#penstock-{delta.version}")
            _add(entry, "title", title_of(delta))
            _add(entry, "updated", date_of(delta.at_us).isoformat())
            _add(entry, "link", rel="alternate", href=delta.url)
            _add(entry, "content", html_of(delta), type="html")
        return bytes(ET.tostring(feed, encoding="utf-8", xml_declaration=True))


def _add(parent: ET.Element, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    made = ET.SubElement(parent, name, {key: clean(value) for key, value in attributes.items()})
    made.text = None if text is None else clean(text)
    return made
