"""Expected false positives of a filter: the paper's equations 11 to 13, the last one corrected.

Equation 13 prints (1 − φ)^{uv}, which is the probability that *no* set answers falsely; the joint false
positive rate is its complement (decision 0018).
"""

from __future__ import annotations

from math import expm1, log1p
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.core.slots.shape import Shape


def waste(*, arrays: int, groups: int) -> float:
    """Equation 11: share of storage used by the spare."""
    return 0.0 if groups == 1 else 1 / (arrays + 1)


def fill(*, positions: int, hashes: int, pairs: float) -> float:
    """Share of bits set in an array after `pairs` insertions."""
    return -expm1(pairs * hashes * log1p(-1 / positions)) if positions > 1 else float(pairs > 0)


def per_set(*, positions: int, groups: int, hashes: int, per_slot: float) -> float:
    """Equation 12: φ, the false positive rate of one slot that shares its array with `groups` − 1 others."""
    return float(fill(positions=positions, hashes=hashes, pairs=groups * per_slot) ** hashes)


def joint(one: float, *, slots: int) -> float:
    """Equation 13 corrected: probability that a query finds a key in some slot where it is not."""
    return float(-expm1(slots * log1p(-one))) if one < 1 else 1.0


def joint_as_printed(one: float, *, slots: int) -> float:
    """Equation 13 as the paper prints it."""
    return float((1 - one) ** slots)


def expected(shape: Shape, *, per_slot: float) -> float:
    """Joint false positive rate of a filter whose slots hold `per_slot` keys each, without expired slots."""
    one = per_set(positions=shape.positions, groups=shape.groups, hashes=shape.hashes, per_slot=per_slot)
    return joint(one, slots=shape.slots)


def expected_of_bursts(shape: Shape, per_slot: Sequence[float]) -> float:
    """`expected` for slots with different numbers of keys, in order, the first at the start of an array."""
    missed = 0.0
    for start in range(0, shape.slots, shape.groups):
        pairs = sum(per_slot[start : start + shape.groups])
        one = fill(positions=shape.positions, hashes=shape.hashes, pairs=pairs) ** shape.hashes
        if one >= 1:
            return 1.0
        missed += shape.groups * log1p(-one)
    return float(-expm1(missed))
