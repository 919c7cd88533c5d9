"""The continuous allocation: its figures, its optimality, and what it does where it cannot be kept."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.allocation import Factors, Scheme, allocate
from penstock.core.channels.allocation.solver import Problem, fill, fill_groups, within_budget, within_target
from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US
from tests.core.channels.allocation.papers_channels import DAY_US, TAU_US, papers_channels


def test_the_paper_s_channels_at_the_paper_s_load_are_found_after_16_seconds() -> None:
    found = allocate(papers_channels(), tau_us=TAU_US, least_us=SECOND_US, most_us=DAY_US)
    assert found.load / 100_000 == pytest.approx(50, abs=1e-5)
    assert found.mean_delay_us / SECOND_US == pytest.approx(16.03, abs=0.01)
    assert found.met
    assert found.price > 0


def test_thirty_seconds_take_27_polls_per_channel() -> None:
    found = allocate(
        papers_channels(),
        scheme=Scheme.FAST,
        target_us=30 * SECOND_US,
        tau_us=TAU_US,
        least_us=SECOND_US,
        most_us=DAY_US,
    )
    assert found.load / 100_000 == pytest.approx(26.7, abs=0.05)
    assert found.mean_delay_us == pytest.approx(30 * SECOND_US, abs=1)
    assert found.met


def test_without_a_budget_channels_are_polled_as_much_as_subscribers_alone_would_poll_them() -> None:
    factors = Factors([3, 5, 0], [1.0, 10.0, 7.0])
    found = allocate(factors, tau_us=TAU_US, least_us=1, most_us=DAY_US)
    assert found.budget == 53
    assert found.load == pytest.approx(53)


# -- optimality ----------------------------------------------------------------------------------------------


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """A few channels on up to three hosts, with bounds and limits that may or may not bind."""
    rows = draw(st.integers(1, 8))
    logs = st.floats(-3, 3)

    def column(scale: float = 1.0) -> np.ndarray:
        return scale * 10 ** np.array(draw(st.lists(logs, min_size=rows, max_size=rows)))

    low = column(0.01)
    weight = column() * np.array(draw(st.lists(st.sampled_from([0, 1, 1, 1]), min_size=rows, max_size=rows)))
    limits = [draw(st.sampled_from([np.inf, 0.1, 1.0, 30.0, 1000.0])) for _ in range(3)]
    return Problem(
        weight=weight,
        cost=column(),
        low=low,
        high=low * (1 + column(10)),
        count=np.ones(rows),
        group=np.array(draw(st.lists(st.integers(0, 2), min_size=rows, max_size=rows)), np.intp),
        limits=np.array(limits),
        tau_us=1_000,
    )


@given(problem=problems(), budget=st.floats(-3, 6).map(lambda power: 10.0**power))
def test_nothing_is_gained_by_moving_load_from_one_channel_to_another(
    problem: Problem, budget: float
) -> None:
    polls = within_budget(problem, budget).polls
    assert_allowed(problem, polls)
    spent = float((problem.cost * polls).sum())
    least = float((problem.cost * problem.low).sum())
    assert spent <= max(budget, least) * (1 + 1e-9)
    room = room_to_rise(problem, polls)
    if spent < budget * (1 - 1e-9):
        assert not (room > 1e-9 * problem.cost * polls).any(), "load is left, and somebody could use it"
    assert_no_exchange_helps(problem, polls)


@given(problem=problems(), share=st.floats(0.01, 0.99))
def test_a_target_is_met_with_load_that_cannot_be_moved_to_advantage(problem: Problem, share: float) -> None:
    weight = float(problem.weight.sum())
    if weight == 0:
        return
    fastest = delay(problem, within_budget(problem, 1e12).polls)
    slowest = delay(problem, problem.low)
    target = fastest + share * (slowest - fastest)
    polls = within_target(problem, target / weight).polls
    assert_allowed(problem, polls)
    assert delay(problem, polls) == pytest.approx(target, rel=1e-6)
    assert_no_exchange_helps(problem, polls)


def assert_allowed(problem: Problem, polls: np.ndarray) -> None:
    assert (polls >= problem.low).all()
    assert (polls <= problem.high).all()
    assert problem.group is not None
    spent = np.bincount(problem.group, problem.cost * polls, len(problem.limits))
    least = np.bincount(problem.group, problem.cost * problem.low, len(problem.limits))
    assert (spent <= np.maximum(problem.limits, least) * (1 + 1e-9)).all()


def room_to_rise(problem: Problem, polls: np.ndarray) -> np.ndarray:
    """Load that each channel somebody waits for could still take, by its bound and its host's."""
    assert problem.group is not None
    spent = np.bincount(problem.group, problem.cost * polls, len(problem.limits))
    host = np.maximum(problem.limits - spent, 0.0)[problem.group]
    own = problem.cost * (problem.high - polls)
    return np.where(problem.weight > 0, np.minimum(own, np.where(host > 1e-9 * spent.max(), host, 0.0)), 0.0)


