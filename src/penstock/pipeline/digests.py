"""Digests on Spark: what one run of dropped events says, and digests merged: column functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from penstock import limits
from penstock.model.digest import OTHER
from penstock.model.sketches import KLL_K, LG_REGISTERS
from penstock.pipeline.schemas import CAUSE, DIGEST, MARK, SUMMARY
from penstock.pipeline.verdicts import FATE, SEQ, TS
from penstock.policy.digesters import SUMMING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import Column

    from penstock.pipeline.readings import Reading
    from penstock.policy.nodes import Placed

_CAUSES = ArrayType(CAUSE)
_SUMMARIES = ArrayType(SUMMARY)
_PLACE = ("level", "position", "filter")


# -- aggregates over the dropped events of a run -------------------------------------------------------------


def aggregates(
    gone: Column, steps: Sequence[Placed], asked: dict[str, tuple[str, ...]], readings: dict[str, Reading]
) -> list[Column]:
    """The aggregates of `run_digest`, over the rows where `gone` holds."""
    found = [
        sf.count_if(gone).alias("__count"),
        sf.min(sf.when(gone, sf.col(TS))).alias("__from_us"),
        sf.max(sf.when(gone, sf.col(TS))).alias("__to_us"),
        sf.min(sf.when(gone, sf.col(SEQ))).alias("__seq_first"),
        sf.max(sf.when(gone, sf.col(SEQ))).alias("__seq_last"),
    ]
    found += [
        sf.count_if(gone & (sf.col(FATE) == number)).alias(f"__cause{number}") for number in range(len(steps))
    ]
    for place, attribute in enumerate(sorted(asked)):
        found.append(
            _summary(attribute, asked[attribute], readings[attribute], gone).alias(f"__summary{place}")
        )
    return found


def _summary(name: str, asked: Collection[str], reading: Reading, gone: Column) -> Column:
    """The summary of one attribute; `policy.digesters` says what each digester keeps."""
    number = sf.when(gone, reading.number())
    summed = not SUMMING.isdisjoint(asked)
    mark = _mark(reading, gone)
    n = sf.count(number) if summed else sf.lit(0)
    fields: dict[str, Column] = {
        "name": sf.lit(name),
        "n": n,
        "total": sf.coalesce(sf.sum(number), sf.lit(0.0)) if summed else sf.lit(0.0),
    }
    if "stddev" in asked:
        fields["squares"] = sf.var_pop(number) * n
    if "min" in asked:
        fields["least"] = sf.min(number)
    if "max" in asked:
        fields["most"] = sf.max(number)
    if "first" in asked:
        fields["first"] = sf.min(mark)
    if "last" in asked:
        fields["last"] = sf.max(mark)
    if "distinct" in asked:
        fields["distinct"] = sf.hll_sketch_agg(sf.when(gone, reading.hash64()), LG_REGISTERS)
    if "quantiles" in asked:
        fields["quantiles"] = sf.kll_sketch_agg_double(number, KLL_K)
    return sf.struct(
        *(fields.get(field.name, sf.lit(None)).cast(field.dataType).alias(field.name) for field in SUMMARY)
    )


def _mark(reading: Reading, gone: Column) -> Column:
    """A value with its place in time, of a text its beginning."""
    value = reading.scalar()
    text = sf.substring(value.getField("text"), 1, limits.MARK_CHARACTERS)
    short = value if reading.text is None else value.withField("text", text)
    mark = sf.struct(
        sf.col(TS).alias("ts_us"), sf.col(SEQ).alias("seq"), reading.tie().alias("tie"), short.alias("value")
    )
    return sf.when(gone & value.isNotNull(), mark).cast(MARK)


def run_digest(steps: Sequence[Placed], attributes: int) -> Column:
    """The digest of a run's dropped events; null where none was dropped."""
    causes = sf.array(
        *(
            sf.struct(
                sf.lit(placed.cause.level).alias("level"),
                sf.lit(placed.cause.position).alias("position"),
                sf.lit(placed.cause.filter).alias("filter"),
                sf.col(f"__cause{number}").alias("count"),
            )
            for number, placed in enumerate(steps)
        )
    ).cast(_CAUSES)
    summaries = sf.array(*(sf.col(f"__summary{place}") for place in range(attributes))).cast(_SUMMARIES)
    whole = sf.struct(
        sf.col("__count").alias("count"),
        sf.col("__from_us").alias("from_us"),
        sf.col("__to_us").alias("to_us"),
        sf.col("__seq_first").alias("seq_first"),
        sf.col("__seq_last").alias("seq_last"),
        sf.filter(causes, lambda cause: cause.getField("count") > 0).alias("causes"),
        summaries.alias("attributes"),
    )
    return sf.when(sf.col("__count") > 0, whole).cast(DIGEST)


