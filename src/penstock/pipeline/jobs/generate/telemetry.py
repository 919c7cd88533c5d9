"""The `telemetry` stream: vehicles report position, speed and temperature, with gaps and faults.

A vehicle drives from one random point of a square of 20 km to the next, ten minutes each: it stands for the
first fifth of the time, then drives in a straight line, faster towards the middle. So position and speed
belong together.

    position              lat, lon in degrees, with a receiver's error of 4 m (sd, each axis)
    readings.speed        km/h, from the drive, with an error of sd 0.5, at least 0
    readings.temperature  own baseline N(82, 4²) + 10 while driving, wanders by sd 1.5 within 60 s;
                          + 25 during a fault
    readings.pressure     own baseline N(2.4, 0.1²), wanders by sd 0.03 within 60 s; − 0.8 in a fault
    status                idle, driving, or fault (one drive in twenty, from its middle to its end)
    report                reading; each 60th sample is a heartbeat, whose readings are null
    ts                    constant interval with an own phase; jitter N(0, (0.02 interval)²), cut at ± 0.08
    duplicates            one row in each 100 of a vehicle is the row before it once more (same ts and seq)
    gaps                  in each 600 rows of a vehicle two gaps, together 60 samples, the first 0 to 60 of
                          them: samples lost on the way, so `seq` jumps

"Wanders" is `Dice.wander`. The policy `examples/policies/telemetry.yaml` reads this stream.
"""

from __future__ import annotations

from math import cos, radians
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.model.instant import SECOND_US
from penstock.pipeline.jobs.generate.recipe import Generator, rounded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.jobs.generate.recipe import Dice, Recipe

LEG_S: Final = 600
"""Seconds from one point to the next."""
STANDS: Final = 0.2
"""Share of that time in which the vehicle stands."""
SIDE_M: Final = 20_000
CENTRE: Final = (43.70, -72.29)
FAULTS: Final = 0.05
DUPLICATE_EVERY: Final = 100
GAPS_EVERY: Final = 600
GAP_SAMPLES: Final = 60
HEARTBEAT_EVERY: Final = 60
METRES_PER_DEGREE: Final = 111_320


