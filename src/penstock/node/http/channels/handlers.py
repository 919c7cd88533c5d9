"""Answers requests about channels."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.channels.picking import selectors_of, xpath_of
from penstock.errors import ChannelError, ChannelRefused, ChannelsFull, RequestRefused
from penstock.node.http.answers import Done
from penstock.node.http.channels.routes import (
    ChannelDetails,
    ChannelHistory,
    ChannelLines,
    ChannelsFound,
    NewPage,
    Page,
    PageLine,
    PausedPage,
    RestoredVersion,
    Subscriber,
    SubscriberOf,
    TriedRules,
    UnmutedPlace,
)
from penstock.node.http.replies import body_of, json_answer, number_of, page_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from aiohttp import web

    from penstock.node.channels.service import ChannelService

_STATES = ("polled", "failing", "paused", "idle")


class ChannelHandlers:
    """Answers requests about channels."""

    def __init__(self, channels: ChannelService | None, *, changed: Callable[[], None]) -> None:
        self._channels = channels
        self._changed = changed

    @property
    def _service(self) -> ChannelService:
        return switched_on(self._channels)

    # -- what there is ---------------------------------------------------------------------------------------

    async def channels(self, request: web.Request) -> web.Response:
        """Answer with channels."""
        search, state = request.query.get("search", ""), request.query.get("state", "")
        if state and state not in _STATES:
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, f"{', '.join(_STATES)}, not '{state}'", where="state"
            )
        offset, limit = page_of(request)
        if self._channels is None:
            return json_answer(ChannelsFound(False, 0, offset, None, ()))
        tag = request.query.get("tag", "")
        total, rows = self._channels.find(search=search, state=state, tag=tag, offset=offset, limit=limit)
        found = ChannelsFound(
            True, total, offset, self._channels.status(), tuple(rows), tuple(self._channels.tags())
        )
        return json_answer(found)

    async def channel(self, request: web.Request) -> web.Response:
        """Answer with one channel."""
        return json_answer(await self._details(_url(request)))

    async def _details(self, url: str) -> ChannelDetails:
        try:
            return ChannelDetails(
                channel=self._service.channel(url),
                why=tuple(self._service.why(url).splitlines()),
                rules=self._service.rules(url),
                subscribers=tuple(
                    Subscriber(each.who, each.policy, each.paused, each.since_us)
                    for each in self._service.subscribers(url)
                ),
                muted=tuple(await self._service.muted(url)),
            )
        except ChannelError as error:
            raise refused(error, where="url") from None

    async def channel_history(self, request: web.Request) -> web.Response:
        """Answer with the changes of a channel."""
        most = number_of(request, "limit", default=20, most=1_000)
        try:
            deltas = tuple(self._service.deltas(_url(request), most=most))
            url = self._service.channel(_url(request)).url
        except ChannelError as error:
            raise refused(error, where="url") from None
        return json_answer(ChannelHistory(url, deltas))

    async def channel_lines(self, request: web.Request) -> web.Response:
        """Answer with the lines of a page, to pick from."""
        try:
            found = await self._service.lines(_url(request))
            url = self._service.channel(_url(request)).url
        except ChannelError as error:
            raise refused(error, where="url") from None
        return json_answer(ChannelLines(url, len(found), _page_lines(found)))

    # -- what can be done ------------------------------------------------------------------------------------

    async def channel_add(self, request: web.Request) -> web.Response:
        """Add a channel, or change its settings."""
        asked = await body_of(request, NewPage)
        try:
            self._service.add(asked.url, rules=asked.rules, every_s=asked.every_s, tags=asked.tags)
        except ChannelError as error:
            first = str(error).partition(":")[0].partition(".")[0]
            raise refused(error, where=first if first in ("rules", "tags") else "url") from None
        await self._service.flush()
        self._changed()
        return json_answer(await self._details(asked.url))

    async def channel_try(self, request: web.Request) -> web.Response:
        """Answer with the lines that rules would select."""
        asked = await body_of(request, TriedRules)
        try:
            found = await self._service.try_rules(asked.url, asked.rules)
            url = self._service.channel(asked.url).url
        except ChannelError as error:
            where = "rules" if str(error).startswith("rules") else "url"
            raise refused(error, where=where) from None
        return json_answer(ChannelLines(url, len(found), _page_lines(found)))

    async def channel_remove(self, request: web.Request) -> web.Response:
        """Remove a channel."""
        asked = await body_of(request, Page)
        try:
            said = self._service.remove(asked.url)
        except ChannelError as error:
            raise refused(error, where="url") from None
        await self._service.flush()
        self._changed()
        return json_answer(Done(said))

    async def channel_pause(self, request: web.Request) -> web.Response:
        """Pause or resume a channel."""
        asked = await body_of(request, PausedPage)
        try:
            self._service.hold(asked.url, paused=asked.paused)
        except ChannelError as error:
            raise refused(error, where="url") from None
        await self._service.flush()
        self._changed()
        return json_answer(await self._details(asked.url))

    async def channel_check(self, request: web.Request) -> web.Response:
        """Poll a page now."""
        asked = await body_of(request, Page)
        return await self._done(self._service.check_now(asked.url), where="url")

    async def channel_unmute(self, request: web.Request) -> web.Response:
        """Tell changes of a muted place from now on."""
        asked = await body_of(request, UnmutedPlace)
        return await self._done(
            self._service.unmute(asked.url, asked.place), where="url", unless=("no place", "place")
        )

    async def channel_restore(self, request: web.Request) -> web.Response:
        """Restore an older version of a page."""
        asked = await body_of(request, RestoredVersion)
        return await self._done(
            self._service.restore(asked.url, asked.version), where="url", unless=("version", "version")
        )

    async def channel_subscribe(self, request: web.Request) -> web.Response:
        """Begin a subscription."""
        asked = await body_of(request, SubscriberOf)
        return await self._done(
            self._service.subscribe(asked.who, asked.url, policy=asked.policy), where="who, url, policy"
        )

    async def channel_unsubscribe(self, request: web.Request) -> web.Response:
        """End a subscription."""
        asked = await body_of(request, SubscriberOf)
        return await self._done(self._service.unsubscribe(asked.who, asked.url), where="who, url")

    async def _done(
        self, doing: Awaitable[str], *, where: str, unless: tuple[str, str] = ("", "")
    ) -> web.Response:
        """Wait until a request is done and answer with what the service says about it.

        `where` is the field that a refusal is about; `unless` is a word of refusals that are about another
        field, and that field.
        """
        try:
            said = await doing
        except ChannelError as error:
            word, other = unless
            raise refused(error, where=other if word and word in str(error) else where) from None
        self._changed()
        return json_answer(Done(said))


def _page_lines(found: Sequence[tuple[str, str]]) -> tuple[PageLine, ...]:
    """Lines of a page with what selects them."""
    lines = []
    for text, place in found[: limits.PICKED_LINES]:
        selectors = tuple(selectors_of(place))
        lines.append(PageLine(text, selectors, tuple(map(xpath_of, selectors))))
    return tuple(lines)


def _url(request: web.Request) -> str:
    url = request.query.get("url", "")
    if not url:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "which page? name it with ?url=…", where="url")
    return url


def switched_on(channels: ChannelService | None) -> ChannelService:
    """Return the service of channels; RequestRefused if they are off."""
    if channels is None:
        raise RequestRefused(
            HTTPStatus.CONFLICT,
            "channels are off: set channels.enabled to true, or use `penstock up --channels`",
        )
    return channels


def refused(error: ChannelError, *, where: str) -> RequestRefused:
    """Return the refusal of a request with the status that fits the error."""
    match error:
        case ChannelsFull():
            status = HTTPStatus.TOO_MANY_REQUESTS
        case ChannelRefused():
            status = HTTPStatus.FORBIDDEN
        case _:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
    return RequestRefused(status, str(error), where=where)
