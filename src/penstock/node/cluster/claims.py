"""One session at two nodes: which of them has it, and what becomes of what waits at the other.

A root stands in for a holder that is away. If the holder comes back, it has everything, and the root lets its
session go. If the client has come to another node meanwhile, that one has it. What waits at the holder, or at
a root that stands in for another one, is abandoned then, and told so. What a holder's disk brings back after
a restart is offered to the node that has the session.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.core.cluster.handover import About, MovingNode, body_of, read_body, take
from penstock.errors import ClusterError, StoreError, printable
from penstock.mqtt.topics import SHARE
from penstock.node.broker.moving import add_waiting, joined, moved_from
from penstock.node.broker.restoring import put_in
from penstock.node.cluster.strangers import Strangers

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from penstock.core.cluster.seen import Marks, Seen
    from penstock.core.cluster.sessions import Record
    from penstock.core.cluster.view import Sighting
    from penstock.node.broker.background import Background
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.moving import MovedSession
    from penstock.node.broker.session import Session
    from penstock.node.cluster.roots import Roots
    from penstock.node.cluster.trails import Trails

log = logging.getLogger(__name__)


class ClaimsHost(MovingNode, Protocol):
    """The moves of this node, as its claims to sessions see them."""

    roots: Roots
    trails: Trails
    counts: dict[str, int]
    seen: dict[str, Seen]

    def marks(self) -> Marks:
        """The last event of each origin that this node has seen."""
        ...

    def is_coming(self, client: str) -> bool:
        """Whether a session is on its way here."""
        ...

    def follow(self, client: str, work: Coroutine[None, None, None]) -> object:
        """Have a part of a session come; whoever wants the session from here waits for that."""
        ...

    def part_with(self, client: str, *, upto: int | None = None) -> MovedSession | None:
        """Take a session out of the broker without telling its roots."""
        ...


class Claims:
    """The sessions of this node that another one may have by a later right."""

    def __init__(self, broker: Broker, host: ClaimsHost, background: Background) -> None:
        self._broker = broker
        self._host = host
        self._roots = host.roots
        self._background = background
        self.partial: set[str] = set()
        """Clients here whose sessions never got what waited at the holder before."""
        self._spare: set[str] = set()
        """Clients whose sessions here are of use to the one who has them: they were restored from disk, or
        were given away to a node that has vanished."""
        self._last_place = 0
        """The last place in the journal that was there before this start."""
        self._restored: set[str] = set()
        """Clients restored from disk whose sessions are offered: what came since has come elsewhere, too."""

        self._strangers = Strangers(broker)
        self._offered: set[str] = set()
        """Clients whose sessions were offered to the nodes that have them, and are taken from here soon."""

    def start(self) -> None:
        """Claim the sessions that were restored from disk."""
        if self._broker.journal is not None:
            self._last_place = self._broker.journal.last_place
        self._spare.update(session.client_id for session in self._broker.sessions)

    def attached(self, client: str) -> None:
        """A client is connected here: its session is this node's own."""
        self._strangers.forget(client)
        if self._roots.standby.pop(client, None) is not None:
            self.partial.add(client)
            self._roots.epochs[client] = max(self._broker.clock(), self._roots.epochs.get(client, 0) + 1)
        self._spare.discard(client)
        self._restored.discard(client)
        self._offered.discard(client)

    def forget(self, client: str) -> None:
        """The session of a client is here no more."""
        self._strangers.forget(client)
        self.partial.discard(client)
        self._spare.discard(client)
        self._restored.discard(client)
        self._offered.discard(client)

    def restored_upto(self, client: str) -> int | None:
        """Up to which place of the journal a session is taken; None: all of it."""
        return self._last_place if client in self._restored else None

    # -- standing in -----------------------------------------------------------------------------------------

    def stand_in(self, record: Record, away: str) -> None:
        """The holder of a session is away: what is published for it waits here meanwhile."""
        client = record.client
        if self._broker.sessions.get(client) is not None or self._host.is_coming(client):
            return
        self._host.recall(record)
        self._roots.epochs[client] = record.epoch
        self._roots.standby[client] = away
        self._roots.changed(client)
        session = self._broker.sessions.get(client)
        if session is not None:
            self._strangers.watch(client, session.held, self._host.marks())

    def put_back(self, client: str, away: str, epoch: int) -> None:
        """The node is away that was about to take a session, which is here again."""
        self._roots.epochs[client] = epoch
        self._roots.standby[client] = away
        self._spare.add(client)
        self._roots.changed(client)

    def given_up(self, name: str) -> None:
        """A node is away for too long: sessions that this one stands in for are its own from now on."""
        for client, away in list(self._roots.standby.items()):
            if away == name:
                del self._roots.standby[client]
                self.partial.add(client)
                self._roots.epochs[client] = self._roots.epochs.get(client, 0) + 1
                self._roots.changed(client)

    # -- losing ----------------------------------------------------------------------------------------------

    def give_way(self, winner: Record) -> None:
        """Another node has a session of this node, by a later right."""
        client = winner.client
        session = self._broker.sessions.get(client)
        if session is None or self._host.is_coming(client):
            return
        if self._roots.epochs.get(client, 0) > winner.epoch or winner.holder == self._host.name:
            return
        if client in self._offered:
            return
        if client in self._spare and not session.attached:
            self._spare.discard(client)
            self._offered.add(client)
            if client not in self._roots.standby:
                self._restored.add(client)
            self._background.begin(self._offer(winner), "what waits for a client is not offered")
        elif self._continues(winner):  # the holder is back, and has the rest of this
            self._leave_groups(session)
            lost = self._strangers.forget(client)
            self._host.counts["abandoned"] += lost
            self._lose(winner, lost)
            self._host.part_with(client)
            self._broker.sessions.forget_moved(client)
        else:  # nodes that were cut off from where the session went have kept nothing for it
            self._abandon(winner)

    def _continues(self, winner: Record) -> bool:
        """Whether a session was here only until the winner is back, and never left it in between.

        If it left and came to the winner again, nodes that were cut off have kept nothing for it.
        """
        client = winner.client
        same_stay = self._roots.epochs.get(client, 0) == winner.epoch
        return same_stay and self._roots.standby.get(client) == winner.holder

    def _leave_groups(self, session: Session) -> None:
        """Return what groups gave to a session here: a message of a group has no copy at the holder."""
        self._broker.now_us = self._broker.clock()
        for filter_ in [each for each in session.held if each.startswith(SHARE)]:
            self._broker.unsubscribe(session, filter_, departed=True)

    def _abandon(self, winner: Record) -> None:
        sessions = self._broker.sessions
        before = sessions.departed.abandoned
        session = sessions.get(winner.client)
        filters = [] if session is None else list(session.held)
        self._broker.now_us = self._broker.clock()
        sessions.part_with(winner.client, ended=True)
        self._host.trails.begin(winner.client, filters)
        self._lose(winner, sessions.departed.abandoned - before)  # in the broker's account

    @staticmethod
    def _lose(winner: Record, lost: int) -> None:
        log.log(
            logging.WARNING if lost else logging.INFO,
            "cluster: client %s is at node %s; %d events that waited for it here are abandoned",
            printable(winner.client),
            printable(winner.holder),
            lost,
        )

    async def _offer(self, winner: Record) -> None:
        """Have the holder take what waits here; it is abandoned if the holder does not want it."""
        about = body_of(About(winner.client, winner.epoch))
        try:
            wanted = bool(await self._host.ask(winner.holder, "offer", about))
        except ClusterError:
            self._offered.discard(winner.client)
            self._restored.discard(winner.client)
            self._spare.add(winner.client)  # it is told again when the view changes
            return
        session = self._broker.sessions.get(winner.client)
        if not wanted and session is not None and not session.attached:
            self._abandon(winner)

    # -- winning ---------------------------------------------------------------------------------------------

    def offered(self, asker: Sighting, body: bytes) -> bytes:
        """A node has what waited for a client, whose session is here without it."""
        client = read_body(body, About).client
        if client not in self.partial or self._broker.sessions.get(client) is None:
            return b""
        if self._host.is_coming(client):
            raise ClusterError("the session is on its way")
        if client in self._roots.standby:
            raise ClusterError("the session is continued here for another node, which may come back")
        self.partial.discard(client)
        self._host.follow(client, self._fetch_rest(client, asker.name))
        return b"1"

    async def _fetch_rest(self, client: str, holder: str) -> None:
        """Take what waited at another node, and put it in front of what waits here."""
        epoch = self._roots.epochs.get(client, 0)
        try:
            given, data = await take(self._host, client, epoch, holder)
            if given.size:
                self._merge(client, moved_from(data))
        except (ClusterError, StoreError) as error:
            log.warning("cluster: what waited for %s did not come: %s", printable(client), error)
            self.partial.add(client)
            return
        if self._broker.journal is not None:
            await self._broker.journal.committed()
        self._host.taken(client, holder, body_of(About(client, epoch)))

    def _merge(self, client: str, rest: MovedSession) -> None:
        broker, roots = self._broker, self._roots
        session = broker.sessions.get(client)
        now_us = broker.now_us = broker.clock()
        if session is None or session.attached:
            lost = rest.waiting
            if session is not None:
                lost = add_waiting(session, rest, broker.journal, now_us=now_us)
            self._host.counts["abandoned"] += lost
            return
        epoch, away = roots.epochs.get(client, 0), roots.standby.get(client)
        seen = self._host.seen.get(client)
        mine = self._host.part_with(client)
        assert mine is not None, "a detached session is kept"
        broker.sessions.forget_moved(client)
        merged, lost = joined(rest, mine, carried=rest.carried or mine.carried)
        self._host.counts["abandoned"] += lost
        put_in(broker, client, merged, at=self._host.name, now_us=now_us)
        roots.epochs[client] = epoch
        if seen is not None:
            self._host.seen[client] = seen
        if away is not None:
            roots.standby[client] = away
        roots.changed(client)
