"""`pack`: a policy as a transform from a frame of queues to a frame of packed queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.pipeline import digests
from penstock.pipeline.fates import Question, decided
from penstock.pipeline.schemas import DIGEST
from penstock.pipeline.verdicts import DIGEST_ROW, FATE, LEVEL, PLACE, column

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

    from penstock.pipeline.fates import Fated, Now
    from penstock.pipeline.sources import Attributes
    from penstock.policy.nodes import Policy


def pack(
    policy: Policy,
    *,
    key: Sequence[str],
    order: Sequence[str],
    level: int | str | Column,
    now: Now = None,
    attributes: Attributes | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """The transform that packs every queue at a level, for `frame.transform(pack(…))`.

    A queue is the rows that agree in the columns `key`, in the order of the columns `order`; rows which that
    does not tell apart are ordered by their other columns. `level` may be a column (or its name) that is the
    same in all rows of a queue. Rows whose `digest` is set are digests, and are merged where they stand.

    The result has one row per kept event or digest: the key, `place` (ascending in queue order), `kind`
    ('event' or 'digest'), the columns of the event (null in a digest), and `digest` (null in an event).
    """
    question = Question(policy, tuple(key), tuple(order), level, now, dict(attributes or {}))
    return lambda frame: _packed(frame, question)


def _packed(frame: DataFrame, question: Question) -> DataFrame:
    fated = decided(frame, question)
    name = question.attributes.get("$digest", "digest")
    events = [found for found in fated.sources.schema.names if found not in (*question.key, name)]
    asked = question.policy.asked()
    alone = sf.col(FATE).isNull() | (sf.col(LEVEL) <= 0)
    runs = _in_runs(fated.frame, question, alone)
    own = _item(events, fated)
    parts = [
        sf.first(sf.when(sf.col("__alone"), own), ignorenulls=True).alias("__own"),
        sf.min(sf.when(~sf.col("__alone"), sf.col(PLACE))).alias("__begin"),
        *digests.aggregates(
            ~sf.col("__alone") & (sf.col(FATE) != DIGEST_ROW), fated.steps, asked, fated.readings
        ),
    ]
    given = fated.sources.digest()
    if given is not None:
        parts.append(sf.collect_list(sf.when(~sf.col("__alone"), given)).alias("__given"))
    key = [column(found) for found in question.key]
    grouped = runs.groupBy(*key, sf.col("__run")).agg(*parts)
    summed = _with_digests(grouped, fated, len(asked), merges=given is not None)
    gap = _gap(fated, events)
    items = sf.filter(sf.array(sf.col("__own"), gap), lambda item: item.isNotNull())
    return _output(summed.select(*key, sf.inline(items)), question, events)


def _in_runs(frame: DataFrame, question: Question, alone: Column) -> DataFrame:
    """Each row with the number of its run: a row that stays as it is, and what was dropped behind it."""
    window = Window.partitionBy(*map(column, question.key)).orderBy(PLACE)
    so_far = window.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    flagged = frame.select("*", alone.alias("__alone"))
    return flagged.select("*", sf.sum(sf.col("__alone").cast("int")).over(so_far).alias("__run"))


def _item(events: list[str], fated: Fated) -> Column:
    """A row that stays, as one item of the output."""
    given = fated.sources.digest()
    digest = sf.lit(None).cast(DIGEST) if given is None else given.cast(DIGEST)
    kind = sf.when(sf.col(FATE).eqNullSafe(DIGEST_ROW), sf.lit("digest")).otherwise(sf.lit("event"))
    return sf.struct(
        sf.col(PLACE).alias("place"),
        kind.alias("kind"),
        *(column(found).alias(found) for found in events),
        digest.alias("digest"),
    )


def _with_digests(grouped: DataFrame, fated: Fated, attributes: int, *, merges: bool) -> DataFrame:
    made = digests.run_digest(fated.steps, attributes)
    if not merges:
        return grouped.select("*", made.alias("__digest"))
    staged = grouped.select(
        "*", sf.concat(sf.col("__given"), sf.array_compact(sf.array(made))).alias("__parts")
    )
    return staged.select("*", digests.merged(sf.col("__parts")).alias("__digest"))


def _gap(fated: Fated, events: list[str]) -> Column:
    """The digest of a run, as one item of the output; null where there is none."""
    item = sf.struct(
        sf.col("__begin").alias("place"),
        sf.lit("digest").alias("kind"),
        *(sf.lit(None).cast(fated.sources.schema[found].dataType).alias(found) for found in events),
        sf.col("__digest").alias("digest"),
    )
    return sf.when(sf.col("__digest").isNotNull(), item)


def _output(items: DataFrame, question: Question, events: list[str]) -> DataFrame:
    return items.select(
        *(column(found) for found in question.key),
        sf.col("place"),
        sf.col("kind"),
        *(column(found) for found in events),
        sf.col("digest"),
    )
