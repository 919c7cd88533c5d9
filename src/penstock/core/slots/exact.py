"""The exact flow table: a 64-bit hash and a mask of slots for each flow, without false positives.

Smaller than a filter where flows recur in many slots: it pays once for each flow, a filter for each pair of
flow and slot. Open addressing in two arrays: linear probing, at most two thirds full. A flow without a live
slot keeps its place until the table is rebuilt, which happens when it is full.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from penstock import limits
from penstock.core.slots.batch import live_pairs
from penstock.core.slots.slot_sets import M64, MIX_1, SlotStatistics, as_words, checked_slot
from penstock.errors import SlotError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from penstock.core.slots.slot_sets import Words

_LEAST: Final = 64
"""Places of an empty table."""
_NOBODY: Final = 0
"""Key of a free place; a flow with this hash is stored under `_SUBSTITUTE`."""
_SUBSTITUTE: Final = MIX_1

_U = np.uint64


class ExactTable:
    """Keys by time slot, with no false positives except equal 64-bit hashes; implements `SlotSets`."""

    def __init__(
        self, *, slots: int = 64, ahead: int = 0, start: int = 0, most: int = limits.SLOT_FLOWS
    ) -> None:
        if not 1 <= slots <= limits.SLOT_WINDOW:
            raise SlotError(f"slots {slots}; allowed: 1 to {limits.SLOT_WINDOW}")
        if not 0 <= ahead < slots:
            raise SlotError(f"ahead {ahead}; allowed: 0 to {slots - 1}")
        if not 1 <= most <= limits.SLOT_FLOWS:
            raise SlotError(f"most {most}; allowed: 1 to {limits.SLOT_FLOWS} flows")
        self.slots, self.ahead, self.most = slots, ahead, most
        self.inserted = 0
        self.refused = 0
        self.forgotten = 0
        self._newest = checked_slot(start) + ahead
        self._full_at = -1  # newest slot when the table was full: until it moves, it stays full
        self._allot(_LEAST)

    def _allot(self, places: int) -> None:
        self._keys: Words = np.zeros(places, dtype=np.uint64)
        self._masks: Words = np.zeros(places, dtype=np.uint64)  # slot s has bit s mod slots
        self._key_view, self._mask_view = self._keys.data, self._masks.data
        self._used = 0

    @property
    def oldest(self) -> int:
        """The first live slot: bit 0 of an answer."""
        return self._newest - self.slots + 1

    @property
    def newest(self) -> int:
        """The last live slot."""
        return self._newest

    def __len__(self) -> int:
        """Flows with a live slot."""
        return int(np.count_nonzero(self._masks))

    # -- one key -------------------------------------------------------------------------------------------

    def insert(self, key: int, slot: int) -> bool:
        """Put a key into a slot; False if the slot is outside the window, or the table is full."""
        if not self.oldest <= slot <= self._newest:
            self.refused += 1
            return False
        key = key & M64 or _SUBSTITUTE
        place = self._place(key)
        if self._key_view[place] == _NOBODY:
            if not self._fits(1):
                if self._may_renew():
                    self._renew(1)
                    place = self._place(key)
                if not self._fits(1):
                    self.refused += 1
                    return False
            self._key_view[place] = key
            self._used += 1
        self._mask_view[place] |= 1 << slot % self.slots
        self.inserted += 1
        return True

    def query(self, key: int) -> int:
        """The live slots a key is in, as a mask."""
        mask = self._mask_view[self._place(key & M64 or _SUBSTITUTE)]
        turn = self.oldest % self.slots
        return (mask >> turn | mask << self.slots - turn) & ((1 << self.slots) - 1)

    def contains(self, key: int, slot: int) -> bool:
        """Whether a key is in one slot."""
        return self.oldest <= slot <= self._newest and bool(self.query(key) >> slot - self.oldest & 1)

    def _place(self, key: int) -> int:
        """Index of a key, or of the free place where it would go."""
        keys = self._key_view
        last = len(keys) - 1
        place = _start(key) & last
        while keys[place] not in (key, _NOBODY):
            place = place + 1 & last
        return place

    # -- many keys -----------------------------------------------------------------------------------------

    def insert_many(self, keys: NDArray[np.int64] | Words, slots: NDArray[np.int64] | int) -> int:
        """Insert pairs, or all keys into one slot.

        Returns how many were accepted (a full table accepts known flows).
        """
        live, where = live_pairs(self, keys, slots)
        found, which = np.unique(_substituted(live), return_inverse=True)
        masks = np.zeros(len(found), dtype=np.uint64)
        np.bitwise_or.at(masks, which, _U(1) << (where % self.slots).astype(np.uint64))
        taken = int(self._put(found, masks)[which].sum())
        self.inserted += taken
        self.refused += len(keys) - taken
        return taken

    def query_many(self, keys: NDArray[np.int64] | Words) -> Words:
        """`query` of each key."""
        masks = self._masks[self._places(_substituted(as_words(keys)))]
        turn = self.oldest % self.slots
        if turn == 0:
            return masks
        return (masks >> _U(turn) | masks << _U(self.slots - turn)) & _U((1 << self.slots) - 1)

    def _places(self, keys: Words) -> NDArray[np.intp]:
        """`_place` of each key."""
        last = len(self._keys) - 1
        places = _starts(keys, last)
        left = np.arange(len(keys))
        while len(left):
            there = self._keys[places[left]]
            left = left[(there != keys[left]) & (there != _NOBODY)]
            places[left] = places[left] + 1 & last
        return places

    def _put(self, keys: Words, masks: Words) -> NDArray[np.bool_]:
        """OR masks into different keys; returns which of them have a place."""
        new = self._unknown(keys)
        if not self._fits(len(new)) and self._may_renew():
            self._renew(len(keys))
            new = self._unknown(keys)
        fits = min(len(new), self.most - self._used)
        self._claim(keys[new[:fits]])
        put = np.ones(len(keys), dtype=np.bool_)
        put[new[fits:]] = False
        self._masks[self._places(keys[put])] |= masks[put]
        return put

    def _unknown(self, keys: Words) -> NDArray[np.intp]:
        return np.flatnonzero(self._keys[self._places(keys)] == _NOBODY)

    def _claim(self, keys: Words) -> None:
        """Give each new key a place; of keys that want the same place one gets it and the others probe on."""
        last = len(self._keys) - 1
        places = _starts(keys, last)
        left = np.arange(len(keys))
        while len(left):
            free = left[self._keys[places[left]] == _NOBODY]
            self._keys[places[free]] = keys[free]
            left = left[self._keys[places[left]] != keys[left]]
            places[left] = places[left] + 1 & last
        self._used += len(keys)

    # -- room ----------------------------------------------------------------------------------------------

    def _fits(self, more: int) -> bool:
        used = self._used + more
        return 3 * used <= 2 * len(self._keys) and used <= self.most

    def _may_renew(self) -> bool:
        """Whether a rebuild can help: not if all flows were live and no slot has expired since."""
        return self._full_at != self._newest

    def _renew(self, more: int) -> None:
        """Rebuild without flows that have no live slot, with room for `more` if allowed."""
        live = self._masks != 0
        keys, masks = self._keys[live], self._masks[live]
        self.forgotten += self._used - len(keys)
        wanted = min(len(keys) + more, self.most)
        places = _LEAST
        while 2 * places < 3 * (wanted + wanted // 4):  # a quarter more, so that the next rebuild is not soon
            places *= 2
        self._allot(places)
        self._claim(keys)
        self._masks[self._places(keys)] = masks
        if wanted == self.most:
            self._full_at = self._newest

    def rows(self) -> tuple[Words, Words]:
        """Flows with a live slot: their keys, ascending, and their masks."""
        live = np.flatnonzero(self._masks)
        order = live[np.argsort(self._keys[live])]
        return self._keys[order], self._masks[order]

    def put_rows(self, keys: Words, masks: Words) -> None:
        """Load what `rows` of a table with this window returned."""
        if len(keys) and ((keys[1:] <= keys[:-1]).any() or keys[0] == _NOBODY or (masks == 0).any()):
            raise SlotError("damaged table: keys out of order, or a flow without a slot")
        if self.slots < 64 and (masks >> _U(self.slots)).any():
            raise SlotError(f"damaged table: a slot beyond the {self.slots}")
        refused = len(keys) - int(self._put(keys, masks).sum())
        self.refused += refused

    # -- the window ----------------------------------------------------------------------------------------

    def advance(self, slot: int) -> None:
        """Make this the current slot; an earlier one changes nothing."""
        newest = checked_slot(slot) + self.ahead
        if newest <= self._newest:
            return
        begun = range(max(self._newest + 1, newest - self.slots + 1), newest + 1)
        self._masks &= _U(~sum(1 << one % self.slots for one in begun) & M64)
        self._newest = newest

    def merge(self, other: ExactTable) -> None:
        """Merge a table with the same number of slots; the later window counts."""
        if (other.slots, other.ahead) != (self.slots, self.ahead):
            raise SlotError(
                f"cannot merge tables of different windows: {self.slots} slots, {self.ahead} ahead, and "
                f"{other.slots}, {other.ahead}"
            )
        self.advance(other.newest - other.ahead)
        keys, masks = other.rows()
        common = sum(
            1 << slot % self.slots for slot in range(max(self.oldest, other.oldest), other.newest + 1)
        )
        masks = masks & _U(common)
        self.put_rows(keys[masks != 0], masks[masks != 0])
        self.inserted += other.inserted
        self.refused += other.refused

    def statistics(self) -> SlotStatistics:
        """Figures of the table now."""
        return SlotStatistics(
            kind="exact",
            slots=self.slots,
            oldest=self.oldest,
            newest=self._newest,
            inserted=self.inserted,
            refused=self.refused,
            wiped=self.forgotten,
            memory_bytes=self._keys.nbytes + self._masks.nbytes,
            fullest=self._used / len(self._keys),
            joint_false_positive=0.0,
        )


def _start(key: int) -> int:
    return (key * MIX_1 & M64) >> 40


def _starts(keys: Words, last: int) -> NDArray[np.intp]:
    return ((keys * _U(MIX_1) >> _U(40)) & _U(last)).view(np.intp)


def _substituted(keys: Words) -> Words:
    return keys if keys.all() else np.where(keys == _NOBODY, _U(_SUBSTITUTE), keys)
