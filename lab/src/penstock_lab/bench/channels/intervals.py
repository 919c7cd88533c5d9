"""Our polling intervals against the rules of feed readers, at the same load.

Every rule polls the same feeds; its waits are stretched by one factor until it makes as many polls as the
others, so that only the choice of feeds counts. Two delays are taken: per delivered update (each update once
for each subscriber) and per subscription (any moment to the next poll). Ours pursues one of them at a time:
the scheme `fair` weighs channels by subscribers and update rate, `lite` by subscribers alone.

The readers' rules are facts from the projects' public sources, in our words: Miniflux
`internal/model/feed.go` and its manual (scheduler `entry_frequency`), NewsBlur `apps/rss_feeds/models.py`
(`get_next_scheduled_update`), CommaFeed `FeedRefreshIntervalCalculator` and its defaults (5 minutes, 4
hours). Errors, hints of servers and pushes do not occur here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.channels.allocation import Factors, Scheme, allocate
from penstock.core.channels.change_rate import complete
from penstock.model.instant import SECOND_US
from penstock_lab.bench.channels.feeds import ITEMS, at_load, some_feeds
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.runs.shows import Shows
from penstock_lab.sim.corona.workload import DAY_US, HOUR_US, MINUTE_US

if TYPE_CHECKING:
    from penstock_lab.bench.channels.feeds import Feeds, FeedView, Rule, RuleFigures
    from penstock_lab.bench.result import Progress
    from penstock_lab.sim.corona.workload import Floats, Ints

LEAST_US: Final = 5 * MINUTE_US
MOST_US: Final = DAY_US


class Uniform:
    """Poll every feed equally often, as most feed readers do."""

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:  # noqa: ARG002
        return np.full(len(seen.channel), float(HOUR_US))


class MinifluxLike:
    """Poll as often as items appear: a week divided by the items of the last week, 5 minutes to a day."""

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:  # noqa: ARG002
        items = seen.items_since(7 * DAY_US)
        return np.clip(7 * DAY_US / np.maximum(items, 1e-9), LEAST_US, MOST_US)


class NewsBlurLike:
    """Steps by stories per day over the last month and by subscribers, all of whom count as paying.

    A story a day or more: 6 minutes above ten subscribers, 15 above one, else 60. Fewer: an hour less the
    part of a day's story (half a day if there is one subscriber). None in a month: 6 hours or, for one
    subscriber, 12. At most 12 hours; up to a quarter is added by lot.
    """

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:
        daily = seen.items_since(30 * DAY_US) / 30.0
        many = seen.subscribers > 1
        busy = np.where(seen.subscribers > 10, 6.0, np.where(many, 15.0, 60.0))
        some = np.where(many, 60.0, 720.0) * (1 - daily)
        silent = np.where(many, 360.0, 720.0)
        minutes = np.where(daily >= 1, busy, np.where(daily > 0, some, silent))
        # The formula can leave a few seconds of the hour, which no reader would wait.
        minutes = np.clip(minutes, 1.0, 720.0)
        return minutes * (1 + dice.random(len(minutes)) / 4) * MINUTE_US


class CommaFeedLike:
    """Backs off with the time since the last item: the longest wait (4 h) after 30 days, half of it after 14,
    a quarter after 7; before, half the mean gap between the feed's items, from 5 minutes to that quarter."""

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:  # noqa: ARG002
        longest = 4.0 * HOUR_US
        quiet = seen.quiet_us()
        gap = seen.mean_gap_us()
        lively = np.where(np.isnan(gap), longest, np.clip(gap / 2, LEAST_US, longest / 4))
        return np.select(
            [quiet >= 30 * DAY_US, quiet >= 14 * DAY_US, quiet >= 7 * DAY_US],
            [np.full(len(gap), longest), np.full(len(gap), longest / 2), np.full(len(gap), longest / 4)],
            lively,
        )


@dataclass(slots=True)
class AllocatedIntervals:
    """Intervals of the continuous allocation, worked out anew every day from the dates feeds show."""

    feeds: Feeds
    scheme: Scheme
    polls_per_day: float
    known_rates: bool = False
    """Use the true update intervals instead of learned ones: the limit of what learning can reach."""
    _by_day: dict[int, Ints] = field(default_factory=dict, repr=False)

    def wait_us(self, seen: FeedView, dice: np.random.Generator) -> Floats:  # noqa: ARG002
        days = seen.now_us // DAY_US
        found = np.empty(len(days))
        for day in np.unique(days).tolist():
            if day not in self._by_day:
                self._by_day[day] = self._allocate(day * DAY_US)
            here = days == day
            found[here] = self._by_day[day][seen.channel[here]]
        return found

    def _allocate(self, now_us: int) -> Ints:
        known = self.feeds.update_interval_us if self.known_rates else learned_us(self.feeds, now_us)
        return allocate(
            Factors(self.feeds.subscribers, np.ones(len(self.feeds)), known),
            scheme=self.scheme,
            budget=self.polls_per_day * len(self.feeds),
            tau_us=DAY_US,
            least_us=LEAST_US,
            most_us=MOST_US,
        ).interval_us


SILENT_US: Final = 30 * DAY_US
"""Update interval of a feed that shows fewer than two items."""


