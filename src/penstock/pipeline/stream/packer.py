"""Packs the keys of a stream on Python workers: moves rows and state between Spark and the queue of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.core.queues import LadderState
from penstock.errors import InputError
from penstock.pipeline.stream.drained_queue import DrainedQueue
from penstock.pipeline.stream.key_queue import (
    BUNDLE,
    HeldRows,
    KeyQueue,
    in_order,
    of_key,
    read_bundle,
    write_bundle,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from penstock.pipeline.stream.key_queue import QueueRules, TriggerResult

HELD: Final = "held"
"""State variable of the rows a key has not given out yet."""
LADDER: Final = "ladder"
DRAIN: Final = "drain"
"""State variable of a key's drain, queue and controller, if the stream has a drain."""

_HELD_STATE: Final = "count bigint, until_us bigint, rows binary"
_LADDER_STATE: Final = (
    "level int, last_us bigint, usual_us double, turnaround_us array<struct<level:int,us:double>>"
)
_DRAIN_STATE: Final = "state binary"
_BATCH: Final = "streaming.sql.batchId"
"""Local property with the number of the trigger."""
_LATE: Final = 1 << 31
"""Offset of rows released by a timer: behind all rows of the trigger."""


class Packer(StatefulProcessor):
    """Moves rows and state between Spark and the queue of a key."""

    def __init__(self, rules: QueueRules, *, forget_ms: int) -> None:
        self._rules = rules
        self._forget_ms = forget_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        if self._rules.drain is None:
            self._queue = KeyQueue(self._rules)
            self._ladder = handle.getValueState(LADDER, _LADDER_STATE, self._forget_ms or None)
        else:
            self._drained = DrainedQueue(self._rules)
            self._drain = handle.getValueState(DRAIN, _DRAIN_STATE, self._forget_ms or None)
        self._held = handle.getValueState(HELD, _HELD_STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        found = list(rows)
        held = self._read_held() if self._rules.hold_us else None
        whole, now_us = self._whole([read_bundle(row[-1]) for row in found]), found[0][-2]
        if self._rules.drain is None:
            turn = self._queue.turn(whole, now_us=now_us, held=held, ladder=self._read_ladder)
        else:
            turn = self._drained.turn(whole, now_us=now_us, held=held, state=self._read_drain())
        yield from self._settled(turn, held, 0)

    def _settled(self, turn: TriggerResult, held: HeldRows | None, offset: int) -> Iterator[Row]:
        """Write the state of a key, and give out its rows."""
        if turn.ladder is not None:
            known = turn.ladder
            self._ladder.update((known.level, known.last_us, known.usual_us, list(known.turnaround_us)))
        if turn.drained is not None:
            self._drain.update((turn.drained,))
        self._write_held(held, turn.held)
        if turn.out is not None:
            yield self._row(turn.out, offset)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        held = self._read_held()
        now_us = timerValues.getCurrentProcessingTimeInMs() * 1000
        if held is None or held.until_us > now_us:
            return
        if self._rules.drain is None:
            self._held.clear()
            yield self._row(held.rows, _LATE)
        else:
            turn = self._drained.elapse(held, now_us=now_us, state=self._read_drain())
            yield from self._settled(turn, held, _LATE)

    def close(self) -> None:
        pass

    def _whole(self, bundles: list[pa.Table]) -> pa.Table:
        """Rows of a key, in order; those of a single bundle already are."""
        if len(bundles) == 1:
            return bundles[0]
        return in_order(pa.concat_tables(bundles), self._rules.order)

    def _read_held(self) -> HeldRows | None:
        found = self._held.get()
        if found is None:
            return None
        return HeldRows(found[1], of_key(read_bundle(bytes(found[2])), self._rules.key), found[0])

    def _write_held(self, before: HeldRows | None, held: HeldRows | None) -> None:
        if held is None:
            if before is not None:
                self._held.clear()
            return
        self._held.update((held.count, held.until_us, write_bundle(held.rows)))
        if before is None or before.until_us != held.until_us:
            self._handle.registerTimer(-(-held.until_us // 1000))

    def _read_ladder(self) -> LadderState | None:
        found = self._ladder.get()
        if found is None:
            return None
        level, last_us, usual_us, turnarounds = found
        return LadderState(level, last_us, usual_us, tuple((at, us) for at, us in turnarounds))

    def _read_drain(self) -> bytes | None:
        found = self._drain.get()
        return None if found is None else bytes(found[0])

    def _row(self, rows: pa.Table, offset: int) -> Row:
        """Rows to give out, as one bundle; without a column of digests if there is none."""
        batch = TaskContext.get().getLocalProperty(_BATCH)  # type: ignore[union-attr]
        if batch is None:
            raise InputError("not a streaming frame; for a batch use `frame.transform(pack(…))`")
        begin = (int(batch) << 32) + offset
        places = pa.array(np.arange(begin, begin + rows.num_rows, dtype=np.int64))
        digests = rows["digest"] if "digest" in rows.column_names else pa.nulls(rows.num_rows)
        given = {"place": places, "kind": pc.if_else(digests.is_null(), "event", "digest")}
        names = [*self._rules.key, "place", "kind", *self._rules.events]
        names += ["digest"] if digests.null_count < rows.num_rows else []
        columns = [given[name] if name in given else rows[name] for name in names]
        return Row(**{BUNDLE: write_bundle(pa.table(columns, names=names))})
