"""The refreshing Bloom filter (RBF); other shapes give the plainer filters it is derived from.

The layout is position-major: a word holds, for one position (or a few, side by side), one bit of every array.
The AND of a group's k words shows at once in which arrays a key is; with one group that is the answer. Arrays
stored one after the other would need k loads for every slot.

Expired slots are never queried again. An array is wiped when a block of v new slots begins in it; for the
spare of an RBF that is after all its old slots have expired.
"""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import limits
from penstock.core.slots import batch
from penstock.core.slots.slot_sets import SlotStatistics, checked_slot, positions
from penstock.errors import SlotError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.slots.shape import Shape
    from penstock.core.slots.slot_sets import Words

_SAMPLE: Final = 16_384
"""Words sampled to measure how full arrays are: positions are hashed, so the first words represent all."""


class RefreshingFilter:
    """Keys by time slot in a fixed number of bits; implements `SlotSets`."""

    def __init__(self, shape: Shape, *, start: int = 0) -> None:
        self.shape = shape
        self.words: Words = np.zeros(shape.words, dtype=np.uint64)
        self._view = self.words.data  # reading one word through a memoryview takes half the time
        self._groups, self._held, self._lanes = shape.groups, shape.held, shape.lanes
        self._all = (1 << shape.held) - 1
        place = partial(positions, hashes=shape.hashes, size=shape.positions)
        self._places = lru_cache(limits.SLOT_REMEMBERED)(
            place
        )  # flows recur: the cache saves a quarter of the time
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
        """Mask of the live slots a key is in, possibly with false positives."""
        groups, held = self._groups, self._held
        first, passed = divmod(self._oldest, groups)
        if groups == 1:
            found = self._arrays(key, 0)
            return _turned(found, first % held, held) if found else 0
        answer = 0
        for group in range(groups):
            found = self._arrays(key, group)
            if found:
                skipped = group < passed  # the slot of this group in the first block has expired
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
        """Those of the `wanted` arrays in which all positions of a group are set."""
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
        """Insert pairs, or all keys into one slot; returns how many were accepted."""
        taken, where = batch.live_pairs(self, keys, slots)
        if compiled:
            from penstock.core.slots import compiled as machine  # noqa: PLC0415  # numba is optional

            machine.insert(self, taken, where)
        else:
            batch.insert(self, taken, where)
        self.inserted += len(taken)
        self.refused += len(keys) - len(taken)
        return len(taken)

    def query_many(self, keys: NDArray[np.int64] | Words, *, compiled: bool = False) -> Words:
        """`query` of each key; `compiled` uses numba, which takes a second to compile on first use."""
        if compiled:
            from penstock.core.slots import compiled as machine  # noqa: PLC0415

            return machine.query(self, keys)
        return batch.query(self, keys)

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
        """Merge a filter of the same shape; the later window counts."""
        if other.shape != self.shape:
            raise SlotError(f"cannot merge filters of different shapes: {self.shape} and {other.shape}")
        self.advance(other.newest - other.shape.ahead)
        groups, held = self.shape.groups, self.shape.held
        last = other.newest // groups
        live = range(max(self._oldest // groups, last - held + 1), last + 1)
        if live:
            self.words |= other.words & self._everywhere([block % held for block in live])
        self.inserted += other.inserted
        self.refused += other.refused

    # -- observation --------------------------------------------------------------------------------------

    def fills(self, *, sample_words: int = limits.SLOT_POSITIONS) -> list[float]:
        """Share of bits set in each array, measured in the first words."""
        shape = self.shape
        sample = self.words[:sample_words]
        seen = min(len(sample) * shape.lanes, shape.positions)
        return [
            int(np.bitwise_count(sample & self._everywhere([array])).sum()) / seen
            for array in range(shape.held)
        ]

    def statistics(self) -> SlotStatistics:
        """Figures of the filter now."""
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