def learned_us(feeds: Feeds, now_us: int) -> Ints:
    """Estimate update intervals from the dates of the items that feeds show at a time."""
    channel = np.arange(len(feeds))
    behind = feeds.until(channel, np.full(len(feeds), now_us))
    found = np.full(len(feeds), SILENT_US)
    for number, (first, last) in enumerate(zip(feeds.start[:-1].tolist(), behind.tolist(), strict=True)):
        rate = complete(feeds.times_us[max(first, last - ITEMS) : last].tolist(), now_us=now_us)
        if rate > 0:
            found[number] = min(round(SECOND_US / rate), SILENT_US)
    return found


NAME: Final = "polling"
SHOWS: Final = Shows(live=False)
POLLS_PER_DAY: Final = 24.0
"""Per channel: an hour between polls, the most common setting of feed readers."""
SUBSCRIPTIONS: Final = 5
"""Per channel on average."""
CHANNELS: Final = 20_000
DAYS: Final = 4
QUICK_CHANNELS: Final = 1_500
QUICK_DAYS: Final = 2
SEED: Final = 1

GOALS: Final = {
    "per delivered update": {
        "uniform": 2.5,
        "Miniflux-like": 1.3,
        "NewsBlur-like": 1.3,
        "CommaFeed-like": 1.3,
    },
    "per subscription": {
        "uniform": 1.1,
        "Miniflux-like": 1.5,
        "NewsBlur-like": 1.5,
        "CommaFeed-like": 1.5,
    },
}
"""Delay of the rule divided by ours."""


def measure(*, quick: bool, progress: Progress) -> BenchmarkResult:
    """Run every rule; the world is made from one seed."""
    begun = perf_counter()
    channels, days = (QUICK_CHANNELS, QUICK_DAYS) if quick else (CHANNELS, DAYS)
    feeds = some_feeds(channels=channels, subscriptions=SUBSCRIPTIONS * channels, days=days, seed=SEED)
    found: dict[str, RuleFigures] = {}
    rules = _rules(feeds)
    for number, (name, rule) in enumerate(rules.items()):
        progress(number, len(rules), name)
        _, found[name] = at_load(feeds, rule, POLLS_PER_DAY, seed=SEED)
    progress(len(rules), len(rules), "done")
    return BenchmarkResult(
        bench=NAME,
        rows=_rows(found),
        seconds=perf_counter() - begun,
        note=f"{channels} feeds, {SUBSCRIPTIONS} subscriptions each on average (Zipf 0.5), {days} simulated "
        f"days after one to settle, {POLLS_PER_DAY:g} polls per feed and day for every rule (within 0.5 %), "
        "updates in bursts; rules of other programs as described in docs/guides/corona.md",
    )


def _rules(feeds: Feeds) -> dict[str, Rule]:
    return {
        "uniform": Uniform(),
        "Miniflux-like": MinifluxLike(),
        "NewsBlur-like": NewsBlurLike(),
        "CommaFeed-like": CommaFeedLike(),
        "ours, fair": AllocatedIntervals(feeds, Scheme.FAIR, POLLS_PER_DAY),
        "ours, lite": AllocatedIntervals(feeds, Scheme.LITE, POLLS_PER_DAY),
        "ours, fair-sqrt": AllocatedIntervals(feeds, Scheme.FAIR_SQRT, POLLS_PER_DAY),
        "ours, fair, true rates": AllocatedIntervals(feeds, Scheme.FAIR, POLLS_PER_DAY, known_rates=True),
    }


def _rows(found: dict[str, RuleFigures]) -> tuple[BenchmarkRow, ...]:
    rows = []
    for metric, goals in GOALS.items():
        per_update = metric == "per delivered update"
        ours = _delay_s(found["ours, fair" if per_update else "ours, lite"], per_update=per_update)
        for rival, goal in goals.items():
            theirs = _delay_s(found[rival], per_update=per_update)
            rows.append(
                BenchmarkRow(
                    f"mean delay {metric}",
                    ours,
                    "s",
                    rival,
                    theirs,
                    theirs / ours,
                    goal,
                    fails_if="polls go to feeds that few read or that seldom change",
                    less=True,
                )
            )
    best = found["ours, fair, true rates"].per_update_s
    ours = found["ours, fair"].per_update_s
    rows.append(
        BenchmarkRow(
            "mean delay per delivered update",
            ours,
            "s",
            "ours if rates were known",
            best,
            best / ours,
            less=True,
        )
    )
    return (*rows, *_between(found))


def _between(found: dict[str, RuleFigures]) -> list[BenchmarkRow]:
    """Rows of the scheme fair-sqrt, between the two: by both metrics, against the best other rule."""
    rows = []
    rivals = next(iter(GOALS.values()))
    for metric in GOALS:
        per_update = metric == "per delivered update"
        ours = _delay_s(found["ours, fair-sqrt"], per_update=per_update)
        best = min(rivals, key=lambda name: _delay_s(found[name], per_update=per_update))
        theirs = _delay_s(found[best], per_update=per_update)
        rows.append(
            BenchmarkRow(
                f"scheme fair-sqrt, mean delay {metric}", ours, "s", best, theirs, theirs / ours, less=True
            )
        )
    return rows


def _delay_s(polled: RuleFigures, *, per_update: bool) -> float:
    return polled.per_update_s if per_update else polled.per_subscription_s
