"""What to generate: how much, how fast, from when on, with which dice."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.errors import InputError
from penstock.model.instant import SECOND_US
from penstock.pipeline.generators.dice import Dice

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

START_US: Final = 1_736_150_400 * SECOND_US
"""Monday, 6 January 2025, 08:00 UTC: the same every time, so that the same command gives the same rows."""

ROWS_PER_FILE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One stream."""

    events: int
    rate: float
    """Events per second of the whole stream, on average."""
    sources: int
    """Patients, machines, access points."""
    seed: int = 1
    start_us: int = START_US

    def __post_init__(self) -> None:
        if not 1 <= self.events <= limits.GENERATED_EVENTS:
            raise InputError(
                f"a stream has 1 to {limits.GENERATED_EVENTS:,} events, {self.events:,} were asked for"
            )
        if not 1 <= self.sources <= limits.GENERATED_SOURCES:
            raise InputError(
                f"a stream has 1 to {limits.GENERATED_SOURCES:,} sources, {self.sources:,} were asked for"
            )
        if not 0 < self.rate <= limits.GENERATED_RATE:
            raise InputError(
                f"a stream has more than 0 and at most {limits.GENERATED_RATE:,} events a second, "
                f"{self.rate:g} were asked for"
            )
        if self.start_us < 0 or self.end_us > limits.GENERATED_END_US:
            raise InputError(
                f"{self.events:,} events at {self.rate:g} a second take {self.span_s / 3600:,.0f} hours; a "
                "stream lies between 1970 and 2262: take more events a second, or another start"
            )

    @property
    def span_s(self) -> float:
        """Length of the stream."""
        return self.events / self.rate

    @property
    def end_us(self) -> int:
        """Where it ends."""
        return self.start_us + ceil(self.span_s * SECOND_US)

    @property
    def interval_us(self) -> float:
        """Time from one reading of a source to its next."""
        return self.sources / self.rate * SECOND_US

    @property
    def parts(self) -> int:
        """Into how many files it goes."""
        return max(limits.GENERATED_PARTS_LEAST, ceil(self.events / ROWS_PER_FILE))

    @property
    def dice(self) -> Dice:
        """Its lots."""
        return Dice(self.seed)


@dataclass(frozen=True, slots=True)
class Generator:
    """A kind of stream."""

    name: str
    doc: str
    sources: int
    """How many, if nobody says."""
    source: str
    """What one of them is called."""
    rate: float
    """Events per second and source, if nobody says."""
    frame: Callable[[SparkSession, Recipe], DataFrame]
