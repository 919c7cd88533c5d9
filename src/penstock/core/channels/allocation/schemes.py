"""The goals of Corona (section 3.1, table 1): what a channel's delay weighs, and what is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.channels.allocation.factors import Factors

LOG_LEAST_S: Final = 2.0
"""Fair-Log divides by the logarithm of seconds, which ends at 1 s; what is shorter counts as this."""


class Scheme(Enum):
    """Which goal is pursued."""

    LITE = "lite"
    FAST = "fast"
    FAIR = "fair"
    FAIR_SQRT = "fair-sqrt"
    FAIR_LOG = "fair-log"

    @property
    def has_target(self) -> bool:
        """Whether the delay is bounded and the load minimised, instead of the other way round."""
        return GOALS[self].target

    def weights(self, factors: Factors, *, tau_us: int) -> NDArray[np.float64]:
        """How much a microsecond of each channel's delay counts."""
        interval_us, power = factors.update_interval_us, GOALS[self].power
        if power is not None:
            found: NDArray[np.float64] = factors.subscribers * (tau_us / interval_us) ** power
            return found
        found = factors.subscribers / np.log(np.maximum(interval_us / SECOND_US, LOG_LEAST_S))
        return found * log_seconds(tau_us)


@dataclass(frozen=True, slots=True)
class Goal:
    """One row of the table: weights are q·(τ/u)^power, with q subscribers and the update interval u."""

    power: float | None
    """None: the weight is q·log τ/log u, in seconds."""
    says: str
    target: bool = False


GOALS: Final = {
    Scheme.LITE: Goal(0, "least delay per subscription, within a load"),
    Scheme.FAST: Goal(0, "least load, within a mean delay per subscription", target=True),
    Scheme.FAIR: Goal(1, "least delay per delivered update, within a load"),
    Scheme.FAIR_SQRT: Goal(0.5, "as fair, with slow channels punished less: the root of the ratio"),
    Scheme.FAIR_LOG: Goal(None, "as fair, with slow channels hardly punished: a ratio of logarithms"),
}
"""What each scheme weighs and bounds."""


def log_seconds(interval_us: float) -> float:
    """The logarithm of an interval in seconds, above 0."""
    return float(np.log(max(interval_us / SECOND_US, LOG_LEAST_S)))
