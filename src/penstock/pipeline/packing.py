"""`pack`: a policy as a transform from a frame of queues to a frame of packed queues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock.pipeline import digests
from penstock.pipeline.carrying import Carried
from penstock.pipeline.fates import Question, decided
from penstock.pipeline.verdicts import DIGEST_ROW, FATE, LEVEL, PLACE, RUN, alive, quoted

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
    """Each kept event is a group of its own, and each run of what was dropped is another."""
    fated = decided(frame, question, together=True)
    name = question.attributes.get("$digest", "digest")
    events = [found for found in fated.sources.schema.names if found not in (*question.key, name)]
    asked = question.policy.asked()
    given = fated.sources.digest()
    carried = Carried("__alone")
    carried.add(events, fated.sources.schema)
    event = None if given is None else ~sf.col(FATE).eqNullSafe(DIGEST_ROW)
    parts = [
        sf.min(_checked_place(question)).alias("place"),
        *carried.aggregates,
        *digests.aggregates(fated.steps, asked, fated.readings, fated.queue.origin, event=event),
    ]
    if given is not None:
        parts.append(sf.collect_list(given).alias("__given"))
    key = map(quoted, fated.queue.key)
    grouped = _in_runs(fated, question).groupBy(*key, RUN, "__alone", *carried.keys).agg(*parts)
    summed = grouped.select("*", _digest(fated, asked, merges=given is not None).alias("__digest"))
    kind = sf.when(sf.col("__digest").isNull(), sf.lit("event")).otherwise(sf.lit("digest"))
    return summed.select(
        *map(quoted, question.key),
        "place",
        kind.alias("kind"),
        *carried.columns,
        sf.col("__digest").alias("digest"),
    )


def _in_runs(fated: Fated, question: Question) -> DataFrame:
    """Each row with its place and the number of its run: a row that stays, and what was dropped behind it."""
    alone = alive() if isinstance(question.level, int) and question.level else alive() | (sf.col(LEVEL) <= 0)
    flagged = fated.frame.select("*", alone.alias("__alone"))
    if fated.runs:
        return flagged
    run = sf.sum(sf.col("__alone").cast("int")).over(fated.queue.up_to_here())
    more = [] if fated.queue.placed else [fated.queue.place().alias(PLACE)]
    if not isinstance(question.level, int):
        more.append(sf.lag(LEVEL).over(fated.queue.in_order()).alias("__level_before"))
    return flagged.select("*", run.alias(RUN), *more)


def _checked_place(question: Question) -> Column:
    """The place of a row, or an error where its level is not that of the row before."""
    if isinstance(question.level, int):
        return sf.col(PLACE)
    before, own = sf.col("__level_before"), sf.col(LEVEL)
    return sf.when(before != own, question.uneven(before, own).cast("int")).otherwise(sf.col(PLACE))


def _digest(fated: Fated, asked: dict[str, tuple[str, ...]], *, merges: bool) -> Column:
    """The digest of a group, made and given ones in one; null where the group is a kept event."""
    made = sf.when(~sf.col("__alone") & (sf.col("__count") > 0), digests.run_digest(fated.steps, asked))
    if not merges:
        return made
    return digests.merged(sf.concat(sf.col("__given"), sf.array_compact(sf.array(made))))
