"""Types of numeric settings with their bounds and units, and amounts such as `10min`, `1.5 MiB`."""

from __future__ import annotations

import re
from typing import Annotated, Final

from msgspec import Meta

from penstock.model.instant import UNITS_S

SECONDS: Final = "s"
BYTES: Final = "bytes"
"""Units a setting may have; `quantity` reads texts with them, as 10min and 1MiB."""

MOST: Final = 1 << 48
"""Upper bound of numbers that nothing else bounds: far below 2^53, up to which floats count exactly."""

Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(ge=0, le=MOST)]
Positive = Annotated[int, Meta(ge=1, le=MOST)]
Million = Annotated[int, Meta(ge=1, le=1_000_000)]
Thousand = Annotated[int, Meta(ge=1, le=1_000)]
Share = Annotated[float, Meta(gt=0, le=1)]
Rate = Annotated[float, Meta(ge=0, le=MOST)]
Bytes = Annotated[int, Meta(ge=1, le=MOST, extra={"unit": BYTES})]
InMemory = Annotated[int, Meta(ge=1, le=1 << 30, extra={"unit": BYTES})]
Seconds = Annotated[float, Meta(ge=0, le=10**9, extra={"unit": SECONDS})]
WholeSeconds = Annotated[int, Meta(ge=0, le=0xFFFF_FFFF, extra={"unit": SECONDS})]
Timeout = Annotated[float, Meta(gt=0, le=600, extra={"unit": SECONDS})]
UpToHour = Annotated[float, Meta(gt=0, le=3_600, extra={"unit": SECONDS})]
UpToDay = Annotated[float, Meta(gt=0, le=86_400, extra={"unit": SECONDS})]

UNITS: Final[dict[str, dict[str, float]]] = {
    SECONDS: UNITS_S,
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
"""By the unit of a setting: suffixes of a number, and how many of that unit each is."""

_AMOUNT: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]+)")


def quantity(text: str, unit: str) -> float | None:
    """Return the seconds or bytes that a text such as `10min` says; None if it is no such text."""
    found = _AMOUNT.fullmatch(text)
    if found is None or found[2] not in UNITS[unit]:
        return None
    amount = float(found[1]) * UNITS[unit][found[2]]
    return int(amount) if amount.is_integer() else amount
