"""The Spark commands read what a node records, while it is still recording."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from penstock import limits
from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.mqtt.packets.properties import Properties
from penstock.node.config.schema import RecorderSettings
from penstock.node.observe.recorder import Recorder
from penstock.pipeline import pack
from penstock.pipeline.jobs.backtest import replay as run_backtest
from penstock.pipeline.tables.recorded import read
from penstock.policy.text.forms import parse
from tests.kit.peer import node, run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

WARD = parse(
    "attribute: pulse\ndigest: [mean]\n"
    "levels: [drop: {within: [50, 100]}, keep: {latest_by: {by: $prop.bed, n: 2}}]"
)
EVENTS = 400


def test_a_recorded_folder_can_be_tested_and_packed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "RECORD_LATEST_S", 0.02)

    async def record() -> None:
        async with node() as running:
            settings = RecorderSettings(topics=("ward/#",), rotate_events=150)
            recorder = Recorder(settings, str(tmp_path))
            recorder.start(running.broker)
            for number in range(EVENTS):
                pulse = 140 if number % 40 == 0 else 60 + number % 30
                running.broker.publish(
                    f"ward/{number % 4}",
                    b'{"pulse": %d}' % pulse,
                    properties=Properties(
                        content_type="application/json", user=(("bed", str(number % 4)), ("bed", "again"))
                    ),
                )
            while recorder.status().recorded < EVENTS:
                await asyncio.sleep(0.01)
            # One file is being written; it is completed for the reader.
            assert await asyncio.to_thread(_rows, spark, tmp_path) == EVENTS
            await recorder.close()

    run(record())
    assert _rows(spark, tmp_path) == EVENTS
    frame = read(spark, str(tmp_path / "recorded"))
    found = run_backtest.backtested(
        frame,
        Settings(
            candidates=(Candidate("ward", WARD), *BASELINES),
            capacity=20,
            drain=drain("100/s"),
            key=("topic",),
            measured=("pulse",),
        ),
    )
    assert (found.stream.queues, found.stream.events) == (4, EVENTS)
    account = found.accounts["ward"]
    assert account.is_conserved
    assert account.loss > 0
    frame = frame.transform(pack(WARD, key="topic", order=["ts", "seq"], level=1))
    packed = frame.collect()
    sizes = frame.where("kind = 'event'").selectExpr("transform(map_entries(properties), e -> e.value) as v")
    assert {tuple(row["v"]) for row in sizes.collect()} == {("0", "again")}  # both of one name
    kept = [row for row in packed if row["digest"] is None]
    assert len(kept) == EVENTS // 40
    assert sum(row["digest"]["count"] for row in packed if row["digest"] is not None) == EVENTS - len(kept)


def _rows(spark: SparkSession, folder: Path) -> int:
    return read(spark, str(folder / "recorded")).count()
