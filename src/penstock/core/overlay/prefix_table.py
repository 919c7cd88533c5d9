"""The prefix table of a node: whom it knows in each direction, digit by digit.

The contact in row r, column d shares exactly the first r digits of the node's id and continues with d
(Pastry's routing table, Corona §3.1). Every node here knows every live node, so a table is derived, never
asked for: of the nodes that fit, the one whose remaining digits are closest to the node's own is taken, which
spreads the nodes of one cell over the contacts of another instead of pointing all of them at the same one.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.overlay.ids import BASE, DIGIT_BITS, ID_BITS, digit
from penstock.core.overlay.wedges import wedge

if TYPE_CHECKING:
    from penstock.core.overlay.ring import Ring


@dataclass(frozen=True, slots=True)
class PrefixTable:
    """Contacts of one node by row; rows end where nobody shares more digits with it."""

    rows: tuple[tuple[int, ...], ...]
    """Places of the contacts, in the order of their digits; digits without nodes are left out."""


def prefix_table(ring: Ring, place: int) -> PrefixTable:
    """The table of the node at a place."""
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
