"""The API of channels: values, routes and handlers.

A page is named by its URL in any spelling.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from aiohttp import web

from penstock import limits
from penstock.core.channels.delta import Delta  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference import MutedPlace  # noqa: TC001  # msgspec reads the annotations
from penstock.errors import ChannelError, ChannelRefused, ChannelsFull, RequestRefused
from penstock.node.channels.status import ChannelsStatus, ChannelStatus  # noqa: TC001  # msgspec reads the annotations
from penstock.node.http.answers import Done
from penstock.node.http.replies import body_of, json_answer, number_of, page_of
from penstock.node.http.routes import API, PAGE, Parameter, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.node.channels.service import ChannelService

_Url = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.URL_CHARS)]
_Who = Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]


class ChannelsFound(msgspec.Struct, frozen=True):
    """Some of the channels, those that fail first, then those that changed last."""

    enabled: bool
    """Whether channels are on at this node."""
    total: int
    offset: int
    status: ChannelsStatus | None
    """All channels together; null if there are none."""
    channels: tuple[ChannelStatus, ...]


class Subscriber(msgspec.Struct, frozen=True):
    """A subscriber other than MQTT clients."""

    who: str
    policy: str
    paused: bool
    since_us: int


class ChannelDetails(msgspec.Struct, frozen=True):
    """One channel."""

    channel: ChannelStatus
    why: tuple[str, ...]
    """Why it is polled when it is: sentences, what decides first."""
    rules: dict[str, Any]
    """How it is read and compared; what is not in it has its default."""
    subscribers: tuple[Subscriber, ...]
    """Subscribers other than MQTT clients."""
    muted: tuple[MutedPlace, ...]
    """What is not told because it keeps changing, and on what evidence."""


class ChannelHistory(msgspec.Struct, frozen=True):
    """A channel's changes, newest first."""

    url: str
    deltas: tuple[Delta, ...]


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page."""

    url: _Url


class NewPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page to poll until it is removed."""

    url: _Url
    rules: dict[str, Any] | None = None
    """How to read and compare it: css, xpath, jsonpath, ignore, only_additions …; null: as before."""
    every_s: Annotated[float, msgspec.Meta(ge=0, le=31 * 86_400)] | None = None
    """Between polls; 0: as allocated; null: as before."""


class PausedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page to pause or to resume."""

    url: _Url
    paused: bool = True


class UnmutedPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place of a web page whose changes are to be told."""

    url: _Url
    place: Annotated[str, msgspec.Meta(min_length=1, max_length=limits.PLACE_CHARS)]
    """As `muted` names it."""


class SubscriberOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A subscription to begin or to end."""

    who: _Who
    """Name of the subscriber, as xmpp:ann@example.org or webhook:https://example.org/hook."""
    url: _Url
    policy: str = ""
    """Text or registered name of the policy for changes that wait."""


