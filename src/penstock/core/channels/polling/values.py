"""Values of polling: politeness settings, outcome of a fetch, intents, holds, state of a channel's server.

`PollState` is kept from one fetch to the next; it is small, since there are many channels.
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
    """Between two fetches of one channel, whatever happens and whoever asks."""
    most_us: int = 6 * 3_600 * SECOND_US
    """Longest interval of a channel that answers."""
    fresh_most_us: int = 3_600 * SECOND_US
    """So long an answer may call itself fresh, and a feed ask for rest: a max-age of 7 days freezes none."""
    retry_most_us: int = 86_400 * SECOND_US
    """Longest Retry-After that is believed."""
    error_least_us: int = 300 * SECOND_US
    """Pause after the first error; it doubles with each further one."""
    error_most_us: int = 12 * 3_600 * SECOND_US
    """Longest pause after errors."""
    missing_us: int = 7 * 86_400 * SECOND_US
    """A page not found for so long is taken to be gone."""
    gone_us: int = 30 * 86_400 * SECOND_US
    """A channel that is gone is looked at again after this."""
    host_polls: int = 3_600
    """Fetches from one registrable domain in an hour."""
    host_bytes: int = 256 << 20
    """Bytes from one registrable domain in an hour."""
    robots: Literal["pages", "all", "off"] = "pages"
    """Whose robots.txt is obeyed: feeds are made to be fetched by programs, pages are not."""

    def bounded_us(self, interval_us: int) -> int:
        """The interval, within the bounds."""
        return min(max(interval_us, self.least_us), max(self.least_us, self.most_us))

    def obeys_robots(self, *, feed: bool) -> bool:
        """Whether robots.txt decides about a page or feed."""
        return self.robots == "all" or (self.robots == "pages" and not feed)


assert Manners().gone_us <= limits.POLL_LATEST_US


@dataclass(frozen=True, slots=True)
class RedirectHop:
    """One redirect that was followed."""

    status: int
    url: str
    """Where it led."""


@dataclass(frozen=True, slots=True)
class FetchOutcome:
    """An answer, or a sentence why there is none."""

    status: int = 0
    """0: no answer."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By name in lower case."""
    url: str = ""
    """Where the answer came from, after redirects."""
    hops: tuple[RedirectHop, ...] = ()
    error: str = ""
    """What went wrong on the way, as a sentence; an answer that was broken off has a status as well."""
    conditional: bool = False
    """Whether validators were sent."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """Fetch this address now."""

    url: str
    """The channel's, or the one it has moved to, or that of a robots.txt."""
    headers: Mapping[str, str]
    """Conditions of the request."""
    reason: str
    robots: bool = False
    """It is the robots.txt that has to be read before the channel may be fetched; then decide again."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Do not fetch before a moment; then decide again."""

    until_us: Instant
    reason: str
    host: bool = False
    """It is the budget of the host that is used up: all its channels wait."""


PollIntent: TypeAlias = Fetch | Wait


@dataclass(frozen=True, slots=True)
class Hold:
    """One reason not to fetch yet."""

    until_us: Instant
    reason: str
    hard: bool = False
    """Not even when a person asks for it now."""
    host: bool = False
    """Of the host, not of the channel."""


class RobotsVerdict(msgspec.Struct, frozen=True, gc=False):
    """What a robots.txt said about one address."""

    allowed: bool
    until_us: int
    """Then it is asked again."""
    reason: str
    """A sentence."""
    url: str
    """The address it is about."""


class PollState(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """What the last answers said."""

    etag: str = ""
    """As the server wrote it."""
    last_modified: str = ""
    """As the server wrote it."""
    source: str = ""
    """Address the validators came from."""
    polled_us: int = 0
    """Last fetch; 0: never."""
    answered_us: int = 0
    """Last good answer; 0: never."""
    full_us: int = 0
    """Last good answer with a body; 0: never."""
    not_before_us: int = 0
    """The server asked not to be fetched before: Retry-After."""
    fresh_until_us: int = 0
    """The last answer called itself fresh until then, capped."""
    errors: int = 0
    """In a row."""
    errors_before: int = 0
    """Those before the last answer, which counts as one more if it cannot be read."""
    problem: str = ""
    """The last error, as a sentence; empty: none."""
    missing_since_us: int = 0
    """Not found since; 0: it is there."""
    gone: bool = False
    """It is not coming back."""
    status: int = 0
    """Last HTTP status; 0: none."""
    moved: str = ""
    """Address it has moved to for good; empty: it has not."""
    feed: bool | None = None
    """Whether it is a feed; None: not known yet."""
    rest_s: int = 0
    """What the feed asks for between two polls: ttl, sy:updatePeriod."""
    skip_hours: tuple[int, ...] = ()
    """Hours of the day, in UTC, in which the feed is not to be polled."""
    skip_days: tuple[int, ...] = ()
    """Days of the week, Monday 0."""
    robots: RobotsVerdict | None = None
    """What robots.txt said last."""


_INSTANTS: Final = (
    "polled_us",
    "answered_us",
    "full_us",
    "not_before_us",
    "fresh_until_us",
    "missing_since_us",
)


def shifted(state: PollState, by_us: int) -> PollState:
    """The same state on a clock that was set; so nobody waits for years, and nobody is polled all at once."""
    changes: dict[str, object] = {
        name: max(1, at_us + by_us) for name in _INSTANTS if (at_us := getattr(state, name))
    }
    if state.robots is not None:
        until_us = max(0, state.robots.until_us + by_us)
        changes["robots"] = msgspec.structs.replace(state.robots, until_us=until_us)
    return msgspec.structs.replace(state, **changes)


def settled(state: PollState, *, now_us: Instant) -> PollState:
    """A state that was kept, for use now: one from the future, by a clock that was wrong, is moved back."""
    latest_us = max(state.polled_us, state.answered_us, state.full_us, state.missing_since_us)
    if latest_us > now_us:
        state = shifted(state, now_us - latest_us)
    most_us = now_us + limits.POLL_LATEST_US
    if max(state.not_before_us, state.fresh_until_us) > most_us:  # nobody writes that but a broken disk
        state = msgspec.structs.replace(state, not_before_us=0, fresh_until_us=0)
    return state
