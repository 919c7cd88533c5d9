"""Sessions that leave this node because their clients have come to others.

A session that was given away is parked: its bytes are kept, and its rows on disk, and what comes for it is
collected, until the other node says that it has the session on its own disk.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from penstock import limits
from penstock.core.cluster.handover import About, Filters, Given, Take, body_of, read_body
from penstock.errors import ClusterError, printable
from penstock.node.broker.moving import moved_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.core.cluster.seen import Gaps, Marks
    from penstock.core.cluster.view import Sighting
    from penstock.node.broker.background import Background
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.moving import MovedSession
    from penstock.node.cluster.claims import Claims
    from penstock.node.cluster.collecting import Collection
    from penstock.node.cluster.roots import Roots
    from penstock.node.cluster.trails import Trails


class DeparturesHost(Protocol):
    """The moves of this node, as sessions that leave see them."""

    roots: Roots
    trails: Trails
    counts: dict[str, int]

    async def arrived(self, client: str) -> None:
        """Wait for a session that is on its way here."""
        ...

    async def ask(self, node: str, kind: str, body: bytes) -> bytes:
        """Ask a node, also this one; ClusterError if there is no answer in time."""
        ...

    def marks(self) -> Marks:
        """The last event of each origin that this node has seen."""
        ...

    def seen_by(self, client: str) -> tuple[Marks, Gaps]:
        """How far the session of a client has seen each origin, and what it may have missed."""
        ...

    def collect(self, filters: Iterable[str]) -> Collection:
        """Be interested in filters, and collect what comes for a session that is not here."""
        ...

    def resume(self, client: str, parked: Parked) -> None:
        """Continue a session that another node was about to take."""
        ...


log = logging.getLogger(__name__)


@dataclass(slots=True)
class Parked:
    """A session that another node takes."""

    epoch: int
    to: str
    data: bytes
    marks: Marks
    gaps: Gaps
    partial: bool
    filters: list[str]
    waiting: int
    """Events in it."""
    collected: Collection
    """Events that have come since."""


UNTAKEN_S: Final = 5.0
"""When a node that has asked for a session and has not said that it has it is asked whether it wants it."""

SAID_S: Final = 1.0
"""How long it takes at most until a node that has a session has said so."""


class Departures:
    """Answers the nodes that take sessions from this one."""

    def __init__(self, broker: Broker, host: DeparturesHost, claims: Claims, background: Background) -> None:
        self._broker = broker
        self._background = background
        self._host = host
        self._claims = claims
        self._parked: dict[str, Parked] = {}
        self.leaving = ""
        """The client whose session leaves at the moment."""

    async def read(self, asker: Sighting, body: bytes) -> bytes:
        """Another node wants to know what a session is interested in, before it takes it."""
        about = read_body(body, About)
        await self._settled(about)
        session = self._broker.sessions.get(about.client)
        parked = self._parked.get(about.client)
        if session is None and parked is not None:
            return body_of(await self._where(parked, asker, body))
        if session is None or not session.expiry_s:
            await self._end_here(about.client)
            return body_of(Filters(found=False))
        return body_of(Filters(True, list(session.held)))

    async def _where(self, parked: Parked, asker: Sighting, body: bytes) -> Filters:
        """Where a session is that another node has asked for: it has it, and has not said so, or has not."""
        if parked.to != asker.name:
            try:
                found = read_body(await self._host.ask(parked.to, "read", body), Filters)
            except ClusterError:
                found = Filters(found=False)
            if found.found:
                return Filters(True, found.filters, found.at or parked.to)
        return Filters(True, parked.filters)

    async def end(self, _: Sighting, body: bytes) -> bytes:
        """The client begins anew at another node."""
        about = read_body(body, About)
        await self._settled(about)
        await self._end_here(about.client)
        return b""

    async def _settled(self, about: About) -> None:
        """Wait for a session that is on its way here; ClusterError if it came later than the one who asks."""
        epochs = self._host.roots.epochs
        if epochs.get(about.client, 0) <= about.epoch:
            await self._host.arrived(about.client)
        if epochs.get(about.client, 0) > about.epoch:
            raise ClusterError("the client has come here since")

    async def _end_here(self, client: str) -> None:
        """End a session, and close the connection of its client."""
        sessions, journal = self._broker.sessions, self._broker.journal
        self._give_up(client)
        if sessions.get(client) is None:
            return
        self._broker.now_us = self._broker.clock()
        sessions.part_with(client, ended=True)
        if journal is not None:
            await journal.committed()

    def take(self, asker: Sighting, body: bytes) -> bytes:
        """Another node takes a session, in parts."""
        said = read_body(body, Take)
        client = said.client
        parked = self._parked.get(client)
        if parked is not None and parked.epoch > said.epoch:
            raise ClusterError("another node has it by a later right")
        if parked is None or parked.epoch < said.epoch:
            if self._host.roots.epochs.get(client, 0) > said.epoch:
                raise ClusterError("the client has come here since")
            session = self._broker.sessions.get(client)
            if parked is not None and session is None:
                self._host.resume(client, parked)  # another node did not take it
            elif session is not None and said.filters is not None and set(session.held) - set(said.filters):
                return body_of(Given(0, changed=True))
            partial = client in self._claims.partial or client in self._host.roots.standby
            seen = self._host.seen_by(client)
            moved = self.part_with(client, upto=self._claims.restored_upto(client))
            if moved is not None:
                parked = self._park(client, said.epoch, asker.name, moved, seen, partial=partial)
                if said.fenced is not None:
                    self._host.trails.begin(client, parked.filters, fenced=said.fenced)
            else:
                return body_of(Given(0))
        at = said.position
        part = parked.data[at : at + limits.CLUSTER_PART_BYTES]
        if at:
            return body_of(Given(len(parked.data), part))
        return body_of(Given(len(parked.data), part, parked.marks, parked.partial, parked.gaps))

    def _park(
        self,
        client: str,
        epoch: int,
        to: str,
        moved: MovedSession,
        seen: tuple[Marks, Gaps],
        *,
        partial: bool,
    ) -> Parked:
        self._give_up(client)
        filters = [each.options.filter for each in moved.facts.subscriptions]
        collected = self._host.collect(filters)
        parked = Parked(epoch, to, moved_bytes(moved), *seen, partial, filters, moved.waiting, collected)
        self._parked[client] = parked
        self._background.begin(self._see_taken(client, parked), "a session stays parked")
        return parked

    async def _see_taken(self, client: str, parked: Parked) -> None:
        """Have a session taken after all that a node asked for and then went on without."""
        while True:
            await asyncio.sleep(UNTAKEN_S)
            if self._parked.get(client) is not parked:
                return
            if self._broker.sessions.get(client) is not None:  # the client has begun anew here
                self._give_up(client)
                return
            try:
                wanted = await self._host.ask(parked.to, "offer", body_of(About(client, parked.epoch)))
            except ClusterError:
                continue
            if not wanted:
                await asyncio.sleep(SAID_S)
                if self._parked.get(client) is parked:
                    self._give_up(client)
                return

    def _give_up(self, client: str) -> None:
        """Nobody takes what is parked of a client."""
        parked = self._parked.get(client)
        self.forget(client)
        if parked is not None and parked.waiting:
            self._host.counts["abandoned"] += parked.waiting
            log.warning(
                "cluster: %d events for %s are abandoned: node %s has not taken them",
                parked.waiting,
                printable(client),
                printable(parked.to),
            )

    def parked(self, client: str) -> Parked | None:
        """What is parked of a client."""
        return self._parked.get(client)

    def part_with(self, client: str, *, upto: int | None = None) -> MovedSession | None:
        """Take a session out of the broker without telling its roots: another node does."""
        self._broker.now_us = self._broker.clock()
        self.leaving = client
        try:
            return self._broker.sessions.part_with(client, ended=False, upto=upto)
        finally:
            self.leaving = ""

    def took(self, _: Sighting, body: bytes) -> bytes:
        """Another node has a session on its disk: forget it here."""
        about = read_body(body, About)
        parked = self._parked.get(about.client)
        if parked is not None and parked.epoch <= about.epoch:
            self.forget(about.client)
            self._host.counts["went"] += 1
        return b""

    def forget(self, client: str) -> None:
        """Nobody needs what is parked of a client: it is elsewhere, or begins here anew."""
        parked = self._parked.pop(client, None)
        if parked is not None:
            parked.collected.release(now_us=self._broker.clock())
            self._broker.sessions.forget_moved(client)

    def towards(self, name: str) -> list[tuple[str, Parked]]:
        """The sessions that a node was about to take, by client."""
        return [
            (client, parked)
            for client, parked in self._parked.items()
            if parked.to == name and self._broker.sessions.get(client) is None
        ]
