"""How long an answer stays fresh, and when a feed wants its rest: lower bounds, all of them capped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.core.channels.polling.headers import date_us, directives, seconds
from penstock.core.channels.polling.intents import Hold
from penstock.core.channels.polling.words import duration, moment
from penstock.model.instant import SECOND_US, Instant

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from penstock.core.channels.polling.manners import Manners
    from penstock.core.channels.polling.state import PollState

HOUR_US: Final = 3_600 * SECOND_US
DAY_US: Final = 24 * HOUR_US
_EPOCH_WEEKDAY: Final = 3
"""1 January 1970 was a Thursday; Monday is 0."""


class Hints(Protocol):
    """What a feed says about its own schedule."""

    @property
    def ttl_s(self) -> int | None:
        """RSS ttl."""
        ...

    @property
    def update_period_s(self) -> int | None:
        """Of sy:updatePeriod and sy:updateFrequency."""
        ...

    @property
    def skip_hours(self) -> Collection[int]:
        """RSS skipHours, in UTC."""
        ...

    @property
    def skip_days(self) -> Collection[int]:
        """RSS skipDays, Monday 0."""
        ...


def fresh_us(headers: Mapping[str, str], *, manners: Manners, now_us: Instant) -> Instant:
    """Until when an answer calls itself fresh (RFC 9111, 4.2.1), capped; 0: it does not."""
    control = directives(headers.get("cache-control", ""))
    if "no-cache" in control or "no-store" in control:
        return 0
    if "max-age" in control:
        lifetime_s = seconds(control["max-age"])
        if lifetime_s is None:
            return 0
        lifetime_us = (lifetime_s - (seconds(headers.get("age", "")) or 0)) * SECOND_US
    else:
        expires_us = date_us(headers.get("expires", ""))
        if expires_us is None:
            return 0
        lifetime_us = expires_us - (date_us(headers.get("date", "")) or now_us)  # both by the server's clock
    return now_us + min(lifetime_us, manners.fresh_most_us) if lifetime_us > 0 else 0


def hints(said: Hints) -> dict[str, object]:
    """The fields of the state that a feed's hints set; what cannot be meant is left out."""
    rest_s = min(max(said.ttl_s or 0, said.update_period_s or 0, 0), limits.POLL_LATEST_US // SECOND_US)
    hours = tuple(sorted({hour % 24 for hour in said.skip_hours if 0 <= hour <= 24}))
    days = tuple(sorted({day for day in said.skip_days if 0 <= day < 7}))
    return {
        "rest_s": rest_s,
        "skip_hours": hours if len(hours) < 24 else (),
        "skip_days": days if len(days) < 7 else (),
    }


def fresh_hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """The last answer is still good."""
    if state.fresh_until_us <= now_us:
        return None
    return Hold(
        state.fresh_until_us,
        f"The last answer is fresh until {moment(state.fresh_until_us)} (Cache-Control or Expires).",
    )


def rest_hold(state: PollState, *, manners: Manners, now_us: Instant) -> Hold | None:
    """The feed asks for a pause."""
    rest_us = min(state.rest_s * SECOND_US, manners.fresh_most_us)
    until_us = state.polled_us + rest_us
    if not rest_us or until_us <= now_us:
        return None
    return Hold(until_us, f"The feed asks for {duration(rest_us)} between polls (ttl or sy:updatePeriod).")


def skip_hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """The feed names hours or days in which nothing happens."""
    until_us = now_us
    while _skipped(state, until_us):
        until_us = (until_us // HOUR_US + 1) * HOUR_US
        if until_us - now_us > limits.POLL_SKIP_US:
            return None
    if until_us == now_us:
        return None
    return Hold(until_us, f"The feed is quiet until {moment(until_us)} (skipHours or skipDays).")


def _skipped(state: PollState, at_us: Instant) -> bool:
    hour = at_us // HOUR_US % 24
    day = (at_us // DAY_US + _EPOCH_WEEKDAY) % 7
    return hour in state.skip_hours or day in state.skip_days