def assert_no_exchange_helps(problem: Problem, polls: np.ndarray) -> None:
    assert problem.group is not None
    before = delay(problem, polls)
    room = room_to_rise(problem, polls)
    for giver, taker in permutations(range(len(polls)), 2):
        spare = problem.cost[giver] * (polls[giver] - problem.low[giver])
        own = problem.cost[taker] * (problem.high[taker] - polls[taker])
        takes = own if problem.group[giver] == problem.group[taker] else room[taker]
        for moved in (0.5 * min(spare, takes), 0.001 * min(spare, takes)):
            other = polls.copy()
            other[giver] -= moved / problem.cost[giver]
            other[taker] += moved / problem.cost[taker]
            assert delay(problem, other) >= before * (1 - 1e-9)


def delay(problem: Problem, polls: np.ndarray) -> float:
    return float((problem.weight * problem.tau_us / 2 / polls).sum())


@given(problem=problems(), total=st.floats(-3, 6).map(lambda power: 10.0**power))
def test_a_level_fills_what_the_total_allows(problem: Problem, total: float) -> None:
    pace, low, high = problem.weight, problem.low, problem.high
    level = fill(pace, low, high, total)
    reached = np.clip(pace * level, low, high) if np.isfinite(level) else np.where(pace > 0, high, low)
    if level == 0:
        assert low.sum() >= total * (1 - 1e-12)
    elif np.isfinite(level):
        assert reached.sum() == pytest.approx(total, rel=1e-9)
    else:
        assert reached.sum() <= total * (1 + 1e-12)


@given(problem=problems())
def test_groups_are_filled_as_each_would_be_by_itself(problem: Problem) -> None:
    assert problem.group is not None
    together = fill_groups(problem.weight, problem.low, problem.high, problem.group, problem.limits)
    for group, level in enumerate(together):
        own = problem.group == group
        alone = fill(problem.weight[own], problem.low[own], problem.high[own], problem.limits[group])
        assert level == pytest.approx(alone, rel=1e-9)


# -- bounds and hosts ----------------------------------------------------------------------------------------


def test_a_host_at_its_limit_has_a_price_and_the_others_share_what_it_leaves() -> None:
    factors = Factors([100, 100, 100, 100], host=["big", "big", "big", "small"])
    found = allocate(
        factors, tau_us=TAU_US, least_us=1, most_us=DAY_US, budget=40, host_limits={"big": 6, "small": 100}
    )
    polls = TAU_US / found.interval_us
    assert polls == pytest.approx([2, 2, 2, 34], rel=1e-6)
    assert list(found.host_prices) == ["big"]
    assert found.met


def test_an_interval_is_what_the_prices_say() -> None:
    rng = np.random.default_rng(5)
    factors = Factors(
        rng.integers(0, 50, 300), rng.uniform(1, 9, 300), rng.lognormal(22, 2, 300), rng.integers(0, 9, 300)
    )
    least_us, most_us = 60 * SECOND_US, DAY_US
    found = allocate(
        factors,
        scheme=Scheme.FAIR_SQRT,
        tau_us=TAU_US,
        least_us=least_us,
        most_us=most_us,
        budget=800,
        host_limits=100,
    )
    assert 0 < len(found.host_prices) < 9
    price = found.price + np.array([found.host_prices.get(host, 0.0) for host in factors.host.tolist()])
    weight = factors.subscribers * np.sqrt(TAU_US / factors.update_interval_us)
    with np.errstate(divide="ignore"):
        expected = np.sqrt(2 * TAU_US * factors.cost * price / weight)
    assert found.interval_us == pytest.approx(np.clip(expected, least_us, most_us), abs=1.5)


