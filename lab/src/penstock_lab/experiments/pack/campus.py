"""The campus of Figure 11 on Spark: generated hours, the locator that reads them, and four statistics.

The paper's locator (§7) is one thread that follows the syslog stream. An association without an address makes
it ask the access point, which takes from hundreds of milliseconds to dozens of seconds; one answer names all
devices of the access point and serves for 30 s, in which the access point is not asked again. Every other
event takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from penstock.core.queues import Ladder, PackingQueue, QueueOptions, Replay, Smoothing
from penstock.model.event import Event
from penstock.model.instant import SECOND_US
from penstock.pipeline.compile.events import EVENT, as_events, events_of
from penstock.pipeline.jobs.generate import GENERATORS, Recipe
from penstock.policy.attributes import decoded
from penstock.policy.nodes import PayloadFormat, read_by
from penstock.policy.text.python_form import drop, keep, policy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from penstock.core.queues.controllers import PackOutcome
    from penstock.model.digest import Digest
    from penstock.model.instant import Instant

ASSOCIATIONS: Final = ("Associated", "Reassociated")
CACHED_US: Final = 30 * SECOND_US
"""Shortest time between two queries to the same access point, as in the paper."""
READ_US: Final = 5_000
"""Time that any other message takes (parsing, a table lookup); not in the paper."""
MEDIAN_S: Final = 1.5
SIGMA: Final = 1.0
LEAST_S: Final = 0.2
MOST_S: Final = 60.0
"""A query takes a log-normal time within these: hundreds of milliseconds to dozens of seconds. Its median and
sigma are fitted to the paper's longest delay (decision 0013)."""


@dataclass(slots=True)
class Locator:
    """The reader of the queue: asks access points; query times are drawn from its random generator."""

    dice: np.random.Generator
    asked_us: dict[str, int] = field(default_factory=dict)
    """Time of the last answer of each access point."""
    resolved: list[int] = field(default_factory=list)
    """Latency in microseconds of each association whose device it located."""
    queries: int = 0

    def takes_us(self, item: Event | Digest, *, now_us: Instant) -> int:
        """Return how long an item takes; implements `Reader` of `penstock.core.queues.replay`."""
        if not isinstance(item, Event):
            return 0
        message = decoded(item, PayloadFormat.AUTO)
        if message["action"] not in ASSOCIATIONS or message["message_type"] != "Info":
            return READ_US
        took_us = READ_US
        ap = message["ap"]
        if message.get("ip") is None and now_us - self.asked_us.get(ap, -CACHED_US) >= CACHED_US:
            query_s = float(np.clip(self.dice.lognormal(np.log(MEDIAN_S), SIGMA), LEAST_S, MOST_S))
            took_us += round(query_s * SECOND_US)
            self.asked_us[ap] = now_us + took_us
            self.queries += 1
        self.resolved.append(now_us + took_us - item.ts_us)
        return took_us


ACCESS_POINTS: Final = 550
RATE: Final = 3.85
"""Messages per second on average; fitted to the paper's packs in an hour."""
CAPACITY: Final = 100
"""Items in the queue; the paper does not say. 50 to 200 were tried."""
HOUR_S: Final = 3_600
START_US: Final = (1_736_150_400 + 2 * HOUR_S) * SECOND_US
"""Start of the trace: a Monday, ten in the morning."""

POLICY: Final = policy(
    keep(attribute="message_type").eq("Info"),
    drop.inset("Authenticated", "roamed"),
    drop(attribute="host").match("^AP-"),
    keep.first("Deauthenticated", "Deauthenticating", "Disassociated", "Disassociating"),
    drop(attribute="ap").guniq(),
    drop.every(3),
    name="locator",
    description="Associations of mobile devices with access points, from syslog.",
    attribute="action",
    digest=["count", "distinct"],
)
"""The paper's policy, as in examples/policies/locator.yaml."""

SHARES: Final = tuple(number / 100 for number in range(101))
"""Percentiles that are computed."""

