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
    """Body of a page as it was fetched or pushed."""

    data: bytes
    content_type: str
    partial: bool = False
    """Whether it holds only the new items of a feed; items that are missing still exist."""
    link: str | None = None
    """Link header of the answer; None: the body does not come from the page's own server."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of comparing a body with the stored version."""

    rules: Rules
    """Rules by which the body was read."""
    content: Content
    state: VersionsState
    version: int
    delta: Delta | None
    """None: no change."""
    first: bool
    """Whether this is the first version, with which nothing could be compared."""


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
        """Compare a body while `one` is held. What differs from `beside`, fetched at the same time, is noise.

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
                log.debug("%s: a second fetch cannot be read, so no noise is learned: %s", url, error)
        first = versions.version == 0
        delta = versions.receive(content, now_us=now_us)
        return Comparison(rules, content, versions.state(), versions.version, None if first else delta, first)


def _completed(content: Content, state: VersionsState) -> Content:
    """Append the known items of a feed to its new items, as if the whole feed had been fetched."""
    come = {item.id for item in content.items}
    rest = [
        FeedItem(mark.id, mark.title, mark.link, tuple(mark.lines(state.lines)), mark.published_us)
        for mark in state.marks
        if mark.id not in come
    ]
    items = (*content.items, *rest)[: limits.PARTIAL_ITEMS]
    lines = tuple(line for item in items for line in item.lines)
    return msgspec.structs.replace(content, items=items, lines=lines, places=("item",) * len(lines))
