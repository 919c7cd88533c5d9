"""A key behind a drain, trigger by trigger: what leaves when, and what is kept of it. Needs no JVM.

`tests/agreement/test_time.py` compares generated cases with backtests.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.queues import drain
from penstock.errors import InputError
from penstock.model.digest import Cause, Digest
from penstock.pipeline.stream.drained_queue import DrainedQueue
from penstock.pipeline.stream.key_queue import HeldRows, QueueRules, in_order, read_bundle, write_bundle
from penstock.policy.text.forms import parse
from tests.spark.stream.key_rows import event, rows_of

if TYPE_CHECKING:
    from penstock.model import Event

SECOND = 1_000_000
POLICY = parse("""
attribute: v
urgent: {gt: 100}
levels:
  - drop: {within: [20, 80]}
  - keep: {latest: 2}
""")


def rules(**more: Any) -> QueueRules:
    given: dict[str, Any] = {"policy": POLICY, "capacity": 100, "drain": drain("1/s"), **more}
    return QueueRules(
        key=("room",), order=("ts",), events=("ts", "v"), hold_us=SECOND, behind_us=None, **given
    )


class Key:
    """A key whose state lives in memory, and the account of all it was given."""

    def __init__(self, **more: Any) -> None:
        self.queue = DrainedQueue(rules(**more))
        self.held: HeldRows | None = None
        self.state: bytes | None = None
        self.given = self.gone = 0

    def turn(self, items: list[Event | Digest], now_us: int) -> list[Any]:
        """The output: values of events, counts of digests in brackets."""
        self.given += sum(item.count if isinstance(item, Digest) else 1 for item in items)
        rows = in_order(rows_of(items), ("ts",))
        return self.kept(self.queue.turn(rows, now_us=now_us, held=self.held, state=self.state))

    def elapse(self, now_us: int) -> list[Any]:
        assert self.held is not None
        return self.kept(self.queue.elapse(self.held, now_us=now_us, state=self.state))

    def kept(self, turn: Any) -> list[Any]:
        self.state = turn.drained
        self.held = turn.held
        if turn.held is not None:
            rows = read_bundle(write_bundle(turn.held.rows))
            self.held = HeldRows(turn.held.until_us, rows, turn.held.count)
        rows = [] if turn.out is None else turn.out.to_pylist()
        self.gone += sum(row["digest"]["count"] if row.get("digest") else 1 for row in rows)
        assert self.given == self.gone + (0 if self.held is None else self.held.count)
        return [[row["digest"]["count"]] if row.get("digest") else row["v"] for row in rows]


def readings(*values: float, at: int = 0, step: int = 0) -> list[Event | Digest]:
    return [event(at + n * step + n, value) for n, value in enumerate(values)]


def test_rows_leave_at_the_pace_of_the_drain() -> None:
    key = Key()
    assert key.turn(readings(1, 2, 3, 4), 10 * SECOND) == [1.0]
    assert key.held is not None
    assert key.turn(readings(5, at=2 * SECOND), 12 * SECOND) == [2.0, 3.0]
    assert key.elapse(key.held.until_us) == [4.0]
    assert key.elapse(60 * SECOND) == [5.0]
    assert key.held is None


def test_a_silent_key_goes_on_with_the_time_of_triggers() -> None:
    """Events are a day old: their own time has passed, but not for the drain."""
    key = Key()
    now_us = 86_400 * SECOND
    assert key.turn(readings(1, 2, 3), now_us) == [1.0]
    assert key.held is not None
    assert now_us < key.held.until_us <= now_us + SECOND
    assert key.elapse(now_us + SECOND + 5) == [2.0]
    assert key.elapse(now_us + 2 * SECOND + 5) == [3.0]


def test_urgent_rows_overtake_and_stay() -> None:
    key = Key(capacity=4)
    assert key.turn(readings(1, 50, 51, 150, 52, 53, 54), 0) == [1.0]
    assert key.elapse(60 * SECOND) == [150.0, [3], 53.0, 54.0]


def test_fresh_packs_before_an_event_waits_too_long() -> None:
    slow = readings(*range(20, 40), step=SECOND // 2)
    patient, timed = Key(), Key(policy=replace(POLICY, fresh_us=2 * SECOND))
    assert [len(key.turn(slow, 10 * SECOND)) for key in (patient, timed)] == [10, 10]
    assert patient.held is not None
    assert timed.held is not None
    assert (patient.held.rows.num_rows, timed.held.rows.num_rows) == (10, 2)


def test_digests_that_come_in_are_offered_in_their_places() -> None:
    gap = Digest(5, 2, 4, 2, 4, ((Cause(1, 1, "delta"), 5),))
    key = Key()
    assert key.turn([event(1, 1.0), gap, event(9, 2.0)], 0) == [1.0]
    assert key.elapse(60 * SECOND) == [[5], 2.0]


def test_the_drain_may_change_between_triggers() -> None:
    key = Key(drain=drain("1/h"))
    assert key.turn(readings(*range(8)), 0) == [0.0]
    key.queue = DrainedQueue(rules(drain=drain("1kB/s")))
    assert key.turn(readings(9, at=3600 * SECOND), 3600 * SECOND) == [1.0]
    assert key.elapse(3700 * SECOND) == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 9.0]


def test_what_waited_before_there_was_a_drain_is_taken_over() -> None:
    key = Key()
    gap = Digest(5, 2, 4, 2, 4, ((Cause(1, 1, "delta"), 5),))
    key.held = HeldRows(SECOND, rows_of([gap]), 5)
    key.given = 5
    assert key.turn(readings(1, at=10), SECOND) == [[5]]
    assert key.elapse(60 * SECOND) == [1.0]


def test_a_forgotten_drain_lets_out_what_waits() -> None:
    key = Key()
    key.turn(readings(1, 2, 3), 0)
    key.state = None
    assert key.elapse(60 * SECOND) == [2.0, 3.0]


@pytest.mark.parametrize("damaged", [b'{"version": 9', b'{"version": 1}', b"\xff"])
def test_a_state_that_cannot_be_read_is_refused(damaged: bytes) -> None:
    key = Key()
    key.turn(readings(1, 2, 3), 0)
    key.state = damaged
    with pytest.raises(InputError, match=r"state of a drain cannot be read .*; use a new checkpoint"):
        key.turn(readings(4, at=9), 0)


def test_a_state_of_another_version_is_refused() -> None:
    key = Key()
    key.turn(readings(1, 2, 3), 0)
    assert key.state is not None
    key.state = key.state.replace(b'"version":1', b'"version":2')
    with pytest.raises(InputError, match="its version is 2, not 1"):
        key.elapse(9)


def test_a_damaged_digest_is_refused_with_its_place() -> None:
    damaged = Digest(5, 2, 4, 2, 4, ((Cause(1, 1, "delta"), 3),))
    with pytest.raises(InputError, match="column 'digest' where room = 'a'"):
        Key().turn([damaged], 0)
