"""The channels of Corona's evaluation (§5): who subscribes to what, and how often each channel changes.

Popularity is Zipf with exponent 0.5. Update intervals follow the survey as far as the paper reports it: a
tenth of the channels changed within an hour, half did not change in five days and count as weekly. The paper
reports nothing in between; here intervals are log-uniform, from 10 minutes (the survey's resolution) to an
hour for the first tenth and from an hour to five days for the rest. Updates are a Poisson process with that
mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.channels.address import canonical, channel_id
from penstock.core.channels.allocation import Factors
from penstock.core.cluster.ring import tops
from penstock.errors import SimulationError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.cluster.ring import Tops

    Ints = NDArray[np.int64]
    Floats = NDArray[np.float64]

MINUTE_US: Final = 60 * SECOND_US
HOUR_US: Final = 60 * MINUTE_US
DAY_US: Final = 24 * HOUR_US

QUICK_SHARE: Final = 0.1
"""Channels that change within an hour."""
SILENT_SHARE: Final = 0.5
"""Channels that do not change in five days."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Channels in order of popularity; arrays of one length."""

    ids: tuple[int, ...]
    tops: Tops
    """First 64 bits of the channels' identifiers."""
    subscribers: Ints
    update_interval_us: Ints

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def subscriptions(self) -> int:
        """Number of subscriptions to all channels."""
        return int(self.subscribers.sum())

    def factors(self, subscribers: Ints | None = None, update_interval_us: Floats | None = None) -> Factors:
        """Return the input of an allocation; a poll costs 1."""
        asked = self.subscribers if subscribers is None else subscribers
        interval_us = self.update_interval_us if update_interval_us is None else update_interval_us
        return Factors(asked, np.ones(len(self)), interval_us)


def a_workload(*, channels: int, subscriptions: int, seed: int) -> Workload:
    """Draw a workload from the distributions above."""
    if not 0 < channels <= subscriptions:
        raise SimulationError(f"{subscriptions} subscriptions to {channels} channels: give at least one each")
    dice = np.random.default_rng((seed, 1))
    ids = tuple(channel_id(canonical(f"https://host-{number}.example/{seed}")) for number in range(channels))
    return Workload(
        ids=ids,
        tops=tops(ids),
        subscribers=zipf(channels, subscriptions, dice),
        update_interval_us=update_intervals_us(channels, dice),
    )


def zipf(channels: int, subscriptions: int, dice: np.random.Generator) -> Ints:
    """Return the subscribers of the channels by popularity: one each, the others drawn at random."""
    share = 1 / np.sqrt(np.arange(1, channels + 1, dtype=np.float64))
    return 1 + dice.multinomial(subscriptions - channels, share / share.sum())


def update_intervals_us(channels: int, dice: np.random.Generator) -> Ints:
    """Return mean update intervals as the survey found them, in random order."""
    lot = dice.random(channels)
    spread = dice.random(channels)
    quick = _log_uniform(10 * MINUTE_US, HOUR_US, spread)
    slow = _log_uniform(HOUR_US, 5 * DAY_US, spread)
    found = np.where(lot < QUICK_SHARE, quick, np.where(lot < 1 - SILENT_SHARE, slow, 7 * DAY_US))
    # Whole seconds: powers differ in their last digit between processors, and a run must not.
    return np.asarray(np.round(found / SECOND_US), np.int64) * SECOND_US


def _log_uniform(low: float, high: float, spread: Floats) -> Floats:
    return np.asarray(low * (high / low) ** spread, np.float64)


def updates(interval_us: Ints, length_us: int, dice: np.random.Generator) -> tuple[Ints, Ints]:
    """Return channel and time of every update in a span of time, in the order of channels."""
    counts = dice.poisson(length_us / interval_us)
    channel = np.repeat(np.arange(len(interval_us)), counts)
    return channel, dice.integers(0, length_us, len(channel))
