"""The layout our filters do not have: one bit array after the other, so that each slot needs its own loads.

The same bits, the same positions and the same answers as a filter of 64 arrays and one group, with numpy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.slots.hashing import mix_words, place_words

if TYPE_CHECKING:
    from penstock.core.slots.filter import RefreshingFilter
    from penstock.core.slots.hashing import Words

_U = np.uint64
_PIECE = 4_096


class ArrayMajor:
    """A filter's bits, turned round."""

    def __init__(self, filtered: RefreshingFilter) -> None:
        assert filtered.shape.groups == 1
        self.shape = filtered.shape
        size = -(-self.shape.positions // 64) * 64
        bits = np.zeros((self.shape.held, size), dtype=np.uint8)
        for array in range(self.shape.held):
            bits[array, : self.shape.positions] = filtered.words >> _U(array) & _U(1)
        self.arrays: Words = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def query_many(self, keys: Words) -> Words:
        """The arrays each key is in, as masks."""
        return np.concatenate(
            [self._piece(keys[start : start + _PIECE]) for start in range(0, len(keys), _PIECE)]
        )

    def _piece(self, keys: Words) -> Words:
        places = []
        mixes, spare = np.empty_like(keys), np.empty_like(keys)
        for number in range(self.shape.hashes):
            if number % 2 == 0:
                mix_words(keys, number // 2 + 1, mixes, spare)
            where = np.empty_like(keys)
            place_words(mixes, self.shape.positions, where, high=number % 2 == 0)
            places.append(((where >> _U(6)).view(np.intp), where & _U(63)))
        masks = np.zeros_like(keys)
        for array, bits in enumerate(self.arrays):
            found = np.ones_like(keys)
            for words, shifts in places:
                found &= bits[words] >> shifts
            masks |= found << _U(array)
        return masks
