"""The error of a receiver that holds the newest value it got, source by source, against the full stream.

*Live* is the error at the instant of each event of the full stream, delay included: what the receiver
believes at that time. *Later* is the error of the stream the receiver can reconstruct afterwards, delay
aside: what it never learns. The newest value is that of the newest event, not of the last to arrive: an
urgent event may overtake older ones.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from penstock.core.backtest.histogram import Histogram, histogram

if TYPE_CHECKING:
    from penstock.model.arrays import Floats, Ints, Mask


_MOST: Final = 1 << 62
"""A bound of numbers in 64 bits."""


class HoldingError(msgspec.Struct, frozen=True):
    """Differences between the true and the held value; summable."""

    n: int = 0
    squares: float = 0.0
    largest: float = 0.0
    unheld: int = 0
    """Events before the receiver had any value: not part of the error."""
    sources: Histogram = Histogram()
    """Root mean square errors of the sources, one for each source with a value held."""

    def merge(self, other: HoldingError) -> HoldingError:
        """Sum of both parts."""
        return HoldingError(
            self.n + other.n,
            self.squares + other.squares,
            max(self.largest, other.largest),
            self.unheld + other.unheld,
            self.sources.merge(other.sources),
        )

    @property
    def rmse(self) -> float | None:
        """Root mean square error of all sources together."""
        return sqrt(self.squares / self.n) if self.n else None


class Spread(msgspec.Struct, frozen=True):
    """Mean and spread of a stream's own values; summable (Chan, Golub, LeVeque 1983)."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def merge(self, other: Spread) -> Spread:
        """Sum of both parts."""
        n = self.n + other.n
        if not n:
            return self
        apart = other.mean - self.mean
        return Spread(
            n,
            self.mean + apart * other.n / n,
            self.squares + other.squares + apart * apart * self.n * other.n / n,
        )

    @property
    def stddev(self) -> float | None:
        """Standard deviation."""
        return sqrt(self.squares / self.n) if self.n else None


class Held(msgspec.Struct, frozen=True):
    """Errors and spread of one attribute, over one or many queues."""

    live: HoldingError = HoldingError()
    later: HoldingError = HoldingError()
    spread: Spread = Spread()

    def merge(self, other: Held) -> Held:
        """Sum of both parts."""
        return Held(
            self.live.merge(other.live), self.later.merge(other.later), self.spread.merge(other.spread)
        )


def held(
    *, published_us: Ints, delivered_us: Ints, values: Floats, sources: Ints, newest: Ints | None = None
) -> Held:
    """Errors of one queue, whose events are in order of time.

    `delivered_us` is negative for lost events, `values` NaN without a number. A value is held for its own
    source; `sources` are the numbers of the sources, from 0 on. `newest` is what `newest_known` says, if the
    caller has asked already.
    """
    readable = np.isfinite(values)
    if not readable.all():
        published_us, delivered_us = published_us[readable], delivered_us[readable]
        values, sources, newest = values[readable], sources[readable], None
    live = newest_known(published_us, delivered_us, sources) if newest is None else newest
    later = _newest_arrived(delivered_us >= 0, sources)
    return Held(_error(values, live, sources), _error(values, later, sources), _spread(values))


def codes_of(series: Ints) -> Ints:
    """Sources numbered from 0 on."""
    found: Ints = np.unique(series, return_inverse=True)[1]
    return found


def newest_known(asked: Ints, known: Ints, codes: Ints) -> Ints:
    """For each event the place of the newest one of its source that is known when it is asked; −1: none.

    Places ascend with age. `asked` and `known` are instants; a `known` below 0 is never.
    """
    size = len(asked)
    places = np.flatnonzero(known >= 0)
    if not len(places):
        return np.full(size, -1, dtype=np.int64)
    first, last = min(asked.min(), known[places].min()), max(asked.max(), known[places].max())
    wide = int(last - first) + 1
    if wide * (int(codes.max()) + 1) >= _MOST:  # instants become ranks, so that a source beside them fits
        instants = np.unique(np.concatenate((asked, known[places])))
        known, asked = np.searchsorted(instants, known), np.searchsorted(instants, asked)
        first, wide = 0, len(instants) + 1
    keys = codes[places] * wide + (known[places] - first)
    by_key = np.argsort(keys, kind="stable")
    order = places[by_key]
    found = np.searchsorted(keys[by_key], codes * wide + (asked - first), side="right") - 1
    # The newest of those known so far, within each source: a later source begins above all earlier ones.
    newest = np.maximum.accumulate(codes[order] * size + order) % size
    there = (found >= 0) & (codes[order[found]] == codes)
    return np.where(there, newest[found], -1)


def _newest_arrived(arrived: Mask, codes: Ints) -> Ints:
    """For each event the place of the last one of its source, up to itself, that arrived; −1: none."""
    order = np.argsort(codes, kind="stable")
    spots = np.arange(len(order))
    grouped = codes[order]
    begins = np.maximum.accumulate(np.where(np.diff(grouped, prepend=-1) != 0, spots, 0))
    last = np.maximum.accumulate(np.where(arrived[order], spots, -1))
    found = np.empty(len(order), dtype=np.int64)
    found[order] = np.where(last >= begins, order[last], -1)
    return found


def _error(values: Floats, newest: Ints, codes: Ints) -> HoldingError:
    """`newest`: for each value, the place of the value held; −1: none."""
    holds = newest >= 0
    apart = np.abs(values[holds] - values[newest[holds]])
    n = len(apart)
    if not n:
        return HoldingError(unheld=len(values))
    own = codes[holds]
    counts = np.bincount(own)
    squares = np.bincount(own, weights=np.square(apart))
    there = counts > 0
    sources = histogram(np.sqrt(squares[there] / counts[there]))
    return HoldingError(n, float(squares.sum()), float(apart.max()), len(values) - n, sources)


def _spread(values: Floats) -> Spread:
    if not len(values):
        return Spread()
    mean = float(values.mean())
    return Spread(len(values), mean, float(np.square(values - mean).sum()))
