"""Flows on Spark: the same estimates as the core's, filters that merge to one, tables that nodes take."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from penstock.core.slots import wire
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.flows import key_of
from penstock.core.slots.period import estimate
from penstock.core.slots.shape import Shape
from penstock.errors import InputError
from penstock.node.broker.routes import Router
from penstock.node.config.slots import SlotSettings
from penstock.node.slots.flows import COLUMNS, RESERVATIONS, Flows, Reserved
from penstock.node.store.control_table import load
from penstock.pipeline.jobs.flows import FLOWS, estimates, flows, history_filter, reservations
from penstock.pipeline.tables.control_tables import publish

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

Flow = tuple[str, str, list[int]]


def arrivals(dice: Random, *, count: int, period_us: int, jitter: float, loss: float) -> list[int]:
    found: list[int] = []
    place = 1_000_000
    while len(found) < count:
        if dice.random() >= loss:
            found.append(round(place * period_us + dice.gauss(0, jitter * period_us)))
        place += 1
    return sorted(found)


def frame(spark: SparkSession, many: list[Flow]) -> DataFrame:
    rows = [(client, topic, at_us) for client, topic, times in many for at_us in times]
    Random(7).shuffle(rows)
    return spark.createDataFrame(rows, "client STRING, topic STRING, ts BIGINT").repartition(4)


def test_estimates_are_those_of_the_core(spark: SparkSession) -> None:
    dice = Random(3)
    windows = [
        arrivals(dice, count=count, period_us=50_000, jitter=jitter, loss=loss)
        for jitter in (0.0, 0.02, 0.1, 0.2)
        for loss in (0.0, 0.2, 0.4)
        for count in (15, 16, 40, 64)
    ]
    for _ in range(12):
        at_us = 0
        windows.append([at_us := at_us + 1 + round(dice.expovariate(1e-5)) for _ in range(64)])
    windows += [[5] * 20, list(range(20)), [0, *range(10**9, 10**9 + 20)]]
    rows = [
        (str(number), "t", number, times, [float(one - times[0]) for one in times])
        for number, times in enumerate(windows)
    ]
    kind = "client STRING, topic STRING, window INT, at ARRAY<BIGINT>, t ARRAY<DOUBLE>"
    found = {row["window"]: row for row in estimates(spark.createDataFrame(rows, kind)).collect()}
    known = 0
    for number, times in enumerate(windows):
        expected, row = estimate(times), found[number]
        if expected is None:
            assert row["period_us"] is None, times
            continue
        known += 1
        assert row["period_us"] == pytest.approx(expected.period_us, rel=1e-9)
        assert row["jitter_us"] == pytest.approx(expected.jitter_us, rel=1e-6, abs=1e-6)
        assert row["strength"] == pytest.approx(expected.strength, rel=1e-6)
        assert (row["arrivals"], row["lost"]) == (expected.arrivals, expected.lost)
    assert 25 < known < len(windows) - 15


def test_each_flow_has_its_figures(spark: SparkSession) -> None:
    dice = Random(5)
    poisson = 0
    many: list[Flow] = [
        ("a", "fast", arrivals(dice, count=400, period_us=20_000, jitter=0.05, loss=0.0)),
        ("a", "lossy", arrivals(dice, count=400, period_us=1_000_000, jitter=0.05, loss=0.2)),
        ("b", "random", [poisson := poisson + round(dice.expovariate(1e-5)) + 1 for _ in range(400)]),
        ("b", "few", [1, 2, 3]),
    ]
    result = frame(spark, many).transform(flows())
    assert result.schema.simpleString() == FLOWS.simpleString()
    found = {(row["client"], row["topic"]): row for row in result.collect()}
    fast, lossy = found["a", "fast"], found["a", "lossy"]
    assert fast["period_us"] == pytest.approx(20_000, rel=1e-3)
    assert fast["jitter_us"] == pytest.approx(1_000, rel=0.15)
    assert fast["loss"] == 0
    assert fast["on_time"] > 0.98
    assert lossy["period_us"] == pytest.approx(1_000_000, rel=1e-3)
    assert lossy["loss"] == pytest.approx(0.2, abs=0.06)
    assert (found["b", "random"]["constant"], found["b", "random"]["period_us"]) == (False, None)
    assert (found["b", "few"]["packets"], found["b", "few"]["constant"]) == (3, False)
    assert {(row["client"], row["topic"]) for row in result.transform(reservations()).collect()} == {
        ("a", "fast"),
        ("a", "lossy"),
    }


def test_no_python_worker_sees_a_row(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    frame(spark, [("a", "t", list(range(0, 2_000, 20)))]).transform(flows()).explain()
    assert "Python" not in capsys.readouterr().out


def test_filters_of_parts_merge_to_the_filter_of_all(spark: SparkSession) -> None:
    dice = Random(9)
    many = [
        (f"c{number}", "t", arrivals(dice, count=200, period_us=30_000, jitter=0.1, loss=0.1))
        for number in range(20)
    ]
    shape = Shape(arrays=8, groups=8, positions=4_096)
    found = history_filter(frame(spark, many), shape, slot_us=100_000)
    times = [(key_of(client, "t"), at_us // 100_000) for client, _, each in many for at_us in each]
    whole = RefreshingFilter(shape, start=max(slot for _, slot in times))
    keys = np.array([key for key, _ in times], dtype=np.int64)
    whole.insert_many(keys, np.array([slot for _, slot in times]))
    assert wire.to_bytes(found) == wire.to_bytes(whole)
    assert found.query(key_of("c0", "t"))


async def test_a_node_takes_the_table_of_reservations(spark: SparkSession, tmp_path: Path) -> None:
    dice = Random(11)
    many: list[Flow] = [
        (f"s{number}", "beat", arrivals(dice, count=128, period_us=100_000, jitter=0.02, loss=0.1))
        for number in range(5)
    ]
    folder = tmp_path / RESERVATIONS
    publish(frame(spark, many).transform(flows()).transform(reservations()), folder, name=RESERVATIONS)
    loaded = load(folder, RESERVATIONS, COLUMNS)
    assert loaded is not None
    assert sorted(row.client for row in loaded.rows(Reserved)) == [f"s{number}" for number in range(5)]
    node = Flows(
        SlotSettings(reservations=str(folder)), clock=lambda: 10**15, publish=lambda *_: None, router=Router()
    )
    node.start(asyncio.get_running_loop())
    while not node.status().table_version:
        await asyncio.sleep(0.01)
    node.close()
    assert {row.told for row in node.rows()} == {"table"}
    assert len(node.rows()) == 5


def test_packets_without_their_columns_are_refused(spark: SparkSession) -> None:
    packets = spark.createDataFrame([(1,)], "ts BIGINT")
    with pytest.raises(InputError, match="there is no column 'client'; there are: ts"):
        flows(schema=packets.schema)
