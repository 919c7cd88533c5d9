"""What is known about the channels: the columns every allocation is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.errors import ChannelError

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
