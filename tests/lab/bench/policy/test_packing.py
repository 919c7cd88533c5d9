"""The benchmark compares equals, and reports in the agreed shape."""

from __future__ import annotations

import json

import pytest

from penstock.policy import evaluate
from penstock.policy.columns import Plan
from penstock_lab.bench.policy import packing
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow, interleaved_ns


@pytest.mark.parametrize("contest", packing.CONTESTS, ids=lambda contest: contest.name)
@pytest.mark.parametrize("size", [1, 2, 40, 1000])
def test_rivals_give_the_same_queue(contest: packing.QueueContest, size: int) -> None:
    queue = packing.a_queue(size)
    level = contest.policy.highest
    expected = evaluate.pack(contest.policy, queue, level=level, now_us=0).items
    packing.check_same(contest.loop(queue), expected, "loop")
    packing.check_same(Plan(contest.policy).pack(queue, level=level, now_us=0).items, expected, "fast")


def test_a_ratio_below_its_goal_is_not_ok() -> None:
    missed = BenchmarkRow("x", 2.0, "ns", "loop", 3.0, 1.5, goal=2.0, less=True)
    reached = BenchmarkRow("y", 2.0, "ns", "loop", 4.0, 2.0, goal=2.0, less=True)
    assert (missed.ok, reached.ok, BenchmarkRow("z", 1.0, "ns").ok) == (False, True, None)
    assert not BenchmarkResult("b", (missed, reached), 1.0).ok
    assert BenchmarkResult("b", (reached,), 1.0).ok


def test_the_json_shape() -> None:
    found = json.loads(
        json.dumps(
            BenchmarkResult(
                "b", (BenchmarkRow("x", 2.0, "ns", "loop", 3.0, 1.5, 2.0, less=True),), 1.0
            ).as_json()
        )
    )
    assert found.keys() >= {"bench", "rows", "seconds", "note"}
    keys = {"name", "value", "unit", "rival", "rival_value", "ratio", "goal", "ok", "note"}
    assert found["rows"][0].keys() == keys


def test_timing_tells_slow_from_fast() -> None:
    taken = interleaved_ns(
        {"little": lambda: sum(range(10)), "much": lambda: sum(range(10_000))}, rounds=3, per_round_ns=500_000
    )
    assert taken["little"] < taken["much"]
