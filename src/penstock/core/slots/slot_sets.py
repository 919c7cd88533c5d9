"""What every memory of arrivals by time slot offers: filters of any shape, and the exact table.

A slot is a whole number, as `now_us // slot_us`. The window holds the live slots; `advance` moves it, and
what falls out of it is forgotten. An answer is a mask: bit i stands for slot `oldest + i`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from penstock import limits
from penstock.errors import SlotError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from penstock.core.slots.hashing import Words


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatistics:
    """What is in it, at a moment."""

    kind: str
    slots: int
    oldest: int
    newest: int
    inserted: int
    """Pairs of key and slot taken since the beginning, repeated ones included."""
    refused: int
    """Pairs whose slot had expired, lay beyond the window, or found an exact table full."""
    wiped: int
    """Arrays wiped (filters), flows forgotten (the exact table)."""
    memory_bytes: int
    fullest: float
    """Share of bits set in the fullest array; of places taken in an exact table."""
    joint_false_positive: float
    """Chance that a key that was never inserted is found in some slot, from the bits that are set."""

    def as_json(self) -> dict[str, Any]:
        """For commands and the dashboard."""
        return asdict(self)


class SlotSets(Protocol):
    """Keys by time slot; keys are 64-bit hashes (`flow_key`), signed or not."""

    @property
    def oldest(self) -> int:
        """The first live slot: bit 0 of an answer."""
        ...

    @property
    def newest(self) -> int:
        """The last live slot; the current one if none is kept for the future."""
        ...

    def insert(self, key: int, slot: int) -> bool:
        """Put a key into a slot; False if the slot is outside the window."""
        ...

    def query(self, key: int) -> int:
        """The live slots a key is in, as a mask; of a filter: and perhaps others."""
        ...

    def contains(self, key: int, slot: int) -> bool:
        """Whether a key is in one slot."""
        ...

    def advance(self, slot: int) -> None:
        """Make this the current slot; an earlier one changes nothing."""
        ...

    def merge(self, other: Self) -> None:
        """Take in what another of the same shape holds; the later window counts."""
        ...

    def insert_many(self, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int) -> int:
        """Insert pairs; how many were taken."""
        ...

    def query_many(self, keys: NDArray[np.int64] | Words) -> Words:
        """`query` of each key."""
        ...

    def statistics(self) -> SlotStatistics:
        """A snapshot."""
        ...

    def to_bytes(self) -> bytes:
        """For another process; `read` takes it back."""
        ...


def checked_slot(slot: int) -> int:
    """A slot that can be one."""
    if not 0 <= slot <= limits.SLOT_LATEST:
        raise SlotError(f"slot is {slot}; allowed are 0 to {limits.SLOT_LATEST}")
    return slot


def slots_of(mask: int, oldest: int) -> list[int]:
    """The slots an answer stands for."""
    return [oldest + place for place in range(mask.bit_length()) if mask >> place & 1]
