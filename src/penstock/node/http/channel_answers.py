"""What the API asks and answers about web channels, as values."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from penstock import limits
from penstock.core.channels.delta import Delta  # noqa: TC001  # msgspec reads annotations at run time
from penstock.node.web.status import ChannelStatus, WebStatus  # noqa: TC001

_Url = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.URL_CHARS)]
_Who = Annotated[str, msgspec.Meta(min_length=1, max_length=4_096)]


class ChannelsFound(msgspec.Struct, frozen=True):
    """Some of the channels, those that fail first, then those that changed last."""

    enabled: bool
    """Whether this node has web channels at all."""
    total: int
    offset: int
    status: WebStatus | None
    """All channels together; null if there are none."""
    channels: tuple[ChannelStatus, ...]


class Subscriber(msgspec.Struct, frozen=True):
    """Somebody who is told of changes, beside MQTT clients."""

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
    """Beside MQTT clients."""


class ChannelHistory(msgspec.Struct, frozen=True):
    """A channel's changes, newest first."""

    url: str
    deltas: tuple[Delta, ...]


class Page(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page."""

    url: _Url


class NewPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page to watch until it is removed."""

    url: _Url
    rules: dict[str, Any] | None = None
    """How to read and compare it: css, xpath, jsonpath, ignore, only_additions …; null: as before."""
    every_s: Annotated[float, msgspec.Meta(ge=0, le=31 * 86_400)] | None = None
    """Between polls; 0: as allocated; null: as before."""


class PausedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A web page to poll no more for now, or again."""

    url: _Url
    paused: bool = True


class SubscriberOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Somebody to tell of a page's changes, or not any more."""

    who: _Who
    """As xmpp:ann@example.org or webhook:https://example.org/hook."""
    url: _Url
    policy: str = ""
    """Text or registered name of a policy for what waits for them."""


class FeedList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of feeds to watch."""

    opml: str
    who: str = ""
    """Who is subscribed to them; empty: nobody, they are watched until they are removed."""


class NotImported(msgspec.Struct, frozen=True):
    """A feed of a list that cannot be watched."""

    url: str
    problem: str


class Imported(msgspec.Struct, frozen=True):
    """What came of a list of feeds."""

    added: int
    refused: tuple[NotImported, ...]
