"""The ring of live nodes: who owns an id, and who takes over.

The primary owner of an id is the node whose id is closest; its F closest neighbours along the ring are owners
too and hold copies, so that one of them is the primary owner when it fails (Corona §3.3). Every node derives
the same answer from the same view of who is alive.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

import numpy as np

from penstock.core.overlay.ids import ID_BITS, RING, distance, tops
from penstock.errors import OverlayError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import TypeAlias

    from numpy.typing import NDArray

    Places: TypeAlias = NDArray[np.intp]

FURTHER_OWNERS: Final = 2
"""F of the paper: a channel survives two neighbours failing at once."""


class Ring:
    """Live nodes in the order of their ids. A place is an index into `ids`."""

    __slots__ = ("ids", "tops")

    def __init__(self, ids: Iterable[int]) -> None:
        self.ids = tuple(sorted(ids))
        if not self.ids:
            raise OverlayError("a ring needs at least one node")
        for left, right in zip(self.ids, self.ids[1:], strict=False):
            if left == right:
                raise OverlayError(f"two nodes have the id {left:040x}; each needs an address of its own")
        if self.ids[0] < 0 or self.ids[-1] >= RING:
            raise OverlayError(f"an id has {ID_BITS} bits and is not negative")
        self.tops = tops(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, gone: Collection[int]) -> Ring:
        """The ring when these nodes have failed."""
        return Ring(ident for ident in self.ids if ident not in gone)

    def place(self, ident: int) -> int:
        """Where a node stands."""
        place = bisect_left(self.ids, ident)
        if place == len(self.ids) or self.ids[place] != ident:
            raise OverlayError(f"no node on the ring has the id {ident:040x}")
        return place

    def primary(self, ident: int) -> int:
        """The place of the node whose id is closest; of two equally close ones the lower id."""
        after = bisect_left(self.ids, ident) % len(self.ids)
        return min((after - 1) % len(self.ids), after, key=lambda place: self._nearness(place, ident))

    def owners(self, ident: int, *, further: int = FURTHER_OWNERS) -> tuple[int, ...]:
        """Places of the primary owner and of the nodes that stand ready to take over, the closest first."""
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
        ahead, behind = self.tops[after] - keys, keys - self.tops[before]  # both wrap, as the ring does
        found = np.where(ahead < behind, after, before)
        # Within one unit of the 64 bits seen here the other 96 decide.
        close = np.flatnonzero((np.maximum(ahead, behind) - np.minimum(ahead, behind) <= 1) | (ahead == 0))
        for index in close.tolist():
            found[index] = self.primary(ids[index])
        return found