class FeedList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of feeds to poll."""

    opml: str
    who: str = ""
    """Subscriber to the feeds; empty: none, they are polled until they are removed."""


class NotImported(msgspec.Struct, frozen=True):
    """A feed of a list that cannot be polled."""

    url: str
    problem: str


class Imported(msgspec.Struct, frozen=True):
    """Result of importing a list of feeds."""

    added: int
    refused: tuple[NotImported, ...]


_URL: Final = Parameter("url", "the page, percent-encoded", required=True)

CHANNEL_ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/channels",
        handler="channels",
        about="watched web pages, those that fail first, then those that changed last",
        answer=(ChannelsFound,),
        parameters=(
            Parameter("search", "text within URL or title; case does not matter"),
            Parameter("state", "only pages in this state", choices=("polled", "failing", "paused", "idle")),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/one",
        handler="channel",
        about="one page: how it is watched, why it is polled when it is, who is notified",
        answer=(ChannelDetails,),
        parameters=(_URL,),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/history",
        handler="channel_history",
        about="the last changes of a page, newest first",
        answer=(ChannelHistory,),
        parameters=(_URL, Parameter("limit", "changes; 20 if omitted", kind="integer", most=1_000)),
    ),
    Route(
        method="GET",
        path=f"{API}/channels/export",
        handler="channel_export",
        about="the watched pages as a list of feeds (OPML)",
        media="text/x-opml",
    ),
    Route(
        method="POST",
        path=f"{API}/channels/add",
        handler="channel_add",
        about="watch a page until it is removed, or change how it is watched",
        body=NewPage,
        answer=(ChannelDetails,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/remove",
        handler="channel_remove",
        about="forget a page with its history and its subscribers",
        body=Page,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/pause",
        handler="channel_pause",
        about="stop polling a page for all subscribers, or resume",
        body=PausedPage,
        answer=(ChannelDetails,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/check",
        handler="channel_check",
        about="poll a page now, if its server and the budgets allow it",
        body=Page,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/unmute",
        handler="channel_unmute",
        about="tell changes of a place that was muted because it keeps changing",
        body=UnmutedPlace,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/subscribe",
        handler="channel_subscribe",
        about="notify a subscriber of a page's changes",
        body=SubscriberOf,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/unsubscribe",
        handler="channel_unsubscribe",
        about="end a subscription",
        body=SubscriberOf,
        answer=(Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/channels/import",
        handler="channel_import",
        about="watch the feeds of a list (OPML)",
        body=FeedList,
        answer=(Imported,),
    ),
)


_STATES = ("polled", "failing", "paused", "idle")

AT_ONCE: Final = 20
"""Feeds of a list added before other tasks may run: a few milliseconds of work."""


class ChannelHandlers:
    """Answers requests about channels."""

    def __init__(self, channels: ChannelService | None, *, changed: Callable[[], None]) -> None:
        self._channels = channels
        self._changed = changed

    @property
    def _service(self) -> ChannelService:
        if self._channels is None:
            raise RequestRefused(
                HTTPStatus.CONFLICT,
                "channels are off: set channels.enabled to true, or use `penstock up --channels`",
            )
        return self._channels

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
        total, rows = self._channels.find(search=search, state=state, offset=offset, limit=limit)
        return json_answer(ChannelsFound(True, total, offset, self._channels.status(), tuple(rows)))

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
            raise _refused(error, where="url") from None

    async def channel_history(self, request: web.Request) -> web.Response:
        """Answer with the changes of a channel."""
        most = number_of(request, "limit", default=20, most=1_000)
        try:
            deltas = tuple(self._service.deltas(_url(request), most=most))
            url = self._service.channel(_url(request)).url
        except ChannelError as error:
            raise _refused(error, where="url") from None
        return json_answer(ChannelHistory(url, deltas))

    async def channel_export(self, _: web.Request) -> web.Response:
        """Answer with all channels as OPML."""
        from penstock.node.notify.opml import write_opml  # noqa: PLC0415  # seldom asked for

        feeds: list[tuple[str, str]] = []
        pages: list[tuple[str, str]] = []
        for each in self._service.channels():
            if each.state != "idle":
                (feeds if each.kind in ("feed", "") else pages).append((each.url, each.title))
        body = write_opml(feeds, title="Channels of a Penstock node", pages=pages)
        return web.Response(body=body, content_type="text/x-opml", charset="utf-8")

    # -- what can be done ------------------------------------------------------------------------------------

    async def channel_add(self, request: web.Request) -> web.Response:
        """Add a channel, or change its settings."""
        asked = await body_of(request, NewPage)
        try:
            self._service.add(asked.url, rules=asked.rules, every_s=asked.every_s)
        except ChannelError as error:
            raise _refused(error, where="rules" if str(error).startswith("rules") else "url") from None
        await self._service.flush()
        self._changed()
        return json_answer(await self._details(asked.url))

    async def channel_remove(self, request: web.Request) -> web.Response:
        """Remove a channel."""
        asked = await body_of(request, Page)
        try:
            said = self._service.remove(asked.url)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        await self._service.flush()
        self._changed()
        return json_answer(Done(said))

    async def channel_pause(self, request: web.Request) -> web.Response:
        """Pause or resume a channel."""
        asked = await body_of(request, PausedPage)
        try:
            self._service.hold(asked.url, paused=asked.paused)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        await self._service.flush()
        self._changed()
        return json_answer(await self._details(asked.url))

    async def channel_check(self, request: web.Request) -> web.Response:
        """Poll a page now."""
        asked = await body_of(request, Page)
        try:
            said = await self._service.check_now(asked.url)
        except ChannelError as error:
            raise _refused(error, where="url") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_unmute(self, request: web.Request) -> web.Response:
        """Tell changes of a muted place from now on."""
        asked = await body_of(request, UnmutedPlace)
        try:
            said = await self._service.unmute(asked.url, asked.place)
        except ChannelError as error:
            where = "place" if "no place" in str(error) else "url"
            raise _refused(error, where=where) from None
        self._changed()
        return json_answer(Done(said))

    async def channel_subscribe(self, request: web.Request) -> web.Response:
        """Begin a subscription."""
        asked = await body_of(request, SubscriberOf)
        try:
            said = await self._service.subscribe(asked.who, asked.url, policy=asked.policy)
        except ChannelError as error:
            raise _refused(error, where="who, url, policy") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_unsubscribe(self, request: web.Request) -> web.Response:
        """End a subscription."""
        asked = await body_of(request, SubscriberOf)
        try:
            said = await self._service.unsubscribe(asked.who, asked.url)
        except ChannelError as error:
            raise _refused(error, where="who, url") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_import(self, request: web.Request) -> web.Response:
        """Add the feeds of an OPML list."""
        from penstock.node.notify.opml import read_opml  # noqa: PLC0415  # seldom asked for

        asked = await body_of(request, FeedList)
        try:
            urls = read_opml(asked.opml.encode())
        except ChannelError as error:
            raise _refused(error, where="opml") from None
        refused: list[NotImported] = []
        for place in range(0, len(urls), AT_ONCE):
            some = urls[place : place + AT_ONCE]
            outcomes = await asyncio.gather(*(self._import(url, asked.who) for url in some))
            refused += [one for one in outcomes if one is not None]
        await self._service.flush()
        self._changed()
        return json_answer(Imported(len(urls) - len(refused), tuple(refused)))

    async def _import(self, url: str, who: str) -> NotImported | None:
        """Add one feed of a list; several of them are flushed to disk together."""
        try:
            if who:
                await self._service.subscribe(who, url)
            else:
                self._service.add(url)
        except ChannelError as error:
            return NotImported(url, str(error))
        return None


def _url(request: web.Request) -> str:
    url = request.query.get("url", "")
    if not url:
        raise RequestRefused(HTTPStatus.BAD_REQUEST, "which page? name it with ?url=…", where="url")
    return url


def _refused(error: ChannelError, *, where: str) -> RequestRefused:
    match error:
        case ChannelsFull():
            status = HTTPStatus.TOO_MANY_REQUESTS
        case ChannelRefused():
            status = HTTPStatus.FORBIDDEN
        case _:
            status = HTTPStatus.UNPROCESSABLE_ENTITY
    return RequestRefused(status, str(error), where=where)
