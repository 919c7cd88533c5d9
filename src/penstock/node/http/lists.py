"""Lists of watched pages over HTTP: imported as OPML or from changedetection.io, exported as OPML."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import msgspec
from aiohttp import web

from penstock import limits
from penstock.core.channels.watch_list import Watch, read_watches
from penstock.errors import ChannelError, RequestRefused
from penstock.node.http.channels.handlers import refused, switched_on
from penstock.node.http.replies import body_of, json_answer
from penstock.node.http.routes import API, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.channels.service import ChannelService


class FeedList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of feeds or pages to poll: one of `opml` and `watches`."""

    opml: str = ""
    """A list of feeds, as feed readers export it."""
    watches: str = ""
    """A list of pages, as changedetection.io exports it (JSON): the backup's url-watches.json, or its API."""
    who: str = ""
    """Subscriber to the feeds; empty: none, they are polled until they are removed."""


class NotImported(msgspec.Struct, frozen=True):
    """A feed of a list that cannot be polled, or something of it that was left out."""

    url: str
    problem: str


class Imported(msgspec.Struct, frozen=True):
    """Result of importing a list of feeds."""

    added: int
    refused: tuple[NotImported, ...]
    left_out: tuple[NotImported, ...] = ()
    """Pages that are polled, but not in all as the list says."""


LIST_ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/channels/export",
        handler="channel_export",
        about="the watched pages as a list of feeds (OPML)",
        media="text/x-opml",
    ),
    Route(
        method="POST",
        path=f"{API}/channels/import",
        handler="channel_import",
        about="watch the feeds of a list (OPML), or the pages of a list of changedetection.io (JSON)",
        body=FeedList,
        answer=(Imported,),
    ),
)

AT_ONCE: Final = 20
"""Feeds of a list added before other tasks may run: a few milliseconds of work."""


class ListHandlers:
    """Answers requests about lists of watched pages."""

    def __init__(self, channels: ChannelService | None, *, changed: Callable[[], None]) -> None:
        self._channels = channels
        self._changed = changed

    async def channel_export(self, _: web.Request) -> web.Response:
        """Answer with all channels as OPML."""
        from penstock.node.notify.opml import write_opml  # noqa: PLC0415  # seldom asked for

        service = switched_on(self._channels)
        feeds: list[tuple[str, str]] = []
        pages: list[tuple[str, str]] = []
        for each in service.channels():
            if each.state != "idle":
                (feeds if each.kind in ("feed", "") else pages).append((each.url, each.title))
        body = write_opml(feeds, title="Channels of a Penstock node", pages=pages)
        return web.Response(body=body, content_type="text/x-opml", charset="utf-8")

    async def channel_import(self, request: web.Request) -> web.Response:
        """Add the feeds of an OPML list, or the pages of a list of changedetection.io."""
        asked = await body_of(request.clone(client_max_size=limits.HTTP_IMPORT_BYTES), FeedList)
        if bool(asked.opml) == bool(asked.watches):
            raise RequestRefused(
                HTTPStatus.UNPROCESSABLE_ENTITY, "give either opml or watches", where="opml, watches"
            )
        watches = await asyncio.to_thread(_listed, asked)
        service = switched_on(self._channels)
        not_added: list[NotImported] = []
        for place in range(0, len(watches), AT_ONCE):
            some = watches[place : place + AT_ONCE]
            outcomes = await asyncio.gather(*(_import(service, watch, asked.who) for watch in some))
            not_added += [one for one in outcomes if one is not None]
        await service.flush()
        self._changed()
        bad = {each.url for each in not_added}
        left_out = tuple(
            NotImported(watch.url, sentence)
            for watch in watches
            if watch.url not in bad
            for sentence in watch.left_out
        )
        return json_answer(Imported(len(watches) - len(not_added), tuple(not_added), left_out))


async def _import(service: ChannelService, watch: Watch, who: str) -> NotImported | None:
    """Add one page of a list; several of them are flushed to disk together."""
    try:
        if who:
            await service.subscribe(who, watch.url)
        if not who or watch.rules or watch.tags or watch.every_s:
            service.add(
                watch.url, rules=watch.rules or None, every_s=watch.every_s or None, tags=watch.tags or None
            )
        if watch.paused:
            service.hold(watch.url, paused=True)
    except ChannelError as error:
        return NotImported(watch.url, str(error))
    return None


def _listed(asked: FeedList) -> list[Watch]:
    """Read a list in a thread: a long one takes a moment."""
    from penstock.node.notify.opml import read_opml  # noqa: PLC0415  # seldom asked for

    try:
        if asked.watches:
            return read_watches(asked.watches.encode(errors="surrogatepass"))
        feeds = read_opml(asked.opml.encode())
    except ChannelError as error:
        raise refused(error, where="watches" if asked.watches else "opml") from None
    return [Watch(url, tags=(), rules={}, every_s=0.0, paused=False, left_out=()) for url in feeds]
