"""Column functions for digests: the digest of a run of dropped events, and digests merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock import limits
from penstock.model.digest import OTHER
from penstock.model.sketches import KLL_K, LG_REGISTERS
from penstock.pipeline.compile.verdicts import FATE, literal
from penstock.pipeline.tables.schemas import CAUSE, DIGEST, MARK, SUMMARY
from penstock.policy.digesters import SUMMING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from pyspark.sql import Column

    from penstock.pipeline.compile.typed_columns import TypedColumns
    from penstock.pipeline.compile.verdicts import Origin
    from penstock.policy.nodes import Placed

_PLACE = ("level", "position", "filter")


# -- aggregates over the dropped events of a run -------------------------------------------------------------


def aggregates(
    steps: Sequence[Placed],
    asked: dict[str, tuple[str, ...]],
    readings: dict[str, TypedColumns],
    origin: Origin,
    *,
    event: Column | None,
) -> list[Column]:
    """Aggregates for `run_digest` over the rows where `event` holds; None: all rows."""

    def of(found: Column) -> Column:
        return found if event is None else sf.when(event, found)

    found = [
        sf.count(sf.lit(1) if event is None else of(sf.lit(1))).alias("__count"),
        sf.min(of(origin.ts)).alias("__from_us"),
        sf.max(of(origin.ts)).alias("__to_us"),
        sf.min(of(origin.seq)).alias("__seq_first"),
        sf.max(of(origin.seq)).alias("__seq_last"),
    ]
    if len(steps) > 1:
        found += [
            sf.count_if(sf.col(FATE) == number).alias(f"__cause{number}") for number in range(len(steps))
        ]
    for place, attribute in enumerate(sorted(asked)):
        found += _parts(f"__s{place}", asked[attribute], readings[attribute], origin, of)
    return found


def _parts(
    prefix: str,
    asked: Collection[str],
    reading: TypedColumns,
    origin: Origin,
    of: Callable[[Column], Column],
) -> Iterator[Column]:
    """Aggregates of one attribute; `policy.digesters` defines what each digester keeps."""
    number = of(reading.number())
    made: dict[str, Column] = {}
    if not SUMMING.isdisjoint(asked):
        made |= {"n": sf.count(number), "total": sf.sum(number)}
    if "stddev" in asked:
        made["spread"] = sf.var_pop(number)
    if "min" in asked:
        made["least"] = sf.min(number)
    if "max" in asked:
        made["most"] = sf.max(number)
    if "first" in asked:
        made["first"] = sf.min(of(_mark(reading, origin)))
    if "last" in asked:
        made["last"] = sf.max(of(_mark(reading, origin)))
    if "distinct" in asked:
        made["distinct"] = sf.hll_sketch_agg(of(reading.hash64()), LG_REGISTERS)
    if "quantiles" in asked:
        made["quantiles"] = sf.kll_sketch_agg_double(number, KLL_K)
    return (found.alias(f"{prefix}_{name}") for name, found in made.items())


def _summary(prefix: str, name: str, asked: Collection[str]) -> str:
    """SQL of the summary of one attribute, from its aggregates."""
    fields = {"name": literal(name), "n": "0", "total": "0"}
    if not SUMMING.isdisjoint(asked):
        fields |= {"n": f"{prefix}_n", "total": f"coalesce({prefix}_total, 0)"}
    if "stddev" in asked:
        fields["squares"] = f"{prefix}_spread * {fields['n']}"
    plain = {"min": "least", "max": "most"} | {
        kind: kind for kind in ("first", "last", "distinct", "quantiles")
    }
    fields |= {field: f"{prefix}_{field}" for kind, field in plain.items() if kind in asked}
    return _struct(
        {f.name: f"cast({fields.get(f.name, 'null')} as {f.dataType.simpleString()})" for f in SUMMARY}
    )


def _struct(fields: dict[str, str]) -> str:
    return f"named_struct({', '.join(f'{literal(name)}, {made}' for name, made in fields.items())})"


def _mark(reading: TypedColumns, origin: Origin) -> Column:
    """A value with its time; a long text is cut."""
    value = reading.scalar()
    text = sf.substring(value.getField("text"), 1, limits.MARK_CHARACTERS)
    short = value if reading.text is None else value.withField("text", text)
    mark = sf.struct(
        origin.ts.alias("ts_us"), origin.seq.alias("seq"), reading.tie().alias("tie"), short.alias("value")
    )
    return sf.when(value.isNotNull(), mark).cast(MARK)


def run_digest(steps: Sequence[Placed], asked: dict[str, tuple[str, ...]]) -> Column:
    """Digest of a run's dropped events; for runs with at least one."""
    several = len(steps) > 1
    causes = ", ".join(
        _struct(
            {
                "level": str(placed.cause.level),
                "position": str(placed.cause.position),
                "filter": literal(placed.cause.filter),
                "count": f"__cause{number}" if several else "__count",
            }
        )
        for number, placed in enumerate(steps)
    )
    summaries = ", ".join(
        _summary(f"__s{place}", attribute, asked[attribute]) for place, attribute in enumerate(sorted(asked))
    )
    fields = {name: f"__{name}" for name in ("count", "from_us", "to_us", "seq_first", "seq_last")}
    fields["causes"] = f"filter(array({causes}), cause -> cause.count > 0)" if several else f"array({causes})"
    fields["attributes"] = f"array({summaries})"
    return sf.expr(f"cast({_struct(fields)} as {DIGEST.simpleString()})")


# -- merging ------------------------------------------------------------------------------------------------


def merged(digests: Column) -> Column:
    """One digest of an array of digests; null if empty. A single digest is unchanged."""

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
    """Counts by cause, in order; causes beyond DIGEST_CAUSES are counted as `other`."""

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
    """`AttributeSummary.merge` in columns."""

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
    """Chan's parallel form of Welford's sum of squares; a part without numbers changes nothing."""
    an, bn = a.getField("n").cast("double"), b.getField("n").cast("double")
    mean_a = a.getField("total") / sf.nullif(an, sf.lit(0.0))
    apart = b.getField("total") / sf.nullif(bn, sf.lit(0.0)) - mean_a
    between = apart * apart * an * bn / sf.nullif(an + bn, sf.lit(0.0))
    both = a.getField("squares") + b.getField("squares") + between
    return sf.when(an == 0, b.getField("squares")).when(bn == 0, a.getField("squares")).otherwise(both)