_TRACE: Final = pa.schema(
    [
        ("run", pa.int64()),
        ("ladder", pa.string()),
        ("what", pa.string()),
        ("level", pa.int32()),
        ("filter", pa.string()),
        ("seen", pa.int64()),
        ("dropped", pa.int64()),
        ("time_us", pa.int64()),
        ("at_us", pa.int64()),
    ]
)
"""A fact of a run: a pack, an answer, what a filter did in all, or the account of the queue."""


@dataclass(frozen=True, slots=True)
class Filtered:
    """Events that one filter saw and dropped."""

    level: int
    name: str
    seen: int
    dropped: int

    @property
    def ratio(self) -> float:
        """Share of the events seen that the filter dropped."""
        return self.dropped / self.seen if self.seen else 0.0


@dataclass(frozen=True, slots=True)
class LadderFigures:
    """The four statistics with one ladder, over all runs."""

    packs: tuple[int, ...]
    """Packs, per run."""
    levels: dict[int, tuple[int, ...]]
    """Packs that asked for each level, per run."""
    filters: tuple[Filtered, ...]
    intervals_s: tuple[float, ...]
    """Percentiles 0 to 100 of the time between packs."""
    latencies_s: tuple[float, ...]
    """Percentiles 0 to 100 of the time from a message to the answer."""
    longest_s: tuple[float, ...]
    """Longest latency of an answer, per run."""
    conserved: bool

    def per_hour(self, level: int) -> float:
        """Return how often a level was asked for, on average over the runs."""
        return sum(self.levels[level]) / len(self.packs)


def campus(spark: SparkSession, seeds: range) -> DataFrame:
    """Generate an hour of messages for each seed; the column `run` holds the seed."""
    frame = GENERATORS["campus-syslog"].frame
    hours = [
        frame(
            spark,
            Recipe(
                events=round(RATE * HOUR_S), rate=RATE, sources=ACCESS_POINTS, seed=seed, start_us=START_US
            ),
        ).withColumn("run", sf.lit(seed).cast("bigint"))
        for seed in seeds
    ]
    return reduce(lambda one, other: one.unionByName(other), hours)


class StayingLadder(Ladder):
    """A ladder that stays at the level it chose, also if the pack had to climb above it.

    The paper does not say which level its ladder goes on from; ours goes on from the level that made room.
    """

    def packed(self, outcome: PackOutcome) -> None:
        """Record a pack."""
        chosen = self._level
        super().packed(outcome)
        self._level = chosen


LADDERS: Final[dict[str, Callable[[], Ladder]]] = {
    **{one.value: partial(Ladder, smoothing=one) for one in Smoothing},
    "staying": partial(StayingLadder, smoothing=Smoothing.PRINTED),
}
"""Ladders by name: the two of decision 0002, and one that climbs do not move."""


def evenly(messages: DataFrame) -> DataFrame:
    """Return the messages at even intervals."""
    after_us = sf.floor(sf.col("seq") * sf.lit(SECOND_US / RATE)).cast("bigint")
    return messages.withColumn("ts", after_us + sf.lit(START_US))


def mixed(messages: DataFrame) -> DataFrame:
    """Return the messages with one in ten more a warning, and one in ten more about an access point."""
    lot = sf.pmod(sf.xxhash64("run", "seq"), sf.lit(10))
    return messages.withColumns(
        {
            "message_type": sf.when(lot == 0, "Warning").otherwise(sf.col("message_type")),
            "host": sf.when(lot == 1, sf.col("ap")).otherwise(sf.col("host")),
        }
    )


def traced(messages: DataFrame, ladders: Sequence[str]) -> DataFrame:
    """Replay each run with each ladder; return the trace of what queue and locator did."""
    wanted = dict.fromkeys((*read_by(POLICY), "action", "message_type", "ap", "ip"))
    events = messages.transform(as_events(list(wanted), schema=messages.schema)).select(
        "run", "ts", "seq", EVENT
    )
    wanted_ladders = tuple(ladders)

    def replayed(table: pa.Table) -> pa.Table:  # not a partial, which has no types for Spark to read
        return _replayed(table, wanted_ladders)

    return events.groupBy("run").applyInArrow(replayed, from_arrow_schema(_TRACE))


