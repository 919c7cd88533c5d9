"""A campus' wireless network as its access points' syslog tells it: devices come, roam and leave.

The setting is that of the PACK paper (§7): 550 access points whose messages go to one host, which publishes
them as one stream of structured events. `campus_arrivals` says when messages come, `campus_visits` which.

    ap            AP-b017-3: access point 3 of building 17, five to a building; the building of a visit has
                  the density (rank + 2)^−0.9, so a tenth of the buildings has two fifths of the messages
    host          the device's MAC address, of six devices per access point; or the name of an access point
    message_type  Info, Warning, Error
    action        Authenticated, Associated, Reassociated, roamed, and four kinds of departure; or what went
                  wrong, in warnings and errors
    ip            the device's address, in three of ten associations; else null
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from penstock.model.instant import SECOND_US
from penstock.pipeline.generators.campus_arrivals import messages_per_second
from penstock.pipeline.generators.campus_visits import ASSOCIATIONS, SLOTS, pattern
from penstock.pipeline.generators.recipe import Generator

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.generators.dice import Dice
    from penstock.pipeline.generators.recipe import Recipe

PER_BUILDING: Final = 5
TAIL: Final = 0.9
TAIL_SHIFT: Final = 2.0
DEVICES_PER_POINT: Final = 6
WITH_ADDRESS: Final = 0.3
"""Associations that name the device's IP address."""
SENDER: Final = "syslog"


def frame(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """The messages, in order of time."""
    dice = recipe.dice
    found = _arrivals(spark, recipe)
    slots, visits = _slots(spark, recipe)
    repetition = sf.floor(sf.col("seq") / sf.lit(SLOTS))
    found = (
        found.withColumn("__slot", sf.pmod("seq", sf.lit(SLOTS)).cast("int"))
        .join(sf.broadcast(slots), "__slot")
        .withColumn("__visit", (repetition - sf.col("__lag")) * sf.lit(visits) + sf.col("__class"))
    )
    building = _building(dice, recipe.sources)
    ap = _point(building, _in_building(dice, recipe.sources, sf.col("__hop")))
    neighbour = _point(building, _in_building(dice, recipe.sources, sf.col("__hop") + 1))
    device = dice.whole("device", sf.col("__visit"), below=DEVICES_PER_POINT * recipe.sources)
    named = sf.col("action").isin(*ASSOCIATIONS) & ~sf.col("__about_point")
    named &= dice.uniform("with address", sf.col("seq")) < WITH_ADDRESS
    return found.withColumns({"ap": ap, "__neighbour": neighbour, "__device": device}).select(
        "ts",
        "seq",
        sf.lit(SENDER).alias("sender"),
        sf.concat(sf.lit("campus/"), sf.col("ap")).alias("topic"),
        "message_type",
        "action",
        "ap",
        sf.when(sf.col("__about_point"), sf.col("__neighbour")).otherwise(_mac(dice)).alias("host"),
        sf.when(named, _address()).alias("ip"),
    )


def _arrivals(spark: SparkSession, recipe: Recipe) -> DataFrame:
    """Time and number of each message."""
    counts = messages_per_second(recipe)
    seconds = np.flatnonzero(counts)
    counts = counts[seconds]
    table = {"__second": seconds, "__first": np.cumsum(counts) - counts, "__count": counts}
    rows = spark.createDataFrame(pa.table(table))
    numbers = sf.sequence(sf.lit(0).cast("bigint"), sf.col("__count") - 1)
    spread = (sf.col("__place") + recipe.dice.uniform("within a second", sf.col("seq"))) / sf.col("__count")
    since = sf.col("__second") * SECOND_US + sf.floor(spread * SECOND_US)
    return (
        rows.repartitionByRange(recipe.parts, "__first")
        .select("*", sf.explode(numbers).alias("__place"))
        .withColumn("seq", sf.col("__first") + sf.col("__place"))
        .select((since + sf.lit(recipe.start_us)).cast("bigint").alias("ts"), "seq")
    )


def _slots(spark: SparkSession, recipe: Recipe) -> tuple[DataFrame, int]:
    """The pattern as a table, and how many visits begin in each repetition."""
    found = pattern(recipe.seed, recipe.rate)
    table = pa.table(
        {
            "__slot": pa.array(range(SLOTS), pa.int32()),
            "__class": [one.visit for one in found.slots],
            "__lag": [one.lag for one in found.slots],
            "message_type": [one.message_type for one in found.slots],
            "action": [one.action for one in found.slots],
            "__hop": pa.array([one.hop for one in found.slots], pa.int32()),
            "__about_point": [one.about_point for one in found.slots],
        }
    )
    return spark.createDataFrame(table), found.visits


def _building(dice: Dice, points: int) -> Column:
    """The building of a visit, by the inverse of the distribution; busy ones are spread over the numbers."""
    buildings = -(-points // PER_BUILDING)
    power = 1 - TAIL
    low, high = TAIL_SHIFT**power, (buildings + TAIL_SHIFT) ** power
    share = dice.uniform("building", sf.col("__visit"), low=low, high=high)
    rank = sf.least(sf.floor(sf.pow(share, sf.lit(1 / power)) - TAIL_SHIFT), sf.lit(buildings - 1))
    return rank.cast("int")


def _in_building(dice: Dice, points: int, hop: Column) -> Column:
    """Which of the building's access points; the next hop is always to another."""
    size = min(PER_BUILDING, points)
    first = dice.whole("first point", sf.col("__visit"), below=size)
    if size == 1:
        return first
    stride = dice.whole("stride", sf.col("__visit"), below=size - 1) + 1
    return sf.pmod(first + hop * stride, sf.lit(size))


def _point(building: Column, number: Column) -> Column:
    return sf.concat(sf.lit("AP-b"), sf.lpad(building.cast("string"), 3, "0"), sf.lit("-"), number)


def _mac(dice: Dice) -> Column:
    text = sf.lower(sf.lpad(sf.hex(dice.lot("mac", sf.col("__device")).bitwiseAND(sf.lit(0xFFFFFF))), 6, "0"))
    return sf.concat(
        sf.lit("00:09:7c:"),
        sf.substring(text, 1, 2),
        sf.lit(":"),
        sf.substring(text, 3, 2),
        sf.lit(":"),
        sf.substring(text, 5, 2),
    )


def _address() -> Column:
    device = sf.col("__device")
    return sf.concat(sf.lit("10."), sf.concat_ws(".", *(_byte(device, shift) for shift in (16, 8, 0))))


def _byte(number: Column, shift: int) -> Column:
    return sf.shiftright(number, shift).bitwiseAND(sf.lit(255)).cast("string")


GENERATOR: Final = Generator(
    "campus-syslog",
    "550 access points' messages about devices that come, roam and leave (the PACK paper's locator)",
    550,
    "access point",
    0.007,
    frame,
)
