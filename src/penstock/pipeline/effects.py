"""`effect`: what each filter of a policy does to a frame of queues, counted in one pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock.pipeline.fates import Question, decided
from penstock.pipeline.schemas import EFFECT
from penstock.pipeline.verdicts import FATE, LEVEL, column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.fates import Now
    from penstock.pipeline.sources import Attributes
    from penstock.policy.nodes import Placed, Policy


def effect(
    policy: Policy,
    *,
    key: Sequence[str],
    order: Sequence[str],
    level: int | str | Column | None = None,
    now: Now = None,
    attributes: Attributes | None = None,
    by: Sequence[str] = (),
) -> Callable[[DataFrame], DataFrame]:
    """The transform that counts, per level and filter, events seen and dropped: columns of EFFECT.

    `level` is the highest if omitted. The counts are over all queues, or for each value of the key columns
    named in `by`.
    """
    highest = policy.highest if level is None else level
    question = Question(policy, tuple(key), tuple(order), highest, now, dict(attributes or {}))
    return lambda frame: _effects(frame, question, tuple(by))


def _effects(frame: DataFrame, question: Question, by: tuple[str, ...]) -> DataFrame:
    fated = decided(frame, question, together=False)
    counts: list[Column] = []
    for number, placed in enumerate(fated.steps):
        reached = sf.col(FATE).isNull() | (sf.col(FATE) >= number)
        applies = sf.col(LEVEL) >= placed.cause.level
        counts.append(sf.count_if(reached & applies).alias(f"__seen{number}"))
        counts.append(
            sf.count_if(sf.coalesce(sf.col(FATE) == number, sf.lit(False))).alias(f"__dropped{number}")
        )
    groups = [column(name) for name in by]
    counted = _in_all(fated.frame, question, groups, counts)
    rows = sf.array(*(_row(number, placed) for number, placed in enumerate(fated.steps)))
    return counted.select(*groups, sf.inline(rows)).select(*groups, *(sf.col(field.name) for field in EFFECT))


def _in_all(frame: DataFrame, question: Question, groups: list[Column], counts: list[Column]) -> DataFrame:
    """The counts over all queues; where levels are a column, by queues first, to see that each has one."""
    if isinstance(question.level, int):
        return frame.groupBy(*groups).agg(*counts)
    least, most = sf.min(LEVEL).alias("__least"), sf.max(LEVEL).alias("__most")
    queues = frame.groupBy(*map(column, question.key)).agg(*counts, least, most)
    uneven = question.uneven(sf.col("__least"), sf.col("__most")).cast("bigint")

    def summed(name: str) -> Column:
        one = sf.when(sf.col("__least") != sf.col("__most"), uneven).otherwise(sf.col(name))
        return sf.coalesce(sf.sum(one), sf.lit(0)).alias(name)

    numbers = range(len(question.steps()))
    names = [f"__{kind}{number}" for number in numbers for kind in ("seen", "dropped")]
    return queues.groupBy(*groups).agg(*map(summed, names))


def _row(number: int, placed: Placed) -> Column:
    seen, dropped = sf.col(f"__seen{number}"), sf.col(f"__dropped{number}")
    return sf.struct(
        sf.lit(placed.cause.level).alias("level"),
        sf.lit(placed.cause.position).alias("position"),
        sf.lit(placed.cause.filter).alias("filter"),
        seen.alias("seen"),
        dropped.alias("dropped"),
        sf.try_divide(dropped.cast("double"), seen.cast("double")).alias("ratio"),
    )