def _replayed(table: pa.Table, ladders: Sequence[str]) -> pa.Table:
    """Replay one hour through the queue, on a Spark worker."""
    run = table["run"][0].as_py()
    ordered = table.sort_by([("ts", "ascending"), ("seq", "ascending")])
    facts = [
        (run, ladder, *fact) for ladder in ladders for fact in _facts(events_of(ordered[EVENT]), ladder, run)
    ]
    columns = zip(*facts, strict=True)
    return pa.table(
        [pa.array(found, kind) for found, kind in zip(columns, _TRACE.types, strict=True)], _TRACE
    )


def _facts(events: list[Event | None], ladder: str, run: int) -> Iterator[tuple[Any, ...]]:
    """Yield facts as (what, level, filter, seen, dropped, time, at)."""
    locator = Locator(np.random.default_rng((run, 3)))
    # The locator is a program, not a link: digests stay in their places, as in the paper.
    options = QueueOptions(capacity_events=CAPACITY, digests_at_once=True)
    queue = PackingQueue(POLICY, options, LADDERS[ladder]())
    replay = Replay(queue, locator)
    for event in events:
        assert event is not None
        replay.offer(event)
    done = replay.finish()
    for pack in done.packs:
        dropped, turnaround_us = pack.events_dropped, pack.turnaround_us
        yield "pack", pack.chosen, None, pack.events_before, dropped, turnaround_us, pack.at_us
    for latency_us in locator.resolved:
        yield "answer", None, None, None, None, latency_us, None
    for cause, count in done.statistics.filters.items():
        yield "filter", cause.level, cause.filter, count.seen, count.dropped, None, None
    accounted = done.statistics.delivered + done.statistics.digested
    yield "account", None, None, len(events), accounted, None, None


def measured(trace: DataFrame, ladders: Sequence[str], seeds: range) -> dict[str, LadderFigures]:
    """The statistics of each ladder, from a trace."""
    return {ladder: _measured(trace, ladder, seeds) for ladder in ladders}


def _measured(trace: DataFrame, ladder: str, seeds: range) -> LadderFigures:
    own = trace.where(sf.col("ladder") == ladder)
    kinds = {what: own.where(sf.col("what") == what) for what in ("pack", "answer", "filter", "account")}
    asked = {
        (row["run"], row["level"]): row["count"]
        for row in kinds["pack"].groupBy("run", "level").count().collect()
    }
    filters = (
        kinds["filter"]
        .groupBy("level", "filter")
        .agg(sf.sum("seen").alias("seen"), sf.sum("dropped").alias("dropped"))
        .orderBy("level")
        .collect()
    )
    longest = kinds["answer"].groupBy("run").agg(sf.max("time_us").alias("most")).orderBy("run").collect()
    lost = kinds["account"].where(sf.col("seen") != sf.col("dropped")).count()
    return LadderFigures(
        packs=tuple(sum(count for (run, _), count in asked.items() if run == seed) for seed in seeds),
        levels={
            level: tuple(asked.get((seed, level), 0) for seed in seeds)
            for level in range(1, POLICY.highest + 1)
        },
        filters=tuple(Filtered(row["level"], row["filter"], row["seen"], row["dropped"]) for row in filters),
        intervals_s=_percentiles(kinds["pack"]),
        latencies_s=_percentiles(kinds["answer"]),
        longest_s=tuple(row["most"] / SECOND_US for row in longest),
        conserved=lost == 0 and len(longest) == len(seeds),
    )


def _percentiles(frame: DataFrame) -> tuple[float, ...]:

    row = frame.agg(sf.percentile("time_us", list(SHARES)).alias("found")).first()
    assert row is not None
    return tuple(value / SECOND_US for value in row["found"] or ())
