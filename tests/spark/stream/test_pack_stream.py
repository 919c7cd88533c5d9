"""`pack_stream` on folders: agreement with the core, carrying, holding, forgetting, backlog, errors."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from penstock.core.queues import PackingQueue, QueueOptions, Replay, drain
from penstock.errors import InputError, PolicyError, QueueError
from penstock.model import Cause, Digest
from penstock.pipeline import row_of_digest
from penstock.pipeline.session import translated
from penstock.pipeline.stream.pack_stream import held, pack_stream, stands_for
from penstock.pipeline.tables.folders import folder_stream, write_folder
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy.text.forms import parse
from tests.agreement.timed_cases import case
from tests.kit.streaming_reference import reference

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from penstock.core.queues import Drain
    from penstock.model import Event

POLICY = parse("""
attribute: v
digest: [count, mean]
levels:
  - drop: {delta: 3}
  - drop: {within: [20, 80]}
  - keep: {latest: 4}
""")
COLUMNS = "room string, ts bigint, seq bigint, v double"
DIGESTED = f"{COLUMNS}, digest {DIGEST.simpleString()}"
GAP = row_of_digest(Digest(5, 2, 4, 2, 4, ((Cause(1, 1, "delta"), 5),)))


def put(spark: SparkSession, folder: Path, rows: list[tuple[Any, ...]], columns: str = COLUMNS) -> None:
    """One more file in a folder."""
    spark.createDataFrame(rows, columns).coalesce(1).write.mode("append").parquet(str(folder))


def packed_once(spark: SparkSession, folder: Path, **more: Any) -> DataFrame:
    """Pack what has come to `folder`/in, one file a trigger, into `folder`/out."""
    stream = folder_stream(spark, str(folder / "in"), files_per_trigger=1)
    given = {"capacity": 12, "key": ["room"], "order": ["ts"], **more}
    packed = stream.transform(pack_stream(POLICY, schema=stream.schema, **given))
    query = write_folder(packed, str(folder / "out"), checkpoint=str(folder / "checkpoint"))
    with translated():
        assert query.awaitTermination(240)
    return spark.read.parquet(str(folder / "out"))


def queues(frame: DataFrame) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in frame.orderBy("place").collect():
        found[row["room"]].append(row["v"] if row["kind"] == "event" else [row["digest"]["count"]])
    return dict(found)


def test_a_stream_is_packed_as_the_core_packs(spark: SparkSession, tmp_path: Path) -> None:
    dice = Random(11)
    ts = given = 0
    for _ in range(4):
        rows = []
        for room, most in (("a", 60), ("b", 30), ("c", 8), ("d", 14)):
            for _ in range(dice.randint(most // 2, most)):
                ts += 1
                rows.append((room, ts, ts, round(dice.uniform(0, 100), 1)))
        dice.shuffle(rows)
        given += len(rows)
        put(spark, tmp_path / "in", rows)
    out = packed_once(spark, tmp_path)
    expected = reference(tmp_path / "checkpoint", POLICY, 12)
    assert queues(out) == expected
    assert out.agg(stands_for(out.schema)).head()[0] == given  # type: ignore[index]
    assert not any(isinstance(item, list) for item in expected["c"])  # always fits
    assert any(isinstance(item, list) for item in expected["a"])
    assert out.columns == ["room", "place", "kind", "ts", "seq", "v", "digest"]


def test_what_is_held_is_let_out_in_time_and_ladders_are_forgotten(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    crowd = [("c", ts, ts, 50.0, None) for ts in range(40)]
    put(spark, tmp_path / "in", [("a", 1, 1, 7.0, None), ("a", 2, None, None, GAP), *crowd], DIGESTED)
    assert queues(packed_once(spark, tmp_path, hold_s=1, forget_s=1))["a"] == [7.0]
    assert [(row["room"], row["count"]) for row in held(spark, checkpoint).collect()] == [("a", 5)]
    state = spark.read.format("statestore").option("path", checkpoint).option("stateVarName", "ladder")
    assert [row["key"]["room"] for row in state.load().collect()] == ["c"]

    put(spark, tmp_path / "in", [("b", 9, 9, 1.0, None)], DIGESTED)  # timers wait for data
    stream = folder_stream(spark, str(tmp_path / "in"))
    more = stream.transform(
        pack_stream(POLICY, capacity=12, key=["room"], order="ts", schema=stream.schema, hold_s=1, forget_s=1)
    )
    query = write_folder(more, str(tmp_path / "out"), checkpoint=checkpoint, every_s=1)
    try:
        until = time.monotonic() + 240
        while len([one for one in query.recentProgress if "addBatch" in one["durationMs"]]) < 2:
            assert time.monotonic() < until  # a trigger without data follows
            time.sleep(0.1)
    finally:
        query.stop()
    found = queues(spark.read.parquet(str(tmp_path / "out")))
    assert (found["a"], found["b"]) == ([7.0, [5]], [1.0])
    assert held(spark, checkpoint).count() == 0
    assert state.load().count() == 0


def test_a_backlog_is_shed_and_digests_are_carried(spark: SparkSession, tmp_path: Path) -> None:
    now_us = time.time_ns() // 1000
    for trigger in range(3):  # room a: years old, in triggers each of which would fit
        rows: list[tuple[Any, ...]] = [("a", 100 * trigger + n, n, 40.0 + n, None) for n in range(12)]
        rows.append(("b", now_us + trigger, None, None, GAP))
        if trigger == 0:
            rows.append(("b", now_us - 1, 1, 1.0, None))
        put(spark, tmp_path / "in", rows, DIGESTED)
    put(spark, tmp_path / "in", [("a", now_us, 1, 7.0, None), ("b", now_us + 9, 2, 2.0, None)], DIGESTED)
    out = packed_once(spark, tmp_path, backlog="shed", behind_s=86_400, hold_s=3_600)
    found = queues(out)
    assert len(found["a"]) <= 12
    assert found["a"][-1] == 7.0
    assert found["b"] == [1.0, [15], 2.0]
    assert out.agg(stands_for(out.schema)).head()[0] == 37 + 17  # type: ignore[index]
    assert held(spark, str(tmp_path / "checkpoint")).count() == 0


def test_rows_keep_their_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Types that other ways through Python would change: nulls among numbers, maps, variants, times."""
    frame = spark.sql(
        """
        select 'a' as room, id as ts, id as v, if(id % 2 = 0, null, 9007199254740993 + id) as big,
               cast(id as decimal(30, 3)) as price, map(id, array('x', null)) as readings,
               named_struct('x', id, 'y', array(id, null)) as pair, parse_json('{"n": 1.50}') as body,
               timestamp_micros(id * 7777777777777) as at, timestamp_ntz '2021-10-31 02:30:00' as local,
               date '1066-10-14' as day, cast('0xff' as binary) as raw, cast('nan' as float) as nan,
               1Y as tiny, interval '1' day as lag, cast(null as string) as `odd.name é`
        from range(9)
        """
    )
    frame.coalesce(1).write.parquet(str(tmp_path / "in"))
    out = packed_once(spark, tmp_path).where("kind = 'event'")
    comparable = [f"to_json(struct({name})) as {name}" for name in ("readings", "body")]
    others = [f"`{name}`" for name in frame.columns if name not in ("readings", "body")]
    assert out.count() == 9
    assert out.selectExpr(*others, *comparable).exceptAll(frame.selectExpr(*others, *comparable)).count() == 0


