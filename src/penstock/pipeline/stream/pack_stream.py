"""`pack_stream`: packs the queues of a streaming frame, trigger by trigger, where they do not fit.

    packed = pack_stream(stream, policy, capacity=1000, key=["patient"], order=["ts"])
    packed.writeStream…

The queue core runs on Python workers; its state is in Spark's state store, and its time is the one that Spark
recorded for the trigger. So a query that is killed and restarted from its checkpoint makes the same rows of
the same trigger, and an exactly-once sink holds them exactly once. `stands_for` and `held_count` check that
events in = events out + events counted in digests + events held.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.errors import PySparkException
from pyspark.sql import Row
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from penstock.core.queues import LadderState, QueueOptions
from penstock.errors import InputError, PolicyError, SparkFailed
from penstock.model.instant import to_us
from penstock.pipeline.compile.events import EVENT, as_events
from penstock.pipeline.compile.sources import Sources, sortable
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.stream.key_queue import (
    BUNDLE,
    NOW,
    TIE,
    HeldRows,
    KeyQueue,
    QueueRules,
    bundled,
    in_order,
    of_key,
    read_bundle,
    unbundled,
    write_bundle,
)
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy import paths
from penstock.policy.filters import Random
from penstock.policy.nodes import read_by
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.stateful_processor import (
        ExpiredTimerInfo,
        StatefulProcessorHandle,
        TimerValues,
    )

    from penstock.pipeline.compile.sources import Attributes
    from penstock.policy.nodes import Policy

HELD: Final = "held"
"""State variable of the rows a key has not given out yet."""
LADDER: Final = "ladder"

_HELD_STATE: Final = "count bigint, until_us bigint, rows binary"
_LADDER_STATE: Final = (
    "level int, last_us bigint, usual_us double, turnaround_us array<struct<level:int,us:double>>"
)
_ROCKSDB: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_PROVIDER: Final = "spark.sql.streaming.stateStore.providerClass"
_BATCH: Final = "streaming.sql.batchId"
"""Local property with the number of the trigger."""
_COMPARABLE: Final = (
    st.NumericType,
    st.StringType,
    st.BinaryType,
    st.BooleanType,
    st.DateType,
    st.TimestampType,
    st.TimestampNTZType,
)
"""Types of columns by which queues can be identified and ordered."""


def pack_stream(  # noqa: PLR0913  # one call with everything by name, as `pack`
    stream: DataFrame,
    policy: Policy,
    *,
    capacity: int,
    key: Sequence[str],
    order: Sequence[str],
    attributes: Attributes | None = None,
    hold_s: float = 60,
    forget_s: float = 86_400,
    backlog: Literal["replay", "shed"] = "replay",
    fresh_s: float = 60,
) -> DataFrame:
    """Pack the queues of a streaming frame, trigger by trigger; the rows are those of `pack`, for any sink.

        packed = pack_stream(stream, policy, capacity=1000, key=["patient"], order=["ts"])

    A trigger's rows with equal values in the columns `key` are a queue, in the order of the columns `order`.
    If it has more than `capacity` rows it is packed at the level chosen by a ladder, one for each key. The
    newest event is always kept.

    A digest behind the last event is held for the next trigger, at most `hold_s`; 0 holds nothing. A ladder
    unused for `forget_s` is forgotten; 0 keeps all. With both 0 no timer is needed, and triggers without data
    do not run.

    With `backlog="shed"` a key whose newest event is older than `fresh_s` is behind: its rows wait in one
    queue of `capacity` until it has caught up, at most `hold_s`.

    `attributes` names the columns of attributes that are not in the column of their own name. Raises
    InputError if the frame is not a stream or a column is missing.
    """
    if not stream.isStreaming:
        raise InputError("not a streaming frame; for a batch use `frame.transform(pack(…))`")
    sources = Sources(stream.schema, dict(attributes or {}), policy.payload)
    _check_columns(sources, key, order)
    _check_times(hold_s, forget_s, backlog, fresh_s)
    if _draws(policy) and sources.envelope("$seq") is None:
        raise sources.missing("$seq", "seq")
    QueueOptions(capacity_events=capacity)
    taken = sources.attributes.get("$digest", "digest")
    events = [name for name in sources.schema.names if name not in (*key, taken)]
    plain = _plain([*key, *events])
    rules = QueueRules(
        policy=policy,
        capacity=capacity,
        key=tuple(plain[name] for name in key),
        order=tuple(plain[name] for name in order),
        events=tuple(plain[name] for name in events),
        hold_us=to_us(hold_s),
        fresh_us=to_us(fresh_s) if backlog == "shed" else None,
    )
    _use_rocksdb(stream)
    projected = _projected(stream, sources, rules, plain)
    kinds = projected.schema
    bundle = st.StructField(BUNDLE, st.BinaryType())
    bundles = projected.mapInArrow(
        partial(bundled, key=rules.key, order=rules.order),
        st.StructType([*_fields(kinds, rules.key), st.StructField(NOW, st.LongType()), bundle]),
    )
    packed = bundles.groupBy(*map(column, rules.key)).transformWithState(
        _Packer(rules, forget_ms=round(forget_s * 1000)),
        st.StructType([bundle]),
        "append",
        "processingTime" if hold_s or forget_s else "none",
    )
    rows = packed.mapInArrow(partial(unbundled, digests=to_arrow_type(DIGEST)), _output(kinds, rules))
    return rows.toDF(*key, "place", "kind", *events, "digest")


# -- arguments ----------------------------------------------------------------------------------------------


def _check_columns(sources: Sources, key: Sequence[str], order: Sequence[str]) -> None:
    if isinstance(key, str) or isinstance(order, str) or not key or not order:
        raise PolicyError("a queue needs a list of columns that name it (key) and one that orders it (order)")
    names = sources.schema.names
    for name in (*key, *order):
        found = sources.find(name)
        if found is None:
            raise InputError(
                f"there is no column '{name}' to make queues by; the columns are: {', '.join(names)}"
            )
        if not isinstance(found.kind, _COMPARABLE):
            kind = found.kind.simpleString()
            raise InputError(f"column '{name}' is {kind}; queues are made by numbers, texts and times")
    reserved = [name for name in names if name.startswith("__") or name in ("place", "kind")]
    if reserved:
        raise InputError(f"column '{reserved[0]}': this name is used by the packed frame; rename the column")


def _check_times(hold_s: float, forget_s: float, backlog: str, fresh_s: float) -> None:
    for name, found in (("hold_s", hold_s), ("forget_s", forget_s), ("fresh_s", fresh_s)):
        if not 0 <= found < float("inf"):
            raise PolicyError(f"{found}; it is a number of seconds, 0 or more", path=name)
    if backlog not in ("replay", "shed"):
        raise PolicyError(f"'{backlog}'", path="backlog", allowed="replay, shed")
    if backlog == "shed" and not hold_s:
        raise PolicyError("0 holds nothing, and a backlog is shed by holding it", path="hold_s")


def _use_rocksdb(stream: DataFrame) -> None:
    """Select RocksDB, which timers and this kind of state need; the setting is read when the query starts."""
    if stream.sparkSession.conf.get(_PROVIDER) != _ROCKSDB:
        stream.sparkSession.conf.set(_PROVIDER, _ROCKSDB)


def _plain(names: Sequence[str]) -> dict[str, str]:
    """Names under which `mapInArrow` finds columns: it takes a dot as access to a struct."""
    return {
        name: name if name.replace("_", "").isalnum() else f"__column{place}"
        for place, name in enumerate(names)
    }


def _projected(stream: DataFrame, sources: Sources, rules: QueueRules, plain: Mapping[str, str]) -> DataFrame:
    """The output columns, those the policy reads, those that decide the order, and the trigger's time."""
    wanted = list(read_by(rules.policy))
    events = stream.transform(as_events(wanted, attributes=sources.attributes, payload=sources.payload))
    given = sources.digest()
    return events.select(
        *(column(name).alias(found) for name, found in plain.items()),
        *([] if given is None else [given.cast(DIGEST).alias("digest")]),
        *(sf.col(EVENT).getField(name).alias(f"{EVENT}_{name}") for name in _parts(sources, rules, wanted)),
        sf.xxhash64(*_hashable(sources)).alias(TIE),
        sf.unix_micros(sf.current_timestamp()).alias(NOW),
    )


