"""The error of a receiver that holds the last value until the next arrives, compared with the full stream.

*Live* is the error at the instant of each event of the full stream, delay included: what the receiver
believes at that time. *Later* is the error of the stream the receiver can reconstruct afterwards, delay
aside: what it never learns.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

import msgspec
import numpy as np

if TYPE_CHECKING:
    from penstock.model.arrays import Floats, Ints


class HoldingError(msgspec.Struct, frozen=True):
    """Differences between the true and the held value; summable."""

    n: int = 0
    squares: float = 0.0
    largest: float = 0.0
    unheld: int = 0
    """Events before the receiver had any value: not part of the error."""

    def merge(self, other: HoldingError) -> HoldingError:
        """Sum of both parts."""
        return HoldingError(
            self.n + other.n,
            self.squares + other.squares,
            max(self.largest, other.largest),
            self.unheld + other.unheld,
        )

    @property
    def rmse(self) -> float | None:
        """Root mean square error."""
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


def held(*, published_us: Ints, delivered_us: Ints, values: Floats, series: Ints) -> Held:
    """Errors of one queue, whose events are in order of time.

    `delivered_us` is negative for lost events, `values` NaN without a number. A value is held for its own
    `series`, a number that identifies the source.
    """
    readable = np.isfinite(values)
    found = Held(spread=_spread(values[readable]))
    places = np.flatnonzero(readable)
    by_series = places[np.argsort(series[places], kind="stable")]
    bounds = np.flatnonzero(np.diff(series[by_series])) + 1
    for own in np.split(by_series, bounds):
        arrived = own[delivered_us[own] >= 0]
        live = np.searchsorted(delivered_us[arrived], published_us[own], side="right") - 1
        later = np.searchsorted(arrived, own, side="right") - 1
        found = Held(
            found.live.merge(_error(values, own, arrived, live)),
            found.later.merge(_error(values, own, arrived, later)),
            found.spread,
        )
    return found


def _error(values: Floats, own: Ints, arrived: Ints, latest: Ints) -> HoldingError:
    """`latest`: for each position of `own`, the index in `arrived` of the value held; −1: none."""
    holds = latest >= 0
    apart = np.abs(values[own[holds]] - values[arrived[latest[holds]]])
    n = len(apart)
    return HoldingError(n, float(np.dot(apart, apart)), float(apart.max()) if n else 0.0, len(own) - n)


def _spread(values: Floats) -> Spread:
    if not len(values):
        return Spread()
    mean = float(values.mean())
    return Spread(len(values), mean, float(np.square(values - mean).sum()))