def test_what_cannot_be_packed_is_said_so(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "in", [("a", 1, 1, 7.0)])
    stream = folder_stream(spark, str(tmp_path / "in"))
    good: dict[str, Any] = {"capacity": 12, "key": ["room"], "order": ["ts"]}

    def refused(kind: type[Exception], said: str, frame: DataFrame = stream, **more: Any) -> None:
        with pytest.raises(kind, match=said):
            pack_stream(POLICY, **{**good, "schema": frame.schema, **more})

    batch = spark.read.parquet(str(tmp_path / "in"))
    with pytest.raises(InputError, match="not a streaming frame"), translated():
        batch.transform(pack_stream(POLICY, **good, schema=batch.schema)).collect()
    refused(QueueError, "capacity_events 2; at least 3", capacity=2)
    refused(
        InputError,
        "there is no column 'patient' to make queues by; the columns are: room, ts",
        key=["patient"],
    )
    refused(InputError, "there is no column 'at'", order=["at"])
    refused(PolicyError, "a queue needs columns that name it", order=[])
    refused(PolicyError, "a queue needs columns that name it", key=[])
    refused(
        InputError,
        "column 'v' is array<double>; queues are made by",
        stream.selectExpr("room", "ts", "array(v) as v"),
        order=["v"],
    )
    refused(InputError, "column 'place': this name is used", stream.withColumnRenamed("seq", "place"))
    refused(InputError, "attribute 'v': there is no such column", stream.drop("v"))
    refused(
        InputError,
        "attribute '\\$ts': there is no column 'ts'",
        stream.withColumnRenamed("ts", "at"),
        order=["at"],
    )
    refused(
        InputError,
        "column 'digest' is string, expected digests",
        stream.withColumnRenamed("room", "digest"),
        key=["ts"],
    )
    refused(PolicyError, "hold_s: -1; it is a number of seconds", hold_s=-1)
    refused(PolicyError, "forget_s: nan", forget_s=float("nan"))
    refused(PolicyError, "backlog: 'drop'; allowed: replay, shed", backlog="drop")
    refused(PolicyError, "hold_s: 0 holds nothing", backlog="shed", hold_s=0)
    refused(QueueError, "a drain is written like 100/s, .* found '-1/s'", drain="-1/s")
    refused(QueueError, "drain 0/s: at least one an hour", drain="0/s")
    refused(PolicyError, "hold_s: 0 holds nothing, and a drain holds", drain="1/s", hold_s=0)
    refused(PolicyError, "backlog: 'shed' holds rows by their age", drain="1/s", backlog="shed")


