"""Rows packed as columns come out as those that the queue core packs, digests and ladder included."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from penstock.core.queues import Ladder, LadderState
from penstock.errors import InputError
from penstock.pipeline.stream.column_queue import number_column
from penstock.pipeline.stream.key_queue import KeyQueue, QueueRules, TriggerResult, behind_held
from penstock.policy.text.python_form import drop, keep, policy

if TYPE_CHECKING:
    from penstock.policy.nodes import Policy

POLICIES = {
    "within": policy(drop.within(40, 60), attribute="v", digest=("count", "mean", "min", "max")),
    "every digester": policy(
        drop.within(40, 60),
        attribute="v",
        digest=("count", "mean", "min", "max", "stddev", "first", "last", "distinct", "quantiles"),
    ),
    "two attributes": policy(
        drop.within(40, 60), attribute="v", digest={"v": ("mean",), "a.b": ("max", "sum")}
    ),
    "dead band": policy(drop.delta(5), attribute="v", digest=("mean", "stddev")),
    "repeats": policy(drop.uniq(), attribute="a.b", digest={"v": ("mean",)}),
    "members": policy(keep.inset(3, 4, 5), attribute="a.b", digest=("count",)),
    "lots": policy(drop.random(0.6), attribute="v", digest=("mean",)),
    "newest": policy(keep.latest(20), attribute="v", digest=("min",)),
    "no digester": policy(keep.every(3), attribute="v"),
    "two causes": policy([drop.within(0, 30), drop.delta(4)], attribute="v", digest=("mean",)),
    "a level that is not enough": policy(
        drop.within(1, 2), drop.within(10, 90), attribute="v", digest=("mean",)
    ),
}


def rows(dice: Random, count: int) -> pa.Table:
    """Rows of a key; some have no number, one is infinite."""
    numbers = [dice.choice([None, round(dice.gauss(50, 20), 1), 45.0]) for _ in range(count)]
    numbers[dice.randrange(count)] = float("inf")
    ts = np.cumsum([dice.choice([0, 1, 1000]) for _ in range(count)]).astype(np.int64)
    return pa.table(
        {
            "room": ["a"] * count,
            "ts": ts,
            "v": pa.array(numbers, pa.float64()),
            "__event_ts_us": ts,
            "__event_seq": np.arange(count, dtype=np.int64),
            "__event_sender": ["s"] * count,
            number_column("a.b"): pa.array(
                [dice.choice([None, 3, 4, 2**60 + 1]) for _ in range(count)], pa.int64()
            ),
            number_column("v"): pa.array(numbers, pa.float64()),
            "__tie": np.arange(count, dtype=np.int64),
        }
    )


def turned(given: Policy, whole: pa.Table, known: LadderState | None, *, columns: bool) -> TriggerResult:
    queue = KeyQueue(
        QueueRules(
            policy=given,
            capacity=60,
            key=("room",),
            order=("ts",),
            events=("ts", "v"),
            hold_us=0,
            behind_us=None,
            numbers=("a.b", "v"),
        )
    )
    queue._columns._possible &= columns
    return queue.turn(whole, now_us=5_000_000, held=None, ladder=lambda: known)


@pytest.mark.parametrize("name", POLICIES)
def test_columns_and_the_queue_core_agree(name: str) -> None:
    dice = Random(name)
    by_columns = 0
    for _ in range(30):
        whole = rows(dice, dice.choice([61, 80, 200]))
        known = dice.choice([None, LadderState(1, 4_000_000, 9e5, ((1, 9e5),))])
        slow, fast = (turned(POLICIES[name], whole, known, columns=way) for way in (False, True))
        assert slow.out is not None
        assert fast.out is not None
        by_columns += "__tie" not in fast.out.column_names
        names = ["room", "ts", "v", *(["digest"] if "digest" in slow.out.column_names else [])]
        # As text: NaN is not equal to itself.
        assert repr(fast.out.select(names).to_pylist()) == repr(slow.out.select(names).to_pylist())
        assert (fast.ladder, fast.held) == (slow.ladder, slow.held)
    if name != "a level that is not enough":
        assert by_columns


def test_a_queue_that_needs_another_level_leaves_the_ladder_alone() -> None:
    found = KeyQueue(
        QueueRules(
            policy=POLICIES["a level that is not enough"],
            capacity=60,
            key=("room",),
            order=("ts",),
            events=("ts", "v"),
            hold_us=0,
            behind_us=None,
            numbers=("a.b", "v"),
        )
    )
    ladder = Ladder()
    ladder.restore(LadderState(1, 4_000_000, 9e5, ((1, 9e5),)))
    before = ladder.state()
    assert found._columns.turn(rows(Random(1), 200), ladder, list, now_us=5_000_000) is None
    assert ladder.state() == before


def test_rows_held_for_a_policy_that_read_something_else_are_refused() -> None:
    found = rows(Random(2), 20)
    other = found.rename_columns(
        [name.replace(number_column("v"), "__event_root") for name in found.column_names]
    )
    assert behind_held(found, found).num_rows == 40
    with pytest.raises(InputError, match="use a new checkpoint"):
        behind_held(other, found)
