"""The API of channels: values and routes.

A page is named by its URL in any spelling.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from penstock import limits
from penstock.core.channels.delta import Delta  # noqa: TC001  # msgspec reads the annotations
from penstock.core.channels.difference import MutedPlace  # noqa: TC001  # msgspec reads the annotations
from penstock.node.channels.status import ChannelsStatus, ChannelStatus  # noqa: TC001  # msgspec reads the annotations
from penstock.node.http.answers import Done
from penstock.node.http.routes import API, PAGE, Parameter, Route

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
    """Places of the page whose changes are not told because they keep changing, with the evidence."""


class PageLine(msgspec.Struct, frozen=True):
    """One line of a page, and the selectors that find it."""

    text: str
    selectors: tuple[str, ...]
    """CSS, the narrowest first; empty: it cannot be selected."""
    xpaths: tuple[str, ...] = ()
    """XPath of each of these selectors."""


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


class TriedRules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rules to try on a page that is watched."""

    url: _Url
    rules: dict[str, Any]
    """css, xpath, jsonpath, ignore …, as for `add`."""


class PausedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page to pause or to resume."""

    url: _Url
    paused: bool = True


class UnmutedPlace(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A place of a web page whose changes are to be told."""

    url: _Url
    place: Annotated[str, msgspec.Meta(min_length=1, max_length=limits.PLACE_CHARS)]
    """Name of the place, as listed under `muted`."""


class RestoredVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An older version of a web page, to compare the page with."""

    url: _Url
    version: Annotated[int, msgspec.Meta(ge=1, le=(1 << 63) - 1)]
    """Version listed under `history`: that of a change, or the old version of the oldest change."""


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
        about="the lines of a page as it was read last, each with selectors (CSS, XPath) that find it",
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
        path=f"{API}/channels/try",
        handler="channel_try",
        about="the lines that rules would select of a page, without using the rules",
        body=TriedRules,
        answer=(ChannelLines,),
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
        path=f"{API}/channels/restore",
        handler="channel_restore",
        about="compare a page with an older version of it from now on; subscribers are told",
        body=RestoredVersion,
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
