"""Compares the body of a page with the stored version of the page, in the thread of the channels' writer.

One page is handled at a time, so each body is compared with what the one before it left, and fetching waits
while the disk refuses.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.channels.difference import FeedItem, Versions, VersionsState, read
from penstock.errors import ChannelError

if TYPE_CHECKING:
    from penstock.core.channels.delta import Delta
    from penstock.core.channels.difference import Content, Rules
    from penstock.model.instant import Instant
    from penstock.node.channels.store import ChannelStore
    from penstock.node.channels.writer import ChannelWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PageBody:
    """What a page was when it was fetched."""

    data: bytes
    content_type: str
    partial: bool = False
    """Only the new items of a feed: the others are not gone."""
    link: str | None = None
    """The Link header of the answer; None: it is no answer of the page's own server."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a body was found to be."""

    rules: Rules
    """By which it was read."""
    content: Content
    state: VersionsState
    version: int
    delta: Delta | None
    """None: no change."""
    first: bool
    """Nothing could be compared: the first version."""


class Comparer:
    """Reads stored versions of pages and compares bodies with them."""

    def __init__(self, store: ChannelStore, writer: ChannelWriter) -> None:
        self._store = store
        self._writer = writer
        self.one = asyncio.Lock()
        """Held from reading the last version until the next one is written."""

    async def look(
        self, url: str, rules: Rules, body: PageBody, *, beside: PageBody | None = None, now_us: Instant
    ) -> Comparison:
        """What changed; `beside` was fetched at the same moment: what differs is noise. Hold `one` meanwhile.

        ChannelError says why the body cannot be read.
        """
        work = partial(self._look, url, rules, body, beside, now_us)
        return await self._writer.run(work)

    def _look(
        self, url: str, rules: Rules, body: PageBody, beside: PageBody | None, now_us: Instant
    ) -> Comparison:
        def content_of(found: PageBody) -> Content:
            return read(found.data, content_type=found.content_type, url=url, rules=rules)

        content = content_of(body)
        state = self._store.version(url, rules, VersionsState)
        if body.partial and state is not None:
            content = _completed(content, state)
        versions = Versions(url, rules, state=state)
        if beside is not None:
            try:
                versions.contrast(content, content_of(beside))
            except ChannelError as error:
                log.debug("%s: nothing is learned from a second fetch: %s", url, error)
        first = versions.version == 0
        delta = versions.receive(content, now_us=now_us)
        return Comparison(rules, content, versions.state(), versions.version, None if first else delta, first)


def _completed(content: Content, state: VersionsState) -> Content:
    """New items of a feed with the known ones behind them, as if the whole feed had come."""
    come = {item.id for item in content.items}
    rest = [
        FeedItem(mark.id, mark.title, mark.link, tuple(mark.lines(state.lines)), mark.published_us)
        for mark in state.marks
        if mark.id not in come
    ]
    items = (*content.items, *rest)[: limits.PARTIAL_ITEMS]
    lines = tuple(line for item in items for line in item.lines)
    return msgspec.structs.replace(content, items=items, lines=lines, places=("item",) * len(lines))
