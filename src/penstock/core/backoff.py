"""Pauses that grow with each failure: doubled up to a bound, and spread by a seeded random generator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock import limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random


def doubled(least: int, times: int, *, most: int) -> int:
    """`least` doubled `times` times, at most `most`."""
    return min(least << min(times, 40), most)


def pauses_s(
    dice: Random, *, least_s: float = limits.RECONNECT_LEAST_S, most_s: float = limits.RECONNECT_MOST_S
) -> Iterator[float]:
    """Pauses in seconds, without end: each drawn between half and all of a bound that doubles."""
    bound_s = least_s
    while True:
        yield bound_s * dice.uniform(0.5, 1.0)
        bound_s = min(bound_s * 2, most_s)
