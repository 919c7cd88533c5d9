"""The refreshing Bloom filter (RBF); other shapes give the plainer filters it is derived from.

The layout is position-major: a word holds, for one position (or a few, side by side), one bit of every
array. A group's k words and their AND say at once in which arrays a key is; with one group that is the
answer. Arrays stored one after the other would need k loads for every slot.

Expired slots are never looked for again; an array is wiped when a block of v new slots begins in it, which
for the spare of an RBF is after all its old ones have expired. Many keys at once go through numpy, in pieces
that stay in the cache, with the same answers as one by one.
"""

from __future__ import annotations

from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import limits
from penstock.core.slots.slot_sets import (
    M64,
    STEP,
    SlotStatistics,
    as_words,
    checked_slot,
    mix_words,
    place_words,
    positions,
)
from penstock.errors import SlotError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from penstock.core.slots.shape import Shape
    from penstock.core.slots.slot_sets import SlotSets, Words

PIECE: Final = 4_096
"""Keys worked on at a time: five arrays of them fit the second-level cache."""

_U = np.uint64


def query_words(filtered: RefreshingFilter, keys: NDArray[np.int64] | Words) -> Words:
    """`query_words` of each key."""
    keys = as_words(keys)
    answers = np.empty(len(keys), dtype=np.uint64)
    look = _Look(filtered)
    for start in range(0, len(keys), PIECE):
        answers[start : start + PIECE] = look.answers(keys[start : start + PIECE])
    return answers


def live_pairs(
    sets: SlotSets, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int
) -> tuple[Words, NDArray[np.int64]]:
    """The pairs of key and slot that are within the window; one slot may stand for all keys."""
    keys, slots = as_words(keys), np.asarray(slots, dtype=np.int64)
    if slots.ndim and slots.shape != keys.shape:
        raise SlotError(
            f"{keys.size} keys and {slots.size} slots; allowed is one slot for each key, or for all"
        )
    slots = np.broadcast_to(slots, keys.shape)
    live = (slots >= sets.oldest) & (slots <= sets.newest)
    return (keys, slots) if live.all() else (keys[live], slots[live])


def insert_words(filtered: RefreshingFilter, keys: Words, slots: NDArray[np.int64]) -> None:
    """Set the bits of pairs that are within the window."""
    shape = filtered.shape
    for start in range(0, len(keys), PIECE):
        piece = slots[start : start + PIECE]
        blocks, groups = np.divmod(piece, shape.groups)
        bits = np.left_shift(_U(1), (blocks % shape.held).astype(np.uint64))
        for at, lanes in _places(keys[start : start + PIECE], groups.astype(np.uint64), shape):
            np.bitwise_or.at(filtered.words, at, bits if lanes is None else bits << lanes)


def _places(keys: Words, groups: Words, shape: Shape) -> Iterator[tuple[NDArray[np.intp], Words | None]]:
    """For each hash function: words, and how far to shift in them; each key in a group of its own."""
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
    """One filter's geometry at this moment, for queries."""

    def __init__(self, filtered: RefreshingFilter) -> None:
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

        Keys that are in no array any more are left behind as soon as they are three in four.
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
                np.take(self.words, at, out=spare, mode="clip")  # "raise" would buffer; all are within
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
    """The bits of each mask, `apart` from each other, eight looked up at a time."""
    table = spreads(apart)
    spread = table[(masks & _U(255)).view(np.intp)]
    for low in range(8, width, 8):
        spread |= table[(masks >> _U(low) & _U(255)).view(np.intp)] << _U(low * apart)
    return spread


@cache
def spreads(apart: int) -> Words:
    """Every byte with its bits `apart` from each other; bits beyond a word are no slot's."""
    return np.array(
        [
            sum(1 << bit * apart for bit in range(8) if byte >> bit & 1 and bit * apart < 64)
            for byte in range(256)
        ],
        dtype=np.uint64,
    )


_SAMPLE: Final = 16_384
"""Words looked at to tell how full arrays are: positions are hashed, so the first are as good as any."""


