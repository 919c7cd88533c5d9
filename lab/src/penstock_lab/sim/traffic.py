"""Generated load: readings of a hospital ward, and bursty traffic from a multifractal wavelet model.

Ward: each patient's pulse wanders around a resting rate of its own (an autoregressive walk with a memory of
about ten seconds). About once in five minutes an episode lifts or lowers it for half a minute; readings below
50 or above 100 are alarms. Everything follows from the random generator passed in.

Bursts: the multifractal wavelet model with symmetric beta multipliers makes a signal from coarse to fine.
Each Haar scaling coefficient U splits in two, U·(1 + A)/√2 and U·(1 − A)/√2, where A is beta(p, p) on
[−1, 1], so nothing becomes negative and sums are kept. A scale's wavelet coefficients have
E[A²] = 1/(2p + 1) of the energy of its scaling coefficients. For long-range dependence with Hurst parameter H
the wavelet energy falls by 2^{2H−1} from scale to scale, hence

    p' = (2^{2H−1}·(p + 1) − 1) / 2

The coarsest coefficients have a mean and a standard deviation, `stdc`. The latter also says where p begins:
the first wavelet coefficients have 2^{2−2H} − 1 of that variance as energy, as in fractional Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from penstock.errors import SimulationError
from penstock.model.event import Event
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

LOW: Final = 50
HIGH: Final = 100
"""The normal range; outside it a reading is an alarm."""

EPISODES_PER_SECOND: Final = 1 / 300
EPISODE_SECONDS: Final = 30


def is_alarm(pulse: float) -> bool:
    """Return whether a pulse is outside the normal range."""
    return not LOW <= pulse <= HIGH


@dataclass(slots=True)
class _Patient:
    number: int
    resting: float
    wander: float = 0.0
    shift: float = 0.0
    shift_left: int = 0
    sent: int = 0

    def reading(self, dice: Random, ts_us: int) -> Event:
        """Return the patient's next reading."""
        self.wander = 0.9 * self.wander + dice.gauss(0, 1.5)
        if self.shift_left:
            self.shift_left -= 1
        elif dice.random() < EPISODES_PER_SECOND:
            self.shift, self.shift_left = dice.choice((-32.0, 45.0, 60.0)), EPISODE_SECONDS
        pulse = round(self.resting + self.wander + (self.shift if self.shift_left else 0.0), 1)
        spo2 = round(min(100.0, dice.gauss(97, 1) - (4 if self.shift_left else 0)), 1)
        payload = msgspec.json.encode({"patient": self.number, "pulse": pulse, "spo2": spo2})
        event = Event(
            f"ward/{self.number}/vitals", payload, ts_us, sender=f"monitor-{self.number}", seq=self.sent
        )
        self.sent += 1
        return event


def readings(dice: Random, patients: int) -> Iterator[Event]:
    """Yield one reading per patient and second, without end, in order of time."""
    waiting: list[tuple[int, int]] = []
    ward = [_Patient(number, resting=dice.gauss(72, 5)) for number in range(patients)]
    for patient in ward:
        heappush(waiting, (dice.randrange(SECOND_US), patient.number))
    while waiting:
        ts_us, number = heappop(waiting)
        yield ward[number].reading(dice, ts_us)
        heappush(waiting, (ts_us + SECOND_US, number))


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstyTraffic:
    """Parameters of the multifractal wavelet model."""

    mean: float = 0.7
    stdc: float = 0.3
    """Standard deviation of the coarsest coefficients."""
    hurst: float = 0.8
    """Hurst parameter; networks are measured at 0.7 to 0.9."""
    coarse: int = 64
    """How many coarsest coefficients there are."""
    levels: int = 11
    """How often each is halved: 64 · 2¹¹ = 2¹⁷ values."""

    def __post_init__(self) -> None:
        if not (self.mean > 0 and self.stdc > 0):
            raise SimulationError(f"mean {self.mean} and stdc {self.stdc} must be above 0")
        if not 0.5 < self.hurst < 1:
            raise SimulationError(f"hurst is {self.hurst}; allowed is between 0.5 and 1")
        if self.coarse < 1 or self.levels < 0 or self.coarse << self.levels > 1 << 24:
            raise SimulationError(
                f"{self.coarse} coefficients halved {self.levels} times; allowed are 1 to 2²⁴ values in all"
            )

    def shapes(self) -> list[float]:
        """Return the parameter p of each level."""
        wavelet = self.stdc**2 * (2 ** (2 - 2 * self.hurst) - 1)
        p = ((self.mean**2 + self.stdc**2) / wavelet - 1) / 2
        found = []
        for _ in range(self.levels):
            found.append(p)
            p = (2 ** (2 * self.hurst - 1) * (p + 1) - 1) / 2
        return found

    def signal(self, dice: np.random.Generator) -> Floats:
        """Return the traffic per unit of time: coarse · 2^levels values, none negative."""
        # Gamma distributed: positive, with exactly this mean and deviation.
        shape = (self.mean / self.stdc) ** 2
        scaling = dice.gamma(shape, self.mean / shape, size=self.coarse)
        for p in self.shapes():
            multiplier = 2 * dice.beta(p, p, size=len(scaling)) - 1
            halves = np.stack([1 + multiplier, 1 - multiplier], axis=1)
            scaling = (scaling[:, None] * halves).ravel() / np.sqrt(2)
        return scaling * 2 ** (-self.levels / 2)

    def arrivals(self, dice: np.random.Generator, *, count: int, slots: int) -> NDArray[np.int64]:
        """Return how many of `count` arrivals fall into each slot that the signal is cut into."""
        signal = self.signal(dice)
        if len(signal) % slots:
            raise SimulationError(f"{len(signal)} values do not divide into {slots} slots")
        share = signal.reshape(slots, -1).sum(axis=1)
        return dice.multinomial(count, share / share.sum())
