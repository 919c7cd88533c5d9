"""Packing on Spark: compiled policies against SQL written by hand, `applyInPandas`, and the floor.

The frames have typed columns, or the columns that nodes record: a payload to be parsed and a map. All get the
same frame, held on disk by Spark, and must give the same rows, digests included; the benchmark checks that on
a small frame before it takes time. The floor only shuffles the frame by queue and sorts it: nobody who packs
can be faster. Times are from plan to the last row; rows are not stored. One queue of many events and a stream
follow (`bench.spark.streaming`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import isclose
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

import pyspark.sql.types as st
from pyspark import StorageLevel
from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.pipeline import pack
from penstock.pipeline.session import cores, few_parts, is_local, open_session
from penstock.policy.text.python_form import drop, keep, policy
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.bench.spark import pandas_rivals, sql_rivals, streaming
from penstock_lab.bench.spark.pandas_rivals import QUEUE, events, recorded
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

    from penstock.policy.nodes import Policy
    from penstock_lab.bench.result import Progress

NAME: Final = "spark"
SHOWS: Final = Shows(live=True)
EVENTS: Final = (1_000_000, 10_000_000, 50_000_000)
QUICK: Final = (300_000,)
"""Enough that making the plan and starting tasks, some 0.3 s, do not decide."""
ONE_KEY: Final = 10_000_000
"""Events of a single queue; no more than the largest frame asked for."""
MOST: Final = 1_000_000_000
"""Most events in a frame: more would not fit on the disk."""
SQL_GOAL: Final = 1 / 1.2
"""Goal: at most 1.2 times the time of SQL written by hand."""
FLOOR_GOAL: Final = 1 / 1.3
"""Goal: at most 1.3 times the time of shuffling and sorting alone."""
PANDAS_GOAL: Final = 6.0
GROWTH_GOAL: Final = 0.8
"""Time per event at the smallest size against the largest: 1 is linear, the rest is noise and spilling."""
MEMORY: Final = "6g"
"""Heap size: together with what the JVM needs besides, it stays within 8 GiB."""
_COPIES: Final = "rows are copied, sorted or hashed once more than a query needs them"
WARMING: Final = 2
"""Rounds of each contestant that do not count: the JVM compiles Spark's generated code meanwhile."""
SUMMARY: Final = ("count", "mean", "min", "max")


@dataclass(frozen=True, slots=True)
class SparkContest:
    """A policy, and the queries and functions written by hand for it."""

    name: str
    policy: Policy
    sql: str
    pandas: Callable[[pd.DataFrame], pd.DataFrame]
    key: str = "patient"
    large: bool = False
    """Whether it is run at the largest sizes: all of them would take more than 20 minutes."""

    def frame(self, spark: SparkSession, number: int) -> DataFrame:
        """Events for it."""
        return (recorded if self.key == "topic" else events)(spark, number)


CONTESTS: Final = (
    SparkContest(
        "stateless: drop within [50, 100]",
        policy(drop.within(50, 100), attribute="pulse", digest=SUMMARY),
        sql_rivals.WITHIN,
        pandas_rivals.packing(pandas_rivals.within, "pulse", ((1, "within"),)),
        large=True,
    ),
    SparkContest(
        "windowed: drop uniq",
        policy(drop.uniq(), attribute="step", digest={"pulse": SUMMARY}),
        sql_rivals.UNIQ,
        pandas_rivals.packing(pandas_rivals.uniq, "pulse", ((1, "uniq"),)),
    ),
    SparkContest(
        "windowed: keep latest 100",
        policy(keep.latest(100), attribute="pulse", digest=SUMMARY),
        sql_rivals.LATEST,
        pandas_rivals.packing(pandas_rivals.latest, "pulse", ((1, "latest"),)),
    ),
    SparkContest(
        "dead band: drop delta 5",
        policy(drop.delta(5), attribute="drift", digest=SUMMARY),
        sql_rivals.BAND,
        pandas_rivals.packing(pandas_rivals.band, "drift", ((1, "delta"),)),
        large=True,
    ),
    SparkContest(
        "chain: delta, within, latest 10",
        policy(
            drop.delta(5),
            drop(attribute="pulse").within(50, 100),
            keep.latest(10),
            attribute="drift",
            digest=SUMMARY,
        ),
        sql_rivals.CHAIN,
        pandas_rivals.packing(pandas_rivals.chain, "drift", ((1, "delta"), (2, "within"), (3, "latest"))),
    ),
    SparkContest(
        "recorded, stateless: drop within [50, 100]",
        policy(drop.within(50, 100), attribute="pulse", digest=SUMMARY),
        sql_rivals.RECORDED_WITHIN,
        pandas_rivals.packing(pandas_rivals.within, "pulse", ((1, "within"),), in_payload=True),
        key="topic",
        large=True,
    ),
    SparkContest(
        "recorded, dead band: drop delta 5",
        policy(drop.delta(5), attribute="drift", digest=SUMMARY),
        sql_rivals.RECORDED_BAND,
        pandas_rivals.packing(pandas_rivals.band, "drift", ((1, "delta"),), in_payload=True),
        key="topic",
    ),
)
LARGE: Final = 10_000_000
"""Events from which on only the contests marked so are run."""


