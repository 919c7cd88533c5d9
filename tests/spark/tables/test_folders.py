"""Folders as streams: JSON and back, times, and what is said of files that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.errors import InputError
from penstock.model.sketches import distinct_estimate
from penstock.pipeline.session import translated
from penstock.pipeline.stream.pack_stream import pack_stream, stands_for
from penstock.pipeline.tables.folders import folder_stream, write_folder
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

POLICY = parse("attribute: v\ndigest: [count, distinct]\nlevels: [keep: {latest: 2}]")


def copied(spark: SparkSession, source: Path, target: Path) -> None:
    """Everything in a folder of JSON through a stream into another."""
    stream = folder_stream(spark, str(source), format="json", ts="at")
    query = write_folder(stream, str(target), checkpoint=str(target / "_checkpoint"), format="json")
    with translated():
        query.awaitTermination()


def test_json_is_packed_and_its_digests_read_back(spark: SparkSession, tmp_path: Path) -> None:
    lines = [f'{{"room": "a", "at": "1970-01-01T00:00:0{n}Z", "v": {n}}}\n' for n in range(9)]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "first.json").write_text("".join(lines))
    stream = folder_stream(spark, str(tmp_path / "in"), format="json", ts="at")
    packed = stream.transform(pack_stream(POLICY, capacity=5, key="room", order="ts", schema=stream.schema))
    out = str(tmp_path / "out")
    write_folder(packed, out, checkpoint=f"{out}/_checkpoint", format="json").awaitTermination()
    again = folder_stream(spark, out, format="json")
    assert again.schema["digest"].dataType == DIGEST
    rows = spark.read.schema(again.schema).json(out)
    assert rows.agg(stands_for(rows.schema)).head()[0] == 9  # type: ignore[index]
    assert sorted(row["ts"] for row in rows.collect() if row["ts"] is not None) == [
        6_000_000,
        7_000_000,
        8_000_000,
    ]
    sketch = rows.where("kind = 'digest'").selectExpr("digest.attributes[0].distinct as found").head()
    assert sketch is not None
    assert round(distinct_estimate(bytes(sketch["found"]))) == 6


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{oh dear", r"bad\.json: a line is not a JSON object: \{oh dear"),
        ('{"room": "a", "at": "yesterday"}', r"bad\.json: an event without a time: column 'at' is yesterday"),
    ],
)
def test_a_line_that_is_no_event_stops_the_query_with_its_file(
    spark: SparkSession, tmp_path: Path, line: str, said: str
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "good.json").write_text('{"room": "a", "at": "1970-01-01T00:00:01Z"}\n')
    (tmp_path / "in" / "bad.json").write_text(f"{line}\n")
    with pytest.raises(InputError, match=said):
        copied(spark, tmp_path / "in", tmp_path / "out")


def test_what_cannot_be_a_stream_is_said_so(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nowhere: there is no such file or folder"):
        folder_stream(spark, str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="empty: there is no parquet data in it"):
        folder_stream(spark, str(tmp_path / "empty"))
    with pytest.raises(InputError, match="unknown format 'csv'; allowed for streams: parquet, json"):
        folder_stream(spark, str(tmp_path / "empty"), format="csv")
    with pytest.raises(InputError, match="files_per_trigger 0; at least 1"):
        folder_stream(spark, str(tmp_path / "empty"), files_per_trigger=0)
    with pytest.raises(InputError, match="there is no column 'ts' for the time of an event"):
        folder_stream(spark, str(tmp_path / "empty"), schema="room string, at bigint")
    stream = folder_stream(spark, str(tmp_path / "empty"), schema="room string, ts timestamp")
    assert stream.isStreaming
    assert dict(stream.dtypes)["ts"] == "bigint"
    with pytest.raises(InputError, match="the checkpoint needs a folder of its own"):
        write_folder(stream, "out", checkpoint="out/")
    with pytest.raises(InputError, match="every_s 0; seconds, above 0"):
        write_folder(stream, "out", checkpoint="there", every_s=0)
    with pytest.raises(InputError, match="not a streaming frame"):
        write_folder(spark.range(1), "out", checkpoint="there")
