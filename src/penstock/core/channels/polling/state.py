"""What is known about a channel's server, from one fetch to the next; small, since there are many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits

if TYPE_CHECKING:
    from penstock.model.instant import Instant


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
