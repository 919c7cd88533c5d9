"""The size, rate, start and seed of a generated stream, and its random columns.

Each random value is a hash of the seed, a name and its subject. So the values of a row depend on the row
only, the same seed gives the same rows however Spark divides the work, and a random process can be evaluated
at any moment without the moments before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import ceil, tau
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

from penstock import limits
from penstock.errors import InputError
from penstock.model.instant import SECOND_US
from penstock.model.sketches import hash64

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Dice:
    """Random values of one seed."""

    seed: int

    def lot(self, name: str, *what: Column) -> Column:
        """64 random bits, as a bigint."""
        salt = hash64(f"{self.seed}:{name}".encode())
        return sf.xxhash64(sf.lit(salt), *what)

    def uniform(self, name: str, *what: Column, low: float = 0.0, high: float = 1.0) -> Column:
        """A real number, uniform between low and high; never the ends."""
        share = (sf.shiftrightunsigned(self.lot(name, *what), 11) + sf.lit(0.5)) * sf.lit(2.0**-53)
        return share if (low, high) == (0.0, 1.0) else sf.lit(low) + share * sf.lit(high - low)

    def normal(self, name: str, *what: Column) -> Column:
        """A standard normal number (Box and Muller), within ± 6.7."""
        bits = self.lot(name, *what)
        radius = (sf.shiftrightunsigned(bits, 32) + sf.lit(0.5)) * sf.lit(2.0**-32)
        angle = bits.bitwiseAND(sf.lit(0xFFFF_FFFF)) * sf.lit(tau * 2.0**-32)
        return sf.sqrt(sf.ln(radius) * sf.lit(-2.0)) * sf.cos(angle)

    def whole(self, name: str, *what: Column, below: int) -> Column:
        """A whole number from 0 on, uniform below `below`."""
        return sf.floor(self.uniform(name, *what) * sf.lit(below)).cast("int")

    def chosen(self, name: str, *what: Column, among: Sequence[tuple[str, float]]) -> Column:
        """One of several texts, by their shares, which sum to 1."""
        share = self.uniform(name, *what)
        edges = accumulate(weight for _, weight in among)
        choice = sf.lit(among[-1][0])
        for (text, _), edge in reversed(list(zip(among, edges, strict=True))[:-1]):
            choice = sf.when(share < edge, sf.lit(text)).otherwise(choice)
        return choice

    def wander(self, name: str, of: Column, *, step: Column, every: float) -> Column:
        """A smooth process with mean 0 and variance 1; each value of `of` has its own.

        Independent standard normal numbers lie `every` steps apart, with linear interpolation between them,
        scaled to variance 1. Values twice `every` apart are independent. With `every` below one step it is
        white noise.
        """
        if every <= 1:
            return self.normal(name, of, step)
        place = step / sf.lit(float(every))
        knot = sf.floor(place)
        near = place - knot
        far = sf.lit(1.0) - near
        before, after = self.normal(name, of, knot), self.normal(name, of, knot + sf.lit(1))
        return (before * far + after * near) / sf.sqrt(near * near + far * far)


def rounded(value: Column, digits: int) -> Column:
    """A value rounded to so many digits; Spark's `round` would convert each to a decimal."""
    scale = sf.lit(10.0**digits)
    return sf.rint(value * scale) / scale


START_US: Final = 1_736_150_400 * SECOND_US
"""Monday, 6 January 2025, 08:00 UTC: fixed, so that the same command gives the same rows."""

ROWS_PER_FILE: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """Parameters of one stream."""

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
        """End of the stream."""
        return self.start_us + ceil(self.span_s * SECOND_US)

    @property
    def interval_us(self) -> float:
        """Time between two readings of a source."""
        return self.sources / self.rate * SECOND_US

    @property
    def parts(self) -> int:
        """Number of files."""
        return max(limits.GENERATED_PARTS_LEAST, ceil(self.events / ROWS_PER_FILE))

    @property
    def dice(self) -> Dice:
        """Random values of this stream, from its seed."""
        return Dice(self.seed)


@dataclass(frozen=True, slots=True)
class Generator:
    """A kind of stream."""

    name: str
    doc: str
    sources: int
    """Default number of sources."""
    source: str
    """Name of one source."""
    rate: float
    """Default events per second and source."""
    frame: Callable[[SparkSession, Recipe], DataFrame]
