"""The shape of a filter: u bit arrays and v groups of k hash functions; each time slot has one pair of them.

    variant   arrays u   groups v   a slot expires
    SBF       1          1          when the next one begins: a plain Bloom filter
    MSBF      slots      1          by itself
    MHBF      1          slots      with all the others: the array is wiped
    MMBF      u          v          with the v − 1 others of its array
    RBF       u          v          by itself; for v ≥ 2 one array more is kept, the spare

Slot s belongs to array (s div v) mod (number of arrays) and group s mod v: equation 6 of the paper, for an
endless sequence of slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock import limits
from penstock.errors import SlotError


class Variant(StrEnum):
    """Variants of filters, with the paper's names (§3)."""

    SBF = "sbf"
    MSBF = "msbf"
    MHBF = "mhbf"
    MMBF = "mmbf"
    RBF = "rbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Parameters of a filter; filters merge only if these are equal."""

    variant: Variant = Variant.RBF
    arrays: int = 64
    """u, without the spare."""
    groups: int = 1
    """v: more groups spread a burst over more bits, and make a query v times as expensive."""
    hashes: int = 8
    """k of each group."""
    positions: int = 1 << 16
    """m, the bits of one array."""
    ahead: int = 0
    """Slots in the future, for reservations."""

    def __post_init__(self) -> None:
        _within("arrays", self.arrays, 1, limits.SLOT_WINDOW)
        _within("groups", self.groups, 1, limits.SLOT_WINDOW)
        _within("hashes", self.hashes, 1, limits.SLOT_HASHES)
        _within("positions", self.positions, 1, limits.SLOT_POSITIONS)
        if self.slots > limits.SLOT_WINDOW:
            raise SlotError(
                f"arrays × groups: {self.arrays} × {self.groups} = {self.slots} slots; "
                f"allowed: 1 to {limits.SLOT_WINDOW}"
            )
        _within("ahead", self.ahead, 0, self.slots - 1)
        one = {Variant.SBF: ("arrays", "groups"), Variant.MSBF: ("groups",), Variant.MHBF: ("arrays",)}
        for name in one.get(self.variant, ()):
            if getattr(self, name) != 1:
                raise SlotError(f"{name} {getattr(self, name)}; {self.variant} has 1")

    @property
    def slots(self) -> int:
        """l = u·v, the slots of a full window."""
        return self.arrays * self.groups

    @property
    def held(self) -> int:
        """Arrays stored, the spare included."""
        return self.arrays + (self.variant is Variant.RBF and self.groups > 1)

    @property
    def lanes(self) -> int:
        """Positions that share a 64-bit word, `held` bits each."""
        return 64 // self.held

    @property
    def words(self) -> int:
        """Words of the whole filter."""
        return -(-self.positions // self.lanes)

    @property
    def bits(self) -> int:
        """Bits in use, which the paper counts as storage, with the spare."""
        return self.held * self.positions

    @property
    def by_block(self) -> bool:
        """Whether the slots of an array expire together, because there is no spare."""
        return self.groups > 1 and self.variant is not Variant.RBF

    def oldest(self, newest: int) -> int:
        """First live slot when `newest` is the last."""
        if self.by_block:
            return (newest // self.groups - self.arrays + 1) * self.groups
        return newest - self.slots + 1


def shape_for(
    variant: Variant | str,
    *,
    slots: int,
    bits: int,
    hashes: int = 8,
    arrays: int | None = None,
    spare_paid: bool = True,
    ahead: int = 0,
) -> Shape:
    """Shape for `slots` slots in `bits` bits; MMBF and RBF need `arrays`.

    `spare_paid`: the spare is part of `bits`; otherwise it is added to them, as the paper counts.
    """
    variant = _variant(variant)
    _within("slots", slots, 1, limits.SLOT_WINDOW)
    chosen = {Variant.SBF: 1, Variant.MSBF: slots, Variant.MHBF: 1}.get(variant, arrays)
    if chosen is None:
        raise SlotError(f"{variant} needs arrays, a divisor of its {slots} slots")
    if arrays not in (None, chosen):
        raise SlotError(f"arrays {arrays}; {variant} has {chosen}")
    if chosen < 1 or slots % chosen:
        raise SlotError(f"arrays {chosen}; allowed: divisors of the {slots} slots")
    if variant is Variant.SBF and slots != 1:
        raise SlotError(f"slots {slots}; {variant} has 1")
    groups = slots // chosen
    parts = chosen + (spare_paid and variant is Variant.RBF and groups > 1)
    if bits < parts:
        raise SlotError(f"bits {bits}; {parts} arrays need at least {parts}")
    return Shape(
        variant=variant, arrays=chosen, groups=groups, hashes=hashes, positions=bits // parts, ahead=ahead
    )


def _variant(name: Variant | str) -> Variant:
    try:
        return Variant(name)
    except ValueError:
        raise SlotError(f"unknown filter '{name}'; allowed: {', '.join(Variant)}") from None


def _within(name: str, value: Any, least: int, most: int) -> None:
    if not (isinstance(value, int) and least <= value <= most):
        raise SlotError(f"{name} {value!r}; allowed: whole numbers from {least} to {most}")
