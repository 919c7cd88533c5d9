"""Values of polling: politeness settings, outcome of a fetch, intents, holds, state of a channel's server.

`PollState` is stored between fetches; it is small because there are many channels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

from penstock import limits
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.instant import Instant


class Manners(msgspec.Struct, frozen=True):
    """Bounds on polling, all in microseconds unless the name says otherwise."""

    least_us: int = 60 * SECOND_US
    """Minimum gap between two fetches of one channel, even on demand."""
    most_us: int = 6 * 3_600 * SECOND_US
    """Longest interval of a channel that answers."""
    fresh_most_us: int = 3_600 * SECOND_US
    """Longest freshness of a response, and longest interval a feed may ask for: a max-age of 7 days stops no
    channel."""
    retry_most_us: int = 86_400 * SECOND_US
    """Longest Retry-After that is obeyed."""
    error_least_us: int = 300 * SECOND_US
    """Pause after the first error; it doubles with each further one."""
    error_most_us: int = 12 * 3_600 * SECOND_US
    """Longest pause after errors."""
    missing_us: int = 7 * 86_400 * SECOND_US
    """A page not found for so long counts as gone."""
    gone_us: int = 30 * 86_400 * SECOND_US
    """Interval at which a page that is gone is checked."""
    host_polls: int = 3_600
    """Fetches from one registrable domain in an hour."""
    host_bytes: int = 256 << 20
    """Bytes from one registrable domain in an hour."""
    robots: Literal["pages", "all", "off"] = "pages"
    """Where robots.txt is obeyed: pages only by default, because feeds are made for programs."""

    def bounded_us(self, interval_us: int) -> int:
        """The interval, clamped to the bounds."""
        return min(max(interval_us, self.least_us), max(self.least_us, self.most_us))

    def obeys_robots(self, *, feed: bool) -> bool:
        """Whether robots.txt applies to a page or feed."""
        return self.robots == "all" or (self.robots == "pages" and not feed)


assert Manners().gone_us <= limits.POLL_LATEST_US


@dataclass(frozen=True, slots=True)
class RedirectHop:
    """One redirect that was followed."""

    status: int
    url: str
    """Target of the redirect."""


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """A response, or a sentence that says why the fetch failed."""

    status: int = 0
    """0: no response."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    url: str = ""
    """Address of the response, after redirects."""
    hops: tuple[RedirectHop, ...] = ()
    error: str = ""
    """Transport error as a sentence; a response that broke off has a status as well."""
    conditional: bool = False
    """Whether the request carried validators."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch this address now."""

    url: str
    """The channel's address, its new one after a permanent redirect, or that of robots.txt."""
    headers: Mapping[str, str]
    """Conditional headers."""
    reason: str
    robots: bool = False
    """The request is for robots.txt, which must be read first; then decide again."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do not fetch before an instant; then decide again."""

    until_us: Instant
    reason: str
    host: bool = False
    """The host's budget is used up: all its channels wait."""


PollIntent: TypeAlias = Fetch | Wait


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason not to fetch before an instant."""

    until_us: Instant
    reason: str
    hard: bool = False
    """Holds even when a person asks for the page."""
    host: bool = False
    """Concerns the host, not only the channel."""


class RobotsVerdict(msgspec.Struct, frozen=True, gc=False):
    """Verdict of a robots.txt about one address."""

    allowed: bool
    until_us: int
    """When robots.txt is read again."""
    reason: str
    """The verdict as a sentence."""
    url: str
    """Address the verdict is about."""
    failures: int = 0
    """Attempts in a row to read robots.txt that failed."""


class PollState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Facts from the last responses of a channel's server."""

    etag: str = ""
    """The header `ETag` of the last response, unchanged."""
    last_modified: str = ""
    """The header `Last-Modified` of the last response, unchanged."""
    source: str = ""
    """Address the validators came from."""
    polled_us: int = 0
    """Time of the last fetch; 0: never."""
    answered_us: int = 0
    """Time of the last good response; 0: never."""
    full_us: int = 0
    """Time of the last good response with a body; 0: never."""
    not_before_us: int = 0
    """Retry-After: no fetch before this."""
    fresh_until_us: int = 0
    """End of the last response's freshness, capped."""
    errors: int = 0
    """Consecutive errors."""
    errors_before: int = 0
    """Consecutive errors before the last response; used if its body turns out unreadable."""
    problem: str = ""
    """Last error as a sentence; empty: none."""
    missing_since_us: int = 0
    """Since when the page is not found; 0 if it was found."""
    gone: bool = False
    """The page is gone for good."""
    status: int = 0
    """Last HTTP status; 0: none."""
    moved: str = ""
    """New address after a permanent redirect; empty: none."""
    feed: bool | None = None
    """Whether the channel is a feed; None if not known yet."""
    rest_s: int = 0
    """Minimum interval requested by the feed: ttl, sy:updatePeriod."""
    skip_hours: tuple[int, ...] = ()
    """Hours of the day, in UTC, in which the feed asks not to be polled."""
    skip_days: tuple[int, ...] = ()
    """Days of the week, Monday 0, on which the feed asks not to be polled."""
    robots: RobotsVerdict | None = None
    """Last verdict of robots.txt."""


_INSTANTS: Final = (
    "polled_us",
    "answered_us",
    "full_us",
    "not_before_us",
    "fresh_until_us",
    "missing_since_us",
)


def shifted(state: PollState, by_us: int) -> PollState:
    """State after the system clock was set by `by_us`: no channel waits for years or is polled at once."""
    changes: dict[str, object] = {
        name: max(1, at_us + by_us) for name in _INSTANTS if (at_us := getattr(state, name))
    }
    if state.robots is not None:
        until_us = max(0, state.robots.until_us + by_us)
        changes["robots"] = msgspec.structs.replace(state.robots, until_us=until_us)
    return msgspec.structs.replace(state, **changes)


def settled(state: PollState, *, now_us: Instant) -> PollState:
    """Stored state for use now; one from the future (wrong clock) is moved back."""
    latest_us = max(state.polled_us, state.answered_us, state.full_us, state.missing_since_us)
    if latest_us > now_us:
        state = shifted(state, now_us - latest_us)
    most_us = now_us + limits.POLL_LATEST_US
    if max(state.not_before_us, state.fresh_until_us) > most_us:  # only a damaged file has such a value
        state = msgspec.structs.replace(state, not_before_us=0, fresh_until_us=0)
    return state
