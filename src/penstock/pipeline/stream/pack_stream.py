"""`pack_stream`: packs the queues of a streaming frame, trigger by trigger, where they do not fit.

    packed = stream.transform(pack_stream(policy, capacity=1000, key="topic", order="ts"))
    packed.writeStream…

The queue core runs on Python workers; its state is in Spark's state store, and its time is the one that Spark
recorded for the trigger. So a query that is killed and restarted from its checkpoint makes the same rows of
the same trigger, and an exactly-once sink holds them exactly once. `stands_for` and `held_count` check that
events in = events out + events counted in digests + events held.
"""

from __future__ import annotations

import warnings
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from pyspark.errors import PySparkException
from pyspark.sql import functions as sf
from pyspark.sql import types as st
from pyspark.sql.pandas.types import to_arrow_type

from penstock.core.queues import Drain, QueueOptions
from penstock.core.queues import drain as drain_of
from penstock.errors import InputError, PolicyError
from penstock.model.instant import to_us
from penstock.pipeline.compile.events import EVENT, as_events, known, number_in, numeric
from penstock.pipeline.compile.queue_columns import TIE, queue_columns, told
from penstock.pipeline.compile.sources import Sources
from penstock.pipeline.compile.verdicts import column
from penstock.pipeline.stream.column_queue import number_column
from penstock.pipeline.stream.key_queue import BUNDLE, NOW, QueueRules, bundled, unbundled
from penstock.pipeline.stream.packer import HELD, Packer
from penstock.pipeline.tables.schemas import DIGEST, EVENTS
from penstock.policy import paths
from penstock.policy.filters import Random
from penstock.policy.lint import unpaced
from penstock.policy.nodes import read_by
from penstock.policy.paths import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.compile.queue_columns import Columns, QueueColumns
    from penstock.pipeline.compile.sources import Attributes
    from penstock.policy.nodes import Policy


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
    policy: Policy,
    *,
    capacity: int,
    key: Columns,
    order: Columns,
    schema: st.StructType = EVENTS,
    attributes: Attributes | None = None,
    hold_s: float = 60,
    forget_s: float = 86_400,
    backlog: Literal["replay", "shed"] = "replay",
    behind_s: float = 60,
    drain: str | Drain | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Make a transform that packs the queues of a streaming frame, trigger by trigger; rows as of `pack`.

        packed = stream.transform(pack_stream(policy, capacity=1000, key="topic", order="ts"))

    A trigger's rows with equal values in the columns `key` are a queue, in the order of the columns `order`;
    these and `schema` are given as to `pack`. If it has more than `capacity` rows it is packed at the level
    chosen by a ladder, one for each key. The newest event is always kept.

    A digest behind the last event is held for the next trigger, at most `hold_s`; 0 holds nothing. A ladder
    unused for `forget_s` is forgotten; 0 keeps all. With both 0 no timer is needed, and triggers without data
    do not run.

    With `backlog="shed"` a key whose newest event is older than `behind_s` is behind: its rows wait in one
    queue of `capacity` until it has caught up, at most `hold_s`.

    With a `drain`, such as "50/s" or "6250B/s", the rows of a key leave no faster than that, and wait in a
    queue of `capacity` that is packed as on a node: when it is full, and before an event would wait longer
    than the policy's `fresh`; urgent events go ahead. Without a drain nothing waits, and `fresh` has no
    effect.

    `attributes` names the columns of attributes that are not in the column of their own name. Raises
    InputError if a column is missing. The session needs the state store STATE_STORE, which `open_session` and
    the projects of `penstock pipeline` set.
    """
    columns = queue_columns(key, order, schema)
    sources = Sources(columns.schema, dict(attributes or {}), policy.payload)
    _check_columns(sources, columns)
    _check_times(hold_s, forget_s, backlog, behind_s)
    rate = _checked_drain(drain, policy, hold_s, backlog)
    if _draws(policy) and sources.envelope("$seq") is None:
        raise sources.missing("$seq", "seq")
    QueueOptions(capacity_events=capacity)
    taken = sources.attributes.get("$digest", "digest")
    events = [name for name in sources.schema.names if name not in (*columns.key, taken)]
    plain = _plain([*columns.key, *events, *(name for name in columns.order if name.startswith("__"))])
    rules = QueueRules(
        policy=policy,
        capacity=capacity,
        key=tuple(plain[name] for name in columns.key),
        order=tuple(plain[name] for name in columns.order),
        events=tuple(plain[name] for name in events),
        hold_us=to_us(hold_s),
        behind_us=to_us(behind_s) if backlog == "shed" else None,
        numbers=tuple(numeric(sources, list(read_by(policy)))),
        drain=rate,
    )
    sources.found_digest()  # refuses a column that is none
    sources.needed("$ts")
    known(sources, list(read_by(policy)))
    kinds = st.StructType(
        [st.StructField(plain[field.name], field.dataType) for field in sources.schema if field.name in plain]
    )
    bundle = st.StructField(BUNDLE, st.BinaryType())
    bundles = st.StructType([*_fields(kinds, rules.key), st.StructField(NOW, st.LongType()), bundle])
    names = [*columns.key, "place", "kind", *events, "digest"]

    def packed(stream: DataFrame) -> DataFrame:
        rows = _projected(stream, sources, columns, rules, plain).mapInArrow(
            partial(bundled, key=rules.key, order=rules.order), bundles
        )
        packed = (
            told(rows, bundles)
            .groupBy(*map(column, rules.key))
            .transformWithState(
                Packer(rules, forget_ms=round(forget_s * 1000)),
                st.StructType([bundle]),
                "append",
                "processingTime" if hold_s or forget_s else "none",
            )
        )
        out = _output(kinds, rules)
        rows = told(packed, st.StructType([bundle])).mapInArrow(
            partial(unbundled, digests=to_arrow_type(DIGEST)), out
        )
        return rows.select(*(column(own).alias(name) for own, name in zip(out.names, names, strict=True)))

    return packed


# -- arguments ----------------------------------------------------------------------------------------------


def _check_columns(sources: Sources, columns: QueueColumns) -> None:
    for name in (*columns.key, *columns.order):
        found = sources.find(name)
        if found is not None and not isinstance(found.kind, _COMPARABLE):
            kind = found.kind.simpleString()
            raise InputError(f"column '{name}' is {kind}; queues are made by numbers, texts and times")


def _check_times(hold_s: float, forget_s: float, backlog: str, behind_s: float) -> None:
    for name, found in (("hold_s", hold_s), ("forget_s", forget_s), ("behind_s", behind_s)):
        if not 0 <= found < float("inf"):
            raise PolicyError(f"{found}; it is a number of seconds, 0 or more", path=name)
    if backlog not in ("replay", "shed"):
        raise PolicyError(f"'{backlog}'", path="backlog", allowed="replay, shed")
    if backlog == "shed" and not hold_s:
        raise PolicyError("0 holds nothing, and a backlog is shed by holding it", path="hold_s")


def _checked_drain(drain: str | Drain | None, policy: Policy, hold_s: float, backlog: str) -> Drain | None:
    if drain is None:
        idle = unpaced(policy, reason="all rows that fit go out with their trigger", instead="give a `drain`")
        if idle is not None:
            warnings.warn(idle, stacklevel=3)
        return None
    if not hold_s:
        raise PolicyError("0 holds nothing, and a drain holds what it has not taken yet", path="hold_s")
    if backlog == "shed":
        raise PolicyError(
            "'shed' holds rows by their age, a drain by its pace: give one of them", path="backlog"
        )
    return drain if isinstance(drain, Drain) else drain_of(drain)


def _plain(names: Sequence[str]) -> dict[str, str]:
    """Names under which `mapInArrow` finds columns: it takes a dot as access to a struct."""
    return {
        name: name if name.replace("_", "").isalnum() else f"__column{place}"
        for place, name in enumerate(names)
    }


def _projected(
    stream: DataFrame,
    sources: Sources,
    columns: QueueColumns,
    rules: QueueRules,
    plain: Mapping[str, str],
) -> DataFrame:
    """The output columns, those the policy reads, those that decide the order, and the trigger's time."""
    wanted = list(read_by(rules.policy))
    events = as_events(
        wanted,
        attributes=sources.attributes,
        payload=sources.payload,
        schema=sources.schema,
        more=[name for name in columns.order if name.startswith("__")],
    )
    given = sources.digest()
    made = {found: column(name) for name, found in plain.items()}
    if given is not None:
        made["digest"] = given.cast(DIGEST)
    made |= {f"{EVENT}_{name}": sf.col(EVENT).getField(name) for name in _parts(sources, rules, wanted)}
    numbers = numeric(sources, wanted)
    made |= {number_column(path): number_in(path, numbers[path]) for path in rules.numbers}
    made |= {TIE: columns.tie(), NOW: sf.unix_micros(sf.current_timestamp())}
    frame = columns.of(stream).transform(events).select(*(found.alias(name) for name, found in made.items()))
    names = st.StructType([st.StructField(name, st.NullType()) for name in made])  # types are not asked for
    return told(frame, names)


def _parts(sources: Sources, rules: QueueRules, wanted: Sequence[str]) -> Iterator[str]:
    """Parts of an event that the policy reads; others are not sent to the workers."""
    found = [paths.parse(text) for text in wanted]
    draws = _draws(rules.policy)
    payload = [path for path in found if path.source is Source.PAYLOAD and path.text not in rules.numbers]
    beside = any(sources.typed(path) is not None for path in payload)
    sized = any(path.source is Source.SIZE for path in found)
    if rules.drain is not None:  # an item's size is what it takes on a link
        sized = True
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


_NOT_YET: Final = ("STDS_", "PATH_NOT_FOUND")
"""Spark's error classes for a checkpoint without a finished trigger."""


def stands_for(schema: st.StructType = EVENTS) -> Column:
    """Aggregate: number of events that the rows of a frame stand for: 1 for an event, `count` of a digest."""
    each = sf.lit(1)
    if "digest" in schema.names:
        kind = schema["digest"].dataType
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
    out at the latest, or when the drain goes on if no more rows come).
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
