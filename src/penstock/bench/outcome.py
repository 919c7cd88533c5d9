"""What a benchmark returns: rows with a ratio in which larger is better."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Row:
    """One figure and its rival's."""

    name: str
    value: float
    unit: str
    rival: str = ""
    rival_value: float | None = None
    ratio: float | None = None
    """Ours against the rival's so that larger is better: ours/rival for rates, rival/ours for times."""
    goal: float | None = None
    """The smallest ratio we want; None: stated for information."""

    @property
    def ok(self) -> bool | None:
        """Whether the goal is reached; None if there is none."""
        return None if self.goal is None or self.ratio is None else self.ratio >= self.goal

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
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """A benchmark, done."""

    bench: str
    rows: tuple[Row, ...]
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
            "machine": machine(),
            "seconds": round(self.seconds, 1),
            "note": self.note,
        }


def machine() -> dict[str, Any]:
    """What the figures were taken on."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
    }


Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with steps done, steps in all, and what is being measured."""
