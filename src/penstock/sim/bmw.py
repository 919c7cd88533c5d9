"""Bursty traffic: the multifractal wavelet model with symmetric beta multipliers, from its equations.

A signal is made from coarse to fine. Each Haar scaling coefficient U splits in two, U·(1 + A)/√2 and
U·(1 − A)/√2, where A is beta(p, p) on [−1, 1], so nothing becomes negative and sums are kept. A scale's
wavelet coefficients have E[A²] = 1/(2p + 1) of the energy of its scaling coefficients. For long-range
dependence with Hurst parameter H the wavelet energy falls by 2^{2H−1} from scale to scale, hence

    p' = (2^{2H−1}·(p + 1) − 1) / 2

The coarsest coefficients have a mean and a standard deviation, `stdc`. The latter also says where p begins:
the first wavelet coefficients have 2^{2−2H} − 1 of that variance as energy, as in fractional Gaussian noise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penstock.errors import SimulationError

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class BurstyTraffic:
    """The model's parameters."""

    mean: float = 0.7
    stdc: float = 0.3
    """Standard deviation of the coarsest coefficients."""
    hurst: float = 0.8
    """The middle of what is measured on networks, 0.7 to 0.9."""
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
        """p of each level."""
        wavelet = self.stdc**2 * (2 ** (2 - 2 * self.hurst) - 1)
        p = ((self.mean**2 + self.stdc**2) / wavelet - 1) / 2
        found = []
        for _ in range(self.levels):
            found.append(p)
            p = (2 ** (2 * self.hurst - 1) * (p + 1) - 1) / 2
        return found

    def signal(self, dice: np.random.Generator) -> Floats:
        """Traffic per unit of time: coarse · 2^levels values, none negative."""
        # Gamma: positive, with exactly this mean and deviation.
        shape = (self.mean / self.stdc) ** 2
        scaling = dice.gamma(shape, self.mean / shape, size=self.coarse)
        for p in self.shapes():
            multiplier = 2 * dice.beta(p, p, size=len(scaling)) - 1
            halves = np.stack([1 + multiplier, 1 - multiplier], axis=1)
            scaling = (scaling[:, None] * halves).ravel() / np.sqrt(2)
        return scaling * 2 ** (-self.levels / 2)

    def arrivals(self, dice: np.random.Generator, *, count: int, slots: int) -> NDArray[np.int64]:
        """How many of `count` arrivals fall into each of the slots the signal is cut into."""
        signal = self.signal(dice)
        if len(signal) % slots:
            raise SimulationError(f"{len(signal)} values do not divide into {slots} slots")
        share = signal.reshape(slots, -1).sum(axis=1)
        return dice.multinomial(count, share / share.sum())
