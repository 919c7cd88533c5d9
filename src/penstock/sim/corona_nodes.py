"""All nodes of a Corona system: each with its part of the cooperation, exchanging over prefix tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from penstock.core.channels.cooperation import Cooperation, Owned, joined
from penstock.core.overlay.prefix_table import prefix_table
from penstock.core.overlay.wedges import wedges

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from penstock.core.channels.cooperation import CooperationOptions
    from penstock.core.overlay.ring import Ring
    from penstock.sim.corona_workload import Ints, Workload


class CoronaNodes:
    """The ring, and who owns which channels."""

    def __init__(
        self, ring: Ring, workload: Workload, options: CooperationOptions, *, subscribers: Ints | None = None
    ) -> None:
        self._workload = workload
        self._options = options
        self.ring = ring
        self.owner = ring.primaries(workload.ids)
        self.orphan = self._orphans()
        self.level = np.full(len(workload), options.deepest, np.int64)
        everything = Owned(
            np.arange(len(workload)), workload.factors(subscribers), self.level.copy(), self.orphan
        )
        shares = self._by_owner()
        self.nodes = {
            node: Cooperation(options, everything.take(share))
            for node, share in zip(ring.ids, shares, strict=True)
        }
        self._tables = [prefix_table(ring, place) for place in range(len(ring))]

    def _by_owner(self) -> list[NDArray[np.intp]]:
        order = np.argsort(self.owner, kind="stable")
        return np.split(order, np.searchsorted(self.owner[order], np.arange(1, len(self.ring))))

    def _orphans(self) -> NDArray[np.bool_]:
        """Channels whose wedge at the last level but one is empty; on a single level there are none."""
        if self._options.deepest == 0:
            return np.zeros(len(self._workload), bool)
        first, behind = wedges(self.ring, self._workload.tops, self._options.deepest - 1)
        return np.equal(first, behind)

    def observe(self, subscribers: Ints) -> None:
        """Owners count their subscribers again."""
        factors = self._workload.factors(subscribers)
        everything = Owned(np.arange(len(self._workload)), factors, self.level, self.orphan)
        for node in self.nodes.values():
            rows = node.owned.channel
            node.observe(everything.take(rows).factors, self.orphan[rows])

    def maintain(self) -> int:
        """One maintenance phase on all nodes: what contacts told before decides, then all tell anew."""
        moved = 0
        for node in self.nodes.values():
            changed = node.maintain()
            self.level[node.owned.channel[changed]] = node.owned.level[changed]
            moved += len(changed)
        self.exchange()
        return moved

    def exchange(self) -> None:
        """Every node hears from its contacts what they knew before this exchange."""
        members = list(self.nodes.values())
        told = [node.tell(len(table.rows)) for node, table in zip(members, self._tables, strict=True)]
        for node, table in zip(members, self._tables, strict=True):
            for row, contacts in enumerate(table.rows):
                for contact in contacts:
                    node.hear(row, self.ring.ids[contact], told[contact][row])

    def fail(self, gone: Collection[int]) -> int:
        """These nodes are gone, and everybody knows: the next owners take over with the copies they hold.

        Returns how many channels have lost all their copies at once. Their subscribers have to come again;
        here they do so at once.
        """
        if not gone:
            return 0
        lost = [self.nodes[node].owned for node in gone]
        before = self._tables_by_id()
        failed = frozenset(gone)
        uncopied = sum(
            all(self.ring.ids[place] in failed for place in self.ring.owners(self._workload.ids[channel]))
            for part in lost
            for channel in part.channel.tolist()
        )
        self.ring = self.ring.without(gone)
        self.nodes = {node: self.nodes[node] for node in self.ring.ids}
        self.owner = self.ring.primaries(self._workload.ids)
        self.orphan = self._orphans()
        self._tables = [prefix_table(self.ring, place) for place in range(len(self.ring))]
        left = joined(lost)
        heirs = self.owner[left.channel]
        for place in np.unique(heirs).tolist():
            self.nodes[self.ring.ids[place]].adopt(left.take(np.flatnonzero(heirs == place)))
        now = self._tables_by_id()
        for node, cooperation in self.nodes.items():
            for row, contact in before[node] - now[node]:
                cooperation.forget(row, contact)
        return uncopied

    def _tables_by_id(self) -> dict[int, set[tuple[int, int]]]:
        return {
            node: {(row, self.ring.ids[contact]) for row, found in enumerate(table.rows) for contact in found}
            for node, table in zip(self.nodes, self._tables, strict=True)
        }
