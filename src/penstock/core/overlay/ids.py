"""Ids on the ring: 160 bits, read as 40 digits of base 16.

The id of a node is the SHA-1 of its address, that of a channel the SHA-1 of its URL (Corona §4). Both are
plain integers here; arrays of many ids carry their first 64 bits, which is 16 digits.
"""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from numpy.typing import NDArray

    Tops: TypeAlias = NDArray[np.uint64]

ID_BITS: Final = 160
DIGIT_BITS: Final = 4
BASE: Final = 1 << DIGIT_BITS
DIGITS: Final = ID_BITS // DIGIT_BITS
RING: Final = 1 << ID_BITS
"""How many ids there are; behind the last comes the first."""

TOP_BITS: Final = 64
"""Leading bits of an id that an array carries."""


def node_id(address: str) -> int:
    """160 bits that place a node on the ring, from the address under which others reach it."""
    return int.from_bytes(sha1(address.encode(), usedforsecurity=False).digest(), "big")


def digit(ident: int, position: int) -> int:
    """One digit of an id; position 0 is the first."""
    return ident >> (ID_BITS - DIGIT_BITS * (position + 1)) & (BASE - 1)


def shared_digits(a: int, b: int) -> int:
    """How many leading digits two ids have in common."""
    return (ID_BITS - (a ^ b).bit_length()) // DIGIT_BITS


def distance(a: int, b: int) -> int:
    """How far two ids are apart, the shorter way round."""
    gap = (a - b) % RING
    return min(gap, RING - gap)


def tops(ids: Iterable[int]) -> Tops:
    """The first 64 bits of many ids."""
    return np.fromiter((ident >> (ID_BITS - TOP_BITS) for ident in ids), dtype=np.uint64)
