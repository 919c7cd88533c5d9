"""Recorded streams: what can be read, and what is said of what cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.pipeline.session import translated
from penstock.pipeline.tables.files import format_of
from penstock.pipeline.tables.recorded import read

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GOOD = {
    "a.jsonl": '{"ts": 1000000, "v": 2}\n{"ts": 2000000, "v": 3}\n',
    "b.jsonl": '{"ts": "1970-01-01T00:00:01Z", "v": 2}\n{"ts": "1970-01-01T02:00:02+02:00", "v": 3}\n',
    "c.csv": "ts,v\n1970-01-01 00:00:01,2\n1970-01-01 00:00:02,3\n",
    "d.tsv": "ts\tv\n1000000\t2\n2000000\t3\n",
}


@pytest.mark.parametrize("name", GOOD)
def test_every_format_gives_the_same_events(spark: SparkSession, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(GOOD[name])
    frame = read(spark, str(tmp_path / name))
    assert [(row["ts"], row["v"]) for row in frame.orderBy("ts").collect()] == [
        (1_000_000, 2),
        (2_000_000, 3),
    ]


def test_a_folder_of_parquet_files(spark: SparkSession, tmp_path: Path) -> None:
    folder = str(tmp_path / "events")
    spark.sql("SELECT id AS at, timestamp_micros(id) AS when, id AS v FROM range(5)").write.parquet(folder)
    assert read(spark, folder, ts="at").count() == 5
    assert [row["ts"] for row in read(spark, folder, ts="when").orderBy("v").collect()] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        (
            "a.jsonl",
            '{"ts": 1, "v": 2}\n{"ts": 2, "v":\n',
            r'a\.jsonl: a line is not a JSON object: \'{"ts": 2',
        ),
        ("b.jsonl", "what\n", r"b\.jsonl: no line is a JSON object"),
        ("c.jsonl", "", r"c\.jsonl: there is no event in it"),
        ("d.csv", "ts,v\n", r"d\.csv: there is no event in it"),
        ("e.csv", "time,v\n1,2\n", r"e\.csv: there is no column 'ts' .* --ts; there are: time, v"),
        ("f.csv", "ts,v\nyesterday,2\n", r"f\.csv: an event without a time: .*yesterday"),
        ("g.jsonl", '{"ts": 1.5}\n', r"g\.jsonl: column 'ts' is double, expected whole microseconds"),
        ("h.parquet", "no parquet", r"h\.parquet: cannot be read"),
        ("i.csv", "ts,v\n1,2\n3,4,5,6\n", r"i\.csv"),
    ],
)
def test_what_cannot_be_read_is_named(
    spark: SparkSession, tmp_path: Path, name: str, text: str, complaint: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=complaint), translated():
        read(spark, str(tmp_path / name)).collect()


def test_a_path_that_is_not_there(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file or folder"):
        read(spark, str(tmp_path / "nowhere.parquet"))


def test_the_format_must_be_known(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="or use --format"):
        format_of("events.dat")
    with pytest.raises(InputError, match="unknown format 'avro'; allowed: parquet, json, csv"):
        read(spark, str(tmp_path), format="avro")