# -- merging ------------------------------------------------------------------------------------------------


def merged(digests: Column) -> Column:
    """One digest of an array of digests; null if there are none. A single digest stays as it is."""

    def over(field: str) -> Column:
        return sf.transform(digests, lambda digest: digest.getField(field))

    whole = sf.struct(
        _sum(over("count"), "bigint").alias("count"),
        sf.array_min(over("from_us")).alias("from_us"),
        sf.array_max(over("to_us")).alias("to_us"),
        sf.array_min(over("seq_first")).alias("seq_first"),
        sf.array_max(over("seq_last")).alias("seq_last"),
        _merged_causes(sf.flatten(over("causes"))).alias("causes"),
        _merged_summaries(sf.flatten(over("attributes"))).alias("attributes"),
    )
    return sf.when(sf.size(digests) == 1, sf.get(digests, 0)).when(sf.size(digests) > 1, whole.cast(DIGEST))


def _sum(numbers: Column, kind: str) -> Column:
    return sf.aggregate(numbers, sf.lit(0).cast(kind), lambda total, found: total + found)


def _merged_causes(causes: Column) -> Column:
    """Counts by cause, in order; those for which there is no room are counted as `other`."""

    def place(cause: Column) -> Column:
        return sf.struct(*(cause.getField(name).alias(name) for name in _PLACE))

    other = sf.struct(*(sf.lit(getattr(OTHER, name)).alias(name) for name in _PLACE))
    places = sf.array_sort(sf.array_distinct(sf.transform(causes, place)))
    named = sf.slice(sf.filter(places, lambda found: found != other), 1, limits.DIGEST_CAUSES - 1)

    def counted(found: Column) -> Column:
        parts = sf.filter(causes, lambda cause: place(cause) == found)
        return _cause(found, _sum(sf.transform(parts, lambda part: part.getField("count")), "bigint"))

    known = sf.transform(named, counted)
    every = _sum(sf.transform(causes, lambda cause: cause.getField("count")), "bigint")
    rest = every - _sum(sf.transform(known, lambda cause: cause.getField("count")), "bigint")
    uncounted = sf.filter(sf.array(_cause(other, rest)), lambda cause: cause.getField("count") > 0)
    return sf.array_sort(sf.concat(known, uncounted))


def _cause(place: Column, count: Column) -> Column:
    return sf.struct(*(place.getField(name).alias(name) for name in _PLACE), count.alias("count")).cast(CAUSE)


def _merged_summaries(summaries: Column) -> Column:
    """Summaries by name, in order."""
    names = sf.array_sort(sf.array_distinct(sf.transform(summaries, lambda found: found.getField("name"))))

    def of_name(name: Column) -> Column:
        parts = sf.filter(summaries, lambda found: found.getField("name") == name)
        rest = sf.slice(parts, sf.lit(2), sf.size(parts))
        return sf.aggregate(rest, sf.get(parts, 0), merge_summaries)

    return sf.transform(sf.slice(names, 1, limits.DIGESTERS), of_name)


def merge_summaries(a: Column, b: Column) -> Column:
    """Both summaries in one: `AttributeSummary.merge` in columns."""

    def one_or(field: str, both: Column) -> Column:
        x, y = a.getField(field), b.getField(field)
        return sf.when(x.isNull() | y.isNull(), sf.coalesce(x, y)).otherwise(both).alias(field)

    def sides(field: str) -> tuple[Column, Column]:
        return a.getField(field), b.getField(field)

    n = a.getField("n") + b.getField("n")
    return sf.struct(
        a.getField("name").alias("name"),
        n.alias("n"),
        (a.getField("total") + b.getField("total")).alias("total"),
        _merged_squares(a, b).alias("squares"),
        sf.least(*sides("least")).alias("least"),
        sf.greatest(*sides("most")).alias("most"),
        sf.least(*sides("first")).alias("first"),
        sf.greatest(*sides("last")).alias("last"),
        one_or("distinct", sf.hll_union(*sides("distinct"))),
        one_or("quantiles", sf.kll_sketch_merge_double(*sides("quantiles"))),
    ).cast(SUMMARY)


def _merged_squares(a: Column, b: Column) -> Column:
    """Chan's parallel form of Welford's sum; a part that covers nothing changes nothing."""
    an, bn = a.getField("n").cast("double"), b.getField("n").cast("double")
    mean_a = a.getField("total") / sf.nullif(an, sf.lit(0.0))
    apart = b.getField("total") / sf.nullif(bn, sf.lit(0.0)) - mean_a
    between = apart * apart * an * bn / sf.nullif(an + bn, sf.lit(0.0))
    both = a.getField("squares") + b.getField("squares") + between
    return sf.when(an == 0, b.getField("squares")).when(bn == 0, a.getField("squares")).otherwise(both)
