"""Rivals of the slot filters: a set or a Bloom filter for each of 64 slots, and an array-major layout.

The sets and filters give the same answer, a mask of slots, one key at a time: none of them has a call for
many. `ArrayMajor` is the layout our filters do not have: one bit array after the other, so that each slot
needs its own loads; it has the same bits, positions and answers as a filter of 64 arrays and one group.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.core.slots.slot_sets import mix_words, place_words
from penstock.errors import MissingTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.core.slots.filter import RefreshingFilter
    from penstock.core.slots.slot_sets import Words

_U = np.uint64
_PIECE = 4_096


class ArrayMajor:
    """A filter's bits, stored array by array."""

    def __init__(self, filtered: RefreshingFilter) -> None:
        assert filtered.shape.groups == 1
        self.shape = filtered.shape
        size = -(-self.shape.positions // 64) * 64
        bits = np.zeros((self.shape.held, size), dtype=np.uint8)
        for array in range(self.shape.held):
            bits[array, : self.shape.positions] = filtered.words >> _U(array) & _U(1)
        self.arrays: Words = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)

    def query_many(self, keys: Words) -> Words:
        """Return the arrays that each key is in, as bit masks."""
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


@dataclass(frozen=True, slots=True)
class Rival:
    """A rival: one set or filter with `add` and `in` for each of 64 slots."""

    name: str
    make: Callable[[int, float], Any]
    """Makes one, given the number of keys in a slot and the false positive rate wanted."""
    bytes_of: Callable[[Any], int]
    is_filter: bool = True

    def filled(self, per_slot: Sequence[Sequence[int]], wanted: float) -> list[Any]:
        """Return the sets or filters, one for each slot, filled."""
        slots = [self.make(len(keys), wanted) for keys in per_slot]
        for one, keys in zip(slots, per_slot, strict=True):
            fill(one, keys)
        return slots


def fill(one: Any, keys: Iterable[int]) -> None:
    """Put keys into one slot."""
    add = one.add
    for key in keys:
        add(key)


def answers(slots: Sequence[Any], keys: Iterable[int]) -> list[int]:
    """Return the slots that each key is in, as bit masks."""
    found = []
    for key in keys:
        mask = 0
        bit = 1
        for one in slots:
            if key in one:
                mask |= bit
            bit += bit
        found.append(mask)
    return found


def _a_set(_keys: int, _wanted: float) -> set[int]:
    return set()


def _bytes_of_set(one: set[int]) -> int:
    return sys.getsizeof(one) + sum(sys.getsizeof(key) for key in one)


def rivals() -> list[Rival]:
    """Return all rivals; MissingTool if a library is not installed."""
    try:
        rbloom, pybloom = import_module("rbloom"), import_module("pybloom_live")
    except ImportError as error:
        raise MissingTool(
            f"the rival {error.name} is not installed: pip install rbloom pybloom-live"
        ) from None
    return [
        Rival("64 rbloom", rbloom.Bloom, lambda one: int(one.size_in_bits) // 8),
        Rival("64 pybloom-live", pybloom.BloomFilter, lambda one: int(one.num_bits) // 8),
        Rival("64 sets", _a_set, _bytes_of_set, is_filter=False),
    ]
