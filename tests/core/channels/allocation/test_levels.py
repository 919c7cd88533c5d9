"""Honeycomb's levels: the paper's figures, the optimum for their load, and the bracket around the bound."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.channels.allocation import Factors, Scheme, honeycomb, pollers_by_level
from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US
from tests.core.channels.allocation.papers_channels import TAU_US, papers_channels

if TYPE_CHECKING:
    from penstock.core.channels.allocation.levels import Levels


def test_pollers_fall_by_the_base_down_to_the_owner() -> None:
    assert pollers_by_level(1024, 16).tolist() == [1024, 64, 4, 1]
    assert pollers_by_level(256, 16).tolist() == [256, 16, 1]
    assert pollers_by_level(1, 16).tolist() == [1]


@pytest.mark.parametrize(("base", "delay_s"), [(16, 40.4), (4, 20.5)])
def test_delays_of_the_paper_s_channels(base: int, delay_s: float) -> None:
    found = honeycomb(papers_channels(), tau_us=TAU_US, nodes=1024, base=base)
    assert found.mean_delay_us / SECOND_US == pytest.approx(delay_s, abs=0.1)
    assert 49.9 < found.load / 100_000 <= 50


def test_orphans_stay_with_their_owner_and_leave_their_load_to_the_others() -> None:
    orphans = np.random.default_rng(3).random(100_000) < 4.7 / 256
    found = honeycomb(papers_channels(), tau_us=TAU_US, nodes=1024, orphans=orphans)
    assert (found.level[orphans] == 3).all()
    assert found.pollers[orphans].tolist() == [1.0] * int(orphans.sum())
    assert 49.9 < found.load / 100_000 <= 50
    assert 50 < found.mean_delay_us / SECOND_US < 58, "the paper: 53"


def test_a_target_leaves_orphans_what_they_take_of_it() -> None:
    orphans = np.random.default_rng(3).random(100_000) < 4.7 / 256
    found = honeycomb(
        papers_channels(),
        scheme=Scheme.FAST,
        target_us=30 * SECOND_US,
        tau_us=TAU_US,
        nodes=1024,
        orphans=orphans,
    )
    assert found.mean_delay_us / SECOND_US == pytest.approx(30, abs=0.01)
    assert found.met


# -- against all levels there are ----------------------------------------------------------------------------


@st.composite
def few_channels(draw: st.DrawFn) -> Factors:
    """Up to five, with equal ones among them."""
    rows = draw(st.integers(1, 5))
    numbers = st.lists(st.sampled_from([1.0, 2.0, 5.0, 30.0, 31.0, 400.0]), min_size=rows, max_size=rows)
    subscribers = [q * draw(st.sampled_from([0, 1, 1])) for q in draw(numbers)]
    return Factors(subscribers, draw(numbers), np.array(draw(numbers)) * SECOND_US)


@given(
    factors=few_channels(),
    share=st.floats(0, 1.1),
    scheme=st.sampled_from([Scheme.LITE, Scheme.FAIR, Scheme.FAIR_SQRT, Scheme.FAIR_LOG]),
)
def test_levels_are_the_optimum_for_their_own_load(factors: Factors, share: float, scheme: Scheme) -> None:
    pollers = pollers_by_level(40, 4)
    most = float(factors.cost.sum() * 40)
    found = honeycomb(factors, scheme=scheme, budget=max(share * most, 1e-6), tau_us=TAU_US, nodes=40, base=4)
    weight = scheme.weights(factors, tau_us=TAU_US)
    assert_bracket(found, cost_of=factors.cost[:, None] * pollers, worth_of=weight[:, None] / pollers)
    assert found.met == (share * most >= factors.cost.sum())


@given(factors=few_channels(), share=st.floats(0.01, 1.1))
def test_levels_for_a_target_are_the_optimum_for_their_own_delay(factors: Factors, share: float) -> None:
    if factors.subscribers.sum() == 0:
        return
    pollers = pollers_by_level(40, 4)
    target_us = max(1, round(share * TAU_US / 2))
    found = honeycomb(factors, scheme=Scheme.FAST, target_us=target_us, tau_us=TAU_US, nodes=40, base=4)
    assert found.met == (target_us >= TAU_US / 2 / 40)
    if found.met:
        assert found.mean_delay_us <= target_us * (1 + 1e-9)
    delay_of = factors.subscribers[:, None] / pollers
    assert_bracket(found, cost_of=delay_of, worth_of=factors.cost[:, None] * pollers)


def assert_bracket(found: Levels, *, cost_of: np.ndarray, worth_of: np.ndarray) -> None:
    """L*_d is the best of all levels at its own cost, and so is L*_u, which differs in one channel."""
    rows, levels = cost_of.shape
    every = np.array(list(product(range(levels), repeat=rows)))
    costs, worths = (sum(table[row, every[:, row]] for row in range(rows)) for table in (cost_of, worth_of))
    tried = [found.level]
    if found.next_step is not None:
        upper = found.level.copy()
        upper[found.next_step[0]] = found.next_step[1]
        assert (upper != found.level).sum() == 1
        tried.append(upper)
    for level in tried:
        cost = sum(cost_of[row, level[row]] for row in range(rows))
        worth = sum(worth_of[row, level[row]] for row in range(rows))
        assert worth <= worths[costs <= cost * (1 + 1e-12)].min() * (1 + 1e-9)


def test_the_bracket_holds_for_many_channels() -> None:
    rng = np.random.default_rng(8)
    factors = Factors(rng.integers(0, 1_000, 20_000), rng.uniform(1, 50, 20_000))
    found = honeycomb(factors, tau_us=TAU_US, nodes=5_000, base=4, budget=3e6)
    assert found.next_step is not None
    channel, level = found.next_step
    assert level == found.level[channel] - 1
    pollers = pollers_by_level(5_000, 4)
    assert found.load <= 3e6 < found.load + factors.cost[channel] * (pollers[level] - pollers[level + 1])
    # at the price of the next step no channel would rather be one level up or down
    at = found.level.astype(int)
    weight = factors.subscribers * TAU_US / 2
    for other in (np.maximum(at - 1, 0), np.minimum(at + 1, len(pollers) - 1)):
        here = weight / pollers[at] + found.price * factors.cost * pollers[at]
        there = weight / pollers[other] + found.price * factors.cost * pollers[other]
        assert (here <= there * (1 + 1e-9)).all()


def test_equal_channels_are_told_apart_by_their_ids() -> None:
    ties = np.array([7, 3, 9, 1], np.uint64)
    found = honeycomb(Factors([1, 1, 1, 1]), tau_us=TAU_US, nodes=16, budget=34, ties=ties)
    assert found.level.tolist() == [1, 0, 1, 0], "the two lowest ids go first"


def test_wedges_may_be_counted_instead_of_expected() -> None:
    pollers = np.array([[8.0, 3.0, 3.0], [8.0, 2.0, 1.0]])
    found = honeycomb(Factors([5, 5]), tau_us=TAU_US, nodes=8, base=4, pollers=pollers, budget=5)
    assert found.pollers.tolist() == [3.0, 2.0]
    assert found.load == 5


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"nodes": 0}, "at least 1 node"),
        ({"base": 1}, "base 2"),
        ({"pollers": np.array([1.0, 4.0])}, "must not increase"),
        ({"pollers": np.array([1.0, 0.0])}, "above 0"),
        ({"budget": -1}, "budget"),
    ],
)
def test_rings_that_cannot_be_are_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(ChannelError, match=said):
        honeycomb(Factors([1]), **({"tau_us": TAU_US, "nodes": 16} | settings))  # type: ignore[arg-type]


def test_a_single_node_has_a_single_level() -> None:
    found = honeycomb(Factors([4, 2]), tau_us=TAU_US, nodes=1)
    assert (found.level.tolist(), found.next_step, found.met) == ([0, 0], None, True)
    assert len(honeycomb(Factors([]), tau_us=TAU_US, nodes=9, budget=1).level) == 0
