"""The input of an allocation: known factors of all channels as columns, and the goal to optimise.

The goals are those of Corona (section 3.1, table 1): what a channel's delay weighs, and what is bounded.
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
    """One row per channel; the arrays are of one length and are not changed."""

    subscribers: NDArray[np.float64]
    """q: who is waiting for it; none is allowed."""
    cost: NDArray[np.float64]
    """s: what one poll costs: 1 where polls are counted, bytes where those are."""
    update_interval_us: NDArray[np.float64]
    """u: mean time between two of its updates."""
    host: NDArray[Any]
    """Who answers the polls, a text or a number; it matters where hosts have limits."""
    count: NDArray[np.float64]
    """How many channels the row stands for: 1, unless rows are bins of channels."""

    def __init__(
        self,
        subscribers: ArrayLike,
        cost: ArrayLike | None = None,
        update_interval_us: ArrayLike | None = None,
        host: ArrayLike | None = None,
        *,
        count: ArrayLike | None = None,
    ) -> None:
        """ChannelError names the column and the first row that cannot be."""
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
                raise ChannelError(f"{name} has {column.size} values, subscribers has {rows}: give one each")
            object.__setattr__(self, name, column)

    def __len__(self) -> int:
        return len(self.subscribers)


def _default(found: ArrayLike | None, rows: int, name: str) -> NDArray[np.float64]:
    return np.ones(rows) if found is None else _column(found, name, positive=True)


def _column(found: ArrayLike, name: str, *, positive: bool) -> NDArray[np.float64]:
    try:
        column = np.asarray(found, np.float64)
    except (TypeError, ValueError) as error:
        raise ChannelError(f"{name} should be numbers: {error}") from None
    if column.ndim != 1:
        raise ChannelError(f"{name} should be one column of numbers, found {column.ndim} dimensions")
    bad = ~np.isfinite(column) | (column <= 0 if positive else column < 0)
    if bad.any():
        row = int(bad.argmax())
        wanted = "above 0" if positive else "at least 0"
        raise ChannelError(f"{name} of channel {row + 1} is {column[row]:g}; it should be {wanted}")
    return column


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
