"""What receivers that are behind cost: rows that tell, and that fail where the thing is broken."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from penstock_lab.bench.node import behind
from penstock_lab.bench.node.behind import Pairs
from penstock_lab.rigs.brokers import our_node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock_lab.rigs.brokers import Broker


def test_the_interval_holds_the_median_and_narrows() -> None:
    few, many = (Pairs([0.9 + 0.2 * place / count for place in range(count)]) for count in (11, 400))
    assert few.interval[0] < few.middle < few.interval[1]
    assert many.interval[1] - many.interval[0] < 0.03 < few.interval[1] - few.interval[0]


def test_an_interval_tells_if_the_goal_is_outside() -> None:
    pairs = Pairs([1.0] * 20 + [0.9] * 3)
    assert pairs.tells(0.95)
    assert not Pairs([0.9, 1.0] * 20).tells(0.95)
    assert not Pairs([1.0]).tells(1.0)
    assert "median of 23 pairs" in str(pairs)


@pytest.fixture(scope="module")
def ours() -> Iterator[Broker]:
    with our_node({"queues": {"events": 8_192}, "sys_interval_s": 0}) as broker:
        yield broker


@pytest.mark.e2e
def test_a_stalled_receiver_that_costs_much_is_seen(ours: Broker) -> None:
    dear = replace(
        behind.WORKING, receivers=9
    )  # fifteen that pack all the time, in the place of one that waits
    judged, same, _ = behind.stalled(ours, run_s=0.05, least=5, most=9, shape=dear)
    assert judged.ok is False, judged
    assert (same.ok, same.ratio is not None) == (None, True)
    assert "pairs" in judged.note


@pytest.mark.e2e
def test_policies_at_work_pack(ours: Broker) -> None:
    cost, packed, _ = behind.at_work(ours, ours, run_s=0.02, pairs=2)
    assert (packed.value, packed.ok) == (behind.BEHIND, True)
    assert cost.value > 0


@pytest.mark.e2e
def test_policies_that_do_nothing_are_seen(ours: Broker) -> None:
    idle = replace(behind.WORKING, stalled_policy="levels: [{drop: {within: [0, 1], attribute: pulse}}]")
    lazy = replace(idle, stalled=0, receivers=2, policy=idle.stalled_policy)
    _, packed, _ = behind.at_work(ours, ours, run_s=0.02, pairs=2, shape=lazy)
    assert (packed.value, packed.ok) == (0, False)
