"""The input of an allocation: one column per known factor of the channels, and the goal to optimise.

The goals are those of Corona (section 3.1, table 1): how a channel's delay is weighted, and what is bounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from penstock.errors import ChannelError
from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True, slots=True, init=False)
class Factors:
    """One row per channel. The arrays have equal length and are not modified."""

    subscribers: NDArray[np.float64]
    """q: subscribers waiting for changes; 0 is allowed."""
    cost: NDArray[np.float64]
    """s: cost of one poll: 1 to count polls, or its bytes."""
    update_interval_us: NDArray[np.float64]
    """u: mean time between two updates."""
    host: NDArray[Any]
    """Host that answers the polls, a text or a number; used if hosts have limits."""
    count: NDArray[np.float64]
    """Channels the row represents: 1, unless rows are bins of channels."""

    def __init__(
        self,
        subscribers: ArrayLike,
        cost: ArrayLike | None = None,
        update_interval_us: ArrayLike | None = None,
        host: ArrayLike | None = None,
        *,
        count: ArrayLike | None = None,
    ) -> None:
        """Raise ChannelError with the column and the first row that are invalid."""
        asked = _column(subscribers, "subscribers", positive=False)
        rows = len(asked)
        parts = {
            "subscribers": asked,
            "cost": _default(cost, rows, "cost"),
            "update_interval_us": _default(update_interval_us, rows, "update_interval_us"),
            "host": np.zeros(rows, np.int64) if host is None else np.asarray(host),
            "count": _default(count, rows, "count"),
        }
        for name, column in parts.items():
            if column.shape != (rows,):
                raise ChannelError(f"{name} has {column.size} values, subscribers has {rows}; must be equal")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.subscribers)


def _default(found: ArrayLike | None, rows: int, name: str) -> NDArray[np.float64]:
    return np.ones(rows) if found is None else _column(found, name, positive=True)


def _column(found: ArrayLike, name: str, *, positive: bool) -> NDArray[np.float64]:
    try:
        column = np.asarray(found, np.float64)
    except (TypeError, ValueError) as error:
        raise ChannelError(f"{name}: not numbers: {error}") from None
    if column.ndim != 1:
        raise ChannelError(f"{name} should be one column of numbers, found {column.ndim} dimensions")
    bad = ~np.isfinite(column) | (column <= 0 if positive else column < 0)
    if bad.any():
        row = int(bad.argmax())
        wanted = "above 0" if positive else "at least 0"
        raise ChannelError(f"{name} of channel {row + 1} is {column[row]:g}; it should be {wanted}")
    return column


LOG_LEAST_S: Final = 2.0
"""Shortest update interval for Fair-Log, which divides by the logarithm of seconds: at 1 s that would be
0."""


class Scheme(Enum):
    """The goal of an allocation."""

    LITE = "lite"
    FAST = "fast"
    FAIR = "fair"
    FAIR_SQRT = "fair-sqrt"
    FAIR_LOG = "fair-log"

    @property
    def has_target(self) -> bool:
        """Whether the delay is bounded and the load minimised; otherwise the reverse."""
        return GOALS[self].target

    def weights(self, factors: Factors, *, tau_us: int) -> NDArray[np.float64]:
        """Weight of a microsecond of each channel's delay."""
        interval_us, power = factors.update_interval_us, GOALS[self].power
        if power is not None:
            found: NDArray[np.float64] = factors.subscribers * (tau_us / interval_us) ** power
            return found
        found = factors.subscribers / np.log(np.maximum(interval_us / SECOND_US, LOG_LEAST_S))
        return found * log_seconds(tau_us)


@dataclass(frozen=True, slots=True)
class Goal:
    """One row of Corona's table 1: the weight is q·(τ/u)^power, with q subscribers and update interval u."""

    power: float | None
    """Exponent of τ/u in the weight; None for the weight q·log τ/log u, in seconds."""
    says: str
    target: bool = False


GOALS: Final = {
    Scheme.LITE: Goal(0, "least delay per subscription, within a load"),
    Scheme.FAST: Goal(0, "least load, within a mean delay per subscription", target=True),
    Scheme.FAIR: Goal(1, "least delay per delivered update, within a load"),
    Scheme.FAIR_SQRT: Goal(0.5, "like fair, but slow channels are penalised less: the root of the ratio"),
    Scheme.FAIR_LOG: Goal(None, "like fair, but slow channels are hardly penalised: a ratio of logarithms"),
}
"""Weights and bound of each scheme."""


def log_seconds(interval_us: float) -> float:
    """Logarithm of an interval in seconds, above 0."""
    return float(np.log(max(interval_us / SECOND_US, LOG_LEAST_S)))
