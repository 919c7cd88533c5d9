"""Histograms on a logarithmic scale, and slices of time; both add up over queues."""

from __future__ import annotations

from math import log
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

if TYPE_CHECKING:
    from penstock.model.arrays import Floats, Ints, Mask

BIN: Final = 1.02
"""Ratio of neighbouring bounds of a histogram: quantiles are exact to one per cent."""
SLICES: Final = 200
"""Time slices of a stream."""
_ZERO: Final = -(1 << 20)
"""Bin of zero; the smallest float is in bin −37,600."""


class Histogram(msgspec.Struct, frozen=True):
    """Histogram of numbers from 0 on, on a logarithmic scale; sums and extremes are exact."""

    n: int = 0
    total: int | float = 0
    """Exact for whole numbers, such as times in microseconds."""
    largest: int | float = 0
    bins: dict[int, int] = {}
    """Counts by bin."""

    def merge(self, other: Histogram) -> Histogram:
        """Sum of two histograms."""
        bins = dict(self.bins)
        for place, count in other.bins.items():
            bins[place] = bins.get(place, 0) + count
        return Histogram(self.n + other.n, self.total + other.total, max(self.largest, other.largest), bins)

    @property
    def mean(self) -> float | None:
        """Mean; None if the histogram is empty."""
        return self.total / self.n if self.n else None

    def quantile(self, rank: float) -> float | None:
        """Number that a share `rank` of all does not exceed."""
        left = rank * self.n
        for place in sorted(self.bins):
            left -= self.bins[place]
            if left <= 0:
                return min(_middle(place), float(self.largest))
        return None

    def steps(self) -> list[tuple[float, float]]:
        """(number, share that does not exceed it), ascending."""
        found, so_far = [], 0
        for place in sorted(self.bins):
            so_far += self.bins[place]
            found.append((_middle(place), so_far / self.n))
        return found

    def as_json(self, *, unit: float = 1.0) -> dict[str, float | None]:
        """Mean, quantiles and maximum, divided by a unit."""
        found = {
            "mean": self.mean,
            "p50": self.quantile(0.5),
            "p99": self.quantile(0.99),
            "max": self.largest if self.n else None,
        }
        return {name: None if one is None else one / unit for name, one in found.items()}


def histogram(found: Ints | Floats) -> Histogram:
    """Histogram of numbers, none of which is below 0."""
    if not len(found):
        return Histogram()
    above = found > 0
    places = np.floor(np.log(np.where(above, found, 1)) / log(BIN)).astype(np.int64)
    numbers, counts = np.unique(np.where(above, places, _ZERO), return_counts=True)
    bins = dict(zip(numbers.tolist(), counts.tolist(), strict=True))
    return Histogram(len(found), found.sum().item(), found.max().item(), bins)


def _middle(place: int) -> float:
    return 0.0 if place == _ZERO else float(BIN ** (place + 0.5))


class Slices(msgspec.Struct, frozen=True):
    """A stream over its own time: events of each slice, events delivered, and their total delay."""

    events: list[int]
    delivered: list[int]
    waited_us: list[int]

    def merge(self, other: Slices) -> Slices:
        """Sum of the slices of two accounts."""
        return Slices(
            _added(self.events, other.events),
            _added(self.delivered, other.delivered),
            _added(self.waited_us, other.waited_us),
        )


def _added(a: list[int], b: list[int]) -> list[int]:
    return [x + y for x, y in zip(a, b, strict=True)]


def slices(published: Ints, delivered: Ints, arrived: Mask, *, begin_us: int, end_us: int) -> Slices:
    """Slices of one queue; `begin_us` and `end_us` are the first and the last instant of the stream."""
    span = max(1, end_us - begin_us)
    place: Any = np.minimum((published - begin_us) / span * SLICES, SLICES - 1).astype(np.int64)
    waited = np.zeros(SLICES, dtype=np.int64)
    np.add.at(waited, place[arrived], delivered[arrived] - published[arrived])
    return Slices(
        np.bincount(place, minlength=SLICES).tolist(),
        np.bincount(place[arrived], minlength=SLICES).tolist(),
        waited.tolist(),
    )
