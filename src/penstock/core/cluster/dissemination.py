"""How a delta reaches all nodes of a wedge: along the prefix tables of the nodes (Corona §3.4).

A node that covers the wedge of level l passes the delta to its contacts in the rows from l on; the contact in
row r covers the wedge of level r + 1 in turn. Each member is reached once, over at most as many hops as there
are rows. A node outside the wedge first passes the delta to the member closest to the channel's id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.core.cluster.ring import distance
from penstock.core.cluster.wedges import prefix_table, wedge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from penstock.core.cluster.ring import Ring
    from penstock.core.cluster.wedges import PrefixTable


@dataclass(frozen=True, slots=True)
class Hop:
    """One message: sender, receiver, and the wedge the receiver covers."""

    sender: int
    receiver: int
    level: int
    """The receiver covers the nodes that share this many digits with it."""
    depth: int
    """Hops from the first node."""


def next_hops(table: PrefixTable, level: int) -> Iterator[tuple[int, int]]:
    """(contact, level it covers) for a node that covers the wedge of this level around itself."""
    for row in range(level, len(table.rows)):
        for contact in table.rows[row]:
            yield contact, row + 1


def disseminate(ring: Ring, ident: int, level: int, *, root: int) -> Iterator[Hop]:
    """All messages by which a delta of the node at `root` reaches the wedge of a channel."""
    members = wedge(ring, ident, level)
    if not members:
        return
    start = root
    depth = 0
    if root not in members:
        start = min(members, key=lambda place: distance(ring.ids[place], ident))
        depth = 1
        yield Hop(root, start, level, depth)
    waiting = [(start, level, depth)]
    while waiting:
        sender, covers, hops = waiting.pop()
        for contact, level_of_contact in next_hops(prefix_table(ring, sender), covers):
            yield Hop(sender, contact, level_of_contact, hops + 1)
            waiting.append((contact, level_of_contact, hops + 1))
