"""Timed cases as triggers of a stream: Arrow rows in, items out, state encoded in between."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.pipeline.compile.digest_rows import digest_of_row
from penstock.pipeline.compile.events import EVENT
from penstock.pipeline.stream.drained_queue import DrainedQueue
from penstock.pipeline.stream.key_queue import HeldRows, QueueRules, read_bundle, write_bundle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from penstock.core.queues import Drain
    from penstock.model import Event, Item
    from penstock.pipeline.stream.key_queue import TriggerResult
    from tests.agreement.timed_cases import Case


def rules_of(one: Case, *, drain: Drain | None) -> QueueRules:
    return QueueRules(
        policy=one.policy,
        capacity=one.capacity,
        key=("key",),
        order=("ts",),
        events=(f"{EVENT}_seq",),
        hold_us=0 if drain is None else 60_000_000,
        behind_us=None,
        drain=drain,
    )


def rows_of(events: Sequence[Event]) -> pa.Table:
    """Events as the rows that a worker gets."""
    return pa.table(
        {
            "key": pa.array(["k"] * len(events), pa.string()),
            f"{EVENT}_topic": pa.array([event.topic for event in events], pa.string()),
            f"{EVENT}_payload": pa.array([event.payload for event in events], pa.binary()),
            f"{EVENT}_ts_us": pa.array([event.ts_us for event in events], pa.int64()),
            f"{EVENT}_sender": pa.array([event.sender for event in events], pa.string()),
            f"{EVENT}_seq": pa.array([event.seq for event in events], pa.int64()),
        }
    )


def seqs(rows: pa.Table) -> list[int | None]:
    """Numbers of the events in some rows; None for a digest."""
    found: list[int | None] = rows[f"{EVENT}_seq"].to_pylist()
    return found


@dataclass
class Streamed:
    """The outcome of a case on a stream."""

    items: list[Item]
    held: int = 0
    """Triggers after which something waited."""


def by_stream(one: Case, dice: Random) -> Streamed:
    """Cut the events into triggers, and let triggers without rows follow until nothing waits."""
    queue = DrainedQueue(rules_of(one, drain=one.drain))
    found = Streamed([])
    rows, lag_us = rows_of(one.events), dice.choice([0, 7, 3_600_000_000])
    begin, held, state = 0, None, None
    while begin < rows.num_rows:
        end = min(rows.num_rows, begin + dice.choice([1, 3, 10, 40, 100]))
        now_us = one.events[end - 1].ts_us + lag_us
        turn = queue.turn(rows.slice(begin, end - begin), now_us=now_us, held=held, state=state)
        held, state = _kept(turn, found, one.events)
        begin = end
    while held is not None:
        turn = queue.elapse(held, now_us=held.until_us + dice.choice([0, 1, 900_000]), state=state)
        later = turn.held is not None and turn.held.until_us > held.until_us  # a digest that is gathered
        assert turn.out is not None or later, "a timer lets something out"
        held, state = _kept(turn, found, one.events)
    return found


def _kept(
    turn: TriggerResult, found: Streamed, events: Sequence[Event]
) -> tuple[HeldRows | None, bytes | None]:
    """Add what a trigger gave out; returns what it keeps, encoded and decoded as Spark does."""
    if turn.out is not None:
        found.items += _items(turn.out, events)
    if turn.held is None:
        return None, turn.drained
    found.held += 1
    rows = read_bundle(write_bundle(turn.held.rows))
    return HeldRows(turn.held.until_us, rows, turn.held.count), turn.drained


def _items(rows: pa.Table, events: Sequence[Event]) -> list[Item]:
    """The items of some rows; an event is the one of its number, which must have kept its payload."""
    digests: list[Any] = rows["digest"].to_pylist() if "digest" in rows.column_names else [None] * len(rows)
    found: list[Item] = []
    for seq, payload, digest in zip(seqs(rows), rows[f"{EVENT}_payload"].to_pylist(), digests, strict=True):
        if seq is None:
            found.append(digest_of_row(digest))
        else:
            assert payload == events[seq].payload
            found.append(events[seq])
    return found