def measure(
    *,
    quick: bool,
    progress: Progress,
    events: str | None = None,
    master: str | None = None,
    remote: str | None = None,
    memory: str | None = None,
) -> BenchmarkResult:
    """Time every contest: all contestants at the smallest size, pandas not at the others."""
    start = perf_counter()
    asked = sizes(events) if events is not None else (QUICK if quick else EVENTS)
    rounds = 1 if quick else 3
    before = 1 if quick else WARMING
    with open_session(
        master=master,
        remote=remote,
        app="penstock bench",
        memory=memory or MEMORY,
        config=few_parts(master, remote),
    ) as spark:
        steps = 3 + len(asked) * len(CONTESTS)
        progress(0, steps, "the rivals give the same")
        for contest in CONTESTS:
            check_same(spark, contest)
        taken: dict[int, dict[str, dict[str, float]]] = {}
        for turn, number in enumerate(asked):

            def told(done: int, what: str, before: int = 1 + turn * len(CONTESTS)) -> None:
                progress(before + done, steps, what)

            taken[number] = _at_size(
                spark, number, rounds if turn == 0 else 1, before=0 if turn else before, told=told
            )
        rows = rows_of(taken, cores=cores(spark))
        single = min(ONE_KEY, asked[-1])
        progress(steps - 2, steps, f"one queue of {single:,} events")
        rows += _one_key(spark, single)
        if is_local(master, remote):  # a folder of this machine is the stream
            progress(steps - 1, steps, f"{streaming.NAME}, {asked[0]:,} events")
            rows += _streamed(spark, asked[0], rounds)
        rows += _memory(spark)
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=_note(asked, rounds))


def sizes(text: str) -> tuple[int, ...]:
    """Parse numbers of events such as `1e6,1e7`; return them in ascending order."""
    try:
        found = sorted({int(float(part)) for part in text.split(",")})
    except (ValueError, OverflowError):
        raise InputError(f"--events {text}: write numbers of events with commas, as 1e6,1e7") from None
    if not QUEUE <= found[0] <= found[-1] <= MOST:
        raise InputError(f"--events {text}: from {QUEUE:,} to {MOST:,} events can be asked for")
    return tuple(found)


def _at_size(
    spark: SparkSession, number: int, rounds: int, *, before: int, told: Callable[[int, str], None]
) -> dict[str, dict[str, float]]:
    """Return seconds by contest and contestant; pandas takes part only at the first size."""
    found: dict[str, dict[str, float]] = {}
    wanted = [one for one in CONTESTS if one.large or number < LARGE or before]
    for key in dict.fromkeys(one.key for one in wanted):
        own = [one for one in wanted if one.key == key]
        told(len(found), f"{number:,} events are made")
        frame = own[0].frame(spark, number).persist(StorageLevel.DISK_ONLY)
        frame.count()
        try:
            for contest in own:
                told(len(found), f"{contest.name}, {number:,} events")
                ways = contestants(frame, contest)
                if not before:
                    del ways["pandas"]
                runs = {name: partial(_through, made) for name, made in ways.items()}
                found[contest.name] = _interleaved(runs, rounds, before=before)
        finally:
            frame.unpersist(blocking=True)
    return found