def test_a_row_may_stand_for_many_channels() -> None:
    rng = np.random.default_rng(9)
    count = rng.integers(1, 6, 50)
    columns = [
        rng.integers(0, 90, 50),
        rng.uniform(1, 9, 50),
        rng.lognormal(22, 2, 50),
        rng.integers(0, 4, 50),
    ]
    asked = {"tau_us": TAU_US, "least_us": 60 * SECOND_US, "most_us": DAY_US, "host_limits": 90}
    summed = allocate(Factors(*columns, count=count), **asked)  # type: ignore[arg-type]
    single = allocate(Factors(*(np.repeat(column, count) for column in columns)), **asked)  # type: ignore[arg-type]
    assert np.repeat(summed.interval_us, count) == pytest.approx(single.interval_us, abs=1)
    assert summed.load == pytest.approx(single.load)
    assert summed.mean_delay_us == pytest.approx(single.mean_delay_us)
    assert summed.host_prices == pytest.approx(single.host_prices)


def test_bounds_may_differ_by_channel() -> None:
    least_us = np.array([60, 600]) * SECOND_US
    found = allocate(Factors([9, 9]), tau_us=TAU_US, least_us=least_us, most_us=DAY_US, budget=1_000)
    assert found.interval_us.tolist() == least_us.tolist()
    assert found.price == 0, "there is load to spare"
    assert found.met


def test_a_channel_nobody_waits_for_is_polled_as_seldom_as_allowed() -> None:
    found = allocate(Factors([0, 5]), tau_us=TAU_US, least_us=SECOND_US, most_us=DAY_US, budget=10)
    assert found.interval_us[0] == DAY_US
    nobody = allocate(Factors([0, 0]), tau_us=TAU_US, least_us=SECOND_US, most_us=DAY_US, budget=10)
    assert nobody.interval_us.tolist() == [DAY_US, DAY_US]
    assert np.isnan(nobody.mean_delay_us)


@pytest.mark.parametrize(
    ("settings", "interval_us"),
    [
        ({"budget": 0.001}, DAY_US),
        ({"scheme": Scheme.FAST, "target_us": 1}, 60 * SECOND_US),
        ({"budget": 50, "host_limits": 1e-6}, DAY_US),
    ],
    ids=["budget", "target", "host"],
)
def test_what_cannot_be_kept_is_kept_as_far_as_it_can_be_and_said(
    settings: dict[str, object], interval_us: int
) -> None:
    found = allocate(Factors([3]), tau_us=TAU_US, least_us=60 * SECOND_US, most_us=DAY_US, **settings)  # type: ignore[arg-type]
    assert found.interval_us.tolist() == [interval_us]
    assert not found.met
    assert found.hosts_over == ([0] if "host_limits" in settings else [])


def test_no_channels_are_no_load() -> None:
    found = allocate(Factors([]), tau_us=TAU_US, least_us=1, most_us=2, host_limits=3)
    assert (len(found.interval_us), found.load, found.met) == (0, 0, True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"least_us": 0}, "shortest interval"),
        ({"least_us": DAY_US + 1}, "in this order"),
        ({"tau_us": 0}, "tau"),
        ({"budget": 0}, "budget"),
        ({"budget": float("nan")}, "budget"),
        ({"target_us": 5}, "is for 'fast'"),
        ({"scheme": Scheme.FAST}, "needs a delay target"),
        ({"scheme": Scheme.FAST, "target_us": 5, "budget": 5}, "no budget"),
        ({"host_limits": 0}, "limit of host"),
        ({"host_limits": {0: float("nan")}}, "limit of host"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    given_ = {"tau_us": TAU_US, "least_us": 60, "most_us": DAY_US} | settings
    with pytest.raises(ChannelError, match=said):
        allocate(Factors([1, 2]), **given_)  # type: ignore[arg-type]
