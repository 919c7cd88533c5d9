"""Many keys at once with numpy: queries and insertions of a filter, in pieces that stay in the cache.

The answers equal those of one key at a time (`RefreshingFilter.query`), and those of `compiled`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from penstock.core.slots.slot_sets import M64, STEP, as_words, mix_words, place_words
from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from penstock.core.slots.shape import Shape
    from penstock.core.slots.slot_sets import SlotSets, Words

PIECE: Final = 4_096
"""Keys processed at a time: five arrays of them fit the second-level cache."""

_U = np.uint64


class FilterBits(Protocol):
    """The parts of a filter that queries and insertions of many keys use."""

    shape: Shape
    words: Words

    @property
    def oldest(self) -> int:
        """The first live slot: bit 0 of an answer."""
        ...

    @property
    def newest(self) -> int:
        """The last live slot."""
        ...


def query(filtered: FilterBits, keys: NDArray[np.int64] | Words) -> Words:
    """`RefreshingFilter.query` of each key."""
    keys = as_words(keys)
    answers = np.empty(len(keys), dtype=np.uint64)
    look = _Look(filtered)
    for start in range(0, len(keys), PIECE):
        answers[start : start + PIECE] = look.answers(keys[start : start + PIECE])
    return answers


def live_pairs(
    sets: SlotSets, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int
) -> tuple[Words, NDArray[np.int64]]:
    """The pairs of key and slot within the window; one slot may be given for all keys."""
    keys, slots = as_words(keys), np.asarray(slots, dtype=np.int64)
    if slots.ndim and slots.shape != keys.shape:
        raise SlotError(f"{keys.size} keys and {slots.size} slots; one slot for each key, or one for all")
    slots = np.broadcast_to(slots, keys.shape)
    live = (slots >= sets.oldest) & (slots <= sets.newest)
    return (keys, slots) if live.all() else (keys[live], slots[live])


def insert(filtered: FilterBits, keys: Words, slots: NDArray[np.int64]) -> None:
    """Set the bits of pairs within the window."""
    shape = filtered.shape
    for start in range(0, len(keys), PIECE):
        piece = slots[start : start + PIECE]
        blocks, groups = np.divmod(piece, shape.groups)
        bits = np.left_shift(_U(1), (blocks % shape.held).astype(np.uint64))
        for at, lanes in _places(keys[start : start + PIECE], groups.astype(np.uint64), shape):
            np.bitwise_or.at(filtered.words, at, bits if lanes is None else bits << lanes)


def _places(keys: Words, groups: Words, shape: Shape) -> Iterator[tuple[NDArray[np.intp], Words | None]]:
    """For each hash function: word indexes and shifts inside the words; each key has its own group."""
    pairs = (shape.hashes + 1) // 2
    mixes, spare, where = (np.empty_like(keys) for _ in range(3))
    starts = keys if shape.groups == 1 else keys + groups * _U(pairs * STEP & M64)
    for turn in range(1, pairs + 1):
        mix_words(starts, turn, mixes, spare)
        for high in (True, False)[: shape.hashes - 2 * (turn - 1)]:
            place_words(mixes, shape.positions, where, high=high)
            yield _in_words(where, shape)


def _in_words(where: Words, shape: Shape) -> tuple[NDArray[np.intp], Words | None]:
    if shape.lanes == 1:
        return where.view(np.intp), None
    words = where // _U(shape.lanes)
    lanes = (where - words * _U(shape.lanes)) * _U(shape.held)
    return words.view(np.intp), lanes


class _Look:
    """Geometry of one filter at this moment, for queries."""

    def __init__(self, filtered: FilterBits) -> None:
        self.words = filtered.words
        self.shape = shape = filtered.shape
        self.first, self.passed = divmod(filtered.oldest, shape.groups)
        self.within = _U((1 << filtered.newest - filtered.oldest + 1) - 1)

    def answers(self, keys: Words) -> Words:
        shape = self.shape
        if shape.groups == 1:
            return _turned_words(self._arrays(keys, 0), self.first % shape.held, shape.held)
        answers = np.zeros_like(keys)
        arrays = _U((1 << shape.arrays) - 1)
        for group in range(shape.groups):
            skipped = group < self.passed
            found = self._arrays(keys, group)
            found = _turned_words(found, (self.first + skipped) % shape.held, shape.held) & arrays
            shift = _U(group - self.passed + skipped * shape.groups)
            answers |= _spread_words(found, shape.arrays, shape.groups) << shift
        return answers & self.within

    def _arrays(self, keys: Words, group: int) -> Words:
        """The arrays in which all positions of a group are set.

        Keys already found in no array are dropped as soon as they are three in four.
        """
        shape = self.shape
        pairs = (shape.hashes + 1) // 2
        found = np.full_like(keys, (1 << shape.held) - 1)
        answers, left = found, None
        mixes, spare, where = (np.empty_like(keys) for _ in range(3))
        for turn in range(1, pairs + 1):
            mix_words(keys, group * pairs + turn, mixes, spare)
            for high in (True, False)[: shape.hashes - 2 * (turn - 1)]:
                place_words(mixes, shape.positions, where, high=high)
                at, lanes = _in_words(where, shape)
                # Every index is valid; mode "raise" would copy.
                np.take(self.words, at, out=spare, mode="clip")
                if lanes is not None:
                    np.right_shift(spare, lanes, out=spare)
                np.bitwise_and(found, spare, out=found)
            alive = np.flatnonzero(found)
            if turn < pairs and 4 * len(alive) < len(found):
                if left is None:
                    answers = np.zeros_like(keys)
                left = alive if left is None else left[alive]
                keys, found = keys[alive], found[alive]
                mixes, spare, where = mixes[: len(keys)], spare[: len(keys)], where[: len(keys)]
        if left is not None:
            answers[left] = found
        return answers


def _turned_words(masks: Words, by: int, width: int) -> Words:
    """Masks of `width` bits, rotated towards their low end."""
    if by == 0:
        return masks
    return (masks >> _U(by) | masks << _U(width - by)) & _U((1 << width) - 1)


def _spread_words(masks: Words, width: int, apart: int) -> Words:
    """The bits of each mask, `apart` from each other; looked up eight at a time."""
    table = spreads(apart)
    spread = table[(masks & _U(255)).view(np.intp)]
    for low in range(8, width, 8):
        spread |= table[(masks >> _U(low) & _U(255)).view(np.intp)] << _U(low * apart)
    return spread


@cache
def spreads(apart: int) -> Words:
    """For every byte, its bits `apart` from each other; bits beyond the word belong to no slot."""
    return np.array(
        [
            sum(1 << bit * apart for bit in range(8) if byte >> bit & 1 and bit * apart < 64)
            for byte in range(256)
        ],
        dtype=np.uint64,
    )
