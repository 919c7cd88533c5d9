"""The API of channels: values, routes and handlers.

A page is named by its URL in any spelling.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.delta import Delta  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference import MutedPlace  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.picking import selectors_of
from penstock.errors import ChannelError, ChannelRefused, ChannelsFull, RequestRefused
from penstock.node.channels.status import ChannelsStatus, ChannelStatus  # noqa: TC001  # msgspec reads the annotations
from penstock.node.http.answers import Done
from penstock.node.http.replies import body_of, json_answer, number_of, page_of
from penstock.node.http.routes import API, PAGE, Parameter, Route

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

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
    tags: tuple[str, ...] = ()
    """All tags in use."""


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


class PageLine(msgspec.Struct, frozen=True):
    """One line of a page, and the selectors that find it."""

    text: str
    selectors: tuple[str, ...]
    """CSS, the narrowest first; empty: it cannot be selected."""


class ChannelLines(msgspec.Struct, frozen=True):
    """The lines of a page as it was read last, to pick from."""

    url: str
    total: int
    lines: tuple[PageLine, ...]
    """The first of them."""


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
    tags: list[str] | None = None
    """Words by which pages are ordered; null: as before."""


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
            Parameter("tag", "only pages with this tag"),
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
        path=f"{API}/channels/lines",
        handler="channel_lines",
        about="the lines of a page as it was read last, each with CSS selectors that find it",
        answer=(ChannelLines,),
        parameters=(_URL,),
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
)


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
        lines = tuple(
            PageLine(text, tuple(selectors_of(place))) for text, place in found[: limits.PICKED_LINES]
        )
        return json_answer(ChannelLines(url, len(found), lines))

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
        try:
            said = await self._service.check_now(asked.url)
        except ChannelError as error:
            raise refused(error, where="url") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_unmute(self, request: web.Request) -> web.Response:
        """Tell changes of a muted place from now on."""
        asked = await body_of(request, UnmutedPlace)
        try:
            said = await self._service.unmute(asked.url, asked.place)
        except ChannelError as error:
            where = "place" if "no place" in str(error) else "url"
            raise refused(error, where=where) from None
        self._changed()
        return json_answer(Done(said))

    async def channel_subscribe(self, request: web.Request) -> web.Response:
        """Begin a subscription."""
        asked = await body_of(request, SubscriberOf)
        try:
            said = await self._service.subscribe(asked.who, asked.url, policy=asked.policy)
        except ChannelError as error:
            raise refused(error, where="who, url, policy") from None
        self._changed()
        return json_answer(Done(said))

    async def channel_unsubscribe(self, request: web.Request) -> web.Response:
        """End a subscription."""
        asked = await body_of(request, SubscriberOf)
        try:
            said = await self._service.unsubscribe(asked.who, asked.url)
        except ChannelError as error:
            raise refused(error, where="who, url") from None
        self._changed()
        return json_answer(Done(said))


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
