"""Where the sessions of a cluster are: each client has a root, which knows the holder of its session.

The root of a client is the node that owns its identifier on the ring; the next owner has a copy of what the
root knows. The holder is the node that has the session. It tells both owners of it, and tells them again when
the view changes, so that a root that has just become one soon knows what its predecessor knew.

Each attachment has an epoch, later than the one before and not earlier than the time. So of two holders that
could not know of each other the one whose client came later counts. A root that continues the session of a
holder that is away stands in for it, in the same epoch: the holder counts if it comes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from penstock import limits
from penstock.core.cluster.frames import Natural, Text  # noqa: TC001  # msgspec reads annotations at run time
from penstock.core.cluster.ring import Ring, node_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.model.instant import Instant


NOBODY: Final[Mapping[str, int]] = {}


class Record(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The record of a client's session that its root keeps: which node has the session."""

    client: Text
    epoch: Natural
    holder: Text
    """Name of the node that has the session."""
    incarnation: Natural
    facts: bytes = b""
    """Subscriptions and policies, in the words of the holder; empty: the session ends with its connection."""
    standby: Text = ""
    """The node that the holder stands in for: it continues the session only until that one comes back."""
    coming: bool = False
    """The client is on its way to the holder, which has not said yet that the session is there."""

    @property
    def rank(self) -> tuple[int, bool, str]:
        """The greater one counts; of two in the same epoch all nodes choose the same one."""
        return self.epoch, not self.standby, self.holder

    def is_of(self, here: Mapping[str, int]) -> bool:
        """Whether the holder is among these nodes, and has not been started anew since."""
        return here.get(self.holder) == self.incarnation


class Placed(NamedTuple):
    """A client was given to a node."""

    epoch: int
    before: Record | None
    """Where its session was until now."""
    also: Record | None = None
    """Where it is if it never came there: the client had been given to that node, which has said nothing."""


class Owners:
    """The root of each client, and the node that has a copy, among the nodes that are there."""

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {node_id(name): name for name in names}
        self._ring = Ring(self._names)

    def of(self, client: str) -> tuple[str, ...]:
        """The root of a client, and the next owner if there is one."""
        ring = self._ring
        places = ring.owners(node_id(client), further=1)
        return tuple(self._names[ring.ids[place]] for place in places)


class Directory:
    """The records of one node: of clients whose root it is, or has been, or would be next."""

    def __init__(self, *, most: int = limits.CLUSTER_RECORDS) -> None:
        self._most = most
        self._records: dict[str, Record] = {}
        self._settled: dict[str, Record] = {}
        """Of clients on their way: what the last holder has said that had the session."""

    def __len__(self) -> int:
        return len(self._records)

    def get(self, client: str) -> Record | None:
        """The record of a client."""
        return self._records.get(client)

    def has(self, client: str) -> Record | None:
        """The record of the node that has the session now, though the client may be on its way to another."""
        found = self._records.get(client)
        return self._settled.get(client, found) if found is not None and found.coming else found

    def records(self) -> list[Record]:
        """All records."""
        return list(self._records.values())

    def place(self, client: str, holder: str, incarnation: int, *, now_us: Instant) -> Placed:
        """A client attaches to a node, which is the holder from now on."""
        before = self._records.get(client)
        epoch = now_us if before is None else max(now_us, before.epoch + 1)
        facts = b"" if before is None else before.facts
        if before is not None and not before.coming:
            self._settled[client] = before
        self._put(Record(client, epoch, holder, incarnation, facts, coming=True))
        also = self._settled.get(client)
        return Placed(epoch, before, None if also is before else also)

    def keep(self, record: Record, here: Mapping[str, int] = NOBODY) -> Record | None:
        """A holder tells of a session; returns the record that has lost: this one, or one of another holder.

        None: no other node claims the session, or another one is about to fetch it from this holder. `here`
        are the nodes that are there and their incarnations: for another one somebody may stand in.
        """
        before = self._records.get(record.client)
        if before is not None and before.coming:
            if before.holder != record.holder:
                return self._still_at(record, before, here)
            if before.incarnation == record.incarnation and record.epoch < before.epoch:
                self.never_came(before)  # the holder had asked, and went on before it was answered
                before = self._records.get(record.client)
        if before is not None and record.standby == before.holder and record.epoch >= before.epoch:
            if before.is_of(here):
                return record
            self._put(record)
            return None
        same = before is not None and (before.holder, before.incarnation) == (
            record.holder,
            record.incarnation,
        )
        if before is None or (same and record.rank >= before.rank):
            self._put(record)
            left = self._settled.pop(record.client, None)
            return left if left is not None and left.holder != record.holder else None
        restarted = before.holder == record.holder and record.incarnation > before.incarnation
        if restarted or before.standby == record.holder:
            # It was away, and may have the session from its disk without an epoch.
            self._put(msgspec.structs.replace(record, epoch=max(record.epoch, before.epoch)))
            return None if restarted else before
        if before.rank >= record.rank:
            return None if before.coming else record
        self._put(record)
        return None if same else before

    def _still_at(self, record: Record, coming: Record, here: Mapping[str, int]) -> Record | None:
        """A holder tells of a session whose client is on its way to another node, or was."""
        client, settled = record.client, self._settled.get(record.client)
        if record.epoch > coming.epoch:  # it came there later, by another root
            self._settled.pop(client, None)
            self._put(record)
            return settled if settled is not None and settled.holder != record.holder else None
        if settled is None or settled.holder == record.holder or not settled.is_of(here):
            self._settled[client] = record
            return None
        if settled.rank < record.rank:
            self._settled[client] = record
            return settled
        # A holder of an earlier epoch may be asked for what waits there; it is told when the client has come.
        return record if record.standby or settled.epoch == record.epoch else None

    def drop(self, client: str, epoch: int, holder: str) -> None:
        """A session has ended at a node; one of a later epoch, or of the same at another node, has not."""
        for records in (self._records, self._settled):
            found = records.get(client)
            if found is not None and (
                found.epoch < epoch or (found.epoch == epoch and found.holder == holder)
            ):
                del records[client]

    def never_came(self, record: Record) -> None:
        """The node is gone to which a client was on its way: its session is where it was before, if known."""
        if self._records.get(record.client) is record:
            settled = self._settled.pop(record.client, None)
            if settled is None:
                del self._records[record.client]
            else:
                self._records[record.client] = settled

    def held_by(self, holder: str) -> list[Record]:
        """The sessions at a node."""
        return [each for each in self._records.values() if each.holder == holder]

    def keep_only(self, owners: Owners, own: str) -> None:
        """Forget the clients that other nodes own now."""
        self._records = {
            client: record for client, record in self._records.items() if own in owners.of(client)
        }
        self._settled = {
            client: record for client, record in self._settled.items() if client in self._records
        }

    def _put(self, record: Record) -> None:
        if record.client not in self._records and len(self._records) >= self._most:
            return  # its client can attach, and does not find its session from another node
        self._records[record.client] = record
