"""Which node has which session: this node tells the roots of its sessions, and is the root of others."""

from __future__ import annotations

import asyncio
import logging
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.core.cluster.handover import Attach, Attached, Keep, Kept, body_of, read_body
from penstock.core.cluster.sessions import Directory, Owners, Record
from penstock.errors import ClusterError, printable
from penstock.node.broker.records import session_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.core.cluster.view import Sighting
    from penstock.node.broker.background import Background
    from penstock.node.broker.broker import Broker

log = logging.getLogger(__name__)

TOLD_S: Final = 0.02
"""Changes of sessions are collected for this long before their roots are told."""

AGAIN_S: Final = 1.0
"""When roots are told again that have not answered."""

REMIND: Final = 1_000
"""Sessions that roots are told of once more at a time."""

TELL_LOSER: Final = 60
"""How often a holder that has lost its session is told so at most."""

COMING_US: Final = 5_000_000
"""A client that is on its way to a node for so long, while another node has its session, may never come."""

UNSURE_US: Final = 5_000_000
"""For this long after a change of the view a root that knows nothing of a client asks everybody."""


class RootsHost(Protocol):
    """The moves of this node, as its records of sessions see them."""

    async def ask(self, node: str, kind: str, body: bytes) -> bytes:
        """Ask a node, also this one; ClusterError if there is no answer in time."""
        ...

    async def ask_everybody(self, kind: str, body: bytes) -> dict[str, bytes]:
        """Ask all other nodes; the answers of those that have answered."""
        ...

    async def arrived(self, client: str) -> None:
        """Wait for a session that is on its way here."""
        ...

    def give_way(self, winner: Record) -> None:
        """Another node has a session of this node, by a later right."""
        ...

    def stand_in(self, record: Record, away: str) -> None:
        """The holder of a session is away: continue the session here for the time being."""
        ...