def frame(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """The reports, in order of time except for phases and jitter."""
    dice = recipe.dice
    vehicle, sample = sf.col("vehicle"), sf.col("seq")
    rows = spark.range(0, recipe.events, 1, recipe.parts).select(
        sf.pmod("id", sf.lit(recipe.sources)).cast("int").alias("vehicle"),
        sf.floor(sf.col("id") / sf.lit(recipe.sources)).alias("__row"),
    )
    # The gaps must not stretch the stream, so samples are a little closer together than rows.
    interval_us = recipe.interval_us * GAPS_EVERY / _samples(GAPS_EVERY)
    jitter = sf.greatest(sf.lit(-4.0), sf.least(sf.lit(4.0), dice.normal("jitter", vehicle, sample)))
    since = (sample + dice.uniform("phase", vehicle) + sf.lit(0.1) + jitter * sf.lit(0.02)) * sf.lit(
        interval_us
    )
    found = rows.withColumn("seq", _sample(dice)).withColumn("__since", sf.floor(since).cast("bigint"))
    found = _driven(found, dice)
    minute = 60 * SECOND_US / interval_us
    name = sf.concat(sf.lit("vehicle-"), vehicle)
    heartbeat = sf.pmod(sample, sf.lit(HEARTBEAT_EVERY)) == HEARTBEAT_EVERY - 1
    return found.select(
        (sf.col("__since") + sf.lit(recipe.start_us)).alias("ts"),
        "seq",
        name.alias("sender"),
        sf.concat(sf.lit("fleet/"), name).alias("topic"),
        "vehicle",
        sf.when(heartbeat, sf.lit("heartbeat")).otherwise(sf.lit("reading")).alias("report"),
        "status",
        _readings(dice, minute, sf.when(~heartbeat, sf.lit(1.0))).alias("readings"),
        _position(dice).alias("position"),
    )


def _samples(rows: int) -> int:
    """Samples behind so many rows of a vehicle, lost ones included."""
    return rows - rows // DUPLICATE_EVERY + rows // GAPS_EVERY * GAP_SAMPLES


def _sample(dice: Dice) -> Column:
    """Number of the sample that a row reports."""
    vehicle, row = sf.col("vehicle"), sf.col("__row")
    hundred, place = sf.floor(row / sf.lit(DUPLICATE_EVERY)), sf.pmod(row, sf.lit(DUPLICATE_EVERY))
    twice = dice.whole("duplicate", vehicle, hundred, below=DUPLICATE_EVERY - 1) + 1
    duplicates = hundred + (place >= twice).cast("int")
    stretch, within = sf.floor(row / sf.lit(GAPS_EVERY)), sf.pmod(row, sf.lit(GAPS_EVERY))
    gap = dice.whole("gap length", vehicle, stretch, below=GAP_SAMPLES + 1)
    # A gap is at the start of a hundred rows, so that it never separates a row from its duplicate.
    half = GAPS_EVERY // DUPLICATE_EVERY // 2
    first = dice.whole("first gap", vehicle, stretch, below=half) * DUPLICATE_EVERY
    second = dice.whole("second gap", vehicle, stretch, below=half) * DUPLICATE_EVERY + GAPS_EVERY // 2
    lost = sf.when(within >= first, gap).otherwise(0) + sf.when(
        within >= second, GAP_SAMPLES - gap
    ).otherwise(0)
    return (row - duplicates + stretch * sf.lit(GAP_SAMPLES) + lost).cast("bigint")


def _driven(found: DataFrame, dice: Dice) -> DataFrame:
    """Progress on the way: __done from 0 to 1, and what follows from it."""
    vehicle, leg = sf.col("vehicle"), sf.col("__leg")
    leg_us = LEG_S * SECOND_US
    found = found.withColumns(
        {
            "__leg": sf.floor(sf.col("__since") / sf.lit(leg_us)),
            "__time": sf.greatest(
                sf.lit(0.0),
                (sf.pmod("__since", sf.lit(leg_us)) / sf.lit(float(leg_us)) - sf.lit(STANDS))
                / sf.lit(1 - STANDS),
            ),
        }
    )
    ends = {
        f"__{axis}{end}": dice.uniform(axis, vehicle, leg + sf.lit(end), high=SIDE_M)
        for axis in ("x", "y")
        for end in (0, 1)
    }
    time = sf.col("__time")
    faulty = (dice.uniform("fault", vehicle, leg) < FAULTS) & (time >= 0.5)
    return found.withColumns(ends).withColumns(
        {
            "__done": time * time * (sf.lit(3.0) - sf.lit(2.0) * time),
            "__metres": sf.hypot(sf.col("__x1") - sf.col("__x0"), sf.col("__y1") - sf.col("__y0")),
            "status": sf.when(faulty, sf.lit("fault"))
            .when(time > 0, sf.lit("driving"))
            .otherwise(sf.lit("idle")),
        }
    )


def _readings(dice: Dice, minute: float, told: Column) -> Column:
    """The measurements, times `told`: 1, or null for none.

    Spark evaluates everything inside a condition anew each time, so the arithmetic is outside of it.
    """
    vehicle, sample, time = sf.col("vehicle"), sf.col("seq"), sf.col("__time")
    km_h = sf.col("__metres") * sf.lit(6.0 * 3.6 / (LEG_S * (1 - STANDS))) * time * (sf.lit(1.0) - time)
    error = dice.normal("speed", vehicle, sample) * sf.lit(0.5) * (time > 0).cast("double")

    def wander(name: str) -> Column:
        return dice.wander(name, vehicle, step=sample, every=minute)

    fault, moves = sf.col("status") == "fault", sf.col("status") != "idle"
    warm = sf.lit(82.0) + sf.lit(4.0) * dice.normal("warm", vehicle) + sf.lit(1.5) * wander("temperature")
    warm += sf.when(moves, sf.lit(10.0)).otherwise(sf.lit(0.0))
    warm += sf.when(fault, sf.lit(25.0)).otherwise(sf.lit(0.0))
    bar = sf.lit(2.4) + sf.lit(0.1) * dice.normal("bar", vehicle) + sf.lit(0.03) * wander("pressure")
    bar -= sf.when(fault, sf.lit(0.8)).otherwise(sf.lit(0.0))
    return sf.struct(
        (rounded(sf.greatest(sf.lit(0.0), km_h + error), 1) * told).alias("speed"),
        (rounded(warm, 1) * told).alias("temperature"),
        (rounded(bar, 3) * told).alias("pressure"),
    )


def _position(dice: Dice) -> Column:
    def degrees(axis: str, centre: float, per_degree: float) -> Column:
        begin, end = sf.col(f"__{axis}0"), sf.col(f"__{axis}1")
        error = dice.normal(f"{axis} error", sf.col("vehicle"), sf.col("seq")) * sf.lit(4.0)
        metres = begin + (end - begin) * sf.col("__done") - sf.lit(SIDE_M / 2) + error
        return rounded(sf.lit(centre) + metres / sf.lit(per_degree), 6)

    lat, lon = CENTRE
    return sf.struct(
        degrees("y", lat, METRES_PER_DEGREE).alias("lat"),
        degrees("x", lon, METRES_PER_DEGREE * cos(radians(lat))).alias("lon"),
    )


GENERATOR: Final = Generator(
    "telemetry", "vehicles' position, speed, temperature, status; gaps, duplicates", 50, "vehicle", 1.0, frame
)
