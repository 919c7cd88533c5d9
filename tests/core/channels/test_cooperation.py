"""Nodes that decide together, each from a part of the picture."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.allocation import Factors, Scheme, honeycomb, pollers_by_level
from penstock.core.channels.cooperation import (
    NOTHING,
    SLACK,
    TRADEOFF_BINS,
    Clusters,
    Cooperation,
    CooperationOptions,
    Owned,
    cluster,
    joined,
)
from penstock.model.instant import SECOND_US

TAU_US = 1_800 * SECOND_US
DEEPEST = 3

positive = st.floats(1e-3, 1e6)
one_cluster = st.tuples(st.integers(SLACK, DEEPEST), st.integers(1, 1000), positive, positive, positive)


def as_clusters(rows: list[tuple[int, int, float, float, float]]) -> Clusters:
    if not rows:
        return NOTHING
    sums = np.array([row[1:] for row in rows], np.float64)
    ratio = sums[:, 1] / sums[:, 2]
    return Clusters(np.array([row[0] for row in rows], np.int64), sums, ratio, ratio)


def options(scheme: Scheme = Scheme.LITE, target_us: int | None = None) -> CooperationOptions:
    return CooperationOptions(scheme, pollers_by_level(1024, 16), TAU_US, target_us)


def owned(subscribers: list[float], *, level: int = DEEPEST, orphans: tuple[int, ...] = ()) -> Owned:
    count = len(subscribers)
    orphan = np.zeros(count, bool)
    orphan[list(orphans)] = True
    return Owned(np.arange(count), Factors(subscribers), np.full(count, level, np.int64), orphan)


@given(st.lists(st.lists(one_cluster, max_size=40), max_size=5))
def test_clustering_keeps_every_sum_of_every_level(
    parts: list[list[tuple[int, int, float, float, float]]],
) -> None:
    found = cluster(map(as_clusters, parts))
    rows = [row for part in parts for row in part]
    for level in range(SLACK, DEEPEST + 1):
        here = found.level == level
        assert here.sum() <= (1 if level == SLACK else TRADEOFF_BINS)
        expected = np.array([row[1:] for row in rows if row[0] == level]).reshape(-1, 4).sum(axis=0)
        assert found.sums[here].sum(axis=0) == pytest.approx(expected)


@given(st.lists(one_cluster, min_size=1, max_size=100))
def test_clusters_of_a_level_come_in_the_order_of_their_ratio(
    rows: list[tuple[int, int, float, float, float]],
) -> None:
    found = cluster([as_clusters(rows)])
    ratio = found.weight / found.cost
    for level in range(DEEPEST + 1):
        here = ratio[found.level == level]
        assert (np.diff(here) >= -1e-9 * here[1:]).all()


@given(st.lists(one_cluster, min_size=1, max_size=100), st.integers(1, 8))
def test_spreading_a_cluster_over_its_range_keeps_its_sums(
    rows: list[tuple[int, int, float, float, float]], parts: int
) -> None:
    found = cluster([as_clusters(rows)])
    spread = found.spread(parts)
    assert len(spread) == parts * len(found)
    assert spread.sums.reshape(len(found), parts, 4).sum(axis=1) == pytest.approx(found.sums)
    ratios = [sums[1] / sums[2] for sums in found.sums]
    assert (found.low <= np.array(ratios) * (1 + 1e-9)).all()
    assert (found.high >= np.array(ratios) * (1 - 1e-9)).all()


def test_few_channels_stay_apart() -> None:
    found = cluster([as_clusters([(1, 1, weight, 1.0, 1.0) for weight in (1.0, 2.0, 4.0, 8.0)])])
    assert found.weight.tolist() == [1.0, 2.0, 4.0, 8.0]


def test_a_node_that_knows_everything_ends_at_the_solution() -> None:
    subscribers = list(np.geomspace(1, 5000, 60))
    node = Cooperation(options(), owned(subscribers))
    for _ in range(DEEPEST):
        node.maintain()
    best = honeycomb(Factors(subscribers), tau_us=TAU_US, nodes=1024)
    assert node.owned.level.tolist() == best.level.tolist()
    assert len(node.maintain()) == 0


def test_channels_move_one_level_at_a_time() -> None:
    node = Cooperation(options(), owned([5000.0, 1.0]))
    assert honeycomb(Factors([5000.0, 1.0]), tau_us=TAU_US, nodes=1024).level.tolist() == [0, 0]
    for expected in (2, 1, 0):
        assert node.maintain().tolist() == [0, 1]
        assert node.owned.level.tolist() == [expected, expected]


def test_orphans_stay_with_their_owner_and_take_from_the_budget() -> None:
    node = Cooperation(options(), owned([100.0, 100.0], level=1, orphans=(0,)))
    node.maintain()
    assert node.owned.level.tolist() == [DEEPEST, 1]


def test_two_halves_that_tell_each_other_decide_like_one() -> None:
    subscribers = np.geomspace(1, 5000, 400)
    whole = Cooperation(options(), owned(subscribers.tolist()))
    everything = whole.owned
    halves = [
        Cooperation(options(), everything.take(np.arange(part, len(subscribers), 2))) for part in (0, 1)
    ]
    for _ in range(DEEPEST + 1):
        told = [half.tell(1)[0] for half in halves]
        halves[0].hear(0, 1, told[1])
        halves[1].hear(0, 0, told[0])
        for node in (whole, *halves):
            node.maintain()
    together = joined(half.owned for half in halves)
    level = together.level[np.argsort(together.channel)]
    same = (level == whole.owned.level).mean()
    assert same > 0.95
    pollers = pollers_by_level(1024, 16)
    assert pollers[level].sum() <= 1.05 * subscribers.sum()


def test_what_is_told_for_a_row_covers_that_row_and_the_deeper_ones() -> None:
    node = Cooperation(options(), owned([1.0]))
    node.hear(0, 7, as_clusters([(3, 10, 1.0, 10.0, 1.0)]))
    node.hear(1, 8, as_clusters([(3, 100, 1.0, 100.0, 1.0)]))
    assert [part.count.sum() for part in node.tell(2)] == [101, 1]
    assert node.statistics().channels_known == 111
    node.forget(1, 8)
    assert node.tell(2)[0].count.sum() == 1


def test_channels_that_are_handed_over_arrive_with_all_that_is_known() -> None:
    giver, taker = Cooperation(options(), owned([5.0, 6.0, 7.0], level=2)), Cooperation(options(), owned([]))
    taker.adopt(giver.release(np.array([0, 2])))
    assert giver.owned.channel.tolist() == [1]
    assert taker.owned.channel.tolist() == [0, 2]
    assert taker.owned.level.tolist() == [2, 2]
    assert taker.owned.factors.subscribers.tolist() == [5.0, 7.0]


def test_a_node_without_channels_has_nothing_to_decide() -> None:
    node = Cooperation(options(), owned([]))
    assert len(node.maintain()) == 0
    assert len(node.tell(0)[0]) == 0


def test_a_target_is_pursued_with_the_least_load() -> None:
    subscribers = [50.0] * 200
    node = Cooperation(options(Scheme.FAST, target_us=30 * SECOND_US), owned(subscribers))
    for _ in range(DEEPEST):
        node.maintain()
    pollers = pollers_by_level(1024, 16)[node.owned.level]
    mean_us = (TAU_US / 2 / pollers).mean()
    assert mean_us <= 30 * SECOND_US
    assert mean_us > 25 * SECOND_US
