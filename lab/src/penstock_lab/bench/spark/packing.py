"""Packing on Spark: compiled policies against SQL written by hand, `applyInPandas`, and the floor.

The frames have typed columns, or the columns that nodes record: a payload to be parsed and a map. Spark makes
each frame once and holds it on disk. Times are from plan to the last row; rows are not stored. At the
smallest size all contestants of all contests (`bench.spark.contests`) take turns, after rounds on a small
frame that warm the JVM up; the larger sizes are there for growth, once for each of some contests. One queue
of many events and a stream (`bench.spark.streaming`) follow. What would not end in time is left out, and
named.
"""

from __future__ import annotations

from functools import partial
from math import inf
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pyspark import StorageLevel
from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.pipeline.session import cores, few_parts, is_local, open_session
from penstock_lab.bench.result import BenchmarkResult, BenchmarkRow
from penstock_lab.bench.spark import streaming
from penstock_lab.bench.spark.contests import CONTESTS, SparkContest, check_same, contestants
from penstock_lab.bench.spark.pandas_rivals import QUEUE, events
from penstock_lab.runs.shows import Shows

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from penstock_lab.bench.result import Progress

NAME: Final = "spark"
SHOWS: Final = Shows(live=True)
EVENTS: Final = (1_000_000, 10_000_000, 50_000_000)
QUICK: Final = (2_000_000,)
"""Seconds for the fastest contestant: making the plan and starting tasks, some 0.3 s, do not decide."""
WARM: Final = 200_000
"""Events of the rounds that warm up: the JVM compiles generated code after some ten thousand rows."""
PANDAS_SHARE: Final = 5
"""pandas gets a fifth of the events, or a run would mostly be the time of pandas. Its rate does not depend on
their number."""
ONE_KEY: Final = {"stateless": 10_000_000, "dead band": 2_000_000}
"""Events of a single queue by contest, no more than the largest frame asked for: a task has to sort them all,
and a fold to hold them all in memory."""
STREAM: Final = 1_000_000
"""Most events of the stream."""
SQL_MOST: Final = 10_000_000
"""Events up to which SQL takes part: beyond, only growth and the floor are asked for."""
BUDGET_S: Final = 18 * 60
"""No contest begins later, no larger size that would end later: the benchmark takes at most 20 minutes."""
QUICK_S: Final = 8 * 60
"""The same with `quick`: half of what `bench all --quick` gives each of its parts."""
ROUNDS_S: Final = 4 * 60
"""Time for rounds at the smallest size, in equal shares for all contests and the stream: after the first
round none begins that would end later, so that a busy machine takes fewer rounds and not hours."""
_SLACK: Final = 1.2
"""How much longer than in proportion a larger size may take."""
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
"""Rounds of each contestant on the small frame, which do not count."""

Seconds = dict[str, dict[str, float]]
"""Seconds by contest and contestant."""


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
    budget_s = QUICK_S if quick else BUDGET_S
    rounds = 1 if quick else 3
    with open_session(
        master=master,
        remote=remote,
        app="penstock bench",
        memory=memory or MEMORY,
        config=few_parts(master, remote),
    ) as spark:
        local = is_local(master, remote)  # a folder of this machine is the stream
        run = _Run(
            spark, progress, start + budget_s, 1 + len(CONTESTS) + len(ONE_KEY) + local + 3 * (len(asked) - 1)
        )
        run.told("the rivals give the same")
        for contest in CONTESTS:
            check_same(spark, contest)
        taken = {asked[0]: run.first(asked[0], rounds)}
        more = [row for name, most in ONE_KEY.items() for row in run.one_key(name, min(most, asked[-1]))]
        if local:
            more += run.streamed(min(STREAM, asked[0]), rounds)
        for number in asked[1:]:
            taken[number] = run.larger(number, taken)
        rows = [*rows_of(taken, cores=cores(spark)), *more, *_memory(spark)]
    return BenchmarkResult(NAME, tuple(rows), perf_counter() - start, note=_note(asked, rounds, run.left_out))