class Roots:
    """The records of this node, and what it tells others for theirs."""

    def __init__(self, broker: Broker, own: Sighting, host: RootsHost, background: Background) -> None:
        self._broker = broker
        self._own = own
        self._host = host
        self._background = background
        self.directory = Directory()
        self.owners = Owners([own.name])
        self._here: Mapping[str, int] = {own.name: own.incarnation}
        self._changed_us = 0
        self.epochs: dict[str, int] = {}
        """The epoch in which each client came that has its session here."""
        self.standby: dict[str, str] = {}
        """Clients whose sessions are continued here until these nodes come back."""
        self._news: dict[str, None] = {}
        """Clients whose sessions have changed since their roots were told."""
        self._ended: dict[str, int] = {}
        self._turn: Iterator[str] = iter(())
        """Clients whose roots are told once more next."""
        self._telling: asyncio.Task[None] | None = None
        self.closed = False
        """Whether this node leaves the cluster: nobody is told anything more."""

    # -- the view --------------------------------------------------------------------------------------------

    def view(self, here: Mapping[str, int]) -> None:
        """These nodes are there, with their incarnations, this one included: others may be the owners now,
        and are told everything."""
        if here == self._here:
            return
        gone = [name for name, incarnation in self._here.items() if here.get(name) != incarnation]
        self._here = here
        self._changed_us = self._broker.clock()
        self.owners = Owners(here)
        for name in sorted(gone):
            for record in self.directory.held_by(name):
                if record.coming:  # another node may still have it
                    self.directory.never_came(record)
                elif record.facts and self.owners.of(record.client)[0] == self._own.name:
                    self._host.stand_in(record, name)
                    mine = self.record_of(record.client)
                    if mine is not None:  # whoever asks before the owners are told hears of it
                        self.directory.keep(mine, here)
        self.directory.keep_only(self.owners, self._own.name)
        for session in self._broker.sessions:
            self._news[session.client_id] = None
        self._tell_soon()

    def root_of(self, client: str) -> str:
        """The root of a client."""
        return self.owners.of(client)[0]

    # -- telling the roots -----------------------------------------------------------------------------------

    def changed(self, client: str) -> None:
        """A session of this node has begun or changed."""
        if not self._news and not self._ended:
            self._tell_soon()
        self._news[client] = None

    def remind(self) -> None:
        """Tell the roots of kept sessions once more, some each time.

        A node that was frozen, or cut off from some nodes only, may have lost a session and not know it.
        """
        clients = list(islice(self._turn, REMIND))
        if not clients:
            self._turn = iter([each.client_id for each in self._broker.sessions if each.expiry_s])
            clients = list(islice(self._turn, REMIND))
        for client in clients:
            self.changed(client)

    def ended(self, client: str) -> None:
        """A session of this node has ended."""
        epoch = self.epochs.pop(client, 0)
        self.standby.pop(client, None)
        self._news.pop(client, None)
        self._ended[client] = epoch
        self._tell_soon()

    def left(self, client: str) -> None:
        """A session of this node is at another one now, which tells the roots."""
        self.epochs.pop(client, None)
        self.standby.pop(client, None)
        self._news.pop(client, None)

    def record_of(self, client: str) -> Record | None:
        """The record that this node sends to the root of a session it holds; None if it holds none."""
        session = self._broker.sessions.get(client)
        if session is None:
            return None
        facts = session_bytes(session.facts()) if session.expiry_s else b""
        own = self._own
        epoch = self.epochs.get(client, 0)
        return Record(client, epoch, own.name, own.incarnation, facts, self.standby.get(client, ""))

    def _tell_soon(self, after_s: float = TOLD_S) -> None:
        if not self.closed and (self._telling is None or self._telling.done()):
            self._telling = self._background.begin(self._tell(after_s), "roots are not told of sessions")

    async def _tell(self, after_s: float) -> None:
        while True:
            await asyncio.sleep(after_s)
            news, self._news = self._news, {}
            ended, self._ended = self._ended, {}
            if not news and not ended:
                return
            said: dict[str, Keep] = {}
            for client in news:
                record = self.record_of(client)
                for owner in self.owners.of(client) if record is not None else ():
                    said.setdefault(owner, Keep([], [])).records.append(record)  # type: ignore[arg-type]
            for client, epoch in ended.items():
                for owner in self.owners.of(client):
                    said.setdefault(owner, Keep([], [])).ended.append((client, epoch))
            after_s = TOLD_S
            for owner, keep in said.items():
                if not await self._tell_one(owner, keep):
                    after_s = AGAIN_S

    async def _tell_one(self, owner: str, keep: Keep) -> bool:
        """Tell an owner, in parts; False: what it was not told is told again."""
        records, ended, most = keep.records, keep.ended, limits.CLUSTER_KEEP
        while records or ended:
            body = body_of(Keep(records[:most], ended[:most]))
            try:
                kept = read_body(await self._host.ask(owner, "keep", body), Kept)
            except ClusterError as error:
                log.debug("cluster: node %s is not told of sessions: %s", printable(owner), error)
                if owner in self._here:
                    self._news.update(dict.fromkeys(each.client for each in records))
                    for client, epoch in ended:
                        self._ended.setdefault(client, epoch)
                return False
            for winner in kept.stale:
                if (winner.holder, winner.incarnation) == (self._own.name, self._own.incarnation):
                    self.epochs[winner.client] = winner.epoch  # this one, known from before a restart
                    self._news[winner.client] = None
                else:
                    self._host.give_way(winner)
            records, ended = records[most:], ended[most:]
        return True

    # -- as a root -------------------------------------------------------------------------------------------

    def keep(self, asker: Sighting, body: bytes) -> bytes:
        """A holder tells of its sessions; what a node has said before it went away counts no more."""
        if asker.name not in self._here:
            raise ClusterError("the node that tells is away")
        said = read_body(body, Keep)
        stale: list[Record] = []
        for record in said.records:
            self._doubt(record)
            lost = self.directory.keep(record, self._here)
            if lost is None:
                continue
            winner = self.directory.has(record.client)
            assert winner is not None
            if lost is record:
                stale.append(winner)
            elif self.root_of(record.client) == self._own.name:
                self._background.begin(self._tell_loser(lost.holder, winner), "a holder is not told")
        for client, epoch in said.ended:
            self.directory.drop(client, epoch, asker.name)
        return body_of(Kept(stale))

    def _doubt(self, record: Record) -> None:
        """A holder tells of a session: if its client is on its way to another node for long, ask that one.

        The client may have given up, or the question of that node may have come here too late.
        """
        coming = self.directory.get(record.client)
        if coming is None or not coming.coming or coming.holder == record.holder:
            return
        if self._broker.clock() - coming.epoch >= COMING_US:
            self._background.begin(self._see_arrived(coming), "a client stays on its way")

    async def _see_arrived(self, coming: Record) -> None:
        try:
            found = read_body(
                await self._host.ask(coming.holder, "arrived", body_of(coming.client)), list[Record]
            )
        except ClusterError:
            return  # it is asked again when the holder tells of the session again
        if not found:
            self.directory.never_came(coming)

    async def arrived(self, asker: Sighting, body: bytes) -> bytes:
        """A root asks whether a client that was on its way here has its session here."""
        await self._host.arrived(read_body(body, str))
        return self.whose(asker, body)

    async def _tell_loser(self, loser: str, winner: Record) -> None:
        """Tell a holder that another node has its session, until it hears, or it is not so any more.

        A node that was frozen does not know that it was away, and tells nobody of its sessions by itself.
        """
        for _ in range(TELL_LOSER):
            if self.closed or self.directory.has(winner.client) != winner:
                return
            try:
                await self._host.ask(loser, "yield", body_of(winner))
            except ClusterError as error:
                log.debug("cluster: node %s does not hear that a session is elsewhere: %s", loser, error)
                await asyncio.sleep(AGAIN_S)
            else:
                return

    def yielded(self, _: Sighting, body: bytes) -> bytes:
        """A root says that another node has a session of this one."""
        self._host.give_way(read_body(body, Record))
        return b""

    async def attach(self, asker: Sighting, body: bytes) -> bytes:
        """A client attaches to a node: say where its session was until now."""
        said = read_body(body, Attach)
        now_us = self._broker.clock()
        if self.directory.get(said.client) is None and now_us - self._changed_us < UNSURE_US:
            await self._find(said.client)
        placed = self.directory.place(said.client, asker.name, said.incarnation, now_us=self._broker.clock())
        return body_of(Attached(placed.epoch, placed.before, placed.also))

    async def _find(self, client: str) -> None:
        """Ask everybody for a session that no holder has told of yet: this node was not its root before."""
        mine = self.record_of(client)
        found = [] if mine is None else [mine]
        for answer in (await self._host.ask_everybody("whose", body_of(client))).values():
            found += read_body(answer, list[Record])
        for record in found:
            self.directory.keep(record, self._here)

    def whose(self, _: Sighting, body: bytes) -> bytes:
        """A root asks whether a client has its session here."""
        found = self.record_of(read_body(body, str))
        return body_of([] if found is None else [found])
