"""Sessions that come to this node with their clients, and sessions that leave it.

A client that connects here is fetched from where it was (`core/cluster/handover.py` says how). Other nodes
fetch theirs from here. A session that was given away is parked until the other node has it on disk.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from penstock.core.cluster.handover import (
    Fence,
    Fenced,
    Given,
    Outcome,
    arrive,
    body_of,
    read_body,
)
from penstock.core.cluster.seen import Gaps, Marks, Seen
from penstock.errors import ClusterError, StoreError, printable
from penstock.node.broker.extensions import SessionListener
from penstock.node.broker.moving import MovedSession, joined, moved_from
from penstock.node.broker.records import session_facts
from penstock.node.broker.restoring import put_in
from penstock.node.cluster.claims import Claims
from penstock.node.cluster.collecting import Collection
from penstock.node.cluster.departures import Departures
from penstock.node.cluster.roots import Roots
from penstock.node.cluster.status import SessionFigures
from penstock.node.cluster.trails import Trails, outlast

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Coroutine, Iterable, Mapping

    from penstock.core.cluster.sessions import Record
    from penstock.core.cluster.view import Sighting
    from penstock.model.event import Event
    from penstock.node.broker.background import Background
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.extensions import SessionIdentity
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.cluster.asking import Questions
    from penstock.node.cluster.departures import Parked
    from penstock.node.cluster.incoming import Incoming
    from penstock.node.cluster.peer import ClusterPeer

log = logging.getLogger(__name__)

TOOK_S: Final = 1.0
"""When a holder is told again that its session is on disk here."""


class MovesHost(Protocol):
    """The cluster as its moves see it."""

    own: Sighting
    questions: Questions

    def peer(self, name: str) -> ClusterPeer | None:
        """Another node of the view."""
        ...

    def peers(self) -> Iterable[ClusterPeer]:
        """All other nodes of the view."""
        ...

    def number_here(self, event: Event) -> int:
        """The number of an event that is published at this node now."""
        ...

    @property
    def number(self) -> int:
        """The number of the last event of this node."""
        ...


class Moves(SessionListener):
    """Fetches the sessions of clients that connect here, and gives sessions away to other nodes."""

    def __init__(
        self, broker: Broker, host: MovesHost, incoming: Incoming, background: Background, *, wait_us: int
    ) -> None:
        """`wait_us` is how long one question may take."""
        self._broker = broker
        self._host = host
        self._incoming = incoming
        self._background = background
        self.wait_us = wait_us
        self.name = host.own.name
        self.incarnation = host.own.incarnation
        self.roots = Roots(broker, host.own, self, background)
        self._coming: dict[str, Collection] = {}
        self._arrivals: dict[str, asyncio.Task[None]] = {}
        self.seen: dict[str, Seen] = {}
        """Clients whose sessions have come from other nodes, and what they have seen."""
        self.counts = dict.fromkeys(("came", "went", "recalled", "alone", "abandoned"), 0)
        self.trails = Trails(self, incoming, background)
        self.claims = Claims(broker, self, background)
        self.departures = Departures(broker, self, self.claims, background)
        self._handlers: dict[str, Callable[[Sighting, bytes], bytes | Coroutine[None, None, bytes]]] = {
            "attach": self.roots.attach,
            "keep": self.roots.keep,
            "yield": self.roots.yielded,
            "whose": self.roots.whose,
            "arrived": self.roots.arrived,
            "read": self.departures.read,
            "end": self.departures.end,
            "take": self.departures.take,
            "took": self.departures.took,
            "fence": self._fence,
            "offer": self.claims.offered,
        }

    def start(self) -> None:
        """Answer other nodes, and fetch sessions from them."""
        for kind, handler in self._handlers.items():
            self._host.questions.handlers[kind] = partial(_asked, handler)
        self._broker.sessions.elsewhere = self
        self._broker.listeners.append(self)
        self.claims.start()
        self.view_changed()
        for session in self._broker.sessions:
            self.roots.changed(session.client_id)

    def close(self) -> None:
        """This node leaves the cluster: it goes on with the sessions it has."""
        self.roots.closed = True
        self._broker.sessions.elsewhere = None

    def view_changed(self) -> None:
        """Other nodes have come, gone or come back."""
        here = {peer.seen.name: peer.seen.incarnation for peer in self._host.peers() if peer.link.connected}
        self.roots.view({self.name: self.incarnation, **here})

    def vanished(self, name: str) -> None:
        """A node is away: continue the sessions that it was about to take, unless they come here anyway."""
        for client, parked in self.departures.towards(name):
            if not self.is_coming(client):
                self._put_back(client, parked)

    def _put_back(self, client: str, parked: Parked) -> None:
        self.resume(client, parked)
        self.claims.put_back(client, parked.to, parked.epoch)

    def resume(self, client: str, parked: Parked) -> None:
        """Continue a session that another node was about to take, as if it had never left."""
        self._broker.now_us = self._broker.clock()
        since = parked.collected.since
        self._continue(client, parked.data, parked.collected, parked.marks, parked.gaps, fenced=since)
        if parked.partial:
            self.claims.partial.add(client)

    def collect(self, filters: Iterable[str], *, groups: bool = False) -> Collection:
        """Be interested in filters, and collect what comes for a session that is not here."""
        return Collection(self._broker.router, self._host, filters, since=self.marks(), groups=groups)

    def marks(self) -> Marks:
        """The last event of each origin that this node has seen."""
        own = self._host.own
        marks: Marks = {peer.seen.name: (peer.seen.incarnation, peer.newest) for peer in self._host.peers()}
        marks[own.name] = (own.incarnation, self._host.number)
        return marks

    def seen_by(self, client: str) -> tuple[Marks, Gaps]:
        """How far the session of a client has seen each origin, and what it may have missed."""
        seen = self.seen.get(client)
        return (self.marks(), {}) if seen is None else seen.at_leaving(self.marks())

    def is_member(self, node: str, incarnation: int) -> bool:
        """Whether a node is there, or may come back."""
        peer = self._host.peer(node)
        return peer is not None and peer.seen.incarnation == incarnation

    def figures(self) -> SessionFigures:
        """Sessions that have come and gone."""
        held = len(self._broker.sessions)
        counts = {**self.counts, "abandoned": self.counts["abandoned"] + self._incoming.missed}
        return SessionFigures(held, len(self.roots.directory), len(self.roots.standby), **counts)

    # -- sessions of this node -------------------------------------------------------------------------------

    def knows_here(self, client_id: str) -> bool:
        """Whether a client has its session at this node, so that nobody else has to be asked."""
        if not client_id:
            return True  # it gets a new identifier
        return client_id not in self._arrivals and self._broker.sessions.get(client_id) is not None

    def attached(self, session: SessionIdentity) -> None:
        """A client is connected to its session here."""
        client = session.client_id
        self.roots.epochs.setdefault(client, self._broker.clock())
        self.claims.attached(client)
        self.roots.changed(client)

    def subscribed(self, subscription: Subscription, asked: Mapping[str, str], *, again: bool) -> None:  # noqa: ARG002
        """A subscription was made: the roots know it soon."""
        self.roots.changed(subscription.client_id)

    def unsubscribed(self, session: SessionIdentity, filter_: str) -> None:  # noqa: ARG002
        """A subscription has ended."""
        self.roots.changed(session.client_id)

    def ended(self, session: SessionIdentity) -> None:
        """A session has ended, or leaves for another node."""
        self.claims.forget(session.client_id)
        self.seen.pop(session.client_id, None)
        if session.client_id == self.departures.leaving:
            self.roots.left(session.client_id)
        else:
            self.roots.ended(session.client_id)

    # -- a client comes --------------------------------------------------------------------------------------

    async def fetch(self, client_id: str, *, clean: bool) -> None:
        """Have the session of a client come from another node, or end there if the client begins anew.

        A connection that is lost meanwhile does not stop it: half a session would be nowhere.
        """
        await self.arrived(client_id)
        if self._broker.sessions.get(client_id) is not None:
            return
        await asyncio.shield(self.follow(client_id, self._arrive(client_id, clean=clean)))

    def follow(self, client: str, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Have a session come, or a part of it; whoever wants it from here waits for that."""
        task = self._background.begin(work, "a session did not come")
        self._arrivals[client] = task

        def came(_: object) -> None:
            if self._arrivals.get(client) is task:
                del self._arrivals[client]

        task.add_done_callback(came)
        return task

    async def _arrive(self, client: str, *, clean: bool) -> None:
        outcome = await arrive(self, client, clean=clean)
        match outcome:
            case Outcome.MOVED:
                self.counts["came"] += 1
                log.info("cluster: the session of %s has come here", printable(client))
            case Outcome.RECALLED:
                self.counts["recalled"] += 1
                log.warning(
                    "cluster: the session of %s goes on without what waited: its node does not answer",
                    printable(client),
                )
            case Outcome.ALONE:
                self.counts["alone"] += 1
            case _:
                pass
        parked = self.departures.parked(client)
        if parked is not None and self._broker.sessions.get(client) is None:
            peer = self._host.peer(parked.to)
            if peer is None or not peer.link.connected:  # it has vanished meanwhile
                self._put_back(client, parked)

    def owners_of(self, client: str) -> tuple[str, ...]:
        """The root of a client and the next owner: nodes in view now, or this one."""
        return self.roots.owners.of(client)

    async def ask(self, node: str, kind: str, body: bytes) -> bytes:
        """Ask a node, also this one; ClusterError if there is no answer in time."""
        if node == self.name:
            found = self._handlers[kind](self._host.own, body)
            return found if isinstance(found, bytes) else await found
        peer = self._host.peer(node)
        if peer is None:
            raise ClusterError(f"node {printable(node)} is not there")
        return await self._host.questions.ask(peer, kind, body, wait_us=self.wait_us)

    async def ask_everybody(self, kind: str, body: bytes) -> dict[str, bytes]:
        """Ask all other nodes; the answers of those that have answered."""
        names = [peer.seen.name for peer in self._host.peers() if peer.link.connected]
        answers = await asyncio.gather(
            *(self.ask(name, kind, body) for name in names), return_exceptions=True
        )
        found = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, bytes):
                found[name] = answer
            elif not isinstance(answer, ClusterError):
                raise answer
        return found

    async def fences(self, node: str) -> list[str]:
        """Ask everybody for a fence, this node included; those whose events that node has."""
        body = body_of(Fence(node))
        own, others = await asyncio.gather(
            self.ask(self.name, "fence", body), self.ask_everybody("fence", body)
        )
        answers = {self.name: own, **others}
        return [name for name, answer in answers.items() if read_body(answer, Fenced).handed]

    def placed(self, client: str, epoch: int) -> None:
        """Note the epoch of a client that comes."""
        self.roots.epochs[client] = epoch

    def hold(self, client: str, filters: list[str]) -> None:
        """Become interested, and hold what comes; what was held before is forgotten."""
        before = self._coming.get(client)
        self._coming[client] = self.collect(filters, groups=True)
        if before is not None:
            self._abandon(client, before.release(now_us=self._broker.clock()))

    def let_go(self, client: str) -> None:
        """Hold nothing more for a client: its session does not come, and what is held is abandoned.

        The holder may have seen some of it, so that to deliver it here could be to deliver it twice.
        """
        coming = self._coming.pop(client, None)
        if coming is not None:
            lost = coming.release(now_us=self._broker.clock())
            self._abandon(client, len(coming.held) + coming.held.dropped + lost)

    def _abandon(self, client: str, events: int) -> None:
        if events:
            self.counts["abandoned"] += events
            log.warning("cluster: %d events for %s are abandoned on its way here", events, printable(client))

    async def take_in(self, client: str, data: bytes, given: Given, *, fenced: list[str]) -> None:
        """Continue a session here; done when it is on disk."""
        self._broker.now_us = self._broker.clock()
        coming, partial = self._coming[client], given.partial
        self._continue(client, data, coming, given.marks, given.gaps, fenced=fenced, partial=partial)
        if partial:
            self.claims.partial.add(client)
        del self._coming[client]
        if self._broker.journal is not None:
            await self._broker.journal.committed()

    def _continue(
        self,
        client: str,
        data: bytes,
        collected: Collection,
        marks: Marks,
        gaps: Gaps,
        *,
        fenced: Container[str],
        partial: bool = False,
    ) -> None:
        """Put a session into the broker, and what was collected behind what waits in it."""
        session = self._put_in(client, data, collected, partial=partial)
        seen = Seen(marks, gaps, since=collected.since, fenced=fenced)
        self._incoming.sieves[client] = seen
        self._came(client, seen)
        for each in collected.held.above(marks):
            self._broker.router.deliver_to(session, each.event, origin=None, now_us=self._broker.now_us)
        lost = collected.release(now_us=self._broker.now_us)
        self._abandon(client, collected.held.dropped + collected.held.missed(marks, gaps) + lost)

    def _put_in(self, client: str, data: bytes, collected: Collection, *, partial: bool) -> Session:
        """Continue a session here; if it is partial, with what was taken from here and never came there."""
        try:
            moved = moved_from(data)
            parked = self.departures.parked(client)
            self.departures.forget(client)
            if partial and parked is not None:
                before = moved_from(parked.data)
                moved, lost = joined(before, moved, carried=moved.carried or before.carried)
                self._abandon(client, lost)
                collected.held.follow(parked.collected.held)
            return put_in(self._broker, client, moved, at=self.name, now_us=self._broker.now_us)
        except StoreError as error:
            raise ClusterError(str(error)) from None

    def _came(self, client: str, seen: Seen) -> None:
        self.seen[client] = seen
        self._background.begin(self._lift_sieve(client, seen), "a session is sieved for ever")

    async def _lift_sieve(self, client: str, seen: Seen) -> None:
        """Let everything through when each node has sent what it published before the session came.

        A node that is away has that still waiting if this one was interested before it was cut off.
        """
        late = {name: mark for name, mark in seen.marks.items() if name != self.name}
        try:
            await outlast(self, late, lambda: self.seen.get(client) is seen, seen.whole)
        finally:
            if self._incoming.sieves.get(client) is seen:
                del self._incoming.sieves[client]
            if self.seen.get(client) is seen and not seen.trim(self.marks()):
                del self.seen[client]

    def taken(self, client: str, holder: str, about: bytes) -> None:
        """Say to the holder that a session is on disk here."""
        self._background.begin(self._say_took(client, holder, about), "a holder keeps a session parked")

    async def _say_took(self, client: str, holder: str, about: bytes) -> None:
        while self._host.peer(holder) is not None:
            try:
                await self.ask(holder, "took", about)
            except ClusterError as error:
                log.debug("cluster: %s of %s is not settled: %s", holder, printable(client), error)
                await asyncio.sleep(TOOK_S)
            else:
                return

    def recall(self, record: Record) -> bool:
        """Continue a session of which only the root's record is known, because its holder is silent; False:
        it is here by now, since the holder was about to take it from this node."""
        if self._broker.sessions.get(record.client) is not None:
            return False
        parked = self.departures.parked(record.client)
        if parked is not None:
            self.resume(record.client, parked)
            self.claims.partial.add(record.client)
            return False
        self._broker.now_us = self._broker.clock()
        try:
            moved = MovedSession(session_facts(record.facts))
            put_in(self._broker, record.client, moved, at=self.name, now_us=self._broker.now_us)
        except StoreError as error:
            raise ClusterError(str(error)) from None
        self.claims.partial.add(record.client)
        since = self.marks()
        nothing: Marks = {name: (incarnation, 0) for name, (incarnation, _) in since.items()}
        self._came(record.client, Seen(nothing, {}, since=since, fenced=()))
        return True

    async def arrived(self, client: str) -> None:
        """Wait for a session that is on its way here."""
        # One that is done is removed in this turn of the loop: to await it would not let the turn end.
        while (coming := self._arrivals.get(client)) is not None and not coming.done():
            await asyncio.shield(coming)

    async def _fence(self, _: Sighting, body: bytes) -> bytes:
        """Answer when a node has what was sent to it so far."""
        node, number = read_body(body, Fence).node, self._host.number
        peer = self._host.peer(node)
        if peer is None or not peer.link.connected:
            return body_of(Fenced(node == self.name, number))
        link = peer.link
        upto, shared = link.backlog.serial, link.shared.serial
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        peer.when_handed(lambda: None if done.done() else done.set_result(None))
        await done
        return body_of(Fenced(link.settled >= upto and link.shared.settled >= shared, number))

    # -- for the roots and the claims of this node -----------------------------------------------------------

    def give_way(self, winner: Record) -> None:
        """Another node has a session of this node, by a later right."""
        self.claims.give_way(winner)

    def stand_in(self, record: Record, away: str) -> None:
        """The holder of a session is away: what is published for it waits here meanwhile."""
        self.claims.stand_in(record, away)

    def part_with(self, client: str, *, upto: int | None = None) -> MovedSession | None:
        """Take a session out of the broker without telling its roots: another node does."""
        return self.departures.part_with(client, upto=upto)

    def is_coming(self, client: str) -> bool:
        """Whether a session is on its way here."""
        return client in self._arrivals


def _asked(
    handler: Callable[[Sighting, bytes], bytes | Coroutine[None, None, bytes]], peer: ClusterPeer, body: bytes
) -> bytes | Coroutine[None, None, bytes]:
    return handler(peer.seen, body)
