"""The Spark benchmark compares equals, and reports in the agreed shape."""

from __future__ import annotations

from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import pytest
from pyspark import StorageLevel

from penstock.errors import InputError
from penstock.pipeline.stream.pack_stream import stands_for
from penstock.pipeline.tables.folders import folder_stream, write_folder
from penstock_lab.bench.spark import contests, streaming
from penstock_lab.bench.spark import packing as bench
from penstock_lab.bench.spark.pandas_rivals import QUEUE

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.parametrize("contest", contests.CONTESTS, ids=lambda contest: contest.name)
def test_rivals_give_the_same_rows(spark: SparkSession, contest: contests.SparkContest) -> None:
    contests.check_same(spark, contest)


def test_a_frame_stays_on_disk_whoever_reads_it(spark: SparkSession) -> None:
    contest = contests.CONTESTS[0]
    frame = contest.frame(spark, QUEUE).persist(StorageLevel.DISK_ONLY)
    for made in contests.contestants(frame, contest).values():
        made().count()
        assert frame.storageLevel == StorageLevel.DISK_ONLY
    frame.unpersist()


def test_every_policy_keeps_and_drops_something(spark: SparkSession) -> None:
    for contest in contests.CONTESTS:
        frame = contest.frame(spark, QUEUE)
        kinds = {
            row["kind"] for row in contests.contestants(frame, contest)["ours"]().select("kind").collect()
        }
        assert kinds == {"event", "digest"}, contest.name


def test_figures_become_rows_with_ratios_in_which_larger_is_better() -> None:
    slow = {"ours": 2.0, "sql": 2.0, "pandas": 20.0, "floor": 1.0}
    taken = {1_000: {contest.name: slow for contest in contests.CONTESTS}, 10_000: {}}
    taken[10_000] = {
        contest.name: {"ours": 40.0, "sql": 20.0, "floor": 36.0} for contest in contests.CONTESTS
    }
    sql, pandas, floor, _, more, lower, growth = bench.rows_of(taken, cores=2)[:7]
    assert (sql.ratio, pandas.ratio, more.ratio, growth.ratio) == (1.0, 10.0, 0.5, 0.5)
    assert (sql.ok, pandas.ok, more.ok, growth.ok) == (True, True, False, False)
    assert (floor.ratio, floor.ok, lower.ratio, lower.ok) == (0.5, False, 0.9, True)


def test_growth_is_told_for_the_largest_size_at_which_there_was_time() -> None:
    once = {"ours": 2.0, "sql": 2.0, "pandas": 20.0, "floor": 1.0}
    name = contests.CONTESTS[0].name
    taken = {1_000: {contest.name: once for contest in contests.CONTESTS}}
    taken |= {
        10_000: {name: {"ours": 20.0, "sql": 18.0, "floor": 15.0}},
        50_000: {name: {"ours": 125.0, "floor": 75.0}},
    }
    rows = [row for row in bench.rows_of(taken, cores=2) if row.name.startswith(f"{name}, 50,000")]
    assert [row.rival for row in rows] == ["shuffle and sort", "1,000"]
    assert [row.ratio for row in rows] == pytest.approx([0.6, 0.8])
    assert not [
        row for row in bench.rows_of(taken, cores=2) if "10,000" in row.name and row.name.startswith("chain")
    ]


def test_a_larger_size_begins_only_if_it_ends_in_time() -> None:
    known = {"ours": 10.0, "sql": 10.0, "floor": 5.0}
    end = perf_counter() + bench.BUDGET_S
    run = bench._Run(None, lambda *_: None, end, 1)  # type: ignore[arg-type]
    assert run._in_time(known, ["ours", "floor"], 5, made=False)
    assert not run._in_time(known, ["ours", "floor"], 100, made=False)
    late = bench._Run(None, lambda *_: None, perf_counter(), 1)  # type: ignore[arg-type]
    assert not late._in_time(known, ["ours"], 5, made=True)


def test_contests_that_begin_too_late_are_left_out_and_named(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "CONTESTS", (contests.CONTESTS[0], contests.CONTESTS[2]))
    monkeypatch.setattr(bench, "WARM", 2 * QUEUE)
    run = bench._Run(spark, lambda *_: None, perf_counter(), 3)
    taken = run.first(5 * QUEUE, rounds=1)
    assert list(taken) == [contests.CONTESTS[0].name], "one is always measured"
    assert run.left_out == [contests.CONTESTS[2].name]
    assert {row.name for row in bench.rows_of({5 * QUEUE: taken}, cores=2)} == {
        contests.CONTESTS[0].name,
        f"{contests.CONTESTS[0].name}, per core",
    }


def test_all_rivals_warm_up_alike_before_time_is_taken() -> None:
    runs: list[str] = []
    ways = {name: partial(runs.append, name) for name in ("ours", "sql", "pandas")}
    taken = bench._interleaved(ways, rounds=3, before=4)
    assert set(taken) == set(ways)
    assert {name: runs.count(name) for name in ways} == dict.fromkeys(ways, 7)


def test_after_the_first_round_none_begins_that_would_end_too_late() -> None:
    runs: list[str] = []
    ways = {name: partial(runs.append, name) for name in ("ours", "sql")}
    assert set(bench._interleaved(ways, rounds=3, before=2, end_s=0.0)) == set(ways)
    assert {name: runs.count(name) for name in ways} == dict.fromkeys(ways, 3)


def test_both_ways_to_pack_a_stream_drop_most_and_account_for_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    streaming.write_events(spark, QUEUE // 2, tmp_path)
    kept = {}
    for name, way in (("ours", streaming.packed), ("theirs", streaming.by_hand)):
        stream = folder_stream(spark, str(tmp_path / "in"), files_per_trigger=2)
        out = str(tmp_path / name)
        write_folder(way(stream), out, checkpoint=f"{out}-checkpoint").awaitTermination()
        found = spark.read.parquet(out)
        assert found.agg(stands_for(found.schema)).first() == (QUEUE // 2,)
        kept[name] = {row["seq"] for row in found.where("kind = 'event'").collect()}
    assert kept["theirs"] <= kept["ours"]
    assert len(kept["ours"] - kept["theirs"]) <= 2  # the newest of a queue stays with us
    assert 0 < len(kept["theirs"]) < QUEUE // 4


def test_a_stream_is_set_beside_both_rivals() -> None:
    taken = {"ours": 2.0, streaming.BY_HAND: 6.0, streaming.UNPACKED: 1.0}
    by_hand, unpacked, goal = (row.ratio for row in streaming.rows_of(taken, 600_000))
    # The goal is 0.3 million events a second.
    assert (by_hand, unpacked, goal) == pytest.approx((3.0, 0.5, 1.0))


@pytest.mark.parametrize("text", ["", "many", "1e6,", "1", "1e12", "inf", "-1e6"])
def test_sizes_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--events"):
        bench.sizes(text)
    assert bench.sizes("1e4,2000") == (2_000, 10_000)
