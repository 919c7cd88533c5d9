"""Measures what a policy is for: how much of what matters, of what is unusual and of the extremes arrives,
how late, and how old the newest value of each source is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from penstock.core.backtest.histogram import Histogram, histogram
from penstock.core.backtest.holding import codes_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.model.arrays import Floats, Ints, Mask

FENCE: Final = 1.5
"""Interquartile ranges that the normal range reaches beyond the quartiles (Tukey's fences)."""
QUARTILES: Final = (0.25, 0.75)
WINDOW_US: Final = 60_000_000
"""Window whose extremes are looked for, if none is given: a minute."""


class Kept(msgspec.Struct, frozen=True):
    """Counts of some events: all of them, and those that arrived; summable."""

    n: int = 0
    kept: int = 0

    def merge(self, other: Kept) -> Kept:
        """Sum of both parts."""
        return Kept(self.n + other.n, self.kept + other.kept)

    @property
    def share(self) -> float | None:
        """Share that arrived; None if there were none."""
        return self.kept / self.n if self.n else None


class Mattering(msgspec.Struct, frozen=True):
    """Events that a predicate matches: how many arrived, and how late."""

    kept: Kept = Kept()
    delay: Histogram = Histogram()
    """From the event's own time to its delivery, in microseconds."""

    def merge(self, other: Mattering) -> Mattering:
        """Sum of both parts."""
        return Mattering(self.kept.merge(other.kept), self.delay.merge(other.delay))


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """The events of one queue in order of time, apart from what became of them."""

    published_us: Ints
    series: Ints
    """A number that identifies the source of each event."""
    values: Mapping[str, Floats] = field(default_factory=dict)
    """Measured attributes; NaN where an event has no number."""
    matters: Mapping[str, Mask] = field(default_factory=dict)
    """Which events each predicate matches."""

    @cached_property
    def sources(self) -> Ints:
        """The sources numbered from 0 on."""
        return codes_of(self.series)


def normal_range(low: float, high: float) -> tuple[float, float]:
    """The normal range, from the quartiles of an attribute."""
    reach = FENCE * (high - low)
    return low - reach, high + reach


def quartiles(values: Floats) -> tuple[float, float] | None:
    """Quartiles of the finite numbers, each one of the values: the least that a quarter (three quarters) of
    all do not exceed, as Spark's percentile_approx.
    """
    own = np.sort(values[np.isfinite(values)])
    if not len(own):
        return None
    low, high = (own[max(0, int(np.ceil(rank * len(own))) - 1)].item() for rank in QUARTILES)
    return low, high


def unusual(values: Floats, normal: tuple[float, float], arrived: Mask) -> Kept:
    """Events whose value lies outside the normal range."""
    outside = (values < normal[0]) | (values > normal[1])
    return Kept(int(np.count_nonzero(outside)), int(np.count_nonzero(outside & arrived)))


def extremes(found: Recorded, name: str, arrived: Mask, *, window_us: int) -> Kept:
    """The largest and the smallest value of each source in each window of time.

    An extreme is kept if an event with that very value arrived. Where all values of a window are equal there
    is one extreme, else two.
    """
    values = found.values[name]
    readable = np.flatnonzero(np.isfinite(values))
    if not len(readable):
        return Kept()
    windows = found.published_us[readable] // window_us
    windows -= windows.min()
    groups = codes_of(found.sources[readable] * (int(windows.max()) + 1) + windows)
    own, there = values[readable], arrived[readable]
    order = np.lexsort((own, groups))
    firsts = np.flatnonzero(np.diff(groups[order], prepend=-1))
    least = own[order[firsts]]
    most = own[order[np.append(firsts[1:], len(order)) - 1]]
    lows = np.bincount(groups[there & (own == least[groups])], minlength=len(firsts)) > 0
    highs = np.bincount(groups[there & (own == most[groups])], minlength=len(firsts)) > 0
    two = least < most
    kept = np.count_nonzero(lows) + np.count_nonzero(highs & two)
    return Kept(len(firsts) + int(np.count_nonzero(two)), int(kept))


def mattering(matches: Mask, published: Ints, delivered: Ints, arrived: Mask) -> Mattering:
    """Events that a predicate matches."""
    there = matches & arrived
    kept = Kept(int(np.count_nonzero(matches)), int(np.count_nonzero(there)))
    return Mattering(kept, histogram(delivered[there] - published[there]))


def ages(found: Recorded, newest: Ints) -> Histogram:
    """Age of the newest event that the receiver has of a source, at the instant of each event of the source
    but the first. Before the first one arrives, as old as the first one. `newest` comes from `newest_known`.
    """
    published, codes = found.published_us, found.sources
    if not len(published):
        return Histogram()
    firsts = np.unique(codes, return_index=True)[1]
    shown = np.where(newest >= 0, newest, firsts[codes])
    later = np.ones(len(published), dtype=np.bool_)
    later[firsts] = False
    return histogram((published - published[shown])[later])
