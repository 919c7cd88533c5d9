"""HTTP rules for polling: conditional requests, Retry-After, freshness and redirects.

Conditional requests carry the server's own validators, byte for byte (RFC 9110, 13). If-Modified-Since never
carries a date of ours, because servers compare it as text and clocks are wrong. Retry-After is seconds or a
date, on 429 and 503 (RFC 9110, 10.2.3; RFC 6585, 4), obeyed up to a bound. Freshness and a feed's own
schedule give lower bounds, all of them capped. 301 and 308 are remembered as the new address, 302, 303 and
307 are not (RFC 9110, 15.4).
"""

from __future__ import annotations

import re
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.core.channels.address import canonical
from penstock.core.channels.polling.values import Hold
from penstock.errors import BadAddress
from penstock.model.instant import DAY_US, HOUR_US, SECOND_US, Instant, duration, moment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from penstock.core.channels.polling.values import FetchOutcome, Manners, PollState, RedirectHop

_SECONDS: Final = re.compile(r"[0-9]{1,15}")
_DIRECTIVE: Final = re.compile(r'([A-Za-z-]+)(?:\s*=\s*(?:"([^"]*)"|([^\s,]*)))?')


def seconds(text: str) -> int | None:
    """Whole seconds; None if the text is not a number."""
    found = _SECONDS.fullmatch(text.strip())
    return int(found[0]) if found else None


def date_us(text: str) -> Instant | None:
    """Date in any of the three HTTP forms (RFC 9110, 5.6.7); None if it is not one."""
    try:
        at = parsedate_to_datetime(text)
        return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()) * SECOND_US
    except (ValueError, TypeError, OverflowError, IndexError):
        return None


def directives(text: str) -> dict[str, str]:
    """Cache-Control directives by lower-case name; the first of repeated ones counts."""
    found: dict[str, str] = {}
    for match in _DIRECTIVE.finditer(text):
        found.setdefault(match[1].lower(), match[2] or match[3] or "")
    return found


DELTA_STATUS: Final = 226
"""IM Used: the body holds only the new items of the feed (RFC 3229)."""


def conditions(state: PollState, *, now_us: Instant) -> dict[str, str]:
    """Conditional headers of the next request; none if the body is needed in any case."""
    if not state.full_us or now_us - state.full_us >= limits.POLL_FULL_US:
        return {}  # some servers answer 304 for ever
    found = {}
    if state.etag:
        found["If-None-Match"] = state.etag
        if state.feed is not False:
            found["A-IM"] = "feed"
    if state.last_modified:
        found["If-Modified-Since"] = state.last_modified
    return found


def validators(state: PollState, outcome: FetchOutcome) -> dict[str, str]:
    """State fields that a response sets. A 304 updates the validators it names."""
    fresh = {
        "etag": _usable(outcome.headers.get("etag", "")),
        "last_modified": _usable(outcome.headers.get("last-modified", "")),
    }
    if outcome.status == 304:
        return {name: value or getattr(state, name) for name, value in fresh.items()}
    return {**fresh, "source": outcome.url[: limits.URL_CHARS]}


def believed(state: PollState, outcome: FetchOutcome) -> str:
    """Say in a sentence why a 304 is implausible; empty if it can be trusted."""
    if not outcome.conditional:
        return "The server answered 304 (not modified) to a request without conditions."
    if outcome.url and state.source and outcome.url != state.source:
        return "The server answered 304 (not modified) at another address than before."
    return ""


def _usable(text: str) -> str:
    """The validator, if it can be sent back as it came: text, and not too long."""
    return text if len(text) <= limits.VALIDATOR_CHARS and text.isprintable() else ""


RETRY_STATUSES: Final = (429, 503)


def asked_us(outcome: FetchOutcome, *, manners: Manners, now_us: Instant) -> Instant:
    """Until when the server asks not to be fetched; 0: it does not, or not in a valid form."""
    text = outcome.headers.get("retry-after", "")
    if outcome.status not in RETRY_STATUSES or not text:
        return 0
    wait_s = seconds(text)
    if wait_s is not None:
        wait_us = wait_s * SECOND_US
    else:
        at_us = date_us(text)
        if at_us is None:
            return 0
        # The server's clock may be wrong: the pause is measured by its own Date header.
        wait_us = at_us - (date_us(outcome.headers.get("date", "")) or now_us)
    return now_us + min(wait_us, manners.retry_most_us) if wait_us > 0 else 0


