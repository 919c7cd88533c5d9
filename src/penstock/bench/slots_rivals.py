"""What a programmer would take to remember arrivals by slot: a set or a Bloom filter for each of 64 slots.

All give the same answer, a mask of slots, one key at a time: none of them has a call for many.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from penstock.errors import MissingTool

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Rival:
    """64 of something that has `add` and `in`."""

    name: str
    make: Callable[[int, float], Any]
    """From the number of keys of a slot and the false positives wanted per slot."""
    bytes_of: Callable[[Any], int]
    is_filter: bool = True

    def filled(self, per_slot: Sequence[Sequence[int]], wanted: float) -> list[Any]:
        """One for each slot."""
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
    """The slots each key is in, as a mask."""
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
    """All of them; those that are libraries must be installed."""
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