def test_a_time_without_a_drain_is_warned_about(spark: SparkSession, tmp_path: Path) -> None:
    put(spark, tmp_path / "in", [("a", 1, 1, 7.0)])
    stream = folder_stream(spark, str(tmp_path / "in"))
    timed = replace(POLICY, fresh_us=1_000_000)
    with pytest.warns(UserWarning, match="fresh: 1 s has no effect: all rows .* give a `drain`"):
        pack_stream(timed, capacity=12, key="room", order="ts", schema=stream.schema)
    pack_stream(timed, capacity=12, key="room", order="ts", schema=stream.schema, drain="1/s")


TIMED = parse("""
attribute: $value
fresh: 300ms
urgent: {gt: 80}
digest: [mean]
levels:
  - drop: {within: [0, 30]}
  - keep: {latest_by: $topic}
""")


def test_a_stream_with_a_drain_gives_what_a_backtest_says(spark: SparkSession, tmp_path: Path) -> None:
    """Forty queues in four triggers; then the last of them runs empty by the time of triggers."""
    rate = drain("400B/s")
    cases = {f"k{seed}": case(seed).events for seed in range(40)}
    rows = [
        (key, event.topic, event.payload, event.ts_us, event.sender, event.seq)
        for key, events in cases.items()
        for event in events
    ]
    columns = "key string, topic string, payload binary, ts bigint, sender string, seq bigint"
    for part in range(4):
        put(spark, tmp_path / "in", [row for row in rows if row[-1] // 25 == part], columns)
    given: dict[str, Any] = {"capacity": 10, "key": ["key"], "order": ["ts", "seq"], "drain": rate}
    stream = folder_stream(spark, str(tmp_path / "in"), files_per_trigger=1)
    given["schema"] = stream.schema
    checkpoint = str(tmp_path / "checkpoint")
    query = write_folder(
        stream.transform(pack_stream(TIMED, **given)), str(tmp_path / "out"), checkpoint=checkpoint
    )
    with translated():
        assert query.awaitTermination(240)
    found = _seqs(spark.read.parquet(str(tmp_path / "out")))
    waiting = {row["key"]: row["count"] for row in held(spark, checkpoint).collect()}
    expected = {key: _served(events, rate) for key, events in cases.items()}
    packed = 0
    for key, events in cases.items():
        whole, at_last, in_time = expected[key]
        # A key that has no rows in the last triggers goes on with the time of triggers.
        assert len(found[key]) >= at_last, key
        assert found[key] == whole[: len(found[key])], key
        accounted = sum(item[0] if isinstance(item, list) else 1 for item in found[key])
        assert waiting.get(key, 0) == len(events) - accounted, key
        packed += in_time
    assert packed > 20
    assert sum(len(whole) > at_last for whole, at_last, _ in expected.values()) > 5

    put(spark, tmp_path / "in", [("last", "t", b"1", 1, "s", 1)], columns)  # timers wait for data
    stream = folder_stream(spark, str(tmp_path / "in"))
    packs = stream.transform(pack_stream(TIMED, **given))
    query = write_folder(packs, str(tmp_path / "out"), checkpoint=checkpoint, every_s=1)
    try:
        until = time.monotonic() + 240
        while _count(spark, tmp_path) < len(rows) + 1:
            assert query.exception() is None
            assert time.monotonic() < until
            time.sleep(0.2)
    finally:
        query.stop()
    assert held(spark, checkpoint).count() == 0
    found = _seqs(spark.read.parquet(str(tmp_path / "out")))
    assert {key: found[key] for key in cases} == {key: whole for key, (whole, _, _) in expected.items()}


def _served(events: list[Event], rate: Drain) -> tuple[list[Any], int, int]:
    """Events that a drain takes, how many of them until the last event, and how many packs kept the time."""
    replay = Replay(PackingQueue(TIMED, QueueOptions(capacity_events=10)), rate)
    out = replay.collect()
    replay.offer_all(events)
    at_last = len(out)
    in_time = replay.finish().statistics.packs_in_time
    return [[item.count] if isinstance(item, Digest) else item.seq for item in out], at_last, in_time  # type: ignore[union-attr]


def _count(spark: SparkSession, folder: Path) -> int:
    out = spark.read.parquet(str(folder / "out"))
    return int(out.agg(stands_for(out.schema)).head()[0])  # type: ignore[index]


def _seqs(frame: DataFrame) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for row in frame.orderBy("place").collect():
        found[row["key"]].append(row["seq"] if row["kind"] == "event" else [row["digest"]["count"]])
    return dict(found)


def test_a_damaged_digest_stops_the_query_with_a_sentence(spark: SparkSession, tmp_path: Path) -> None:
    damaged = row_of_digest(Digest(5, 2, 4, 2, 4, ((Cause(1, 1, "delta"), 3),)))
    put(spark, tmp_path / "in", [("a", 1, None, None, damaged)], DIGESTED)
    with pytest.raises(InputError, match=r"column 'digest' where room = 'a': .* not add up to its count 5"):
        packed_once(spark, tmp_path)
