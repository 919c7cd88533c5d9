"""Taking time on a noisy machine: contestants take turns, and the median of the rounds counts."""

from __future__ import annotations

import gc
from statistics import median
from time import thread_time_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def interleaved_ns(
    contestants: Mapping[str, Callable[[], object]], *, rounds: int, per_round_ns: int = 20_000_000
) -> dict[str, float]:
    """Nanoseconds per call of each contestant; a slow moment of the machine hits all of them alike."""
    repeats = {name: _repeats(call, per_round_ns) for name, call in contestants.items()}
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    enabled = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            for name, call in contestants.items():
                taken[name].append(_time_ns(call, repeats[name]) / repeats[name])
            gc.collect(0)
    finally:
        if enabled:
            gc.enable()
    return {name: median(found) for name, found in taken.items()}


def _repeats(call: Callable[[], object], per_round_ns: int) -> int:
    call()
    once = max(_time_ns(call, 1), 1)
    return max(1, per_round_ns // once)


def _time_ns(call: Callable[[], object], repeats: int) -> int:
    start = thread_time_ns()
    for _ in range(repeats):
        call()
    return thread_time_ns() - start
