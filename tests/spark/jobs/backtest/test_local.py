"""The engine without Spark gives the figures of Spark on the same files."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.pipeline.jobs.backtest import local, replay
from penstock.pipeline.tables import recorded
from penstock.policy.predicates import predicate
from penstock.policy.text.forms import parse
from tests.kit.backtest import same_backtest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

WARD = parse(
    "attribute: pulse\ndigest: [mean, max]\n"
    "levels: [drop: {delta: 5}, drop: {within: [50, 100]}, keep: {latest_by: {by: $topic, n: 2}}]"
)
LOTS = parse("attribute: pulse\nlevels: [drop: {random: 0.3}, drop: {lt: 80, attribute: spo2}]")
SOON = parse(
    "attribute: pulse\nfresh: 1s\nurgent: [{gt: 85}, {lt: 94, attribute: spo2}]\nmatters: {lt: 60}\n"
    "levels: [drop: {delta: 5}, keep: {latest_by: $topic}]"
)
CANDIDATES = (Candidate("ward", WARD), Candidate("lots", LOTS), Candidate("soon", SOON), *BASELINES)
MATTERS = (predicate("pulse > 90"), predicate("spo2 <= 94"), predicate("$topic in [ward/1, ward/3]"))


def rows(number: int = 2_000, beds: int = 5) -> list[dict[str, Any]]:
    """Events of several beds; several share an instant, some attributes are missing, numbers of all sizes."""
    dice = Random(7)
    pulse = [72.0] * beds
    found: list[dict[str, Any]] = []
    for seq in range(number):
        bed = min(dice.randrange(beds), dice.randrange(beds))
        pulse[bed] += dice.gauss(0, 4) - (pulse[bed] - 72) / 15
        found.append(
            {
                "ts": seq // 3 * 30_000,
                "topic": f"ward/{bed}",
                "sender": f"mönitor-{bed}",
                "bed": bed,
                "pulse": None if dice.random() < 0.02 else round(pulse[bed], 1),
                "spo2": dice.choice((93.0, 97.5, 1e-5, 12_345_678.0)),
            }
        )
    dice.shuffle(found)
    return found


def typed(path: Path) -> None:
    parquet.write_table(pa.Table.from_pylist(rows()), path / "a.parquet")


def numbered(path: Path) -> None:
    """Numbers that do not rise with time, in two files."""
    found = [row | {"seq": place * 7 % 100} for place, row in enumerate(rows())]
    for name, part in (("a", found[:700]), ("b", found[700:])):
        parquet.write_table(pa.Table.from_pylist(part), path / f"{name}.parquet")


def payloads(path: Path) -> None:
    """As a node records."""
    schema = pa.schema(
        [("topic", pa.string()), ("ts", pa.int64()), ("seq", pa.int64()), ("sender", pa.string()),
         ("payload", pa.binary()), ("properties", pa.map_(pa.string(), pa.string())),
         ("content_type", pa.string())]
    )  # fmt: skip
    found = [
        {
            "topic": row["topic"],
            "ts": row["ts"],
            "seq": place,
            "sender": row["sender"],
            "payload": msgspec.json.encode({"pulse": row["pulse"], "spo2": row["spo2"]})
            if place % 50
            else b"broken",
            "properties": [("unit", "bpm")] if place % 3 else [],
            "content_type": "application/json" if place % 2 else "",
        }
        for place, row in enumerate(rows())
    ]  # fmt: skip
    parquet.write_table(pa.Table.from_pylist(found, schema=schema), path / "a.parquet")


@pytest.mark.parametrize(
    ("stream", "key", "rate"),
    [
        (typed, ("bed",), "6/s"),
        (numbered, ("topic", "sender"), "60B/s"),
        (payloads, (), "2kB/s"),
        (typed, (), "70/s"),
    ],
)
def test_both_engines_give_the_same_figures(
    spark: SparkSession, tmp_path: Path, stream: Callable[[Path], None], key: tuple[str, ...], rate: str
) -> None:
    stream(tmp_path)
    settings = Settings(
        candidates=CANDIDATES,
        capacity=20,
        drain=drain(rate),
        key=key,
        measured=("pulse", "spo2"),
        matters=MATTERS,
        window_us=2_000_000,
    )
    ours = local.backtest(local.read(str(tmp_path)), settings)
    same_backtest(ours, replay.backtested(recorded.read(spark, str(tmp_path)), settings))
    account = ours.accounts["ward"]
    assert 0 < account.loss < 1
    assert all(one.kept.n for one in account.matters.values())
    assert all(one.n for one in (*account.extremes.values(), *account.unusual.values()))


@pytest.mark.parametrize("form", ["json", "csv"])
def test_texts_are_read_as_spark_reads_them(spark: SparkSession, tmp_path: Path, form: str) -> None:
    path = str(tmp_path / f"events.{form}")
    names = "ts bigint, topic string, sender string, bed bigint, pulse double, spo2 double"
    frame = spark.createDataFrame([tuple(row.values()) for row in rows(600)], names)
    frame = frame.selectExpr(
        "timestamp_micros(ts) || '' as ts", *(name.split()[0] for name in names.split(", ")[1:])
    )
    frame.coalesce(2).write.format(form).option("header", True).save(path)
    settings = Settings(
        candidates=CANDIDATES[:1], capacity=20, drain=drain("400B/s"), key=("bed",), measured=("pulse",)
    )
    same_backtest(
        local.backtest(local.read(path), settings), replay.backtested(recorded.read(spark, path), settings)
    )
