"""Generated streams have the distributions that their modules promise, and depend on the seed alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import cos, radians
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from pyspark.sql import Window
from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.pipeline import pack
from penstock.pipeline.jobs.generate import GENERATORS, Recipe, campus, recipe, telemetry
from penstock.pipeline.jobs.generate.recipe import Dice
from penstock.policy.text.forms import parse
from tests.kit.paths import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL = {
    "vitals": Recipe(events=3_000, rate=7.0, sources=7, seed=3),
    "campus-syslog": Recipe(events=3_000, rate=5.0, sources=50, seed=3),
    "telemetry": Recipe(events=3_000, rate=3.0, sources=3, seed=3),
}
TELEMETRY = ROOT / "examples" / "policies" / "telemetry.yaml"
MONDAY_US = 1_736_121_600 * 10**6


def pandas(frame: DataFrame) -> Any:
    return frame.toPandas()


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict(recursive=True) for row in frame.orderBy("ts", "sender", "seq").collect()]


@pytest.mark.parametrize("name", GENERATORS)
def test_the_rows_depend_on_the_seed_and_not_on_the_partitions(
    spark: SparkSession, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, asked = GENERATORS[name].frame, SMALL[name]
    found = rows(make(spark, asked))
    assert len(found) == asked.events
    monkeypatch.setattr(recipe, "ROWS_PER_FILE", 450)
    assert asked.parts == 7
    assert rows(make(spark, asked)) == found
    assert rows(make(spark, replace(asked, seed=4))) != found


@pytest.mark.parametrize("name", GENERATORS)
def test_events_lie_in_the_time_that_was_asked_for(spark: SparkSession, name: str) -> None:
    asked = SMALL[name]
    span = (
        GENERATORS[name]
        .frame(spark, asked)
        .agg(sf.min("ts").alias("low"), sf.max("ts").alias("high"))
        .first()
    )
    assert span is not None
    slack_us = asked.interval_us * (1 + telemetry.GAP_SAMPLES)
    assert asked.start_us <= span["low"] < asked.start_us + slack_us
    assert asked.end_us - slack_us < span["high"] < asked.end_us + slack_us


def test_no_python_worker_makes_rows(spark: SparkSession) -> None:
    for name, generator in GENERATORS.items():
        plan = generator.frame(spark, SMALL[name])._jdf.queryExecution().executedPlan().toString()
        assert "Python" not in plan
        assert "Arrow" not in plan


# -- dice ----------------------------------------------------------------------------------------------------


def test_lots_have_their_distributions(spark: SparkSession) -> None:
    dice = Dice(5)
    number = sf.col("id")
    found = pandas(
        spark.range(40_000).select(
            dice.uniform("u", number).alias("u"),
            dice.normal("n", number).alias("n"),
            dice.whole("w", number, below=5).alias("w"),
            dice.chosen("c", number, among=(("a", 0.5), ("b", 0.3), ("c", 0.2))).alias("c"),
            dice.wander("x", sf.lit(1), step=number, every=10).alias("x"),
        )
    )
    assert abs(found["u"].mean() - 0.5) < 0.01
    assert np.histogram(found["u"], bins=10, range=(0, 1))[0].min() > 3_700
    assert abs(found["n"].mean()) < 0.02
    assert abs(found["n"].std() - 1) < 0.02
    assert abs((found["n"].abs() < 1.96).mean() - 0.95) < 0.005
    assert set(found["w"]) == {0, 1, 2, 3, 4}
    shares = found["c"].value_counts(normalize=True)
    assert np.allclose(shares[["a", "b", "c"]], [0.5, 0.3, 0.2], atol=0.01)
    wander = found["x"].to_numpy()
    assert abs(wander.std() - 1) < 0.05
    assert np.corrcoef(wander[:-1], wander[1:])[0, 1] > 0.9
    assert abs(np.corrcoef(wander[:-20], wander[20:])[0, 1]) < 0.06


# -- vitals --------------------------------------------------------------------------------------------------


def test_patients_are_in_an_episode_a_thirtieth_of_the_time(spark: SparkSession) -> None:
    asked = Recipe(events=120_000, rate=20.0, sources=200, seed=2)  # a reading each ten seconds
    found = pandas(GENERATORS["vitals"].frame(spark, asked))
    kinds = found["episode"].value_counts(normalize=True)
    assert abs(1 - kinds["none"] - 1 / 30) < 0.008
    assert kinds["tachycardia"] > kinds["desaturation"] > kinds["bradycardia"] > 0
    calm = found[found["episode"] == "none"]
    assert abs(calm["pulse"].mean() - 72) < 1.5
    assert ((calm["pulse"] > 40) & (calm["pulse"] < 110)).all()
    assert ((calm["spo2"] > 92) & (found["spo2"].max() <= 100)).all()
    means = found.groupby("episode")[["pulse", "spo2", "systolic"]].mean()
    assert means["pulse"]["tachycardia"] > 115
    assert means["pulse"]["bradycardia"] < 45
    assert means["spo2"]["desaturation"] < 90
    assert abs(found["temperature"].mean() - 36.8) < 0.1
    own = calm.groupby("patient")["pulse"].mean()
    assert abs(own.std() - 7) < 1.5, "patients have baselines of their own"
    assert (found.groupby("patient")["seq"].agg(lambda one: sorted(one) == list(range(600)))).all()


# -- telemetry -----------------------------------------------------------------------------------------------


def test_vehicles_repeat_and_lose_as_promised(spark: SparkSession) -> None:
    asked = Recipe(events=12_000, rate=10.0, sources=10, seed=2)
    frame = GENERATORS["telemetry"].frame(spark, asked)
    times = Counter(row["count"] for row in frame.groupBy("vehicle", "ts", "seq").count().collect())
    assert times == {1: 12_000 - 240, 2: 120}, "one row in a hundred comes again"
    own = Window.partitionBy("vehicle").orderBy("seq", "ts")
    steps = frame.distinct().withColumn("gap", sf.col("seq") - sf.lag("seq").over(own) - 1)
    gaps = Counter(row["gap"] for row in steps.collect())
    assert 0 < sum(count for gap, count in gaps.items() if gap) <= 40
    assert max(gap for gap in gaps if gap is not None) <= 2 * telemetry.GAP_SAMPLES
    span = frame.groupBy("vehicle").agg(sf.max("seq").alias("most")).collect()
    assert {row["most"] // 654 for row in span} <= {1, 2}, "two stretches of 600 rows are 1,308 samples"
    late = steps.withColumn("back", sf.col("ts") - sf.lag("ts").over(own) < 0)
    assert late.where("back").count() == 0, "jitter never turns samples round"
    beats = frame.where("report = 'heartbeat'")
    assert beats.where("seq % 60 != 59").count() == 0
    assert beats.where("readings.speed is not null").count() == 0
    assert frame.where("report = 'reading' and readings.temperature is null").count() == 0


def test_speed_is_the_way_that_positions_tell(spark: SparkSession) -> None:
    asked = Recipe(events=1_200, rate=1.0, sources=1, seed=6)
    found = GENERATORS["telemetry"].frame(spark, asked).orderBy("ts").collect()
    told = [row for row in found if row["readings"]["speed"] is not None]
    checked = 0
    for one, other in zip(told[::60], told[10::60], strict=False):
        seconds = (other["ts"] - one["ts"]) / 1e6
        north = (other["position"]["lat"] - one["position"]["lat"]) * telemetry.METRES_PER_DEGREE
        east = (other["position"]["lon"] - one["position"]["lon"]) * telemetry.METRES_PER_DEGREE
        metres = np.hypot(north, east * cos(radians(telemetry.CENTRE[0])))
        if one["status"] == other["status"] == "driving" and seconds < 20:
            mean = (one["readings"]["speed"] + other["readings"]["speed"]) / 2
            assert abs(metres / seconds * 3.6 - mean) < 8
            checked += 1
    assert checked >= 3
    assert {"idle", "driving"} <= {row["status"] for row in found}
    assert all(row["readings"]["speed"] == 0 for row in told if row["status"] == "idle")


def test_the_example_policy_reads_telemetry(spark: SparkSession) -> None:
    policy = parse(TELEMETRY.read_text())
    frame = GENERATORS["telemetry"].frame(spark, SMALL["telemetry"])
    packed = frame.transform(
        pack(policy, key=["vehicle"], order=["ts", "seq"], level=2, schema=frame.schema, now=0)
    ).collect()
    kept = [row for row in packed if row["kind"] == "event"]
    assert 0 < len(kept) < 0.5 * SMALL["telemetry"].events
    assert "heartbeat" not in {row["report"] for row in kept}
    counted = sum(row["digest"]["count"] for row in packed if row["kind"] == "digest")
    assert len(kept) + counted == SMALL["telemetry"].events


# -- the campus ----------------------------------------------------------------------------------------------


def test_the_campus_says_what_the_paper_names(spark: SparkSession) -> None:
    asked = Recipe(events=30_000, rate=5.0, sources=550, seed=2)
    found = pandas(GENERATORS["campus-syslog"].frame(spark, asked).orderBy("seq"))
    assert (np.diff(found["ts"]) >= 0).all(), "in the order of arrival"
    assert list(found["seq"]) == list(range(asked.events))
    assert 500 < found["ap"].nunique() <= 550
    assert abs((found["message_type"] != "Info").mean() - 0.05) < 0.015
    about_points = found["host"].str.startswith("AP-")
    assert abs(about_points.mean() - 0.03) < 0.015
    info = found[(found["message_type"] == "Info") & ~about_points]
    shares = info["action"].value_counts(normalize=True)
    departures = {action for said, _ in campus.DEPARTURES for action in said}
    assert set(shares.index) == {"Authenticated", "roamed", "Associated", "Reassociated"} | departures
    visit = 2 + 1 + 3 + 1.6
    assert abs(shares["Authenticated"] - 3 / visit) < 0.04
    assert abs(shares["Associated"] - 1 / visit) < 0.02
    assert abs(sum(shares[action] for action in departures) - 1.6 / visit) < 0.03
    associations = info[info["action"].isin(campus.ASSOCIATIONS)]
    assert abs(associations["ip"].notna().mean() - 0.3) < 0.02
    assert found["ip"].notna().sum() == associations["ip"].notna().sum()
    buildings = found["ap"].str.slice(0, 7).value_counts(normalize=True)
    assert 0.35 < buildings.iloc[:11].sum() < 0.5, "the busiest tenth has two fifths"
    assert (found["topic"] == "campus/" + found["ap"]).all()


def test_a_visit_is_told_from_its_begin_to_its_end() -> None:
    found = campus.pattern(seed=1, rate=4.0)
    assert len(found.slots) == campus.SLOTS
    visits: dict[int, list[tuple[int, int, campus.Slot]]] = {}
    for place, slot in enumerate(found.slots):
        visits.setdefault(slot.visit, []).append((slot.lag, place, slot))
    assert len(visits) == found.visits
    whole = [sorted(one, key=lambda at: at[:2]) for one in visits.values() if len(one) > 2]
    assert len(whole) > 1_500
    for messages in whole[:-1]:  # the last one may be cut off
        actions = [slot.action for _, _, slot in messages]
        assert actions[0] == "Authenticated"
        assert "Associated" in actions
        assert actions[-1].startswith(("Dis", "Deauth"))
        assert (
            actions.count("roamed")
            == actions.count("Reassociated")
            == max(slot.hop for _, _, slot in messages)
        )


def test_days_classes_and_weekends() -> None:
    week = campus.intensity(MONDAY_US, 7 * 86_400).reshape(7, 24, 60, 60).mean(axis=3)
    monday, saturday = week[0], week[5]
    assert np.allclose(saturday[3], 0.6 * monday[3])
    assert monday[4].mean() < 0.15 * monday[14].mean()
    assert np.allclose(monday[9][50:] / campus.CLASS_CHANGE, saturday[9][50:] / campus.WEEKEND)
    assert np.allclose(monday[9][:50], saturday[9][:50] / campus.WEEKEND)
    counts = campus.messages_per_second(
        Recipe(events=14_000, rate=3.9, sources=550, start_us=MONDAY_US + 36_000 * 10**6)
    )
    assert counts.sum() == 14_000
    assert counts[3000:3600].mean() > 1.5 * counts[:3000].mean(), "classes change before eleven"
    tens = counts[:3000].reshape(-1, 10).sum(axis=1)
    assert tens.var() > 3 * tens.mean(), "burstier than chance alone"


# -- what cannot be asked for --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"events": 0}, "1 to 100,000,000,000 events"),
        ({"sources": 0}, "1 to 10,000,000 sources"),
        ({"rate": 0.0}, "more than 0"),
        ({"rate": float("nan")}, "more than 0"),
        ({"rate": 1e-9}, "between 1970 and 2262"),
        ({"start_us": -1}, "between 1970 and 2262"),
    ],
)
def test_an_impossible_stream_is_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Recipe(**({"events": 10, "rate": 1.0, "sources": 1} | wrong))


def test_a_campus_trace_has_an_end() -> None:
    with pytest.raises(InputError, match="at most 336 hours"):
        campus.messages_per_second(Recipe(events=10**7, rate=1.0, sources=5))
