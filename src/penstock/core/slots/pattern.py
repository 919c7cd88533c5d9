"""The exponential arrival pattern (paper §2.1), t0 + 2ⁿ·T, which retries have; `grid` is the constant one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.errors import SlotError
from penstock.model.instant import LONGEST_US

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.model.instant import Instant

RETRIES: Final = 4
"""Retries by which an exponential pattern is known: one chance gap of twice the last is no rule."""

SLACK: Final = 0.25
"""Of each gap: how much earlier or later a retry may come; who backs off, often rolls dice as well."""


@dataclass(frozen=True, slots=True)
class Exponential:
    """t0, then t0 + 2ⁿ·T for n = 0, 1, 2 …: the n-th retry."""

    start_us: Instant
    period_us: float

    def __post_init__(self) -> None:
        if not 0 < self.period_us <= LONGEST_US:
            raise SlotError(f"a period of {self.period_us} µs is none: above 0, and at most {LONGEST_US}")

    def retry(self, number: int) -> Instant:
        """When the retry of this number comes; the first has 0."""
        return self.start_us + round(min(self.period_us * 2.0**number, LONGEST_US))

    def after(self, now_us: Instant) -> Instant:
        """The next arrival, later than now."""
        if now_us < self.start_us:
            return self.start_us
        number = 0
        while self.retry(number) <= now_us:
            number += 1
        return self.retry(number)

    def until(self, last_us: Instant, *, after_us: Instant) -> Iterator[Instant]:
        """The retries later than one instant and not later than another."""
        number = 0
        while (at_us := self.retry(number)) <= last_us:
            if at_us > after_us:
                yield at_us
            number += 1


def exponential(arrivals_us: Sequence[Instant]) -> Exponential | None:
    """The pattern of arrivals that double their distance from the first; None if they do not."""
    if len(arrivals_us) < RETRIES + 1:
        return None
    start_us, *retries = arrivals_us
    # The last retry has the least relative error in its distance.
    period_us = (retries[-1] - start_us) / 2 ** (len(retries) - 1)
    if period_us <= 0:
        return None
    pattern = Exponential(start_us, period_us)
    before_us = start_us
    for number, at_us in enumerate(retries):
        expected_us = pattern.retry(number)
        if abs(at_us - expected_us) > SLACK * max(1, expected_us - before_us):
            return None
        before_us = expected_us
    return pattern
