"""The `vitals` stream: pulse, oxygen, blood pressure and temperature of patients, with episodes.

    pulse        own baseline N(72, 7²) within 56–88, wanders by sd 4 within 10 s, white noise of sd 1
    spo2         own baseline N(97, 0.7²) within 95–99, white noise of sd 0.5, at most 100
    systolic     own baseline N(122, 9²) within 100–145, wanders by sd 6 within 60 s
    temperature  own baseline N(36.8, 0.2²) within 36.2–37.4, wanders by sd 0.15 within 10 min
    episode      in each ten minutes of a patient one with probability 1/3, of 30 to 90 s, within them:
                 tachycardia (half of them; pulse + 45–75, systolic + 15),
                 bradycardia (a fifth; pulse − 35–45, systolic − 20),
                 desaturation (the rest; spo2 − 8–14, pulse + 10)

"Wanders" is `Dice.wander`: smooth, and without memory beyond twice that time. A patient is in an episode a
thirtieth of the time. Readings come at a constant interval, with an own phase and no jitter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock.model.instant import SECOND_US
from penstock.pipeline.jobs.generate.recipe import Generator, rounded

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.jobs.generate.recipe import Dice, Recipe

WINDOW_S: Final = 600
"""Length of a window, which holds at most one episode, completely."""
EPISODE_SHARE: Final = 1 / 3
"""Share of windows with an episode."""
EPISODE_S: Final = (30, 90)
EPISODES: Final = (("tachycardia", 0.5), ("bradycardia", 0.2), ("desaturation", 0.3))
NONE: Final = "none"


def frame(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """The readings, in order of time except for the patients' phases."""
    dice = recipe.dice
    patient, step = sf.col("patient"), sf.col("seq")
    found = spark.range(0, recipe.events, 1, recipe.parts).select(
        sf.pmod("id", sf.lit(recipe.sources)).cast("int").alias("patient"),
        sf.floor(sf.col("id") / sf.lit(recipe.sources)).alias("seq"),
    )
    phase = dice.uniform("phase", patient) * sf.lit(recipe.interval_us)
    since_us = sf.floor(step * sf.lit(recipe.interval_us) + phase).cast("bigint")
    found = _with_episodes(found.withColumn("__since", since_us), dice)
    a_second = SECOND_US / recipe.interval_us

    def wander(name: str, seconds: int) -> Column:
        return dice.wander(name, patient, step=step, every=seconds * a_second)

    return found.select(
        (sf.col("__since") + sf.lit(recipe.start_us)).alias("ts"),
        "seq",
        sf.concat(sf.lit("monitor-"), patient).alias("sender"),
        sf.concat(sf.lit("ward/"), patient, sf.lit("/vitals")).alias("topic"),
        "patient",
        rounded(
            _baseline(dice, "pulse", 72, 7, 56, 88)
            + sf.lit(4.0) * wander("pulse", 10)
            + dice.normal("pulse noise", patient, step)
            + _pulse_shift(dice),
            1,
        ).alias("pulse"),
        rounded(
            sf.least(
                sf.lit(100.0),
                _baseline(dice, "spo2", 97, 0.7, 95, 99)
                + sf.lit(0.5) * dice.normal("spo2", patient, step)
                - _in("desaturation", _depth(dice, 8, 14)),
            ),
            1,
        ).alias("spo2"),
        rounded(
            _baseline(dice, "systolic", 122, 9, 100, 145)
            + sf.lit(6.0) * wander("systolic", 60)
            + _in("tachycardia", sf.lit(15.0))
            - _in("bradycardia", sf.lit(20.0)),
            1,
        ).alias("systolic"),
        rounded(
            _baseline(dice, "temperature", 36.8, 0.2, 36.2, 37.4) + sf.lit(0.15) * wander("temperature", 600),
            2,
        ).alias("temperature"),
        "episode",
    )


def _with_episodes(found: DataFrame, dice: Dice) -> DataFrame:
    patient, window = sf.col("patient"), sf.col("__window")
    length = dice.uniform("episode length", patient, window, low=EPISODE_S[0], high=EPISODE_S[1])
    begins = dice.uniform("episode begins", patient, window) * (sf.lit(float(WINDOW_S)) - length)
    into = sf.pmod("__since", sf.lit(WINDOW_S * SECOND_US)) / sf.lit(float(SECOND_US))
    there = dice.uniform("episode", patient, window) < EPISODE_SHARE
    kind = dice.chosen("episode kind", patient, window, among=EPISODES)
    return found.withColumn(
        "__window", sf.floor(sf.col("__since") / sf.lit(WINDOW_S * SECOND_US))
    ).withColumn(
        "episode",
        sf.when(there & (into >= begins) & (into < begins + length), kind).otherwise(sf.lit(NONE)),
    )


def _baseline(dice: Dice, name: str, mean: float, sd: float, low: float, high: float) -> Column:
    found = sf.lit(float(mean)) + sf.lit(float(sd)) * dice.normal(f"{name} baseline", sf.col("patient"))
    return sf.greatest(sf.lit(float(low)), sf.least(sf.lit(float(high)), found))


def _depth(dice: Dice, low: float, high: float) -> Column:
    return dice.uniform("episode depth", sf.col("patient"), sf.col("__window"), low=low, high=high)


def _in(episode: str, amount: Column) -> Column:
    return sf.when(sf.col("episode") == episode, amount).otherwise(sf.lit(0.0))


def _pulse_shift(dice: Dice) -> Column:
    return (
        _in("tachycardia", _depth(dice, 45, 75))
        - _in("bradycardia", _depth(dice, 35, 45))
        + _in("desaturation", sf.lit(10.0))
    )


GENERATOR: Final = Generator(
    "vitals", "patients' pulse, oxygen, blood pressure, temperature; episodes", 100, "patient", 1.0, frame
)
