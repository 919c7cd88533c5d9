"""Sets that say what a filter must answer, and keys to try it with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from penstock.core.slots.exact import ExactTable
from penstock.core.slots.filter import RefreshingFilter
from penstock.core.slots.shape import Shape, Variant
from penstock.core.slots.slot_sets import flow_key

if TYPE_CHECKING:
    from penstock.core.slots.slot_sets import SlotSets

KEYS: Final = [flow_key(f"client-{number}/topic") for number in range(24)]

COUPLES: Final = (
    (Variant.SBF, 1, 1),
    (Variant.MSBF, 64, 1),
    (Variant.MSBF, 5, 1),
    (Variant.MHBF, 1, 64),
    (Variant.MHBF, 1, 6),
    (Variant.MMBF, 8, 8),
    (Variant.MMBF, 3, 5),
    (Variant.RBF, 64, 1),
    (Variant.RBF, 8, 8),
    (Variant.RBF, 32, 2),
    (Variant.RBF, 1, 64),
    (Variant.RBF, 3, 5),
)
"""(variant, arrays, groups): whole words and parts of them, one array and many."""


def shapes(*, positions: int = 1 << 13, hashes: int = 8, ahead: int = 0) -> list[Shape]:
    """Every couple with so many positions: with eight hashes and few keys, none answers falsely."""
    return [
        Shape(
            variant=variant,
            arrays=arrays,
            groups=groups,
            hashes=hashes,
            positions=positions,
            ahead=min(ahead, arrays * groups - 1),
        )
        for variant, arrays, groups in COUPLES
    ]


def label(shape: Shape) -> str:
    """For the names of tests."""
    return f"{shape.variant}-{shape.arrays}x{shape.groups}"


def everything(*, ahead: int = 0) -> list[SlotSets]:
    """One of each, empty."""
    tables = [ExactTable(slots=slots, ahead=min(ahead, slots - 1)) for slots in (64, 7, 1)]
    return [*(RefreshingFilter(shape) for shape in shapes(ahead=ahead)), *tables]


class Model:
    """Pairs in a set, and the window's rule in a line."""

    def __init__(self, *, slots: int, ahead: int = 0, block: int = 1) -> None:
        self.slots = slots
        self.ahead = ahead
        self.block = block
        """Slots that expire together."""
        self.now = 0
        self.pairs: set[tuple[int, int]] = set()

    @classmethod
    def of(cls, tried: SlotSets) -> Model:
        """The rule of one of them."""
        if isinstance(tried, RefreshingFilter):
            shape = tried.shape
            alone = shape.variant is Variant.RBF or shape.groups == 1
            return cls(
                slots=shape.arrays * shape.groups, ahead=shape.ahead, block=1 if alone else shape.groups
            )
        assert isinstance(tried, ExactTable)
        return cls(slots=tried.slots, ahead=tried.ahead)

    def window(self) -> tuple[int, int]:
        newest = self.now + self.ahead
        end = newest // self.block * self.block + self.block  # the end of the newest block
        return end - self.slots, newest

    def advance(self, slot: int) -> None:
        self.now = max(self.now, slot)
        oldest, _ = self.window()
        self.pairs = {(key, at) for key, at in self.pairs if at >= oldest}

    def insert(self, key: int, slot: int) -> bool:
        oldest, newest = self.window()
        if oldest <= slot <= newest:
            self.pairs.add((key, slot))
            return True
        return False

    def query(self, key: int) -> int:
        oldest, _ = self.window()
        return sum(1 << at - oldest for found, at in self.pairs if found == key)