def _one_key(spark: SparkSession, number: int) -> list[BenchmarkRow]:
    """Row of a single queue: all of it is sorted, and folded, by one task, as on the floor."""
    contest = next(one for one in CONTESTS if one.name.startswith("dead band"))
    one = events(spark, number).withColumn("patient", sf.lit("only"))
    frame = one.persist(StorageLevel.DISK_ONLY)
    frame.count()
    ways = {name: made for name, made in contestants(frame, contest).items() if name in ("ours", "floor")}
    try:
        taken = _interleaved({name: partial(_through, made) for name, made in ways.items()}, 1, before=0)
    finally:
        frame.unpersist(blocking=True)
    rates = {name: number / seconds / 1e6 for name, seconds in taken.items()}
    ours, floor = rates["ours"], rates["floor"]
    name = f"{contest.name}, one queue of {number:,} events"
    return [BenchmarkRow(name, ours, "M events/s", "shuffle and sort", floor, ours / floor)]


def contestants(frame: DataFrame, contest: SparkContest) -> dict[str, Callable[[], DataFrame]]:
    """Return functions that make the packed frame: ours, SQL, pandas; and the floor, which packs nothing."""

    def by_hand() -> DataFrame:
        frame.createOrReplaceTempView("events")
        return frame.sparkSession.sql(contest.sql)

    packed = pack(
        contest.policy,
        key=contest.key,
        order=["ts", "seq"],
        level=contest.policy.highest,
        schema=frame.schema,
    )
    shape = st.StructType(frame.transform(packed).schema.fields)
    return {
        "ours": lambda: frame.transform(packed),
        "sql": by_hand,
        "pandas": lambda: frame.groupBy(contest.key).applyInPandas(contest.pandas, shape),
        "floor": lambda: frame.repartition(contest.key).sortWithinPartitions(contest.key, "ts", "seq"),
    }


def _through(made: Callable[[], DataFrame]) -> None:
    made().write.format("noop").mode("overwrite").save()


def _streamed(spark: SparkSession, number: int, rounds: int) -> list[BenchmarkRow]:
    with TemporaryDirectory(prefix="penstock-bench-") as folder:
        streaming.write_events(spark, number, Path(folder))
        ways = streaming.contestants(spark, Path(folder))
        return streaming.rows_of(_interleaved(ways, rounds, before=1), number)


