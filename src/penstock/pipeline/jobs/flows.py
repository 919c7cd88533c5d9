"""Flows of constant rate in recorded arrivals: period, jitter, loss and punctuality of each.

    packets.transform(flows())         one row per flow
    found.transform(reservations())    the control table that nodes load
    history_filter(packets, …)         the history filter, built partition by partition and merged by OR

The estimate is that of `core.slots.period`, written as Spark SQL over arrays of 64 arrivals: no Python worker
sees a row. A flow is recognised if most of its windows are; its figures are those of these windows together.
The filter's keys and slots are Spark SQL (`xxhash64` of client and topic equals a node's `key_of`); its bits
are set by `core.slots.batch` in Spark's workers. The merged filter equals one that saw every row, byte for
byte.
"""

from __future__ import annotations

from math import pi
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from penstock.core.slots import wire
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import SEPARATOR
from penstock.core.slots.period import COLLISIONS, FINENESS, LEAST, LONGEST, MOST, RANGE, SHORT_GAPS, STRENGTH
from penstock.errors import InputError, SlotError
from penstock.pipeline.compile.queue_columns import with_columns
from penstock.pipeline.compile.verdicts import column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from penstock.core.slots.shape import Shape

TOLERANCE: Final = 3.0
"""Standard deviations within which a packet is on time, as on a node."""

