"""The hourly budget of one registrable domain, in fetches and bytes; a 429 lowers it.

Both are leaky buckets kept as one moment each: every fetch and every byte moves it on, and it may run ahead
of the clock by a tenth of an hour's budget. A 429 halves the budget; it comes back by a twentieth an hour.

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
from penstock.model.instant import SECOND_US, Instant, moment

if TYPE_CHECKING:
    from penstock.core.channels.polling.values import FetchOutcome, Manners

HOUR_US: Final = 3_600 * SECOND_US
LEAST_SHARE: Final = 1 / 64
"""Below this, Retry-After and backoff of the channels are enough."""
RECOVERY_PER_H: Final = 1 / 20
"""A budget that was halved is whole again after ten hours."""
_LOWER_AGAIN_US: Final = 60 * SECOND_US
"""Fetches under way when a 429 comes bring further ones, which say nothing new."""
_SPACED_US: Final = 25 * HOUR_US
"""A robots.txt is read again after a day; until then nobody but the budget knows what pauses it asks for."""


class HostBudget(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """How much of a domain's budget is used up, and what was learned about it."""

    name: str
    """The domain."""
    share: float = 1.0
    """Of the configured budget, at `lowered_us`."""
    lowered_us: int = 0
    """When a 429 lowered it last; 0: never."""
    polls_us: int = 0
    """When the fetches made so far would have been due, had they been even."""
    bytes_us: int = 0
    """The same for the bytes."""
    not_before_us: int = 0
    """The domain asked for rest: Retry-After of a 429."""
    spacing_us: int = 0
    """Least time between two fetches: Crawl-delay of its robots.txt."""
    last_us: int = 0
    """Last fetch."""

    def share_at(self, now_us: Instant) -> float:
        """Share of the configured budget that is allowed now."""
        hours = max(0, now_us - self.lowered_us) / HOUR_US
        return min(1.0, self.share + hours * RECOVERY_PER_H)

    def hold(self, *, manners: Manners, now_us: Instant) -> Hold | None:
        """What keeps all channels of the domain, if anything does."""
        found = max(self._holds(manners, now_us), key=lambda hold: hold.until_us, default=None)
        return found if found is not None and found.until_us > now_us else None

    def rest(self, *, now_us: Instant) -> Hold | None:
        """What the domain itself asked for."""
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
        """After a fetch began."""
        each_us = _each_us(manners.host_polls) / self.share_at(now_us)
        polls_us = max(self.polls_us, now_us) + ceil(each_us)
        return msgspec.structs.replace(self, polls_us=polls_us, last_us=now_us)

    def weighed(self, size: int, *, manners: Manners, now_us: Instant) -> HostBudget:
        """After so many bytes came."""
        each_us = HOUR_US / (manners.host_bytes * 0.9) / self.share_at(now_us)
        bytes_us = max(self.bytes_us, now_us) + ceil(size * each_us)
        return msgspec.structs.replace(self, bytes_us=bytes_us)

    def told(self, outcome: FetchOutcome, *, manners: Manners, now_us: Instant) -> HostBudget:
        """After an answer: a 429 is about the whole domain."""
        if outcome.status != 429:
            return self
        asked_us = http_rules.asked_us(outcome, manners=manners, now_us=now_us)
        changes: dict[str, object] = {"not_before_us": max(self.not_before_us, asked_us)}
        if not self.lowered_us or now_us - self.lowered_us >= _LOWER_AGAIN_US:
            changes["share"] = max(LEAST_SHARE, self.share_at(now_us) / 2)
            changes["lowered_us"] = now_us
        return msgspec.structs.replace(self, **changes)

    def shifted(self, by_us: int) -> HostBudget:
        """The same on a clock that was set."""
        names = ("lowered_us", "polls_us", "bytes_us", "not_before_us", "last_us")
        changes = {name: max(1, at_us + by_us) for name in names if (at_us := getattr(self, name))}
        return msgspec.structs.replace(self, **changes)

    def settled(self, now_us: Instant) -> HostBudget:
        """A budget that was kept, for use now: one from the future, by a wrong clock, is moved back."""
        latest_us = max(self.last_us, self.lowered_us)
        found = self if latest_us <= now_us else self.shifted(now_us - latest_us)
        ahead_us = max(found.polls_us, found.bytes_us, found.not_before_us) - now_us
        return found if ahead_us <= limits.POLL_LATEST_US else HostBudget(self.name)

    def idle(self, now_us: Instant) -> bool:
        """Whether nothing would be lost by forgetting it."""
        latest_us = max(self.polls_us, self.bytes_us, self.not_before_us)
        if self.spacing_us:
            latest_us = max(latest_us, self.last_us + _SPACED_US)
        return latest_us <= now_us and self.share_at(now_us) == 1


def _burst(polls: int) -> int:
    return max(1, polls // 10)


def _each_us(polls: int) -> int:
    """Between two fetches, so that a burst and what follows within the hour are `polls` together."""
    return ceil(HOUR_US / (polls - _burst(polls) + 1))


def _ahead_us(polls: int) -> int:
    return (_burst(polls) - 1) * _each_us(polls)