def retry_hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """Hold by Retry-After; it also holds when a person asks."""
    if state.not_before_us <= now_us:
        return None
    reason = f"The server asked to be left alone until {moment(state.not_before_us)} (Retry-After)."
    return Hold(state.not_before_us, reason, hard=True)


_EPOCH_WEEKDAY: Final = 3
"""1 January 1970 was a Thursday; Monday is 0."""


class FeedSchedule(Protocol):
    """Schedule stated by a feed."""

    @property
    def ttl_s(self) -> int | None:
        """RSS ttl, in seconds."""
        ...

    @property
    def update_period_s(self) -> int | None:
        """sy:updatePeriod divided by sy:updateFrequency."""
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
    """Until when a response is fresh (RFC 9111, 4.2.1), capped; 0: no statement."""
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
        # The server's Date and Expires are both by its own clock, which may differ from ours.
        lifetime_us = expires_us - (date_us(headers.get("date", "")) or now_us)
    return now_us + min(lifetime_us, manners.fresh_most_us) if lifetime_us > 0 else 0


def hints(said: FeedSchedule) -> dict[str, object]:
    """State fields that a feed's schedule sets; absurd values are left out."""
    rest_s = min(max(said.ttl_s or 0, said.update_period_s or 0, 0), limits.POLL_LATEST_US // SECOND_US)
    hours = tuple(sorted({hour % 24 for hour in said.skip_hours if 0 <= hour <= 24}))
    days = tuple(sorted({day for day in said.skip_days if 0 <= day < 7}))
    return {
        "rest_s": rest_s,
        "skip_hours": hours if len(hours) < 24 else (),
        "skip_days": days if len(days) < 7 else (),
    }


def fresh_hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """Hold while the last response is fresh."""
    if state.fresh_until_us <= now_us:
        return None
    return Hold(
        state.fresh_until_us,
        f"The last answer is fresh until {moment(state.fresh_until_us)} (Cache-Control or Expires).",
    )


def rest_hold(state: PollState, *, manners: Manners, now_us: Instant) -> Hold | None:
    """Hold by the feed's minimum interval."""
    rest_us = min(state.rest_s * SECOND_US, manners.fresh_most_us)
    until_us = state.polled_us + rest_us
    if not rest_us or until_us <= now_us:
        return None
    return Hold(until_us, f"The feed asks for {duration(rest_us)} between polls (ttl or sy:updatePeriod).")


def skip_hold(state: PollState, *, now_us: Instant) -> Hold | None:
    """Hold during hours or days the feed excludes."""
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


REDIRECT_STATUSES: Final = (301, 302, 303, 307, 308)
_LASTING: Final = (301, 308)


def redirect_problem(visited: Sequence[str], target: str) -> str:
    """Why a redirect is not followed, as a sentence; empty: follow it."""
    if target in visited:
        return f"The redirects go in a circle, through {target}."
    if len(visited) > limits.REDIRECTS:
        return f"There are more than {limits.REDIRECTS} redirects; the last one leads to {target}."
    return ""


def lasting(hops: Sequence[RedirectHop]) -> str:
    """Address of the last permanent redirect before the first temporary one; empty: none."""
    found = ""
    for hop in hops:
        if hop.status not in _LASTING:
            break
        found = hop.url
    return found


def moved(state: PollState, outcome: FetchOutcome, *, url: str) -> str:
    """Address to fetch next time; empty: the channel's own.

    Only a good response at the new address counts. A new address that keeps failing is forgotten.
    """
    if outcome.error or not (outcome.status == 304 or 200 <= outcome.status < 300):
        return "" if state.errors + 1 >= limits.MOVED_ERRORS else state.moved
    led = lasting(outcome.hops)
    if not led:
        return state.moved
    try:
        found = canonical(led)
    except BadAddress:
        return state.moved
    return "" if found == url else found
