"""When a transmission ends on a link whose rate changes by schedule.

Work is counted in millionths of a byte: a link of B bytes/s does B of them in a microsecond. All numbers stay
whole, so nothing drifts.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Final

WORK_PER_BYTE: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Finish:
    """The end of a transmission."""

    when_us: int
    """The first whole microsecond by which everything is sent."""

    spare: int
    """Work it could still have done in that microsecond; a message that follows at once starts with it."""


class Bandwidth:
    """A rate in bytes per second as a function of time; what is not yet sent goes on at the new rate."""

    def __init__(self, bytes_per_s: int, schedule: tuple[tuple[int, int], ...] = ()) -> None:
        steps = schedule if schedule and schedule[0][0] == 0 else ((0, bytes_per_s), *schedule)
        self._starts = [from_us for from_us, _ in steps]
        self._rates = [rate for _, rate in steps]

    def bytes_per_s(self, now_us: int) -> int:
        """The rate from this microsecond to the next; 0 if the link is down."""
        return self._rates[bisect_right(self._starts, now_us) - 1]

    def finish(self, *, start_us: int, work: int) -> Finish | None:
        """The end of so much work begun at `start_us`; None if the link stays down before it is done."""
        if work <= 0:
            return Finish(start_us, -work)
        now_us = start_us
        for index in range(bisect_right(self._starts, start_us) - 1, len(self._starts)):
            rate = self._rates[index]
            end_us = self._end(index)
            if rate:
                done_us = now_us - (-work // rate)
                if end_us is None or done_us <= end_us:
                    return Finish(done_us, (done_us - now_us) * rate - work)
            if end_us is not None:
                work -= (end_us - now_us) * rate
                now_us = end_us
        return None

    def up_us(self, *, start_us: int, end_us: int) -> int:
        """How many microseconds of an interval the link is not down."""
        up = 0
        for index in range(bisect_right(self._starts, start_us) - 1, len(self._starts)):
            from_us = max(start_us, self._starts[index])
            step_end_us = self._end(index)
            until_us = end_us if step_end_us is None else min(end_us, step_end_us)
            if until_us <= from_us:
                break
            if self._rates[index]:
                up += until_us - from_us
        return up

    def _end(self, index: int) -> int | None:
        return self._starts[index + 1] if index + 1 < len(self._starts) else None