def _parts(sources: Sources, rules: QueueRules, wanted: Sequence[str]) -> Iterator[str]:
    """Parts of an event that the policy reads; others are not sent to the workers."""
    found = [paths.parse(text) for text in wanted]
    draws = _draws(rules.policy)
    payload = [path for path in found if path.source is Source.PAYLOAD]
    beside = any(sources.typed(path) is not None for path in payload)
    sized = any(path.source is Source.SIZE for path in found)
    yield from ("ts_us", "seq")
    if draws or any(path.source is Source.SENDER for path in found):
        yield "sender"
    if sized or any(path.source is Source.TOPIC for path in found):
        yield "topic"
    if sized or (payload and not beside):
        yield "payload"
    if any(path.source is Source.PROPERTY for path in found):
        yield "properties"
    if payload:
        yield "content_type"
    if beside:
        yield "root"


def _draws(policy: Policy) -> bool:
    """Whether a filter draws random lots, which need sender and number."""
    return any(isinstance(placed.step.filter, Random) for placed in policy.steps(policy.highest))


def _hashable(sources: Sources) -> Iterator[Column]:
    for field in sources.schema:
        found = column(field.name)
        yield found if sortable(field.dataType) else sf.to_json(sf.struct(found.alias("it")))


def _fields(kinds: st.StructType, names: Sequence[str]) -> list[st.StructField]:
    """Nullable columns, because an event's columns are null in digests, and Arrow's are nullable in Spark."""
    return [st.StructField(name, kinds[name].dataType) for name in names]


