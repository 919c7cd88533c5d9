"""Simulated feeds that change and are polled by a rule: how late each subscriber learns of an update.

Channels do not disturb one another, so all of them are walked at once, poll by poll. At a poll a rule sees
what the feed shows, the dates of its newest items, and says when to poll next. Gaps between updates are gamma
distributed with a coefficient of variation of 1.3, the median of feeds: updates come in bursts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from penstock.model.instant import SECOND_US
from penstock_lab.sim.corona.workload import DAY_US, MINUTE_US, update_intervals_us, zipf

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock_lab.sim.corona.workload import Floats, Ints

HISTORY_US: Final = 30 * DAY_US
"""Items from before the start that a feed shows: what rules learn from at the first poll."""

ITEMS: Final = 15
"""Newest items a feed shows."""

VARIATION: Final = 1.3
"""Coefficient of variation of the gaps between updates."""

SETTLING_US: Final = DAY_US
"""Polls before this are made but not counted."""


@dataclass(frozen=True, slots=True)
class Feeds:
    """Channels, who subscribes to them, and when they change."""

    subscribers: Ints
    update_interval_us: Ints
    """The true mean update interval of each channel, hidden from rules that have to learn it."""
    start: NDArray[np.intp] = field(repr=False)
    """Index into `times_us` where the updates of each channel begin, plus one end marker."""
    times_us: Ints = field(repr=False)
    """Update times of all channels, one channel after the other; the simulation begins at 0."""
    length_us: int
    _keys: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.subscribers)

    def until(self, channel: Ints, at_us: Ints) -> NDArray[np.intp]:
        """Return the index into `times_us` of the first update of each channel after a time."""
        return np.searchsorted(self._keys, _key(channel, at_us, self.length_us), side="right")


def _key(channel: Ints, at_us: Ints, length_us: int) -> Floats:
    span = HISTORY_US + length_us + 1.0
    return channel + (np.clip(at_us, -HISTORY_US, length_us) + HISTORY_US) / span


def some_feeds(*, channels: int, subscriptions: int, days: int, seed: int) -> Feeds:
    """Popularity and update intervals as in Corona's evaluation."""
    dice = np.random.default_rng((seed, 4))
    length_us = SETTLING_US + days * DAY_US
    subscribers = dice.permutation(zipf(channels, subscriptions, dice))
    interval_us = update_intervals_us(channels, dice)
    shape = VARIATION**-2
    times: list[Ints] = []
    for mean_us in interval_us.tolist():
        expected = (HISTORY_US + length_us) / mean_us
        gaps = dice.gamma(shape, mean_us / shape, int(expected + 6 * VARIATION * expected**0.5 + 20))
        # The first gap is cut at a random place: the feed is older than its history.
        gaps[0] *= dice.random()
        at_us = np.cumsum(gaps).astype(np.int64) - HISTORY_US
        times.append(at_us[at_us < length_us])
    counts = np.array([len(part) for part in times])
    flat = np.concatenate(times)
    owner = np.repeat(np.arange(channels), counts)
    return Feeds(
        subscribers=subscribers,
        update_interval_us=interval_us,
        start=np.concatenate(([0], np.cumsum(counts))),
        times_us=flat,
        length_us=length_us,
        _keys=_key(owner, flat, length_us),
    )


@dataclass(frozen=True, slots=True)
class FeedView:
    """Knowledge of a rule at a poll: arrays with one entry per channel polled."""

    feeds: Feeds = field(repr=False)
    channel: Ints
    now_us: Ints
    behind: NDArray[np.intp]
    """Index into `feeds.times_us` of the first update that has not happened yet, per channel."""

    @property
    def subscribers(self) -> Ints:
        """Number of subscribers of each channel polled."""
        return self.feeds.subscribers[self.channel]

    def items_since(self, span_us: int) -> Ints:
        """Return how many items each feed published in the last `span_us` microseconds."""
        return self.behind - np.maximum(
            self.feeds.until(self.channel, self.now_us - span_us), self.feeds.start[self.channel]
        )

    def quiet_us(self) -> Ints:
        """Return the time since the newest item of each feed; without items, since before its history."""
        none = self.behind <= self.feeds.start[self.channel]
        newest = self.feeds.times_us[np.maximum(self.behind - 1, 0)]
        return self.now_us - np.where(none, -HISTORY_US, newest)

    def mean_gap_us(self) -> Floats:
        """Return the mean gap between the items each feed shows; NaN with fewer than two items."""
        first = np.maximum(self.behind - ITEMS, self.feeds.start[self.channel])
        gaps = self.behind - 1 - first
        there = gaps > 0
        span = (
            self.feeds.times_us[np.maximum(self.behind - 1, 0)]
            - self.feeds.times_us[np.minimum(first, len(self.feeds.times_us) - 1)]
        )
        return np.where(there, span / np.maximum(gaps, 1), np.nan)


