"""One key of a packed stream, turn by turn, against the queue core run directly. Needs Arrow but no JVM."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_type

from penstock.core.queues import Ladder, LadderState, PackingQueue, QueueOptions
from penstock.errors import InputError
from penstock.model import Control, Digest, Event
from penstock.model.digest import Cause
from penstock.pipeline.compile.digest_rows import digest_of_row
from penstock.pipeline.compile.queue_columns import TIE
from penstock.pipeline.stream import key_queue
from penstock.pipeline.stream.key_queue import (
    BUNDLE,
    NOW,
    HeldRows,
    KeyQueue,
    QueueRules,
    TriggerResult,
    bundled,
    in_order,
    of_key,
    read_bundle,
    unbundled,
    write_bundle,
)
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy.text.forms import parse
from tests.spark.stream.key_rows import event, rows_of, value_of

POLICY = parse("""
attribute: v
digest: [count, mean, min, max]
levels:
  - drop: {delta: 3}
  - drop: {within: [20, 80]}
  - keep: {latest: 2}
""")
SECOND_US = 1_000_000
HOLD_US = 60 * SECOND_US


def digest(ts: int, count: int = 2) -> Digest:
    return Digest(count, ts, ts + 1, ts, ts + 1, ((Cause(1, 1, "delta"), count),))


def rules(**more: Any) -> QueueRules:
    given = {"policy": POLICY, "capacity": 6, "hold_us": HOLD_US, "behind_us": None, **more}
    return QueueRules(key=("room",), order=("ts",), events=("ts", "v"), **given)


class Key:
    """A key whose state lives in memory, and the account of all it was given."""

    def __init__(self, found: QueueRules) -> None:
        self.queue = KeyQueue(found)
        self.held: HeldRows | None = None
        self.ladder: LadderState | None = None
        self.given = self.gone = 0

    def turn(self, items: list[Event | Digest], now_us: int) -> list[Any]:
        """The output: values of events, counts of digests in brackets."""
        turn = self.queue.turn(
            in_order(rows_of(items), ("ts",)), now_us=now_us, held=self.held, ladder=lambda: self.ladder
        )
        self.keep(turn)
        self.given += sum(item.count if isinstance(item, Digest) else 1 for item in items)
        rows = [] if turn.out is None else turn.out.to_pylist()
        self.gone += sum(row["digest"]["count"] if row.get("digest") else 1 for row in rows)
        assert self.given == self.gone + (0 if self.held is None else self.held.count)
        return [[row["digest"]["count"]] if row.get("digest") else row["v"] for row in rows]

    def keep(self, turn: TriggerResult) -> None:
        self.held = (
            None
            if turn.held is None
            else HeldRows(turn.held.until_us, read_bundle(write_bundle(turn.held.rows)), turn.held.count)
        )
        self.ladder = turn.ladder or self.ladder


def test_what_fits_goes_out_as_it_came_in_the_order_asked_for() -> None:
    key = Key(rules())
    assert key.turn([event(3, 3.0), event(1, 1.0), event(2, 2.0)], 0) == [1.0, 2.0, 3.0]
    assert key.ladder is None


def test_what_does_not_fit_is_packed_and_the_newest_stays() -> None:
    key = Key(rules())
    assert key.turn([event(n, 50.0 + n % 2) for n in range(9)], 0) == [50.0, [7], 50.0]
    assert key.ladder is not None
    assert key.ladder.last_us == 0


@pytest.mark.parametrize("seed", range(20))
def test_many_turns_are_those_of_one_queue_that_is_emptied_after_each(seed: int) -> None:
    dice = Random(seed)
    capacity = dice.choice([3, 6, 20])
    key = Key(rules(capacity=capacity))
    # On Spark there is no link, and so no share of it for digests.
    core = PackingQueue(
        replace(POLICY, digest_share=1.0),
        QueueOptions(capacity_events=capacity, capacity_bytes=1 << 40),
        Ladder(),
    )
    now_us = ts = 0
    levels = set()
    for _ in range(40):
        now_us += dice.choice([800, 1_000, 1_100, 3_000])
        events: list[Event | Digest] = []
        for _ in range(dice.choice([1, capacity, capacity + 1, 3 * capacity])):
            ts += 1
            events.append(event(ts, round(dice.uniform(0, 100), 1)))
        core.absorb(events, now_us=now_us)
        expected: list[Any] = []
        for found in core.take():
            assert not isinstance(found, Control)
            expected.append(value_of(found) if isinstance(found, Event) else [found.count])
        assert key.turn(events, now_us) == expected
        levels |= {record.level for record in core.events()}
    assert capacity == 3 or len(levels) > 1


def test_a_digest_behind_the_last_event_waits_for_the_next_trigger() -> None:
    key = Key(rules())
    assert key.turn([event(1, 1.0), digest(2)], 0) == [1.0]
    assert key.held is not None
    assert (key.held.count, key.held.until_us) == (2, HOLD_US)
    assert key.turn([digest(4), digest(6)], SECOND_US) == []  # still none behind it
    assert (key.held.count, key.held.until_us) == (6, HOLD_US)
    assert key.turn([digest(8), event(10, 9.0), digest(11)], 2 * SECOND_US) == [[8], 9.0]
    assert (key.held.count, key.held.until_us) == (2, HOLD_US + 2 * SECOND_US)


def test_digests_are_gathered_over_triggers() -> None:
    key = Key(rules(policy=replace(POLICY, digest_every_us=3 * SECOND_US)))
    assert key.turn([event(1, 1.0), digest(2), event(4, 2.0)], 0) == [1.0, 2.0]
    assert key.held is not None
    assert (key.held.count, key.held.until_us) == (2, 3 * SECOND_US)
    assert key.turn([event(5, 3.0)], SECOND_US) == [3.0]
    assert key.turn([digest(6), event(8, 4.0)], 2 * SECOND_US) == [4.0]
    assert (key.held.count, key.held.until_us) == (4, 3 * SECOND_US)
    assert key.turn([event(9, 5.0)], 3 * SECOND_US) == [[4], 5.0]
    assert key.held is None


@pytest.mark.parametrize("seed", range(10))
def test_gathering_is_that_of_the_queue_a_node_has(seed: int) -> None:
    dice = Random(seed)
    policy = replace(POLICY, digest_every_us=3_000, digest_share=1.0)
    key = Key(rules(capacity=6, policy=policy))
    core = PackingQueue(policy, QueueOptions(capacity_events=6, capacity_bytes=1 << 40), Ladder())
    now_us = ts = 0
    for _ in range(60):
        now_us += dice.choice([800, 1_000, 3_000])
        events: list[Event | Digest] = []
        for _ in range(dice.choice([1, 6, 7, 18])):
            ts += 1
            events.append(event(ts, round(dice.uniform(0, 100), 1)))
        core.absorb(events, now_us=now_us)
        expected: list[Any] = []
        for found in core.take(now_us=now_us):
            assert not isinstance(found, Control)
            expected.append(value_of(found) if isinstance(found, Event) else [found.count])
        assert key.turn(events, now_us) == expected
        assert (0 if key.held is None else key.held.until_us) == (core.due_us or 0)


def test_what_is_held_is_merged_with_what_the_next_pack_drops() -> None:
    key = Key(rules())
    assert key.turn([event(1, 1.0), digest(2)], 0) == [1.0]
    crowd: list[Event | Digest] = [event(4 + n, 50.0) for n in range(9)]
    found = key.turn(crowd, SECOND_US)
    assert found[0] == [2]
    assert found[-1] == 50.0


def test_holding_ends() -> None:
    key = Key(rules())
    key.turn([event(1, 1.0), digest(2)], 0)
    assert key.turn([digest(4)], HOLD_US) == [[4]]
    assert key.held is None
    at_once = Key(rules(hold_us=0))
    assert at_once.turn([event(1, 1.0), digest(2)], 0) == [1.0, [2]]
    assert at_once.held is None


def test_a_backlog_waits_in_one_queue_until_the_key_has_caught_up() -> None:
    now_us = 3_600 * SECOND_US
    key = Key(rules(capacity=6, behind_us=60 * SECOND_US))
    for trigger in range(5):  # an hour old: five triggers, each of which would fit
        old: list[Event | Digest] = [event(10 * trigger + n, 50.0) for n in range(6)]
        assert key.turn(old, now_us + trigger * SECOND_US) == []
        assert key.held is not None
        assert key.held.rows.num_rows <= 6
    found = key.turn([event(now_us, 7.0)], now_us + 5 * SECOND_US)
    assert len(found) <= 6
    assert found[-1] == 7.0
    assert key.held is None
    assert key.gone == 31


def test_a_backlog_is_let_out_when_its_time_is_over() -> None:
    now_us = 3_600 * SECOND_US
    key = Key(rules(behind_us=SECOND_US))
    assert key.turn([event(1, 1.0)], now_us) == []
    assert key.turn([event(2, 2.0)], now_us + HOLD_US) == [1.0, 2.0]


def test_a_clock_set_back_is_a_clock_that_stands_still() -> None:
    key = Key(rules())
    crowd: list[Event | Digest] = [event(n, float(10 * n)) for n in range(9)]
    key.turn(crowd, 5_000)
    key.turn(crowd, 1_000)
    assert key.ladder is not None
    assert key.ladder.last_us == 5_000


def test_null_and_nan_in_the_order_stand_where_spark_puts_them() -> None:
    columns = {"v": pa.array([2.0, float("nan"), None, 1.0, 1.0]), TIE: pa.array([5, 4, 3, 2, 1])}
    found = in_order(pa.table(columns), ("v",))
    assert str(found["v"].to_pylist()) == "[None, 1.0, 1.0, 2.0, nan]"
    assert found[TIE].to_pylist() == [3, 1, 2, 5, 4]


def test_a_damaged_digest_is_named_by_its_key() -> None:
    damaged = Digest(5, 2, 3, 2, 3, ((Cause(1, 1, "delta"), 4),))
    with pytest.raises(
        InputError, match=r"column 'digest' where room = 'a': .* do not add up to its count 5"
    ):
        Key(rules()).turn([event(1, 1.0), damaged], 0)


def test_other_columns_than_those_held_are_refused() -> None:
    key = Key(rules())
    key.turn([event(1, 1.0), digest(2)], 0)
    other = rows_of([event(3, 3.0)]).set_column(2, "v", pa.array(["3"]))
    with pytest.raises(InputError, match="the columns of the stream differ from those of the checkpoint"):
        key.queue.turn(other, now_us=1, held=key.held, ladder=lambda: None)


def test_what_was_held_of_queues_by_other_columns_is_refused() -> None:
    key = Key(rules())
    key.turn([event(0, 1), digest(1)], 0)
    assert key.held is not None
    assert of_key(key.held.rows, key.queue._rules.key) is key.held.rows
    with pytest.raises(InputError, match="has queues by other columns than v; use a new checkpoint"):
        of_key(key.held.rows, ("v",))


def test_bundles_hold_the_rows_of_one_key_each_in_order() -> None:
    dice = Random(3)
    rows = [
        (dice.choice(["a", "b", None]), dice.choice([1.5, None]), place, dice.randint(0, 9), 7)
        for place in range(50)
    ]
    dice.shuffle(rows)
    names = ["room", "bed", "place", TIE, NOW]
    batch = pa.record_batch([pa.array(column) for column in zip(*rows, strict=True)], names=names)
    parts = [batch.slice(0, 20), batch.slice(0, 0), batch.slice(20)]
    (made,) = bundled(parts, key=("room", "bed"), order=("place",))  # as many as keys, not as batches
    assert made.num_rows == len({row[:2] for row in rows})
    for one in made.to_pylist():
        inside = read_bundle(one[BUNDLE]).to_pylist()
        assert {(row["room"], row["bed"]) for row in inside} == {(one["room"], one["bed"])}
        assert [row["place"] for row in inside] == sorted(row["place"] for row in inside)
        assert one[NOW] == 7
    back = [
        row
        for found in unbundled([made.select([BUNDLE])], digests=to_arrow_type(DIGEST))
        for row in found.to_pylist()
    ]
    assert sorted(row["place"] for row in back) == list(range(50))


def test_bundling_holds_no_more_than_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_queue, "_BUNDLED_BYTES", 100)
    batch = pa.record_batch([pa.array([1, 2]), pa.array([3, 4]), pa.array([5, 5])], names=["room", TIE, NOW])
    found = list(bundled([batch] * 7, key=("room",), order=("room",)))
    assert [made.num_rows for made in found] == [2, 2, 2]
    assert [read_bundle(data).num_rows for made in found for data in made[BUNDLE].to_pylist()] == [
        3,
        3,
        3,
        3,
        1,
        1,
    ]


def test_a_digest_row_reads_back_as_the_digest_it_was() -> None:
    key = Key(rules(hold_us=0))
    turn = key.queue.turn(
        rows_of([event(n, 50.0 + n % 2) for n in range(9)]), now_us=0, held=None, ladder=lambda: None
    )
    assert turn.out is not None
    made = [digest_of_row(row["digest"]) for row in turn.out.to_pylist() if row["digest"]]
    assert [(found.count, found.from_us, found.to_us, found.level) for found in made] == [(7, 1, 7, 1)]
    assert dict(made[0].attributes)["v"].mean == pytest.approx(50.5, abs=0.1)
