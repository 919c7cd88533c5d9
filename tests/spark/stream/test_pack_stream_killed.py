"""A query that is killed at any moment and started again makes the rows it would have made."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from random import Random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.pipeline.stream.pack_stream import held_count, stands_for
from tests.kit.effort import LONG
from tests.kit.streaming_reference import reference, triggers
from tests.spark.stream.pack_query import CAPACITY, POLICY

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

FILES = 12 if LONG else 8
KILLED_AFTER = (2, 6) if LONG else (3,)
"""How many triggers are finished when the query is killed, somewhere in those that follow."""
ROOMS = ("a", "b", "c")


@pytest.mark.long
def test_the_rows_are_the_same_however_often_it_is_killed(spark: SparkSession, tmp_path: Path) -> None:
    dice = Random(os.environ.get("PENSTOCK_SEED", "27"))
    given = write_files(tmp_path / "in", dice)
    for finished in KILLED_AFTER:
        query = start(tmp_path)
        wait_for(query, tmp_path, finished)
        time.sleep(dice.uniform(0, 1.5))  # somewhere in the triggers that follow
        assert query.poll() is None, "it ended before it could be killed"
        os.killpg(query.pid, signal.SIGKILL)  # Python, Java and the workers
        query.wait(timeout=300)
    last = start(tmp_path)
    assert last.wait(timeout=600) == 0, said(tmp_path)

    out = spark.read.parquet(str(tmp_path / "out"))
    rows = out.orderBy("place").collect()
    found: dict[str, list[Any]] = defaultdict(list)
    for row in rows:
        found[row["room"]].append(row["v"] if row["kind"] == "event" else [row["digest"]["count"]])
    assert len(triggers(tmp_path / "checkpoint")) == FILES
    assert dict(found) == reference(tmp_path / "checkpoint", POLICY, CAPACITY)
    assert max(Counter((row["room"], row["place"]) for row in rows).values()) == 1
    assert out.agg(stands_for(out.schema)).head()[0] == given  # type: ignore[index]
    assert held_count(spark, str(tmp_path / "checkpoint")) == 0


def write_files(folder: Path, dice: Random) -> int:
    """Files of three rooms with up to three times what fits; how many events."""
    folder.mkdir()
    ts = 0
    for number in range(FILES):
        rows: list[dict[str, Any]] = []
        for room in ROOMS:
            for _ in range(dice.choice([5, CAPACITY + 1, 2 * CAPACITY, 3 * CAPACITY])):
                ts += 1
                rows.append({"room": room, "ts": ts, "seq": ts, "v": round(dice.uniform(0, 100), 1)})
        path = folder / f"{number:02}.parquet"
        pq.write_table(pa.Table.from_pylist(rows), path)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))  # the order in which Spark takes them
    return ts


def start(folder: Path) -> subprocess.Popen[bytes]:
    """The query in a group of processes of its own."""
    command = [sys.executable, "-m", "tests.spark.stream.pack_query", str(folder)]
    with (folder / "log").open("a") as log:
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)


def said(folder: Path) -> str:
    return (folder / "log").read_text()[-2000:]


def wait_for(query: subprocess.Popen[bytes], folder: Path, finished: int) -> None:
    """Until so many triggers are finished."""
    until = time.monotonic() + 600
    while time.monotonic() < until and query.poll() is None:
        commits = folder / "checkpoint" / "commits"
        if commits.exists() and sum(log.name.isdigit() for log in commits.iterdir()) >= finished:
            return
        time.sleep(0.05)
    os.killpg(query.pid, signal.SIGKILL)
    query.wait(timeout=300)
    raise AssertionError(f"fewer than {finished} triggers: {said(folder)}")
