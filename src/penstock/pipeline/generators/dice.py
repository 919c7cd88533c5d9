"""Chance as columns: each lot is a hash of the seed, a name and what it is drawn for.

So a row's lots depend on nothing but the row, the same seed gives the same rows however Spark divides the
work, and the value of a random process at any moment can be had without the moments before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import tau
from typing import TYPE_CHECKING

from pyspark.sql import functions as sf

from penstock.model.sketches import hash64

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column


@dataclass(frozen=True, slots=True)
class Dice:
    """The lots of one seed."""

    seed: int

    def lot(self, name: str, *what: Column) -> Column:
        """64 bits, as a bigint."""
        salt = hash64(f"{self.seed}:{name}".encode())
        return sf.xxhash64(sf.lit(salt), *what)

    def uniform(self, name: str, *what: Column, low: float = 0.0, high: float = 1.0) -> Column:
        """A real number between low and high, all equally likely; never the ends."""
        share = (sf.shiftrightunsigned(self.lot(name, *what), 11) + sf.lit(0.5)) * sf.lit(2.0**-53)
        return share if (low, high) == (0.0, 1.0) else sf.lit(low) + share * sf.lit(high - low)

    def normal(self, name: str, *what: Column) -> Column:
        """A standard normal number (Box and Muller), within ± 6.7."""
        bits = self.lot(name, *what)
        radius = (sf.shiftrightunsigned(bits, 32) + sf.lit(0.5)) * sf.lit(2.0**-32)
        angle = bits.bitwiseAND(sf.lit(0xFFFF_FFFF)) * sf.lit(tau * 2.0**-32)
        return sf.sqrt(sf.ln(radius) * sf.lit(-2.0)) * sf.cos(angle)

    def whole(self, name: str, *what: Column, below: int) -> Column:
        """A whole number from 0 on."""
        return sf.floor(self.uniform(name, *what) * sf.lit(below)).cast("int")

    def chosen(self, name: str, *what: Column, among: Sequence[tuple[str, float]]) -> Column:
        """One of some texts, by their shares, which sum to 1."""
        share = self.uniform(name, *what)
        edges = accumulate(weight for _, weight in among)
        choice = sf.lit(among[-1][0])
        for (text, _), edge in reversed(list(zip(among, edges, strict=True))[:-1]):
            choice = sf.when(share < edge, sf.lit(text)).otherwise(choice)
        return choice

    def wander(self, name: str, of: Column, *, step: Column, every: float) -> Column:
        """A process with mean 0 and variance 1 that moves smoothly; each value of `of` has its own.

        Independent standard normal numbers lie `every` steps apart; between two of them it is their mean by
        distance, scaled to variance 1. Values twice `every` apart are independent. One that moves within a
        step is white noise.
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
    """A value with so many digits; Spark's `round` makes a decimal number of each on the way."""
    scale = sf.lit(10.0**digits)
    return sf.rint(value * scale) / scale
