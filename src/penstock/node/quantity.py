"""Amounts with a unit behind them: `10min`, `1.5 MiB`."""

from __future__ import annotations

import re
from typing import Final

from penstock.node.config import BYTES, SECONDS

UNITS: Final[dict[str, dict[str, float]]] = {
    SECONDS: {"ms": 0.001, "s": 1, "min": 60, "h": 3_600, "d": 86_400},
    BYTES: {
        "B": 1,
        "kB": 1_000,
        "MB": 1_000_000,
        "GB": 1_000_000_000,
        "KiB": 1 << 10,
        "MiB": 1 << 20,
        "GiB": 1 << 30,
    },
}
"""By the unit of the setting: what may stand behind a number, and how many of that unit it is."""

_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def quantity(text: str, unit: str) -> float | None:
    """How many seconds or bytes a text says; None if it says no such thing."""
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2] not in UNITS[unit]:
        return None
    amount = float(found[1]) * UNITS[unit][found[2]]
    return int(amount) if amount.is_integer() else amount
