"""The `campus` stream: syslog of a campus' wireless network, where devices come, roam and leave.

The setting is that of the PACK paper (§7): 550 access points whose messages go to one host, which publishes
them as one stream of structured events. The arrivals say when messages come, the visits which.

    ap            AP-b017-3: access point 3 of building 17, five to a building; the building of a visit has
                  the density (rank + 2)^−0.9, so a tenth of the buildings has two fifths of the messages
    host          the device's MAC address, of six devices per access point; or the name of an access point
    message_type  Info, Warning, Error
    action        Authenticated, Associated, Reassociated, roamed, and four kinds of departure; or what went
                  wrong, in warnings and errors
    ip            the device's address, in three of ten associations; else null

Arrivals: messages per second through days, class changes and noise, as a table of seconds.

    hours        the share of each hour of the day is HOURLY, interpolated between the hours
    weekends     0.6 of a weekday
    classes      on weekdays, the ten minutes before each hour from 9:00 to 17:00 have 1.8 times as many
    bursts       each ten seconds are multiplied by a gamma variable of mean 1 and shape 4 (sd 0.5)
    chance       given all this, the messages fall on the seconds independently (a multinomial draw)

The table has a row per second and is drawn on the driver: a week is 600,000 rows.

Visits: a pattern of messages that repeats.

A visit is a device that authenticates, associates, perhaps authenticates again, perhaps roams to other
access points of the building, and departs. Its messages lie minutes apart, with those of other visits in
between. The pattern has SLOTS messages in the order of their arrival; message `s` of repetition `j` belongs
to the visit `class[s]` that began `lag[s]` repetitions before `j`. So which message the trace's n-th is can
be said without the messages before it.

    authenticates again   Poisson, mean 1.0
    roams                 geometric, mean 1.0; each is Authenticated at the new access point, roamed at the
                          old one, Reassociated at the new one
    stays                 log-normal, median 5 min, sigma 1.3, at most 12 h
    departs               Disassociated (40 %), Disassociating and Deauthenticated (35 %),
                          Deauthenticating and Deauthenticated (25 %)
    besides               5 % of all messages are warnings and errors, 3 % are about access points, no device
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as sf

from penstock import limits
from penstock.errors import InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.jobs.generate.recipe import Generator

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt
    from pyspark.sql import Column, DataFrame, SparkSession

    from penstock.pipeline.jobs.generate.recipe import Dice, Recipe

HOURLY: Final = (
    *(0.35, 0.25, 0.18, 0.12, 0.10, 0.10, 0.15, 0.30, 0.60, 0.90, 1.00, 1.05),
    *(1.00, 1.05, 1.10, 1.05, 1.00, 0.95, 0.90, 0.90, 0.95, 0.90, 0.75, 0.50),
)
"""Activity at each full hour of a weekday, relative to ten in the morning."""
WEEKEND: Final = 0.6
CLASS_CHANGE: Final = 1.8
CLASS_HOURS: Final = range(9, 18)
"""Hours at which classes change."""
BURST_S: Final = 10
BURST_SHAPE: Final = 4.0


def intensity(start_us: int, seconds: int) -> npt.NDArray[np.float64]:
    """Expected activity in each second, relative to a weekday's ten in the morning."""
    at_s = start_us // SECOND_US + np.arange(seconds)
    hour = at_s % 86_400 / 3600
    day = (at_s // 86_400 + 3) % 7  # 0 is Monday; 1970 began on a Thursday
    found = np.interp(hour, np.arange(25), (*HOURLY, HOURLY[0]))
    weekday = day < 5
    ending = (at_s % 3600 >= 3000) & np.isin(hour.astype(int) + 1, CLASS_HOURS) & weekday
    return np.asarray(np.where(weekday, found, WEEKEND * found) * np.where(ending, CLASS_CHANGE, 1.0))


def messages_per_second(recipe: Recipe) -> npt.NDArray[np.int64]:
    """Messages in each second of the stream; they add up to its events."""
    seconds = max(1, round(recipe.span_s))
    if seconds > limits.CAMPUS_SECONDS:
        raise InputError(
            f"a campus trace has at most {limits.CAMPUS_SECONDS // 3600} hours, "
            f"{recipe.events:,} events at {recipe.rate:g} a second take {seconds / 3600:,.0f}; "
            "increase the rate"
        )
    draw = np.random.default_rng((recipe.seed, 1))
    bursts = draw.gamma(BURST_SHAPE, 1 / BURST_SHAPE, -(-seconds // BURST_S))
    weight = intensity(recipe.start_us, seconds) * np.repeat(bursts, BURST_S)[:seconds]
    return draw.multinomial(recipe.events, weight / weight.sum())


SLOTS: Final = 16_384
"""Messages of the pattern: about an hour at the default rate."""

AUTHENTICATED: Final = "Authenticated"
ROAMED: Final = "roamed"
ASSOCIATIONS: Final = ("Associated", "Reassociated")
DEPARTURES: Final = (
    (("Disassociated",), 0.40),
    (("Disassociating", "Deauthenticated"), 0.35),
    (("Deauthenticating", "Deauthenticated"), 0.25),
)
COMPLAINTS: Final = (
    ("Warning", "Max retries"),
    ("Warning", "Packet to client dropped"),
    ("Error", "Decryption failed"),
)
INFO: Final = "Info"
COMPLAINING: Final = 0.05
ABOUT_POINTS: Final = 0.03
AGAIN: Final = 1.0
ROAMS: Final = 1.0
STAY_S: Final = 300.0
STAY_SIGMA: Final = 1.3
LONGEST_STAY_S: Final = 43_200.0


@dataclass(frozen=True, slots=True)
class Slot:
    """One message of the pattern."""

    visit: int
    lag: int
    """Repetitions since the visit began."""
    message_type: str
    action: str
    hop: int
    """How many times the device has roamed; the sender of `roamed` is the access point before that."""
    about_point: bool
    """Whether the host is an access point."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """The messages in order of their arrival."""

    slots: tuple[Slot, ...]
    visits: int
    """Visits that begin in each repetition."""


@dataclass(frozen=True, slots=True)
class _Message:
    after_s: float
    message_type: str
    action: str
    hop: int = 0
    about_point: bool = False


def pattern(seed: int, rate: float) -> Pattern:
    """Pattern of a seed; `rate`, in messages per second, converts times to positions."""
    draw = np.random.default_rng((seed, 2))
    placed: list[tuple[float, int, _Message]] = []
    visits = 0
    while len(placed) < SLOTS:
        begins = draw.uniform(0, SLOTS)
        placed += [(begins + message.after_s * rate, visits, message) for message in _visit(draw)]
        visits += 1
    # The last visit may exceed the pattern, which has exactly SLOTS messages.
    del placed[SLOTS:]
    placed.sort(key=lambda one: one[0] % SLOTS)
    slots = (
        Slot(visit, int(at // SLOTS), one.message_type, one.action, one.hop, one.about_point)
        for at, visit, one in placed
    )
    return Pattern(tuple(slots), visits)


def _visit(draw: np.random.Generator) -> Iterator[_Message]:
    """Messages of one visit, or a single message without a visit."""
    lot = draw.random()
    complaining, about_points = (share * _MESSAGES_PER_VISIT for share in (COMPLAINING, ABOUT_POINTS))
    lot *= 1 + (complaining + about_points) / (1 - COMPLAINING - ABOUT_POINTS)
    if lot >= 1:
        if draw.random() < COMPLAINING / (COMPLAINING + ABOUT_POINTS):
            kind, action = COMPLAINTS[draw.integers(len(COMPLAINTS))]
            yield _Message(0.0, kind, action)
        else:
            yield _Message(0.0, INFO, ASSOCIATIONS[draw.integers(2)], about_point=True)
        return
    yield _Message(0.0, INFO, AUTHENTICATED)
    yield _Message(draw.uniform(0.02, 0.3), INFO, ASSOCIATIONS[0])
    stay_s = min(LONGEST_STAY_S, draw.lognormal(np.log(STAY_S), STAY_SIGMA))
    for _ in range(draw.poisson(AGAIN)):
        yield _Message(draw.uniform(0.3, max(0.4, stay_s)), INFO, AUTHENTICATED)
    roams = draw.geometric(1 / (1 + ROAMS)) - 1
    for hop, at_s in enumerate(sorted(draw.uniform(0.5, max(0.6, stay_s), roams)), start=1):
        yield _Message(at_s, INFO, AUTHENTICATED, hop)
        yield _Message(at_s + 0.05, INFO, ROAMED, hop - 1)
        yield _Message(at_s + 0.10, INFO, ASSOCIATIONS[1], hop)
    which = draw.choice(len(DEPARTURES), p=[share for _, share in DEPARTURES])
    for number, action in enumerate(DEPARTURES[which][0]):
        yield _Message(stay_s + 0.7 + 0.1 * number, INFO, action, roams)


_MESSAGES_PER_VISIT: Final = 2 + AGAIN + 3 * ROAMS + sum(len(said) * share for said, share in DEPARTURES)


PER_BUILDING: Final = 5
TAIL: Final = 0.9
TAIL_SHIFT: Final = 2.0
DEVICES_PER_POINT: Final = 6
WITH_ADDRESS: Final = 0.3
"""Share of associations that name the device's IP address."""
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
    """Building of a visit, by inverting the distribution; busy ones are spread over the numbers."""
    buildings = -(-points // PER_BUILDING)
    power = 1 - TAIL
    low, high = TAIL_SHIFT**power, (buildings + TAIL_SHIFT) ** power
    share = dice.uniform("building", sf.col("__visit"), low=low, high=high)
    rank = sf.least(sf.floor(sf.pow(share, sf.lit(1 / power)) - TAIL_SHIFT), sf.lit(buildings - 1))
    return rank.cast("int")


def _in_building(dice: Dice, points: int, hop: Column) -> Column:
    """Access point within the building; a roam always goes to another one."""
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
