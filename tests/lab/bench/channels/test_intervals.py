"""Rules of feed readers in a simulated world."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.core.channels.allocation import Scheme
from penstock_lab.bench.channels.feeds import Feeds, FeedView, at_load, poll, some_feeds
from penstock_lab.bench.channels.intervals import (
    AllocatedIntervals,
    CommaFeedLike,
    MinifluxLike,
    NewsBlurLike,
    Uniform,
    learned_us,
    measure,
)
from penstock_lab.sim.corona.workload import DAY_US, HOUR_US, MINUTE_US

DICE = np.random.default_rng(1)


@pytest.fixture(scope="module")
def feeds() -> Feeds:
    return some_feeds(channels=300, subscriptions=1_500, days=2, seed=5)


def seen(feeds: Feeds, at_us: int = DAY_US) -> FeedView:
    channel = np.arange(len(feeds))
    now_us = np.full(len(feeds), at_us)
    return FeedView(feeds, channel, now_us, feeds.until(channel, now_us))


def times(feeds: Feeds, channel: int, until_us: int) -> list[int]:
    mine = feeds.times_us[feeds.start[channel] : feeds.start[channel + 1]]
    return [int(time) for time in mine[mine <= until_us]]


def test_what_a_rule_sees_is_what_the_feed_shows(feeds: Feeds) -> None:
    now = seen(feeds)
    weekly, quiet, gap = now.items_since(7 * DAY_US), now.quiet_us(), now.mean_gap_us()
    for channel in range(len(feeds)):
        shown = times(feeds, channel, DAY_US)
        assert weekly[channel] == sum(time > DAY_US - 7 * DAY_US for time in shown)
        if shown:
            assert quiet[channel] == DAY_US - shown[-1]
        if len(shown) > 1:
            assert gap[channel] == pytest.approx(np.diff(shown[-15:]).mean())
        else:
            assert np.isnan(gap[channel])


def test_uniform_polls_every_hour_and_is_half_an_hour_late(feeds: Feeds) -> None:
    found = poll(feeds, Uniform(), seed=1)
    assert found.polls_per_day == pytest.approx(24, rel=0.03)
    assert found.per_subscription_s == pytest.approx(1800, rel=0.01)
    assert found.per_update_s == pytest.approx(1800, rel=0.05)


def test_the_rules_say_what_their_programs_say(feeds: Feeds) -> None:
    now = seen(feeds)
    weekly, monthly = now.items_since(7 * DAY_US), now.items_since(30 * DAY_US)
    miniflux = MinifluxLike().wait_us(now, DICE)
    newsblur = NewsBlurLike().wait_us(now, DICE)
    commafeed = CommaFeedLike().wait_us(now, DICE)
    for channel in range(len(feeds)):
        expected = DAY_US if not weekly[channel] else 7 * DAY_US / weekly[channel]
        assert miniflux[channel] == pytest.approx(min(max(expected, 5 * MINUTE_US), DAY_US))
        if monthly[channel] >= 30 and feeds.subscribers[channel] > 10:
            assert 6 * MINUTE_US <= newsblur[channel] <= 7.5 * MINUTE_US
        if now.quiet_us()[channel] >= 30 * DAY_US:
            assert commafeed[channel] == 4 * HOUR_US
        elif now.quiet_us()[channel] < 7 * DAY_US and not np.isnan(now.mean_gap_us()[channel]):
            assert 5 * MINUTE_US <= commafeed[channel] <= HOUR_US
    assert newsblur.max() <= 1.25 * 12 * HOUR_US


@pytest.mark.parametrize("rule", [MinifluxLike(), NewsBlurLike(), CommaFeedLike()])
def test_loads_are_made_equal(feeds: Feeds, rule: MinifluxLike | NewsBlurLike | CommaFeedLike) -> None:
    _, found = at_load(feeds, rule, 24.0, seed=1)
    assert found.polls_per_day == pytest.approx(24, rel=0.006)


def test_learned_rates_are_near_the_true_ones(feeds: Feeds) -> None:
    lively = feeds.update_interval_us < 6 * HOUR_US
    ratio = learned_us(feeds, DAY_US)[lively] / feeds.update_interval_us[lively]
    assert np.median(ratio) == pytest.approx(1, abs=0.25)


def test_ours_is_ahead_by_its_own_metric(feeds: Feeds) -> None:
    uniform = poll(feeds, Uniform(), seed=1)
    fair = poll(feeds, AllocatedIntervals(feeds, Scheme.FAIR, 24.0), seed=1)
    lite = poll(feeds, AllocatedIntervals(feeds, Scheme.LITE, 24.0), seed=1)
    assert fair.polls_per_day == pytest.approx(24, rel=0.05)
    assert fair.per_update_s < 0.6 * uniform.per_update_s
    assert lite.per_subscription_s < uniform.per_subscription_s


@pytest.mark.slow
def test_the_quick_benchmark_reaches_its_goals() -> None:
    outcome = measure(quick=True, progress=lambda *_: None)
    assert [row.name for row in outcome.rows if row.ok is False] == []
