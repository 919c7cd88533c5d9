"""Wedges: the nodes that share the first digits of an id, and so poll it together (Corona §3.1).

A channel at level l is polled by all nodes that share at least l digits with it: N / bˡ on average. The last
level, K = ⌈log_b N⌉, stands for the primary owner alone. A channel whose wedge at level K − 1 is empty is an
*orphan* (§4): nobody stands between its owner and the wider wedges, so its owner polls it alone.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.overlay.ids import DIGIT_BITS, ID_BITS, TOP_BITS
from penstock.errors import OverlayError

if TYPE_CHECKING:
    from penstock.core.overlay.ids import Tops
    from penstock.core.overlay.ring import Places, Ring


def deepest(nodes: int, *, digit_bits: int = DIGIT_BITS) -> int:
    """K: the level at which the primary owner polls alone."""
    if nodes < 1:
        raise OverlayError(f"a system has at least one node, not {nodes}")
    level = 0
    while 1 << (digit_bits * level) < nodes:
        level += 1
    return level


def wedge(ring: Ring, ident: int, level: int, *, digit_bits: int = DIGIT_BITS) -> range:
    """Places of the nodes that share the first digits of an id; they stand side by side."""
    rest = ID_BITS - _bits(level, digit_bits, ID_BITS)
    first = ident >> rest << rest
    return range(bisect_left(ring.ids, first), bisect_left(ring.ids, first + (1 << rest)))


def wedges(ring: Ring, tops: Tops, level: int, *, digit_bits: int = DIGIT_BITS) -> tuple[Places, Places]:
    """`wedge` of many ids, of which the first 64 bits are enough: first places, and those behind the last."""
    bits = _bits(level, digit_bits, TOP_BITS)
    if bits == 0:
        return np.zeros(len(tops), dtype=np.intp), np.full(len(tops), len(ring), dtype=np.intp)
    rest = np.uint64((1 << (TOP_BITS - bits)) - 1)
    last = tops | rest
    return np.searchsorted(ring.tops, last - rest), np.searchsorted(ring.tops, last, side="right")


def _bits(level: int, digit_bits: int, most: int) -> int:
    bits = level * digit_bits
    if not 0 <= bits <= most:
        raise OverlayError(f"level {level} reads {bits} bits of an id; here it may be 0 to {most}")
    return bits


def pollers(ring: Ring, ident: int, level: int) -> tuple[int, ...]:
    """Places of the nodes that poll a channel at a level; where its wedge is empty, its owner."""
    found = wedge(ring, ident, level) if level < deepest(len(ring)) else range(0)
    return tuple(found) or (ring.primary(ident),)