def _output(kinds: st.StructType, rules: QueueRules) -> st.StructType:
    return st.StructType(
        [
            *_fields(kinds, rules.key),
            st.StructField("place", st.LongType()),
            st.StructField("kind", st.StringType()),
            *_fields(kinds, rules.events),
            st.StructField("digest", DIGEST),
        ]
    )


# -- on the workers ------------------------------------------------------------------------------------------


class _Packer(StatefulProcessor):
    """Moves rows and state between Spark and the queue of a key."""

    def __init__(self, rules: QueueRules, *, forget_ms: int) -> None:
        self._rules = rules
        self._forget_ms = forget_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._queue = KeyQueue(self._rules)
        self._ladder = handle.getValueState(LADDER, _LADDER_STATE, self._forget_ms or None)
        self._held = handle.getValueState(HELD, _HELD_STATE)

    def handleInputRows(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        found = list(rows)
        held = self._read_held() if self._rules.hold_us else None
        turn = self._queue.turn(
            self._whole([read_bundle(row[-1]) for row in found]),
            now_us=found[0][-2],
            held=held,
            ladder=self._read_ladder,
        )
        if turn.ladder is not None:
            known = turn.ladder
            self._ladder.update((known.level, known.last_us, known.usual_us, list(known.turnaround_us)))
        self._write_held(held, turn.held)
        if turn.out is not None:
            yield self._row(turn.out, 0)

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,  # noqa: ARG002
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: ARG002, N803
    ) -> Iterator[Row]:
        held = self._read_held()
        if held is not None and held.until_us <= timerValues.getCurrentProcessingTimeInMs() * 1000:
            self._held.clear()
            yield self._row(held.rows, _LATE)

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

    def _row(self, rows: pa.Table, offset: int) -> Row:
        """Rows to give out, as one bundle; without a column of digests if there is none."""
        batch = TaskContext.get().getLocalProperty(_BATCH)  # type: ignore[union-attr]
        if batch is None:
            raise SparkFailed(f"Spark does not provide the number of the trigger ({_BATCH})")
        begin = (int(batch) << 32) + offset
        places = pa.array(np.arange(begin, begin + rows.num_rows, dtype=np.int64))
        digests = rows["digest"] if "digest" in rows.column_names else pa.nulls(rows.num_rows)
        given = {"place": places, "kind": pc.if_else(digests.is_null(), "event", "digest")}
        names = [*self._rules.key, "place", "kind", *self._rules.events]
        names += ["digest"] if digests.null_count < rows.num_rows else []
        columns = [given[name] if name in given else rows[name] for name in names]
        return Row(**{BUNDLE: write_bundle(pa.table(columns, names=names))})


_LATE: Final = 1 << 31
"""Offset of rows released by a timer: behind all rows of the trigger."""


_NOT_YET: Final = ("STDS_", "PATH_NOT_FOUND")
"""Spark's error classes for a checkpoint without a finished trigger."""


def stands_for(frame: DataFrame) -> Column:
    """Aggregate: number of events that the rows of a frame stand for: 1 for an event, `count` of a digest."""
    each = sf.lit(1)
    if "digest" in frame.columns:
        kind = frame.schema["digest"].dataType
        if not isinstance(kind, st.StructType) or "count" not in kind.names:
            raise InputError(
                f"column 'digest' is {kind.simpleString()}, expected digests as `penstock.pipeline` makes "
                "them; `with_digests` reads those of nodes"
            )
        each = sf.coalesce(sf.col("digest.count"), sf.lit(1))
    return sf.coalesce(sf.sum(each), sf.lit(0)).cast("bigint")


def held(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Events that a packed stream has taken in and not given out yet, from the checkpoint of its query.

    One row per key that holds something: the key, `count` (events it stands for), `until_us` (when it goes
    out at the latest).
    """
    state = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", HELD).load()
    return state.select("key.*", "value.count", "value.until_us")


def held_count(spark: SparkSession, checkpoint: str) -> int:
    """Number of events held in a checkpoint; 0 before its first trigger is finished."""
    try:
        found = held(spark, checkpoint).agg(sf.coalesce(sf.sum("count"), sf.lit(0))).head()
    except PySparkException as error:
        if (error.getCondition() or "").startswith(_NOT_YET):
            return 0
        raise
    return 0 if found is None else int(found[0])