def sizes(text: str) -> tuple[int, ...]:
    """Parse numbers of events such as `1e6,1e7`; return them in ascending order."""
    try:
        found = sorted({int(float(part)) for part in text.split(",")})
    except (ValueError, OverflowError):
        raise InputError(f"--events {text}: write numbers of events with commas, as 1e6,1e7") from None
    if not QUEUE <= found[0] <= found[-1] <= MOST:
        raise InputError(f"--events {text}: from {QUEUE:,} to {MOST:,} events can be asked for")
    return tuple(found)


class _Run:
    """A session with the frames of the benchmark, one at a time."""

    def __init__(self, spark: SparkSession, progress: Progress, end: float, steps: int) -> None:
        self._spark = spark
        self._progress = progress
        self._end = end
        """When nothing more is begun."""
        self._steps = steps
        self._done = -1
        self.left_out: list[str] = []
        """Measurements that would not have ended in time."""

    def told(self, what: str) -> None:
        """Begin the next step."""
        self._done += 1
        self._progress(min(self._done, self._steps - 1), self._steps, what)

    def first(self, number: int, rounds: int) -> Seconds:
        """Seconds of all contestants, as if pandas had got all events too."""
        found: Seconds = {}
        for key, own in _by_key(CONTESTS):
            with_key = [one.frame(self._spark, size) for one in own[:1] for size in (number, WARM)]
            fifth = own[0].frame(self._spark, number // PANDAS_SHARE)
            for frame in (*with_key, fifth):
                self._hold(frame, f"{key}: {number:,} events are made")
            whole, small = with_key
            for contest in own:
                self.told(f"{contest.name}, {number:,} events")
                if found and perf_counter() > self._end:
                    self.left_out.append(contest.name)
                    continue
                end_s = _share_end()
                warm = {name: partial(_through, made) for name, made in contestants(small, contest).items()}
                _interleaved(warm, 0, before=WARMING)
                ways = contestants(whole, contest) | {"pandas": contestants(fifth, contest)["pandas"]}
                timed = {name: partial(_through, made) for name, made in ways.items()}
                found[contest.name] = _interleaved(timed, rounds, before=0, end_s=end_s)
                found[contest.name]["pandas"] *= number / (number // PANDAS_SHARE)
            for frame in (*with_key, fifth):
                frame.unpersist(blocking=True)
        return found

    def larger(self, number: int, taken: Mapping[int, Seconds]) -> Seconds:
        """Seconds of some contests, each contestant once, pandas not at all; and the floor of each frame."""
        found: Seconds = {}
        before = max(taken)
        for _, own in _by_key([one for one in CONTESTS if one.large]):
            frame: DataFrame | None = None
            floor: float | None = None
            for contest in own:
                known = taken[before].get(contest.name)
                wanted = ["ours", *(["sql"] if number <= SQL_MOST else [])]
                wanted += ["floor"] if floor is None else []
                if known is None or not self._in_time(known, wanted, number / before, made=frame is not None):
                    self.told(f"{contest.name}, {number:,} events: left out")
                    self.left_out.append(f"{contest.name} with {number:,} events")
                    continue
                if frame is None:
                    frame = contest.frame(self._spark, number)
                    self._hold(frame, f"{number:,} events are made")
                self.told(f"{contest.name}, {number:,} events")
                ways = contestants(frame, contest)
                seconds = _interleaved({way: partial(_through, ways[way]) for way in wanted}, 1, before=0)
                floor = seconds.setdefault("floor", floor or 0.0)
                found[contest.name] = seconds
            if frame is not None:
                frame.unpersist(blocking=True)
        return found

    def _in_time(self, known: Mapping[str, float], wanted: list[str], times: float, *, made: bool) -> bool:
        """Whether contestants that took so long at a smaller size end in time at one so many times larger."""
        needs = sum(known[way] for way in wanted if way in known)
        needs += 0.0 if made else known["floor"]  # about what it takes to make the frame
        return perf_counter() + _SLACK * times * needs <= self._end

    def one_key(self, name: str, number: int) -> list[BenchmarkRow]:
        """Row of a single queue: all of it is sorted, and folded, by one task, as on the floor."""
        self.told(f"{name}, one queue of {number:,} events")
        contest = next(one for one in CONTESTS if one.name.startswith(name))
        frame = events(self._spark, number).withColumn("patient", sf.lit("only"))
        self._hold(frame, f"one queue of {number:,} events is made")
        ways = contestants(frame, contest)
        taken = _interleaved({way: partial(_through, ways[way]) for way in ("ours", "floor")}, 1, before=0)
        frame.unpersist(blocking=True)
        rates = {way: number / seconds / 1e6 for way, seconds in taken.items()}
        ours, floor = rates["ours"], rates["floor"]
        named = f"{contest.name}, one queue of {number:,} events"
        return [BenchmarkRow(named, ours, "M events/s", "shuffle and sort", floor, ours / floor)]

    def streamed(self, number: int, rounds: int) -> list[BenchmarkRow]:
        """Rows of the stream."""
        self.told(f"{streaming.NAME}, {number:,} events")
        with TemporaryDirectory(prefix="penstock-bench-") as folder:
            streaming.write_events(self._spark, number, Path(folder))
            ways = streaming.contestants(self._spark, Path(folder))
            return streaming.rows_of(_interleaved(ways, rounds, before=1, end_s=_share_end()), number)

    def _hold(self, frame: DataFrame, what: str) -> None:
        """Have Spark make a frame and keep it on disk."""
        self._progress(max(self._done, 0), self._steps, what)
        frame.persist(StorageLevel.DISK_ONLY).count()


def _by_key(contests: Iterable[SparkContest]) -> Iterator[tuple[str, list[SparkContest]]]:
    """Contests that share a frame."""
    every = list(contests)
    for key in dict.fromkeys(one.key for one in every):
        yield key, [one for one in every if one.key == key]


def _share_end() -> float:
    """When the rounds of a contest that begins now should have ended."""
    return perf_counter() + ROUNDS_S / (len(CONTESTS) + 1)


def _through(made: Callable[[], DataFrame]) -> None:
    made().write.format("noop").mode("overwrite").save()


def _interleaved(
    ways: Mapping[str, Callable[[], None]], rounds: int, *, before: int, end_s: float = inf
) -> dict[str, float]:
    """Median seconds of each; a slow moment of the machine hits all alike.

    `before`: rounds of all that do not count. Odd rounds run in reverse order, so that no contestant always
    follows the same rival. After the first round that counts none begins that would end after `end_s`.
    """
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(-before, rounds):
        if turn > 0 and perf_counter() + sum(found[-1] for found in taken.values()) > end_s:
            break
        for name in list(ways)[:: -1 if turn % 2 else 1]:
            start = perf_counter()
            ways[name]()
            if turn >= 0:
                taken[name].append(perf_counter() - start)
    return {name: median(found) for name, found in taken.items() if found}


def rows_of(taken: dict[int, dict[str, dict[str, float]]], *, cores: int) -> list[BenchmarkRow]:
    """Return the rows for seconds by size, contest and contestant."""
    least = min(taken)
    rows: list[BenchmarkRow] = []
    for contest in CONTESTS:
        if contest.name not in taken[least]:
            continue  # left out
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
            there = {way: number / seconds / 1e6 for way, seconds in there.items()}
            ours, theirs = there["ours"], there.get("sql")
            name = f"{contest.name}, {number:,} events"
            if theirs is not None:
                rows.append(
                    BenchmarkRow(
                        name, ours, unit, "SQL by hand", theirs, ours / theirs, SQL_GOAL, fails_if=_COPIES
                    )
                )
            rows.append(_beside_floor(name, ours, there["floor"]))
        most = max(number for number in taken if contest.name in taken[number])
        if most > least:
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


def _note(asked: tuple[int, ...], rounds: int, left_out: list[str]) -> str:
    numbers = ", ".join(f"{number:,}" for number in asked)
    missing = f" Left out, to end in time: {'; '.join(left_out)}." if left_out else ""
    return (
        f"{numbers} events, of seven columns or as nodes record them, in queues of {QUEUE:,}, on disk in "
        f"Spark. Median of up to {rounds} interleaved rounds at the smallest size, after {WARMING} on "
        f"{WARM:,} events to warm up; one round of the policies marked so where there are more. "
        f"applyInPandas gets 1/{PANDAS_SHARE} of the events.{missing} "
        "Copying rows takes most of the time: shuffle, sort, windows, the hash table of "
        "groups; the dead band gathers each queue for Spark's interpreted lambdas; making the plan costs "
        "some 0.2 s, whatever the number of events. The stream comes in "
        f"{streaming.TRIGGERS} triggers, each with a fixed cost for state and commits"
    )
