"""The ring of live nodes: which node owns an id, and which nodes take over when it fails.

An id has 160 bits, read as 40 digits of base 16: the SHA-1 of a node's address or of a channel's URL (Corona
§4). Ids are plain integers here; arrays of many ids carry their first 64 bits, which is 16 digits.

The primary owner of an id is the node with the closest id. Its F closest neighbours along the ring are owners
too and hold copies: one of them becomes the primary owner when it fails (Corona §3.3). Every node computes
the same answer from the same list of live nodes.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha1
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

if TYPE_CHECKING:
    Tops: TypeAlias = NDArray[np.uint64]

ID_BITS: Final = 160
DIGIT_BITS: Final = 4
BASE: Final = 1 << DIGIT_BITS
DIGITS: Final = ID_BITS // DIGIT_BITS
RING: Final = 1 << ID_BITS
"""Number of ids; the last is followed by the first."""

TOP_BITS: Final = 64
"""Leading bits of an id that arrays hold."""


def node_id(address: str) -> int:
    """Id of a node, from the address under which others reach it."""
    return int.from_bytes(sha1(address.encode(), usedforsecurity=False).digest(), "big")


def digit(ident: int, position: int) -> int:
    """One digit of an id; position 0 is the first."""
    return ident >> (ID_BITS - DIGIT_BITS * (position + 1)) & (BASE - 1)


def shared_digits(a: int, b: int) -> int:
    """Number of leading digits two ids share."""
    return (ID_BITS - (a ^ b).bit_length()) // DIGIT_BITS


def distance(a: int, b: int) -> int:
    """Distance of two ids, the shorter way round."""
    gap = (a - b) % RING
    return min(gap, RING - gap)


def tops(ids: Iterable[int]) -> Tops:
    """The first 64 bits of many ids."""
    return np.fromiter((ident >> (ID_BITS - TOP_BITS) for ident in ids), dtype=np.uint64)


if TYPE_CHECKING:
    Places: TypeAlias = NDArray[np.intp]

FURTHER_OWNERS: Final = 2
"""F of the paper: a channel survives the failure of two neighbours at once."""


class Ring:
    """Live nodes in the order of their ids. A place is an index into `ids`."""

    __slots__ = ("ids", "tops")

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(sorted(ids))
        if not self.ids:
            raise ClusterError("a ring needs at least one node")
        for left, right in zip(self.ids, self.ids[1:], strict=False):
            if left == right:
                raise ClusterError(f"two nodes have the id {left:040x}; each needs an address of its own")
        if self.ids[0] < 0 or self.ids[-1] >= RING:
            raise ClusterError(f"an id has {ID_BITS} bits and is not negative")
        self.tops = tops(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, gone: Collection[int]) -> Ring:
        """The ring without nodes that failed."""
        return Ring(ident for ident in self.ids if ident not in gone)

    def place(self, ident: int) -> int:
        """Index of a node."""
        place = bisect_left(self.ids, ident)
        if place == len(self.ids) or self.ids[place] != ident:
            raise ClusterError(f"no node on the ring has the id {ident:040x}")
        return place

    def primary(self, ident: int) -> int:
        """Index of the node with the closest id; of two equally close ones the lower id."""
        after = bisect_left(self.ids, ident) % len(self.ids)
        return min((after - 1) % len(self.ids), after, key=lambda place: self._nearness(place, ident))

    def owners(self, ident: int, *, further: int = FURTHER_OWNERS) -> tuple[int, ...]:
        """Indexes of the primary owner and of those that would take over, the closest first."""
        first = self.primary(ident)
        reach = range(first - further, first + further + 1)
        near = dict.fromkeys(place % len(self.ids) for place in reach)
        return tuple(sorted(near, key=lambda place: self._nearness(place, ident))[: further + 1])

    def _nearness(self, place: int, ident: int) -> tuple[int, int]:
        return distance(self.ids[place], ident), self.ids[place]

    def primaries(self, ids: Sequence[int]) -> Places:
        """`primary` of many ids."""
        keys = tops(ids)
        after = np.searchsorted(self.tops, keys) % len(self.ids)
        before = (after - 1) % len(self.ids)
        ahead, behind = self.tops[after] - keys, keys - self.tops[before]  # both wrap around, like the ring
        found = np.where(ahead < behind, after, before)
        # Differences below one unit of these 64 bits are decided by the other 96 bits.
        close = np.flatnonzero((np.maximum(ahead, behind) - np.minimum(ahead, behind) <= 1) | (ahead == 0))
        for index in close.tolist():
            found[index] = self.primary(ids[index])
        return found
