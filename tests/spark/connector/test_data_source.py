"""Streams of a node in Spark: source and sink, batch and streaming, and when everything is killed in turn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from penstock.client import StreamReader, StreamWriter
from penstock.client.streams.reader import list_streams
from tests.kit.effort import LONG
from tests.kit.killed_node import Killed
from tests.kit.stream_programs import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from tests.kit.stream_programs import Running


@pytest.fixture
def node() -> Iterator[Running]:
    with running(hosts=2) as found:
        yield found


def write(node: Running, count: int, *, first: int = 0) -> None:
    with StreamWriter(node.url, "s", f"w{first}") as writer:
        for number in range(first, first + count):
            writer.write("a/b", str(number), properties={"number": str(number)})


def read(url: str, stream: str) -> list[int]:
    with StreamReader(url, stream, start="earliest", until="end") as reader:
        return [int(message.payload) for message in reader]


def load(spark: SparkSession, node: Running, **more: Any) -> DataFrame:
    return spark.read.format("penstock").options(url=node.url, stream="s", **more).load()


def numbers(frame: DataFrame) -> list[int]:
    return [int(row["payload"]) for row in frame.orderBy("stream", "tick").collect()]


def test_a_batch_of_a_stream(spark: SparkSession, node: Running) -> None:
    write(node, 1_000)
    frame = load(spark, node, rowsPerPartition="300")
    assert frame.selectExpr("spark_partition_id() as part").distinct().count() == 4
    assert numbers(frame) == list(range(1_000))
    row = frame.where("seq = 7").first()
    assert row is not None
    assert (row["stream"], row["topic"], row["sender"], row["qos"]) == ("s", "a/b", "w0", 1)
    assert row["properties"] == {"number": "6"}
    assert frame.where("ts between now() - interval 1 hour and now()").count() == 1_000


def test_triggers_of_a_stream_go_on_after_a_restart(
    spark: SparkSession, node: Running, tmp_path: Path
) -> None:
    for round_ in range(2):
        write(node, 250, first=round_ * 250)
        stream = spark.readStream.format("penstock").options(
            url=node.url, stream="s", startingOffsets="earliest", maxRowsPerTrigger="100", consumer="c"
        )
        query = (
            stream.load()
            .writeStream.format("parquet")
            .options(path=str(tmp_path / "out"), checkpointLocation=str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert [one["numInputRows"] for one in query.recentProgress] == [100, 100, 50]
    assert numbers(spark.read.parquet(str(tmp_path / "out"))) == list(range(500))
    (consumer,) = node.call(node.server.figures)
    (figures,) = (one for one in list_streams(node.url) if one.name == "s")
    assert figures.begin < consumer.place <= figures.end


def test_rows_are_written_once_in_batch_and_streaming(
    spark: SparkSession, node: Running, tmp_path: Path
) -> None:
    frame = spark.range(0, 500, 1, 3).selectExpr("cast(id as string) as payload")
    sink = {"url": node.url, "stream": "s", "topic": "a/b"}
    frame.write.format("penstock").mode("append").options(**sink).save()
    assert read(node.url, "s") == list(range(500))
    stream = spark.readStream.format("penstock").options(
        url=node.url, stream="s", startingOffsets="earliest", maxRowsPerTrigger="200"
    )
    query = (
        stream.load()
        .selectExpr("'t/b' as topic", "payload")
        .writeStream.format("penstock")
        .options(url=node.url, stream="t", checkpointLocation=str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert read(node.url, "t") == list(range(500))


def test_what_is_wrong_is_said(spark: SparkSession, node: Running) -> None:
    with pytest.raises(PySparkException, match="node 'home' has no stream 'u'; there are: s, t"):
        spark.read.format("penstock").options(url=node.url, stream="u").load().count()
    with pytest.raises(PySparkException, match="connection refused"):
        spark.read.format("penstock").options(
            url="stream://127.0.0.1:1", stream="s", patience="0"
        ).load().count()
    writer = spark.range(3).write.format("penstock").mode("append").options(url=node.url, stream="s")
    with pytest.raises(PySparkException, match="column 'id' is unknown"):
        writer.save()
    assert read(node.url, "s") == []


ROUNDS = 2 if LONG else 1


@pytest.mark.long
def test_the_query_and_the_node_are_killed_in_turn(tmp_path: Path) -> None:
    dice = Random(9)
    node = Killed(tmp_path, streams=2)
    node.start()
    query: subprocess.Popen[bytes] | None = None
    try:
        over = threading.Event()
        thread = threading.Thread(target=write_until, args=(node.url, over), daemon=True)
        thread.start()
        for _ in range(ROUNDS):
            query = start(node.url, tmp_path)
            gets_on(node.url, query, tmp_path)
            node.kill()
            node.start()
            gets_on(node.url, query, tmp_path)
            time.sleep(dice.uniform(0, 0.5))
            os.killpg(query.pid, signal.SIGKILL)  # Python, Java and the workers
            query.wait(timeout=300)
        over.set()
        thread.join(120)
        assert not thread.is_alive()
        query = start(node.url, tmp_path, "now")
        assert query.wait(timeout=300) == 0, said(tmp_path)
        given = read(node.url, "s")
        assert given == list(range(len(given)))
        assert read(node.url, "t") == given
    finally:
        if query is not None and query.poll() is None:
            os.killpg(query.pid, signal.SIGKILL)
            query.wait(timeout=300)
        node.close()


def write_until(url: str, over: threading.Event) -> None:
    with StreamWriter(url, "s", "w") as writer:
        for number in count():
            writer.write("a/b", str(number))
            if number % 50 == 0 and over.wait(0.2):
                return


def start(url: str, folder: Path, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.spark.connector.copy_query", url, str(folder), *more]
    with (folder / "query.log").open("a") as log:
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        return subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True, env=environment)


def said(folder: Path) -> str:
    return (folder / "query.log").read_text()[-3000:]


def copied(url: str) -> int:
    return next(one.messages for one in list_streams(url) if one.name == "t")


def gets_on(url: str, query: subprocess.Popen[bytes], folder: Path) -> None:
    """Wait until the query has copied more than it has now."""
    before = copied(url)
    until = time.monotonic() + 300
    while copied(url) <= before:
        assert time.monotonic() < until, said(folder)
        assert query.poll() is None, said(folder)
        time.sleep(0.1)
