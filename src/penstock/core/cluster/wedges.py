"""Wedges (nodes that share the first digits of an id and poll it together) and prefix tables (Corona §3.1).

A channel at level l is polled by all nodes that share at least l digits with it: N / bˡ on average. At the
last level, K = ⌈log_b N⌉, only the primary owner polls. A channel whose wedge at level K − 1 is empty is an
*orphan* (§4): there is no wedge between its owner and all wider ones, so its owner polls it alone.

In the prefix table of a node the contact in row r, column d shares exactly the first r digits of the node's
id and continues with d (Pastry's routing table). Every node here knows every live node, so a table is derived
and never requested: of the nodes that fit, the one whose remaining digits are closest to the node's own is
taken, which spreads the nodes of one cell over the contacts of another.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from penstock.core.cluster.ring import BASE, DIGIT_BITS, ID_BITS, TOP_BITS, digit
from penstock.errors import ClusterError

if TYPE_CHECKING:
    from penstock.core.cluster.ring import Places, Ring, Tops


def deepest(nodes: int, *, digit_bits: int = DIGIT_BITS) -> int:
    """K: the level at which only the primary owner polls."""
    if nodes < 1:
        raise ClusterError(f"{nodes} nodes; at least 1")
    level = 0
    while 1 << (digit_bits * level) < nodes:
        level += 1
    return level


def wedge(ring: Ring, ident: int, level: int, *, digit_bits: int = DIGIT_BITS) -> range:
    """Indexes of the nodes that share the first digits of an id; they are adjacent."""
    rest = ID_BITS - _bits(level, digit_bits, ID_BITS)
    first = ident >> rest << rest
    return range(bisect_left(ring.ids, first), bisect_left(ring.ids, first + (1 << rest)))


def wedges(ring: Ring, tops: Tops, level: int, *, digit_bits: int = DIGIT_BITS) -> tuple[Places, Places]:
    """`wedge` of many ids, by their first 64 bits: first indexes, and the indexes behind the last."""
    bits = _bits(level, digit_bits, TOP_BITS)
    if bits == 0:
        return np.zeros(len(tops), dtype=np.intp), np.full(len(tops), len(ring), dtype=np.intp)
    rest = np.uint64((1 << (TOP_BITS - bits)) - 1)
    last = tops | rest
    return np.searchsorted(ring.tops, last - rest), np.searchsorted(ring.tops, last, side="right")


def _bits(level: int, digit_bits: int, most: int) -> int:
    bits = level * digit_bits
    if not 0 <= bits <= most:
        raise ClusterError(f"level {level} reads {bits} bits of an id; allowed: 0 to {most}")
    return bits


def pollers(ring: Ring, ident: int, level: int) -> tuple[int, ...]:
    """Indexes of the nodes that poll a channel at a level; its owner if the wedge is empty."""
    found = wedge(ring, ident, level) if level < deepest(len(ring)) else range(0)
    return tuple(found) or (ring.primary(ident),)


@dataclass(frozen=True, slots=True)
class PrefixTable:
    """Contacts of one node by row; the last row is where no other node shares more digits."""

    rows: tuple[tuple[int, ...], ...]
    """Indexes of the contacts in the order of their digits; digits without a node are left out."""


def prefix_table(ring: Ring, place: int) -> PrefixTable:
    """Prefix table of the node at an index."""
    own = ring.ids[place]
    rows: list[tuple[int, ...]] = []
    while len(wedge(ring, own, len(rows))) > 1:
        rows.append(_row(ring, own, len(rows)))
    return PrefixTable(tuple(rows))


def _row(ring: Ring, own: int, row: int) -> tuple[int, ...]:
    shift = ID_BITS - DIGIT_BITS * (row + 1)
    own_digit = digit(own, row)
    found: list[int] = []
    for column in range(BASE):
        if column == own_digit:
            continue
        twin = own + ((column - own_digit) << shift)  # this node's id with another digit in this row
        members = wedge(ring, twin, row + 1)
        if members:
            after = bisect_left(ring.ids, twin, members.start, members.stop)
            near = [place for place in (after - 1, after) if place in members]
            found.append(min(near, key=lambda place: abs(ring.ids[place] - twin)))
    return tuple(found)