class RefreshingFilter:
    """Keys by time slot in a fixed number of bits; see `SlotSets` for what each method promises."""

    def __init__(self, shape: Shape, *, start: int = 0) -> None:
        self.shape = shape
        self.words: Words = np.zeros(shape.words, dtype=np.uint64)
        self._view = self.words.data  # a number of it is read in half the time
        self._groups, self._held, self._lanes = shape.groups, shape.held, shape.lanes
        self._all = (1 << shape.held) - 1
        place = partial(positions, hashes=shape.hashes, size=shape.positions)
        self._places = lru_cache(limits.SLOT_REMEMBERED)(
            place
        )  # flows come again: three quarters of the time
        self.inserted = 0
        self.refused = 0
        self.wiped = 0
        self._newest = checked_slot(start) + shape.ahead
        self._oldest = shape.oldest(self._newest)

    @property
    def oldest(self) -> int:
        """The first live slot: bit 0 of an answer."""
        return self._oldest

    @property
    def newest(self) -> int:
        """The last live slot."""
        return self._newest

    # -- one key -------------------------------------------------------------------------------------------

    def insert(self, key: int, slot: int) -> bool:
        """Put a key into a slot; False if the slot is outside the window."""
        if not self._oldest <= slot <= self._newest:
            self.refused += 1
            return False
        view, held, lanes = self._view, self._held, self._lanes
        block, group = divmod(slot, self._groups)
        bit = 1 << block % held
        if lanes == 1:
            for position in self._places(key, group):
                view[position] |= bit
        else:
            for position in self._places(key, group):
                view[position // lanes] |= bit << position % lanes * held
        self.inserted += 1
        return True

    def query(self, key: int) -> int:
        """The live slots a key is in, as a mask, and perhaps others."""
        groups, held = self._groups, self._held
        first, passed = divmod(self._oldest, groups)
        if groups == 1:
            found = self._arrays(key, 0)
            return _turned(found, first % held, held) if found else 0
        answer = 0
        for group in range(groups):
            found = self._arrays(key, group)
            if found:
                skipped = group < passed  # this group's slot in the first block has expired
                found = _turned(found, (first + skipped) % held, held) & ((1 << self.shape.arrays) - 1)
                answer |= _spread(found, groups) << (group - passed + skipped * groups)
        return answer & ((1 << self._newest - self._oldest + 1) - 1)

    def contains(self, key: int, slot: int) -> bool:
        """Whether a key is in one slot."""
        if not self._oldest <= slot <= self._newest:
            return False
        block, group = divmod(slot, self._groups)
        wanted = 1 << block % self._held
        return self._arrays(key, group, wanted) != 0

    def _arrays(self, key: int, group: int, wanted: int = -1) -> int:
        """Those of the arrays `wanted` in which all positions of a group are set."""
        view, held, lanes = self._view, self._held, self._lanes
        found = self._all & wanted
        if lanes == 1:
            for position in self._places(key, group):
                found &= view[position]
                if not found:
                    return 0
        else:
            for position in self._places(key, group):
                found &= view[position // lanes] >> position % lanes * held
                if not found:
                    return 0
        return found

    # -- many keys -----------------------------------------------------------------------------------------

    def insert_many(
        self, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int, *, compiled: bool = False
    ) -> int:
        """Insert pairs, or all keys into one slot; how many were taken."""
        taken, where = live_pairs(self, keys, slots)
        if compiled:
            from penstock.core.slots import compiled as machine  # noqa: PLC0415  # numba is an extra

            machine.insert(self, taken, where)
        else:
            insert_words(self, taken, where)
        self.inserted += len(taken)
        self.refused += len(keys) - len(taken)
        return len(taken)

    def query_many(self, keys: NDArray[np.int64] | Words, *, compiled: bool = False) -> Words:
        """`query` of each key; `compiled` asks for machine code, which needs numba and a second to make."""
        if compiled:
            from penstock.core.slots import compiled as machine  # noqa: PLC0415

            return machine.query(self, keys)
        return query_words(self, keys)

    # -- the window ----------------------------------------------------------------------------------------

    def advance(self, slot: int) -> None:
        """Make this the current slot; an earlier one changes nothing."""
        newest = checked_slot(slot) + self.shape.ahead
        if newest <= self._newest:
            return
        groups, held = self.shape.groups, self.shape.held
        last, block = self._newest // groups, newest // groups
        self._wipe([begun % held for begun in range(max(last + 1, block - held + 1), block + 1)])
        self._newest = newest
        self._oldest = self.shape.oldest(newest)

    def _wipe(self, arrays: list[int]) -> None:
        if not arrays:
            return
        self.wiped += len(arrays)
        if len(arrays) == self.shape.held:
            self.words.fill(0)
        else:
            self.words &= ~self._everywhere(arrays)

    def _everywhere(self, arrays: list[int]) -> np.uint64:
        """The bits of some arrays, in all lanes of a word."""
        one = sum(1 << array for array in arrays)
        return np.uint64(sum(one << lane * self.shape.held for lane in range(self.shape.lanes)))

    def merge(self, other: RefreshingFilter) -> None:
        """Take in what another of the same shape holds; the later window counts."""
        if other.shape != self.shape:
            raise SlotError(f"filters of different shapes do not merge: {self.shape} and {other.shape}")
        self.advance(other.newest - other.shape.ahead)
        groups, held = self.shape.groups, self.shape.held
        last = other.newest // groups
        live = range(max(self._oldest // groups, last - held + 1), last + 1)
        if live:
            self.words |= other.words & self._everywhere([block % held for block in live])
        self.inserted += other.inserted
        self.refused += other.refused

    # -- to look at ----------------------------------------------------------------------------------------

    def fills(self, *, sample_words: int = limits.SLOT_POSITIONS) -> list[float]:
        """Share of bits set of each array, in the first words."""
        shape = self.shape
        sample = self.words[:sample_words]
        seen = min(len(sample) * shape.lanes, shape.positions)
        return [
            int(np.bitwise_count(sample & self._everywhere([array])).sum()) / seen
            for array in range(shape.held)
        ]

    def statistics(self) -> SlotStatistics:
        """A snapshot."""
        fills = self.fills(sample_words=_SAMPLE)
        groups, held = self.shape.groups, self.shape.held
        missed = 1.0
        for slot in range(self._oldest, self._newest + 1):
            missed *= 1 - fills[slot // groups % held] ** self.shape.hashes
        return SlotStatistics(
            kind=self.shape.variant.value,
            slots=self.shape.slots,
            oldest=self._oldest,
            newest=self._newest,
            inserted=self.inserted,
            refused=self.refused,
            wiped=self.wiped,
            memory_bytes=self.words.nbytes,
            fullest=max(fills),
            joint_false_positive=1 - missed,
        )

    def to_bytes(self) -> bytes:
        """For another process; `read` takes it back."""
        from penstock.core.slots import wire  # noqa: PLC0415  # wire makes filters

        return wire.filter_bytes(self)


def _turned(mask: int, by: int, width: int) -> int:
    """A mask of `width` bits, rotated towards its low end."""
    return (mask >> by | mask << width - by) & ((1 << width) - 1)


def _spread(mask: int, apart: int) -> int:
    """The bits of a mask, `apart` from each other."""
    spread = 0
    while mask:
        low = mask & -mask
        spread |= 1 << (low.bit_length() - 1) * apart
        mask ^= low
    return spread
