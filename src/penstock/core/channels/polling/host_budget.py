"""The hourly budget of one registrable domain, in fetches and bytes; a 429 lowers it.

Both are leaky buckets stored as one time each: every fetch and every byte moves it forward, and it may run
ahead of the clock by a tenth of an hour's budget. A 429 halves the budget; a twentieth comes back each hour.

This is not `node.access.rate`: the rate changes with the answers of the domain, a budget is a frozen value
that is stored and moved when the clock was set, and it names the reason why a fetch has to wait.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, Final

import msgspec

from penstock import limits
from penstock.core.channels.polling import http_rules
from penstock.core.channels.polling.values import Hold
from penstock.model.instant import HOUR_US, SECOND_US, Instant, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.values import FetchOutcome, Manners

LEAST_SHARE: Final = 1 / 64
"""Smallest share: below it, Retry-After and the back-off of the channels suffice."""
RECOVERY_PER_H: Final = 1 / 20
"""A halved budget is complete again after ten hours."""
_LOWER_AGAIN_US: Final = 60 * SECOND_US
"""Fetches already under way bring further 429s, which must not lower the budget again."""
_SPACED_US: Final = 25 * HOUR_US
"""A robots.txt is read again after a day; until then only the budget keeps its Crawl-delay."""


class HostBudget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """Used budget of a domain, and what its responses said."""

    name: str
    """The domain."""
    share: float = 1.0
    """Share of the configured budget, at `lowered_us`."""
    lowered_us: int = 0
    """Last time a 429 lowered it; 0: never."""
    polls_us: int = 0
    """Bucket of fetches: when the fetches so far would have been due, evenly spaced."""
    bytes_us: int = 0
    """Bucket of bytes: when the bytes so far would have been due, evenly spaced."""
    not_before_us: int = 0
    """Retry-After of a 429: no fetch from the domain before this."""
    spacing_us: int = 0
    """Minimum gap between two fetches: Crawl-delay of its robots.txt."""
    last_us: int = 0
    """Time of the last fetch."""

    def share_at(self, now_us: Instant) -> float:
        """Allowed share of the configured budget."""
        hours = max(0, now_us - self.lowered_us) / HOUR_US
        return min(1.0, self.share + hours * RECOVERY_PER_H)

    def hold(self, *, manners: Manners, now_us: Instant) -> Hold | None:
        """Hold on all channels of the domain, if any."""
        found = max(self._holds(manners, now_us), key=lambda hold: hold.until_us, default=None)
        return found if found is not None and found.until_us > now_us else None

    def rest(self, *, now_us: Instant) -> Hold | None:
        """Hold requested by the domain itself (Retry-After)."""
        if self.not_before_us <= now_us:
            return None
        reason = f"{self.name} asked to be left alone until {moment(self.not_before_us)} (429)."
        return Hold(self.not_before_us, reason, hard=True, host=True)

    def _holds(self, manners: Manners, now_us: Instant) -> list[Hold]:
        rest = self.rest(now_us=now_us)
        found = [] if rest is None else [rest]
        ready_us = self.polls_us - _ahead_us(manners.host_polls)
        if ready_us > now_us:
            reason = f"{self.name} has had its fetches: {self._allowed(manners.host_polls, now_us)} an hour."
            found.append(Hold(ready_us, reason, hard=True, host=True))
        ready_us = self.bytes_us - HOUR_US // 10
        if ready_us > now_us:
            allowed = self._allowed(manners.host_bytes, now_us)
            reason = f"{self.name} has had its bytes: {allowed} an hour."
            found.append(Hold(ready_us, reason, hard=True, host=True))
        ready_us = self.last_us + self.spacing_us
        if self.spacing_us and ready_us > now_us:
            reason = f"The robots.txt of {self.name} asks for pauses (Crawl-delay)."
            found.append(Hold(ready_us, reason, hard=True, host=True))
        return found

    def _allowed(self, budget: int, now_us: Instant) -> str:
        share = self.share_at(now_us)
        lowered = "" if share == 1 else f", lowered to {share:.0%} since it said 429"
        return f"{budget:,}{lowered}"

    def spent(self, *, manners: Manners, now_us: Instant) -> HostBudget:
        """Budget after a fetch began."""
        each_us = _each_us(manners.host_polls) / self.share_at(now_us)
        polls_us = max(self.polls_us, now_us) + ceil(each_us)
        return msgspec.structs.replace(self, polls_us=polls_us, last_us=now_us)

    def weighed(self, size: int, *, manners: Manners, now_us: Instant) -> HostBudget:
        """Budget after `size` bytes arrived."""
        each_us = HOUR_US / (manners.host_bytes * 0.9) / self.share_at(now_us)
        bytes_us = max(self.bytes_us, now_us) + ceil(size * each_us)
        return msgspec.structs.replace(self, bytes_us=bytes_us)

    def told(self, outcome: FetchOutcome, *, manners: Manners, now_us: Instant) -> HostBudget:
        """Budget after a response: a 429 concerns the whole domain."""
        if outcome.status != 429:
            return self
        asked_us = http_rules.asked_us(outcome, manners=manners, now_us=now_us)
        changes: dict[str, object] = {"not_before_us": max(self.not_before_us, asked_us)}
        if not self.lowered_us or now_us - self.lowered_us >= _LOWER_AGAIN_US:
            changes["share"] = max(LEAST_SHARE, self.share_at(now_us) / 2)
            changes["lowered_us"] = now_us
        return msgspec.structs.replace(self, **changes)

    def shifted(self, by_us: int) -> HostBudget:
        """Budget after the system clock was set by `by_us`."""
        names = ("lowered_us", "polls_us", "bytes_us", "not_before_us", "last_us")
        changes = {name: max(1, at_us + by_us) for name in names if (at_us := getattr(self, name))}
        return msgspec.structs.replace(self, **changes)

    def settled(self, now_us: Instant) -> HostBudget:
        """Stored budget for use now; one from the future (wrong clock) is moved back."""
        latest_us = max(self.last_us, self.lowered_us)
        found = self if latest_us <= now_us else self.shifted(now_us - latest_us)
        ahead_us = max(found.polls_us, found.bytes_us, found.not_before_us) - now_us
        return found if ahead_us <= limits.POLL_LATEST_US else HostBudget(self.name)

    def idle(self, now_us: Instant) -> bool:
        """Whether the budget holds no information and can be forgotten."""
        latest_us = max(self.polls_us, self.bytes_us, self.not_before_us)
        if self.spacing_us:
            latest_us = max(latest_us, self.last_us + _SPACED_US)
        return latest_us <= now_us and self.share_at(now_us) == 1


def _burst(polls: int) -> int:
    return max(1, polls // 10)


def _each_us(polls: int) -> int:
    """Gap between two fetches such that a burst and the rest of the hour add up to `polls`."""
    return ceil(HOUR_US / (polls - _burst(polls) + 1))


def _ahead_us(polls: int) -> int:
    return (_burst(polls) - 1) * _each_us(polls)
