"""Our polling intervals against the rules of feed readers, at the same load.

Every rule polls the same feeds; its waits are stretched by one factor until it makes as many polls as the
others, so that only the choice of feeds counts. Two delays are taken: per delivered update (each update once
for each subscriber) and per subscription (any moment to the next poll). Ours pursues one of them at a time:
the scheme `fair` weighs channels by subscribers and update rate, `lite` by subscribers alone.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Final

from penstock.bench.outcome import Outcome, Row
from penstock.bench.polling_rules import CommaFeedLike, MinifluxLike, NewsBlurLike, Ours, Uniform
from penstock.bench.polling_world import at_load, some_feeds
from penstock.core.channels.allocation import Scheme

if TYPE_CHECKING:
    from penstock.bench.outcome import Progress
    from penstock.bench.polling_world import Feeds, Polled, Rule

NAME: Final = "polling"
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


def measure(*, quick: bool, progress: Progress) -> Outcome:
    """Run every rule; the world is made from one seed."""
    begun = perf_counter()
    channels, days = (QUICK_CHANNELS, QUICK_DAYS) if quick else (CHANNELS, DAYS)
    feeds = some_feeds(channels=channels, subscriptions=SUBSCRIPTIONS * channels, days=days, seed=SEED)
    found: dict[str, Polled] = {}
    rules = _rules(feeds)
    for number, (name, rule) in enumerate(rules.items()):
        progress(number, len(rules), name)
        _, found[name] = at_load(feeds, rule, POLLS_PER_DAY, seed=SEED)
    progress(len(rules), len(rules), "done")
    return Outcome(
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
        "ours, fair": Ours(feeds, Scheme.FAIR, POLLS_PER_DAY),
        "ours, lite": Ours(feeds, Scheme.LITE, POLLS_PER_DAY),
        "ours, fair-sqrt": Ours(feeds, Scheme.FAIR_SQRT, POLLS_PER_DAY),
        "ours, fair, true rates": Ours(feeds, Scheme.FAIR, POLLS_PER_DAY, known_rates=True),
    }


def _rows(found: dict[str, Polled]) -> tuple[Row, ...]:
    rows = []
    for metric, goals in GOALS.items():
        per_update = metric == "per delivered update"
        ours = _delay_s(found["ours, fair" if per_update else "ours, lite"], per_update=per_update)
        for rival, goal in goals.items():
            theirs = _delay_s(found[rival], per_update=per_update)
            rows.append(Row(f"mean delay {metric}", ours, "s", rival, theirs, theirs / ours, goal))
    best = found["ours, fair, true rates"].per_update_s
    ours = found["ours, fair"].per_update_s
    rows.append(
        Row("mean delay per delivered update", ours, "s", "ours if rates were known", best, best / ours)
    )
    return (*rows, *_between(found))


def _between(found: dict[str, Polled]) -> list[Row]:
    """The scheme between the two, by both metrics, against whoever of the others is best by each."""
    rows = []
    rivals = next(iter(GOALS.values()))
    for metric in GOALS:
        per_update = metric == "per delivered update"
        ours = _delay_s(found["ours, fair-sqrt"], per_update=per_update)
        best = min(rivals, key=lambda name: _delay_s(found[name], per_update=per_update))
        theirs = _delay_s(found[best], per_update=per_update)
        rows.append(Row(f"scheme fair-sqrt, mean delay {metric}", ours, "s", best, theirs, theirs / ours))
    return rows


def _delay_s(polled: Polled, *, per_update: bool) -> float:
    return polled.per_update_s if per_update else polled.per_subscription_s
