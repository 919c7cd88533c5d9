"""Compares a body with the stored version of its page, and writes rows to the store, in one thread.

`Comparer` handles one page at a time, so each body is compared with what the one before it left, and
fetching waits while the disk takes nothing. `ChannelWriter` collects facts and subscriptions and writes
them every few seconds through the same thread.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.channels.difference import FeedItem, Versions, VersionsState, read
from penstock.errors import ChannelError, StoreError
from penstock.node.channels import store as sql

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.core.channels.delta import Delta
    from penstock.core.channels.difference import Content, Rules
    from penstock.model.instant import Instant
    from penstock.node.channels.channel import Channel
    from penstock.node.channels.store import ChannelStore
    from penstock.node.store.database import Row

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
    """The thread, and the store it writes to."""

    def __init__(self, store: ChannelStore, *, history: int) -> None:
        self._store = store
        self._history = history
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="web")
        self.one = asyncio.Lock()
        """Held from reading the last version until the next one is written."""
        self.fault = ""
        """Why nothing can be written; empty if it can."""

    async def look(
        self, url: str, rules: Rules, body: PageBody, *, beside: PageBody | None = None, now_us: Instant
    ) -> Comparison:
        """What changed; `beside` was fetched at the same moment: what differs is noise. Hold `one` meanwhile.

        ChannelError says why the body cannot be read.
        """
        work = partial(self._look, url, rules, body, beside, now_us)
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

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

    async def write(self, rows: Callable[[], Sequence[Row]]) -> None:
        """Have rows on disk; while that cannot be, it is tried again, with the rows as they are then."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await loop.run_in_executor(self._thread, self._store.write, rows())
            except StoreError as error:
                if not self.fault:
                    log.error("%s; web channels wait for it", error)  # noqa: TRY400
                self.fault = str(error)
                await asyncio.sleep(limits.JOURNAL_RETRY_S)
            else:
                if self.fault:
                    log.warning("%s: can be written to again", self._store.path)
                self.fault = ""
                return

    async def told(self, delta: Delta) -> None:
        """Have on disk that everybody was told; older changes of the channel may go."""
        await self.write(lambda: sql.told(delta, history=self._history))

    def close(self) -> None:
        """No more; what the thread has in hand it finishes."""
        self._thread.shutdown()


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


class ChannelWriter:
    """Collects, and writes once in a while: a crash costs the last seconds of counts and intervals."""

    def __init__(
        self,
        comparing: Comparer,
        *,
        channel: Callable[[str], Channel | None],
        beside: Callable[[], Iterable[Row]],
    ) -> None:
        """`beside` gives what else has changed since it was asked last."""
        self._comparing = comparing
        self._channel = channel
        self._beside = beside
        self._rows: list[Row] = []
        self._changed: dict[str, None] = {}
        self._noted = self._safe = 0
        """Things to be written so far, and those of them that are on disk."""

    def put(self, rows: Iterable[Row]) -> None:
        """Something to be written."""
        before = len(self._rows)
        self._rows += rows
        self._noted += len(self._rows) - before

    def changed(self, url: str) -> None:
        """A channel's facts have to be written some time."""
        self._changed[url] = None
        self._noted += 1

    def written(self, url: str) -> None:
        """They were, meanwhile."""
        self._changed.pop(url, None)

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            await asyncio.sleep(limits.CHANNEL_WRITE_S)
            await self.write()

    async def write(self) -> None:
        """Have on disk what has changed so far; who waits meanwhile finds it done."""
        self.put(self._beside())
        noted = self._noted
        if self._safe >= noted:
            return
        async with self._comparing.one:
            if self._safe >= noted:
                return
            safe, count = self._noted, len(self._rows)
            changed, self._changed = self._changed, {}
            try:
                await self._comparing.write(lambda: [*self._rows[:count], *self._facts(changed)])
            except BaseException:
                self._changed = changed | self._changed
                raise
            del self._rows[:count]
            self._safe = safe

    def _facts(self, urls: Iterable[str]) -> Iterator[Row]:
        """As they are now."""
        for url in urls:
            channel = self._channel(url)
            if channel is not None:
                yield sql.put_channel(url, channel.known)