ARRIVALS: Final = st.StructType(
    [
        st.StructField("client", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("ts", st.LongType()),
    ]
)
"""Columns of recorded arrivals; `ts` in microseconds."""

FLOWS: Final = st.StructType(
    [
        st.StructField("client", st.StringType()),
        st.StructField("topic", st.StringType()),
        st.StructField("packets", st.LongType()),
        st.StructField("constant", st.BooleanType()),
        st.StructField("period_us", st.DoubleType()),
        st.StructField("jitter_us", st.DoubleType()),
        st.StructField("loss", st.DoubleType()),
        st.StructField("on_time", st.DoubleType()),
        st.StructField("recognised", st.DoubleType()),
        st.StructField("first_us", st.LongType()),
        st.StructField("last_us", st.LongType()),
    ]
)
"""Columns of `flows`."""


def flows(
    *, client: str = "client", topic: str = "topic", schema: st.StructType = ARRIVALS
) -> Callable[[DataFrame], DataFrame]:
    """Make a transform from recorded arrivals to their flows, columns of FLOWS.

    The arrivals have a column `ts` of whole microseconds; `client` and `topic` name the others.
    """
    for name in (client, topic, "ts"):
        if name not in schema.names:
            raise InputError(f"there is no column '{name}'; there are: {', '.join(schema.names)}")
    columns = {"client": client, "topic": topic, "ts": "ts"}

    def found(packets: DataFrame) -> DataFrame:
        wanted = (column(columns[one.name]).cast(one.dataType).alias(one.name) for one in ARRIVALS)
        there = "client IS NOT NULL AND topic IS NOT NULL AND ts IS NOT NULL"
        return _together(estimates(_windows(packets.select(*wanted).where(there))))

    return found


def _windows(arrivals: DataFrame) -> DataFrame:
    """Arrivals in order, MOST at a time, relative to the first."""
    order = Window.partitionBy("client", "topic").orderBy("ts")
    number = sf.row_number().over(order) - 1
    numbered = with_columns(arrivals, {"window": sf.floor(number / MOST)})
    found = numbered.groupBy("client", "topic", "window").agg(
        sf.array_sort(sf.collect_list("ts")).alias("at")
    )
    return with_columns(found, {"t": sf.expr("transform(at, x -> CAST(x - at[0] AS DOUBLE))")})


def estimates(windows: DataFrame) -> DataFrame:
    """Estimate of each array `t` of arrivals, in columns beside it; null without a period.

    As few steps as can be: each lies one deeper in the query, and Connect's messages have a bound.
    """
    mean = sf.expr("aggregate(t, 0D, (sum, x) -> sum + x) / size(t)")
    found = with_columns(windows, {"n": sf.size("t"), "span": sf.element_at("t", -1), "mean": mean})
    found = _guessed(found)
    found = _strongest(found)
    for again in (False, True, True):
        found = _fitted(found, again=again)
    return _judged(found)


def _guessed(found: DataFrame) -> DataFrame:
    gaps = "array_sort(filter(transform(sequence(1, n - 1), i -> t[i] - t[i - 1]), g -> g > 0))"
    enough = f"n >= {LEAST} AND span > 0"
    found = with_columns(found, {"gaps": sf.expr(f"CASE WHEN {enough} THEN {gaps} END")})
    short = sf.expr(f"CASE WHEN size(gaps) >= {LEAST // 2} THEN gaps[int({SHORT_GAPS}D * size(gaps))] END")
    found = with_columns(found, {"short": short})
    found = with_columns(found, {"near": sf.expr("filter(gaps, g -> g > 0.5D * short AND g < 1.5D * short)")})
    guess = sf.expr("aggregate(near, 0D, (sum, g) -> sum + g) / nullif(size(near), 0)")
    found = with_columns(found, {"guess": sf.when(sf.col("short").isNotNull(), guess)})
    possible = sf.col("span").between(sf.col("guess"), LONGEST * sf.col("n") * sf.col("guess"))
    return with_columns(found, {"guess": sf.when(possible, sf.col("guess"))}, instead=True)


def _strongest(found: DataFrame) -> DataFrame:
    """Period and phase with the largest resultant near the guess."""
    found = with_columns(found, {"step": sf.expr(f"1D / nullif({FINENESS}D * span, 0D)")})
    found = with_columns(found, {"from": sf.expr(f"{RANGE[0]}D / guess")})
    found = with_columns(found, {"tries": sf.expr(f"int(ceil(({RANGE[1]}D / guess - `from`) / step))")})
    wave = f"{2 * pi!r}D * (`from` + k * step)"
    sums = (
        "aggregate(t, named_struct('c', 0D, 's', 0D), (sum, x) -> named_struct("
        f"'c', sum.c + cos({wave} * x), 's', sum.s + sin({wave} * x)))"
    )
    each = f"transform(sequence(0, tries - 1), k -> named_struct('k', k, 'w', {sums}))"
    found = with_columns(found, {"waves": sf.when(sf.col("guess").isNotNull(), sf.expr(each))})
    best = (
        "aggregate(waves, waves[0], (best, one) -> CASE WHEN "
        "one.w.c * one.w.c + one.w.s * one.w.s > best.w.c * best.w.c + best.w.s * best.w.s "
        "THEN one ELSE best END)"
    )
    found = with_columns(found, {"best": sf.expr(best)})
    found = with_columns(found, {"period": sf.expr("1D / (`from` + best.k * step)")})
    phase = sf.expr(f"atan2(best.w.s, best.w.c) / {2 * pi!r}D * period")
    return with_columns(found, {"phase": phase})


def _fitted(found: DataFrame, *, again: bool) -> DataFrame:
    """Number the arrivals by the grid, and fit the grid to them again; no period if they are too close."""
    places = sf.expr("transform(t, x -> rint((x - phase) / nullif(period, 0D)))")
    found = with_columns(found, {"places": places}, instead=again)
    long_enough = sf.expr(f"element_at(places, -1) - places[0] >= {LEAST // 2} AND period > 0")
    middle = sf.expr("aggregate(places, 0D, (sum, x) -> sum + x) / n")
    found = with_columns(found, {"middle": middle}, instead=again)
    sums = sf.expr(
        "aggregate(zip_with(places, t, (x, y) -> named_struct('x', x - middle, 'y', y)), "
        "named_struct('xy', 0D, 'xx', 0D), (sum, one) -> named_struct("
        "'xy', sum.xy + one.x * one.y, 'xx', sum.xx + one.x * one.x))"
    )
    period = sf.when(long_enough, sf.expr("sums.xy / nullif(sums.xx, 0D)"))
    found = with_columns(found, {"sums": sums}, instead=again)
    phase = sf.col("mean") - period * sf.col("middle")
    return with_columns(found, {"period": period, "phase": phase}, instead=True)


def _judged(found: DataFrame) -> DataFrame:
    """Keep what is a period, with its figures."""
    turn = f"{2 * pi!r}D / nullif(period, 0D)"
    waves = sf.expr(
        "aggregate(t, named_struct('c', 0D, 's', 0D), (sum, x) -> named_struct("
        f"'c', sum.c + cos({turn} * x), 's', sum.s + sin({turn} * x)))"
    )
    residuals = sf.expr("zip_with(places, t, (x, y) -> y - phase - period * x)")
    different = sf.expr("size(array_distinct(places))")
    found = with_columns(found, {"wave": waves, "different": different, "residuals": residuals})
    square = sf.expr("aggregate(residuals, 0D, (sum, r) -> sum + r * r)")
    strength = sf.expr("(wave.c * wave.c + wave.s * wave.s) / n")
    found = with_columns(found, {"strength": strength, "jitter": sf.sqrt(square / (sf.col("n") - 2))})
    ok = sf.expr(f"period IS NOT NULL AND strength >= {STRENGTH}D AND n - different <= {COLLISIONS}D * n")
    on_time = f"size(filter(residuals, r -> abs(r) <= {TOLERANCE}D * jitter))"
    return found.select(
        "client",
        "topic",
        "window",
        "n",
        sf.col("at")[0].alias("first_us"),
        sf.element_at("at", -1).alias("last_us"),
        *(
            sf.when(ok, value).alias(name)
            for name, value in (
                ("period_us", sf.col("period")),
                ("jitter_us", sf.col("jitter")),
                ("strength", sf.col("strength")),
                ("arrivals", sf.col("different").cast("bigint")),
                ("lost", sf.expr("CAST(element_at(places, -1) - places[0] AS BIGINT) + 1 - different")),
                ("on_time", sf.expr(on_time).cast("bigint")),
            )
        ),
    )


def _together(windows: DataFrame) -> DataFrame:
    """Windows of a flow as one row; a remainder too short to be judged is ignored."""
    known = sf.col("period_us").isNotNull()
    judged = sf.sum(sf.when(sf.col("n") >= LEAST, 1).otherwise(0))
    arrivals, lost = sf.sum("arrivals"), sf.sum("lost")
    recognised = sf.coalesce(sf.sum(known.cast("int")) / sf.nullif(judged, sf.lit(0)), sf.lit(0.0))
    constant = recognised > 0.5
    found = windows.groupBy("client", "topic").agg(
        sf.sum("n").alias("packets"),
        constant.alias("constant"),
        sf.when(constant, sf.median("period_us")).alias("period_us"),
        sf.when(constant, sf.sqrt(sf.avg(sf.col("jitter_us") ** 2))).alias("jitter_us"),
        sf.when(constant, lost / (arrivals + lost)).alias("loss"),
        sf.when(constant, sf.sum("on_time") / sf.sum(sf.when(known, sf.col("n")))).alias("on_time"),
        recognised.alias("recognised"),
        sf.min("first_us").alias("first_us"),
        sf.max("last_us").alias("last_us"),
    )
    return found.select(*(column(field.name).cast(field.dataType) for field in FLOWS))


def reservations() -> Callable[[DataFrame], DataFrame]:
    """Make a transform from FLOWS to the control table: periods of the recognised ones, in microseconds."""
    return lambda found: found.where("constant").select(
        "client", "topic", _whole("period_us"), _whole("jitter_us")
    )


def _whole(name: str) -> Column:
    return sf.round(column(name)).cast("bigint").alias(name)


_SCHEMA: Final = "filter BINARY"


def history_filter(
    packets: DataFrame, shape: Shape, *, slot_us: int, client: str = "client", topic: str = "topic"
) -> RefreshingFilter:
    """Flows of recorded arrivals by slot: the last slots of `shape`, up to that of the last arrival."""
    if slot_us < 1:
        raise SlotError(f"slot_us {slot_us}; at least 1")
    rows = packets.select(
        sf.xxhash64(sf.concat(column(client), sf.lit(SEPARATOR), column(topic))).alias("key"),
        sf.floor(column("ts") / sf.lit(slot_us)).cast("bigint").alias("slot"),
    ).where("key IS NOT NULL AND slot >= 0")
    last = rows.agg(sf.max("slot")).head()
    if last is None or last[0] is None:
        raise InputError("there is no arrival in it")
    newest: int = last[0]

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa  # noqa: PLC0415  # in Spark's workers

        part = RefreshingFilter(shape, start=newest)
        for batch in batches:
            part.insert_many(batch.column(0).to_numpy(), batch.column(1).to_numpy())
        yield pa.RecordBatch.from_pydict({"filter": pa.array([wire.to_bytes(part)], pa.binary())})

    merged = RefreshingFilter(shape, start=newest)
    for row in rows.mapInArrow(build, _SCHEMA).toLocalIterator():
        part = wire.read(bytes(row["filter"]))
        assert isinstance(part, RefreshingFilter)
        merged.merge(part)
    return merged
