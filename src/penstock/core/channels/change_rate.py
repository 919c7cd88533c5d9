"""Estimates how often a channel changes, from the dates of its items or from the results of polls.

Item dates show every change (complete observation). A poll only shows whether there was a change since the
last one: counting those ("found X in T") is low by 72 % for a channel that changes three times between polls.
For changes at random moments with rate λ the likelihood of the observed polls is

    Π_changed (1 − exp(−λ·Iⱼ)) · Π_unchanged exp(−λ·Iⱼ)

where Iⱼ is the time since the poll before. The maximum is at Σ_changed Iⱼ/(exp(λ·Iⱼ) − 1) = Σ_unchanged Iⱼ.
If every poll found a change there is no maximum: half a poll without a change is added, with this channel's
mean interval (after Cho and Garcia-Molina, "Estimating frequency of change", 2003). If no poll found one,
half a change is added.
"""

from __future__ import annotations

from math import expm1, log1p, log2
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.model.instant import LONGEST_US, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from penstock.model.instant import Instant

PRIOR: Final = 0.5
"""Polls without a change that are added, and changes that are added if none was found."""

BINS_PER_DOUBLING: Final = 2
"""Bins per doubling of the interval, in which polls that found a change are counted and summed."""

STEPS: Final = 60
"""Steps of Newton's method; each at least doubles the rate or converges."""

MEMORY_US: Final = 60 * 86_400 * SECOND_US
"""Age at which observations count 1/e: feeds fall silent, and resume."""


class ChangedPolls(msgspec.Struct):
    """Polls of similar interval that found a change."""

    count: float = 0.0
    total_us: float = 0.0


class Estimator(msgspec.Struct):
    """Results of one channel's polls, in a few hundred bytes; storable as it is."""

    memory_us: int = MEMORY_US
    polls: float = 0.0
    """Fades with time, as all sums here."""
    span_us: float = 0.0
    """Sum of the intervals."""
    unchanged_us: float = 0.0
    """Sum of the intervals without a change."""
    found: dict[int, ChangedPolls] = {}
    """Polls that found a change, by bin of their interval."""

    def observe(self, interval_us: int, *, changed: bool) -> None:
        """Record whether a poll found a change since the last one, `interval_us` ago."""
        if interval_us <= 0:
            return
        self._fade(interval_us)
        self.polls += 1
        self.span_us += interval_us
        if not changed:
            self.unchanged_us += interval_us
            return
        own = self.found.setdefault(bin_of(interval_us), ChangedPolls())
        own.count += 1
        own.total_us += interval_us

    def _fade(self, interval_us: int) -> None:
        kept = max(0.0, 1 - interval_us / self.memory_us)
        self.polls *= kept
        self.span_us *= kept
        self.unchanged_us *= kept
        for own in self.found.values():
            own.count *= kept
            own.total_us *= kept

    @property
    def changes(self) -> float:
        """Polls that found a change."""
        return sum(own.count for own in self.found.values())

    @property
    def rate_per_s(self) -> float:
        """Changes per second; 0 before the second poll."""
        if self.polls <= 0:
            return 0.0
        bins = [(own.count, own.total_us) for own in self.found.values() if own.count > 0]
        return rate_per_s(bins, unchanged_us=self.unchanged_us, mean_us=self.span_us / self.polls)

    @property
    def update_interval_us(self) -> int | None:
        """Mean time between two changes; None while nothing is known."""
        rate = self.rate_per_s
        return None if rate <= 0 else round(min(SECOND_US / rate, LONGEST_US))


def bin_of(interval_us: float) -> int:
    """Bin of an interval."""
    return int(log2(interval_us) * BINS_PER_DOUBLING)


def complete(times_us: Iterable[Instant], *, now_us: Instant) -> float:
    """Changes per second, from the dates of a feed's items; 0 if they are too few.

    Items of one moment are one change. The oldest date only marks where the feed was cut off: of n gaps, the
    one still open is not counted as a change, which makes the mean over many such feeds correct.
    """
    times = sorted({time for time in times_us if time <= now_us})
    if len(times) < 2:
        return 0.0
    return (len(times) - 1) * SECOND_US / max(now_us - times[0], 1)


def rate_per_s(changed: Sequence[tuple[float, float]], *, unchanged_us: float, mean_us: float) -> float:
    """Most likely rate, from counts of polls that found a change and the sums of their intervals.

    The score function falls and is convex. Newton's method starts at the rate for equal intervals, which lies
    below its zero (or at it, if they are equal), and rises to it.
    """
    quiet_us = unchanged_us + PRIOR * mean_us
    count = sum(number for number, _ in changed)
    if count <= 0:
        return PRIOR / quiet_us * SECOND_US
    busy_us = sum(total for _, total in changed)
    rate = log1p(busy_us / quiet_us) * count / busy_us
    for _ in range(STEPS):
        score, slope = -quiet_us, 0.0
        for number, total in changed:
            each = total / number
            rest = expm1(min(rate * each, 500.0))
            score += total / rest
            slope -= total * each * (rest + 1) / (rest * rest)
        if slope == 0 or score <= 1e-12 * quiet_us:
            break
        rate -= score / slope
    return rate * SECOND_US
