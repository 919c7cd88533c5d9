"""The goals of Corona (section 3.1, table 1): what a channel's delay weighs, and what is bounded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

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

    def weights(self, factors: Factors, *, tau_us: int) -> NDArray[np.float64]:
        """How much a microsecond of each channel's delay counts."""
        return factors.subscribers * GOALS[self].relative(tau_us, factors.update_interval_us)

    @property
    def has_target(self) -> bool:
        """Whether the delay is bounded and the load minimised, instead of the other way round."""
        return GOALS[self].target


@dataclass(frozen=True, slots=True)
class Goal:
    """One row of the table."""

    relative: Callable[[float, NDArray[np.float64]], NDArray[np.float64]]
    """The weight of one subscriber's delay, from τ and the update interval u, both in microseconds."""
    says: str
    target: bool = False


def _even(_: float, interval_us: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.ones_like(interval_us)


def _ratio(tau_us: float, interval_us: NDArray[np.float64]) -> NDArray[np.float64]:
    return tau_us / interval_us


def _root(tau_us: float, interval_us: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.sqrt(tau_us / interval_us)


def _log(tau_us: float, interval_us: NDArray[np.float64]) -> NDArray[np.float64]:
    interval_s = np.maximum(interval_us / SECOND_US, LOG_LEAST_S)
    found: NDArray[np.float64] = np.log(max(tau_us / SECOND_US, LOG_LEAST_S)) / np.log(interval_s)
    return found


GOALS: Final = {
    Scheme.LITE: Goal(_even, "least delay per subscription, within a load"),
    Scheme.FAST: Goal(_even, "least load, within a mean delay per subscription", target=True),
    Scheme.FAIR: Goal(_ratio, "least delay per delivered update, within a load"),
    Scheme.FAIR_SQRT: Goal(_root, "as fair, with slow channels punished less: the square root of the ratio"),
    Scheme.FAIR_LOG: Goal(_log, "as fair, with slow channels hardly punished: a ratio of logarithms"),
}
"""What each scheme weighs and bounds."""
