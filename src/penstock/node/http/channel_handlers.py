"""The API's answers about web channels."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from aiohttp import web

from penstock.errors import ChannelError, ChannelRefused, ChannelsFull
from penstock.node.http import channel_answers as answers
from penstock.node.http.answers import Done
from penstock.node.http.asked import body_of, json_answer, number_of, page_of
from penstock.node.http.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.web.service import Channels

_STATES = ("polled", "failing", "paused", "idle")

AT_ONCE: Final = 20
"""Feeds of a list that are taken without letting others do something: some milliseconds."""


class ChannelHandlers:
    """One method per question."""

    def __init__(self, channels: Channels | None, *, changed: Callable[[], None]) -> None:
        self._channels = channels
        self._changed = changed

    @property
    def _desk(self) -> Channels:
        if self._channels is None:
            raise Refused(
                HTTPStatus.CONFLICT,
                "this node watches no web pages: set web.enabled to true, or use `penstock up --web`",
            )
        return self._channels

    # -- what there is ---------------------------------------------------------------------------------------

    async def channels(self, request: web.Request) -> web.Response:
        """Watched pages."""
        search, state = request.query.get("search", ""), request.query.get("state", "")
        if state and state not in _STATES:
            raise Refused(HTTPStatus.BAD_REQUEST, f"{', '.join(_STATES)}, not '{state}'", where="state")
        offset, limit = page_of(request)
        if self._channels is None:
            return json_answer(answers.ChannelsFound(False, 0, offset, None, ()))
        total, rows = self._channels.find(search=search, state=state, offset=offset, limit=limit)
        return json_answer(answers.ChannelsFound(True, total, offset, self._channels.status(), tuple(rows)))

    async def channel(self, request: web.Request) -> web.Response:
        """One page."""
        return json_answer(self._details(_url(request)))

    def _details(self, url: str) -> answers.ChannelDetails:
        try:
            return answers.ChannelDetails(
                channel=self._desk.channel(url),
                why=tuple(self._desk.why(url).splitlines()),
                rules=self._desk.rules(url),
                subscribers=tuple(
                    answers.Subscriber(each.who, each.policy, each.paused, each.since_us)
                    for each in self._desk.subscribers(url)
                ),
            )
        except ChannelError as error:
            raise _refused(error, where="url") from None

    async def channel_history(self, request: web.Request) -> web.Response:
        """Its changes."""
        most = number_of(request, "limit", default=20, most=1_000)
        try:
            deltas = tuple(self._desk.deltas(_url(request), most=most))
            url = self._desk.channel(_url(request)).url
        except ChannelError as error:
            raise _refused(error, where="url") from None
        return json_answer(answers.ChannelHistory(url, deltas))

    async def channel_export(self, _: web.Request) -> web.Response:
        """As a list of feeds."""
        from penstock.node.telling.opml import write_opml  # noqa: PLC0415  # seldom asked for

        feeds: list[tuple[str, str]] = []
        pages: list[tuple[str, str]] = []
        for each in self._desk.channels():
            if each.state != "idle":
                (feeds if each.kind in ("feed", "") else pages).append((each.url, each.title))
        body = write_opml(feeds, title="Channels of a Penstock node", pages=pages)
        return web.Response(body=body, content_type="text/x-opml", charset="utf-8")

    # -- what can be done ------------------------------------------------------------------------------------

    async def channel_add(self, request: web.Request) -> web.Response:
        """Watch a page, or change how."""
        asked = await body_of(request, answers.NewPage)
        try:
            self._desk.add(asked.url, rules=asked.rules, every_s=asked.every_s)
        except ChannelError as error:
            raise _refused(error, where="rules" if str(error).startswith("rules") else "url") from None
        await self._desk.settle()
        self._changed()
        return json_answer(self._details(asked.url))

    async def channel_remove(self, request: web.Request) -> web.Response:
        """Forget a page."""
        asked = await body_of(request, answers.Page)
        try:
            said = self._desk.remove(asked.url)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        await self._desk.settle()
        self._changed()
        return json_answer(Done(said))

    async def channel_pause(self, request: web.Request) -> web.Response:
        """Poll it no more for now, or again."""
        asked = await body_of(request, answers.PausedPage)
        try:
            self._desk.hold(asked.url, paused=asked.paused)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        await self._desk.settle()
        self._changed()
        return json_answer(self._details(asked.url))

    async def channel_check(self, request: web.Request) -> web.Response:
        """Poll a page now."""
        asked = await body_of(request, answers.Page)
        try:
            said = await self._desk.check_now(asked.url)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_subscribe(self, request: web.Request) -> web.Response:
        """Tell somebody."""
        asked = await body_of(request, answers.SubscriberOf)
        try:
            said = await self._desk.subscribe(asked.who, asked.url, policy=asked.policy)
        except ChannelError as error:
            raise _refused(error, where="who, url, policy") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_unsubscribe(self, request: web.Request) -> web.Response:
        """Tell somebody no more."""
        asked = await body_of(request, answers.SubscriberOf)
        try:
            said = await self._desk.unsubscribe(asked.who, asked.url)
        except ChannelError as error:
            raise _refused(error, where="who, url") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_import(self, request: web.Request) -> web.Response:
        """Watch the feeds of a list."""
        from penstock.node.telling.opml import read_opml  # noqa: PLC0415  # seldom asked for

        asked = await body_of(request, answers.FeedList)
        try:
            urls = read_opml(asked.opml.encode())
        except ChannelError as error:
            raise _refused(error, where="opml") from None
        refused: list[answers.NotImported] = []
        for place in range(0, len(urls), AT_ONCE):
            some = urls[place : place + AT_ONCE]
            outcomes = await asyncio.gather(*(self._import(url, asked.who) for url in some))
            refused += [one for one in outcomes if one is not None]
        await self._desk.settle()
        self._changed()
        return json_answer(answers.Imported(len(urls) - len(refused), tuple(refused)))

    async def _import(self, url: str, who: str) -> answers.NotImported | None:
        """One feed of a list; some of them wait for the disk together."""
        try:
            if who:
                await self._desk.subscribe(who, url)
            else:
                self._desk.add(url)
        except ChannelError as error:
            return answers.NotImported(url, str(error))
        return None


def _url(request: web.Request) -> str:
    url = request.query.get("url", "")
    if not url:
        raise Refused(HTTPStatus.BAD_REQUEST, "which page? name it with ?url=…", where="url")
    return url


def _refused(error: ChannelError, *, where: str) -> Refused:
    match error:
        case ChannelsFull():
            status = HTTPStatus.TOO_MANY_REQUESTS
        case ChannelRefused():
            status = HTTPStatus.FORBIDDEN
        case _:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
    return Refused(status, str(error), where=where)
