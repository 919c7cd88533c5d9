"""The result of a benchmark: rows with a ratio in which larger is better; and how to time contestants.

On a noisy machine contestants take turns, and the median of the rounds counts.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass
from math import isclose
from statistics import median
from time import thread_time_ns
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock_lab.runs.table import number

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class BenchmarkRow:
    """One figure and its rival's."""

    name: str
    value: float
    unit: str
    rival: str = ""
    rival_value: float | None = None
    ratio: float | None = None
    """Ours against the rival's so that larger is better: ours/rival for rates, rival/ours for times."""
    goal: float | None = None
    """The smallest ratio we want; None if stated for information only."""
    note: str = ""
    """A remark for readers of the row."""
    fails_if: str = ""
    """The cause that would make the row miss its goal, as far as one can be named."""
    less: bool = False
    """Whether less is better, as for times: the ratio is rival/ours then, else ours/rival."""

    def __post_init__(self) -> None:
        assert not self._is_the_ratio(less=not self.less) or self._is_the_ratio(less=self.less), (
            f"'{self.name}': the ratio is that of a row where {'more' if self.less else 'less'} is better"
        )

    @property
    def ok(self) -> bool | None:
        """Whether the goal is reached; None without a goal."""
        return None if self.goal is None or self.ratio is None else self.ratio >= self.goal

    @property
    def told(self) -> str:
        """The note; of a judged row also what would make it fail, and at which figure it does."""
        if self.ok is None:
            return self.note
        fails = f"fails if {self.fails_if}: {self._limit()}" if self.fails_if else f"fails {self._limit()}"
        return f"{self.note}; {fails}" if self.note else fails

    def _limit(self) -> str:
        """Say where the row begins to fail: in its own unit if the ratio is made of its two figures."""
        assert self.goal is not None
        if self.rival_value is None or not (self._is_the_ratio(less=self.less) or not self.value):
            return f"below {self.goal:.2f} ×"
        limit = self.rival_value / self.goal if self.less else self.rival_value * self.goal
        return f"{'above' if self.less else 'below'} {number(limit)} {self.unit}".rstrip()

    def _is_the_ratio(self, *, less: bool) -> bool:
        """Whether the ratio is that of the two figures, and not for example the median of many pairs."""
        if not (self.ratio and self.value and self.rival_value):
            return False
        found = self.rival_value / self.value if less else self.value / self.rival_value
        return isclose(self.ratio, found, rel_tol=1e-6)

    def as_json(self) -> dict[str, Any]:
        """A row of `penstock bench NAME --json`."""
        return {
            "name": self.name,
            "value": round(self.value, 3),
            "unit": self.unit,
            "rival": self.rival,
            "rival_value": None if self.rival_value is None else round(self.rival_value, 3),
            "ratio": None if self.ratio is None else round(self.ratio, 3),
            "goal": self.goal,
            "ok": self.ok,
            "note": self.told,
        }


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Result of a benchmark: all its measured rows."""

    bench: str
    rows: tuple[BenchmarkRow, ...]
    seconds: float
    note: str = ""

    @property
    def ok(self) -> bool:
        """Whether no goal is missed."""
        return all(row.ok is not False for row in self.rows)

    def as_json(self) -> dict[str, Any]:
        """The shape of `penstock bench NAME --json`."""
        return {
            "bench": self.bench,
            "rows": [row.as_json() for row in self.rows],
            "seconds": round(self.seconds, 1),
            "note": self.note,
        }


Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the steps done, the steps in all, and what is measured now."""


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