def _interleaved(ways: Mapping[str, Callable[[], None]], rounds: int, *, before: int) -> dict[str, float]:
    """Median seconds of each; a slow moment of the machine hits all alike.

    `before`: rounds of all that do not count. Odd rounds run in reverse order, so that no contestant always
    follows the same rival.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-before, rounds):
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            start = perf_counter()
            ways[name]()
            if turn >= 0:
                taken[name].append(perf_counter() - start)
    return {name: median(found) for name, found in taken.items()}


def rows_of(taken: dict[int, dict[str, dict[str, float]]], *, cores: int) -> list[BenchmarkRow]:
    """Return the rows for seconds by size, contest and contestant."""
    least, most = min(taken), max(taken)
    rows: list[BenchmarkRow] = []
    for contest in CONTESTS:
        small = taken[least][contest.name]
        rates = {name: least / seconds / 1e6 for name, seconds in small.items()}
        ours, unit = rates["ours"], "M events/s"
        rows += [
            BenchmarkRow(
                contest.name,
                ours,
                unit,
                "SQL by hand",
                rates["sql"],
                ours / rates["sql"],
                SQL_GOAL,
                fails_if=_COPIES,
            ),
            BenchmarkRow(
                contest.name,
                ours,
                unit,
                "applyInPandas",
                rates["pandas"],
                ours / rates["pandas"],
                PANDAS_GOAL,
                fails_if="rows leave the JVM for Python",
            ),
            _beside_floor(contest.name, ours, rates["floor"]),
            BenchmarkRow(f"{contest.name}, per core", ours / cores, unit),
        ]
        for number in sorted(taken)[1:]:
            there = taken[number].get(contest.name)
            if there is None:
                continue
            ours, theirs, floor = (number / there[name] / 1e6 for name in ("ours", "sql", "floor"))
            name = f"{contest.name}, {number:,} events"
            rows.append(
                BenchmarkRow(
                    name, ours, unit, "SQL by hand", theirs, ours / theirs, SQL_GOAL, fails_if=_COPIES
                )
            )
            rows.append(_beside_floor(name, ours, floor))
        if most > least and contest.name in taken[most]:
            small_us, large_us = (
                taken[number][contest.name]["ours"] / number * 1e6 for number in (least, most)
            )
            name = f"{contest.name}, {most:,} events"
            rows.append(
                BenchmarkRow(
                    name,
                    large_us,
                    "µs/event",
                    f"{least:,}",
                    small_us,
                    small_us / large_us,
                    GROWTH_GOAL,
                    fails_if="the cost of an event grows with their number: memory runs out, or rows are "
                    "gathered in one place",
                    less=True,
                )
            )
    return rows


def _beside_floor(name: str, ours: float, floor: float) -> BenchmarkRow:
    return BenchmarkRow(
        name,
        ours,
        "M events/s",
        "shuffle and sort",
        floor,
        ours / floor,
        FLOOR_GOAL,
        fails_if="deciding, grouping or parsing costs more than a third of moving the rows",
    )


def _memory(spark: SparkSession) -> list[BenchmarkRow]:
    """Row of the peak memory of the JVM, where Spark runs on this machine and /proc shows it."""
    if not hasattr(spark, "_jvm"):
        return []
    jvm: Any = spark._jvm  # noqa: SLF001  # there is no other way
    status = Path(f"/proc/{jvm.java.lang.ProcessHandle.current().pid()}/status")
    if not status.exists():
        return []
    peak_kib = int(status.read_text().partition("VmHWM:")[2].split()[0])
    return [BenchmarkRow("memory of the JVM at most", peak_kib / 2**20, "GiB")]


def _note(asked: tuple[int, ...], rounds: int) -> str:
    numbers = ", ".join(f"{number:,}" for number in asked)
    return (
        f"{numbers} events, of seven columns or as nodes record them, in queues of {QUEUE:,}, on disk in "
        f"Spark; from {LARGE:,} on three of the policies; median of {rounds} interleaved rounds "
        "after some to warm up, of one where there are more events; applyInPandas at the smallest size only. "
        "Copying rows takes most of the time: shuffle, sort, windows, the hash table of "
        "groups; the dead band gathers each queue for Spark's interpreted lambdas; making the plan costs "
        "some 0.2 s, whatever the number of events. The stream comes in "
        f"{streaming.TRIGGERS} triggers, each with a fixed cost for state and commits"
    )


def check_same(spark: SparkSession, contest: SparkContest) -> None:
    """Fail unless all contestants give the same rows: timing different work would mean nothing."""
    frame = contest.frame(spark, 3 * QUEUE)
    found = {
        name: sorted((row.asDict(recursive=True) for row in made().collect()), key=partial(_place, contest))
        for name, made in contestants(frame, contest).items()
        if name != "floor"
    }
    for rival in ("sql", "pandas"):
        ours, theirs = found["ours"], found[rival]
        assert len(ours) == len(theirs), f"{contest.name}, {rival}: {len(theirs)} rows, ours {len(ours)}"
        for a, b in zip(ours, theirs, strict=True):
            assert _rounded(a) == _rounded(b), f"{contest.name}, {rival}: {b} is not {a}"
            assert _totals_agree(a, b), f"{contest.name}, {rival}: {b} is not {a}"


def _place(contest: SparkContest, row: dict[str, Any]) -> tuple[str, int]:
    return row[contest.key], row["place"]


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row with sums of fractions rounded, since they depend on the order of addition."""
    if row["digest"] is None:
        return row
    parts = [{**part, "total": None} for part in row["digest"]["attributes"]]
    return {**row, "digest": {**row["digest"], "attributes": parts}}


def _totals_agree(a: dict[str, Any], b: dict[str, Any]) -> bool:
    if a["digest"] is None:
        return True
    pairs = zip(a["digest"]["attributes"], b["digest"]["attributes"], strict=True)
    return all(isclose(x["total"], y["total"], rel_tol=1e-9) for x, y in pairs)