class Rule(Protocol):
    """A scheduler: when a channel is to be polled next."""

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:
        """Return how long each channel waits from this poll to its next one."""
        ...


@dataclass(frozen=True, slots=True)
class RuleFigures:
    """Load and delays of one rule on one set of feeds."""

    polls_per_day: float
    """Mean number of polls of a channel in a day."""
    per_update_s: float
    """Mean delay of an update, counted once for each subscriber it is delivered to."""
    per_subscription_s: float
    """Mean time from any moment to the next poll, each subscription counted alike."""


def poll(feeds: Feeds, rule: Rule, *, stretch: float = 1.0, seed: int) -> RuleFigures:
    """Poll all feeds by a rule whose waits are multiplied by `stretch`."""
    dice = np.random.default_rng((seed, 5))
    channel = np.arange(len(feeds))
    # Spread the first polls over one wait: polling everything at once would be a rule of its own.
    start = np.zeros(len(feeds), np.int64)
    first = FeedView(feeds, channel, start, feeds.until(channel, start))
    now_us = (rule.wait_us(first, dice) * stretch * dice.random(len(feeds))).astype(np.int64)
    before_us = np.full(len(feeds), SETTLING_US)
    told = feeds.until(channel, before_us)
    polls = 0
    late = asked = waited = 0.0
    while len(channel):
        behind = feeds.until(channel, now_us)
        seen = FeedView(feeds, channel, now_us, behind)
        counted = now_us > SETTLING_US
        polls += int((counted & (now_us < feeds.length_us)).sum())
        weight = feeds.subscribers[channel]
        fresh = np.where(counted, np.maximum(behind - told, 0), 0)
        if fresh.any():
            rows = np.repeat(np.arange(len(channel)), fresh)
            which = np.repeat(told, fresh) + _ranks(fresh)
            late += float((weight[rows] * (now_us[rows] - feeds.times_us[which])).sum())
            asked += float(weight[rows].sum())
        gap = np.where(counted, np.minimum(now_us, feeds.length_us) - before_us, 0).astype(np.float64)
        rest = np.maximum(now_us - feeds.length_us, 0)
        # A moment within the gap waits for its end: the integral over the part that is counted.
        waited += float((weight * gap * (gap / 2 + rest)).sum())
        before_us = np.where(counted, now_us, before_us)
        told = np.where(counted, behind, told)
        goes_on = now_us < feeds.length_us
        wait = np.maximum(rule.wait_us(seen, dice) * stretch, MINUTE_US)
        now_us = (now_us + wait).astype(np.int64)[goes_on]
        channel, before_us, told = channel[goes_on], before_us[goes_on], told[goes_on]
    counted_us = feeds.length_us - SETTLING_US
    return RuleFigures(
        polls_per_day=polls / len(feeds) / (counted_us / DAY_US),
        per_update_s=late / max(asked, 1.0) / SECOND_US,
        per_subscription_s=waited / counted_us / float(feeds.subscribers.sum()) / SECOND_US,
    )


def _ranks(counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number the entries of each group 0, 1, …."""
    return np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)


def at_load(feeds: Feeds, rule: Rule, polls_per_day: float, *, seed: int) -> tuple[float, RuleFigures]:
    """Run the rule with its waits stretched so that it makes this many polls per channel and day.

    Bisection on the logarithm; a rule whose waits depend on what it has seen does not scale exactly.
    """
    low, high = -10.0, 10.0
    found = poll(feeds, rule, seed=seed)
    stretch = 0.0
    for _ in range(20):
        if abs(found.polls_per_day / polls_per_day - 1) < TOLERANCE:
            break
        if found.polls_per_day > polls_per_day:
            low = stretch
        else:
            high = stretch
        guess = stretch + float(np.log2(found.polls_per_day / polls_per_day))
        stretch = guess if low < guess < high else (low + high) / 2
        found = poll(feeds, rule, stretch=2.0**stretch, seed=seed)
    return 2.0**stretch, found


TOLERANCE: Final = 0.005
"""Relative difference up to which two loads count as equal."""
