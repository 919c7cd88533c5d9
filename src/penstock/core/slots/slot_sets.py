"""The interface of filters and tables that remember arrivals by time slot, and their hash functions.

A slot is an integer, `now_us // slot_us`. The window holds the live slots; `advance` moves it and forgets the
slots that leave it. A query returns a mask: bit i stands for slot `oldest + i`.

A flow's 64-bit hash gives positions in a bit array. Two hashes combined linearly (h₁ + i·h₂) leave only m²
different sets of k positions, and false positives stop falling there. Here the hash is the state of a
SplitMix64 generator: its n-th output gives positions 2n and 2n + 1, each from 32 bits. Group q continues
where group q − 1 ended, so all v·k positions are independent.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from penstock import limits
from penstock.errors import SlotError
from penstock.model.sketches import value_hash

Words = NDArray[np.uint64]

M64: Final = (1 << 64) - 1
M32: Final = (1 << 32) - 1
STEP: Final = 0x9E3779B97F4A7C15
"""2⁶⁴ / golden ratio: increment of the generator's state."""
MIX_1: Final = 0xBF58476D1CE4E5B9
MIX_2: Final = 0x94D049BB133111EB

_U = np.uint64
_STEP, _MIX_1, _MIX_2, _M32 = _U(STEP), _U(MIX_1), _U(MIX_2), _U(M32)
_S27, _S30, _S31, _S32 = _U(27), _U(30), _U(31), _U(32)


def flow_key(flow: str) -> int:
    """Hash that identifies a flow: Spark's `xxhash64` of the text."""
    return value_hash(flow)


def positions(key: int, group: int, *, hashes: int, size: int) -> list[int]:
    """Positions of a key in a group: `hashes` numbers below `size`."""
    state = key + group * ((hashes + 1) // 2) * STEP
    found = []
    for _ in range(0, hashes, 2):
        state = state + STEP & M64
        mix = (state ^ state >> 30) * MIX_1 & M64
        mix = (mix ^ mix >> 27) * MIX_2 & M64
        mix ^= mix >> 31
        found.append((mix >> 32) * size >> 32)
        found.append((mix & M32) * size >> 32)
    return found if hashes % 2 == 0 else found[:hashes]


def as_words(keys: NDArray[np.int64] | Words) -> Words:
    """View signed hashes (as Spark has them) or unsigned ones as unsigned, without a copy."""
    if keys.dtype not in (np.int64, np.uint64):
        raise SlotError(f"keys of type {keys.dtype}; allowed: int64 and uint64")
    return np.ascontiguousarray(keys).view(np.uint64)


def mix_words(keys: Words, turn: int, out: Words, spare: Words) -> None:
    """The `turn`-th output (from 1) of the generator for many keys.

    `spare` is scratch memory of equal size.
    """
    np.add(keys, _U(turn * STEP & M64), out=out)
    np.right_shift(out, _S30, out=spare)
    np.bitwise_xor(out, spare, out=out)
    np.multiply(out, _MIX_1, out=out)
    np.right_shift(out, _S27, out=spare)
    np.bitwise_xor(out, spare, out=out)
    np.multiply(out, _MIX_2, out=out)
    np.right_shift(out, _S31, out=spare)
    np.bitwise_xor(out, spare, out=out)


def place_words(mixes: Words, size: int, out: Words, *, high: bool) -> None:
    """Positions below `size` from the high or the low half of each output."""
    if high:
        np.right_shift(mixes, _S32, out=out)
    else:
        np.bitwise_and(mixes, _M32, out=out)
    np.multiply(out, _U(size), out=out)
    np.right_shift(out, _S32, out=out)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotStatistics:
    """Figures of a filter or table at one moment."""

    kind: str
    slots: int
    oldest: int
    newest: int
    inserted: int
    """Accepted pairs of key and slot, repeated ones included."""
    refused: int
    """Pairs whose slot was outside the window, or that found an exact table full."""
    wiped: int
    """Arrays wiped (filter), flows removed (exact table)."""
    memory_bytes: int
    fullest: float
    """Share of bits set in the fullest array; of places taken in an exact table."""
    joint_false_positive: float
    """Probability that a key never inserted is found in some slot, from the bits set."""

    def as_json(self) -> dict[str, Any]:
        """Return the figures as a mapping, for commands and the dashboard."""
        return asdict(self)


class SlotSets(Protocol):
    """Keys by time slot; keys are 64-bit hashes (`flow_key`), signed or unsigned."""

    @property
    def oldest(self) -> int:
        """The first live slot: bit 0 of an answer."""
        ...

    @property
    def newest(self) -> int:
        """The last live slot; the current one if no slots lie in the future."""
        ...

    def insert(self, key: int, slot: int) -> bool:
        """Insert a key into a slot; False if the slot is outside the window."""
        ...

    def query(self, key: int) -> int:
        """Mask of the live slots a key is in; a filter may add false positives."""
        ...

    def contains(self, key: int, slot: int) -> bool:
        """Whether a key is in one slot."""
        ...

    def advance(self, slot: int) -> None:
        """Set the current slot; an earlier one changes nothing."""
        ...

    def merge(self, other: Self) -> None:
        """Merge another of the same shape; the later window counts."""
        ...

    def insert_many(self, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int) -> int:
        """Insert pairs; returns how many were accepted."""
        ...

    def query_many(self, keys: NDArray[np.int64] | Words) -> Words:
        """`query` of each key."""
        ...

    def statistics(self) -> SlotStatistics:
        """Present figures."""
        ...


def checked_slot(slot: int) -> int:
    """Return the slot; SlotError if it is out of range."""
    if not 0 <= slot <= limits.SLOT_LATEST:
        raise SlotError(f"slot {slot}; allowed: 0 to {limits.SLOT_LATEST}")
    return slot


def slots_of(mask: int, oldest: int) -> list[int]:
    """Slots of a mask."""
    return [oldest + place for place in range(mask.bit_length()) if mask >> place & 1]
