"""All sessions by client identifier: how sessions begin, are taken over, wait and end."""

from __future__ import annotations

import asyncio
import logging
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock import limits
from penstock.errors import MqttError, printable
from penstock.mqtt.codes import Reason
from penstock.mqtt.sessions.session import Due
from penstock.node.access.gate import Admitted, NotAdmitted
from penstock.node.broker.connection import ConnectionHost
from penstock.node.broker.deadlines import Deadlines
from penstock.node.broker.moving import take_out
from penstock.node.broker.session import Session
from penstock.node.broker.status import Account

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.mqtt.sessions.session import Happening
    from penstock.node.broker.connection import Connection
    from penstock.node.broker.extensions import Elsewhere
    from penstock.node.broker.link import Link
    from penstock.node.broker.moving import MovedSession
    from penstock.node.broker.publishing import Publisher

log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Forgetting:
    """An ended session that is to be removed from disk."""

    gone: asyncio.Future[None]
    """Done when the disk has it no more."""
    connections: int = 0
    """Connections of its client that wait for that."""


HORIZON_US = 300_000_000
"""A session that is attached again is looked at once more by then."""


class SessionsHost(ConnectionHost, Protocol):
    """The broker as its sessions see it."""

    new_publisher: Callable[[Connection, Session, Connect], Publisher]
    """Makes what reads the messages of a connection."""
    turn_away: Callable[[Connection], MqttError | None] | None
    """Asked for each client that may come in: why it may not at the moment, or None."""


class Sessions:
    """All sessions of the node, attached and detached."""

    def __init__(self, broker: SessionsHost) -> None:
        self._broker = broker
        self._by_id: dict[str, Session] = {}
        self._waiting: Deadlines[Session] = Deadlines(horizon_us=HORIZON_US)
        self._forgetting: dict[str, _Forgetting] = {}
        """Clients whose earlier session is still on disk."""
        self._tell = broker.told.tell
        """One for all sessions: each time it is asked for, Python makes another object."""
        self.elsewhere: Elsewhere | None = None
        """Knows sessions at other nodes; None: there are none."""
        self.departed = Account()
        """Account of sessions and subscriptions that are gone."""
        self.sent_before = 0
        """Messages sent to sessions that are gone."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._by_id.values())

    def get(self, client_id: str) -> Session | None:
        """Return a client's session, or None."""
        return self._by_id.get(client_id)

    def restore(self, session: Session, *, now_us: Instant) -> None:
        """Add a session from before a restart, detached."""
        self._by_id[session.client_id] = session
        self._waiting.watch(session, now_us=now_us)

    # -- a connection comes ----------------------------------------------------------------------------------

    def admit_at_once(self, connection: Connection, connect: Connect) -> bool:
        """Let a client in, or raise MqttError with the reason; False: call `admit`, which takes a while."""
        if self.elsewhere is not None and not self.elsewhere.knows_here(connect.client_id):
            return False
        verdict = self._broker.gate.admit_at_once(
            user=connect.username, address=connection.address, certificate=_certificate(connection)
        )
        if verdict is None:
            return False
        if isinstance(verdict, Admitted) and self._waits(connect.client_id, connect, verdict.user):
            return False
        client_id, assigned, user = self._checked(connection, connect, verdict)
        self._attach(connection, connect, client_id, assigned, user)
        return True

    async def admit(self, connection: Connection, connect: Connect) -> None:
        """Let a client in, or raise MqttError with the reason why not."""
        verdict = await self._broker.gate.admit(
            client_id=connect.client_id,
            user=connect.username,
            password=connect.password,
            address=connection.address,
            listener=connection.listener,
            certificate=_certificate(connection),
        )
        client_id, assigned, user = self._checked(connection, connect, verdict)
        if self.elsewhere is not None and not assigned:
            await self.elsewhere.fetch(client_id, clean=connect.clean_start)
        await self._forget(client_id, connect, user)
        if connection.transport is not None:
            self._attach(connection, connect, client_id, assigned, user)

    def _checked(
        self, connection: Connection, connect: Connect, verdict: Admitted | NotAdmitted
    ) -> tuple[str, str, str]:
        """Return the client's identifier, the same if it is assigned, and its user; MqttError if refused."""
        broker = self._broker
        if isinstance(verdict, NotAdmitted):
            raise MqttError(verdict.why, where="CONNECT", reason=verdict.reason)
        if broker.turn_away is not None and (sent := broker.turn_away(connection)) is not None:
            raise sent
        assigned = "" if connect.client_id else self._new_id(connection.rules.maximum_packet_bytes)
        client_id = connect.client_id or assigned
        will = connect.will
        if will is not None and (
            broker.is_own(will.topic) or not broker.gate.may_publish(verdict.user, client_id, will.topic)
        ):
            raise MqttError(
                f"a will on '{will.topic}' is not allowed; see `acl` of the node",
                where="CONNECT will topic",
                reason=Reason.NOT_AUTHORIZED,
            )
        try:
            connection.rules.check_room(assigned_client_id=assigned)
        except MqttError as error:
            log.warning("%s", printable(f"client '{client_id}' from {connection.address}: {error}"))
            raise
        return client_id, assigned, verdict.user

    def _is_left(self, client_id: str, connect: Connect, user: str) -> bool:
        """Whether a client does not continue its session, which is on disk."""
        before = self._by_id.get(client_id)
        return before is not None and before.written and (connect.clean_start or before.user != user)

    def _waits(self, client_id: str, connect: Connect, user: str) -> bool:
        """Whether a client has to wait until the disk has no earlier session of it."""
        if self._broker.journal is None:
            return False
        return client_id in self._forgetting or self._is_left(client_id, connect, user)

    async def _forget(self, client_id: str, connect: Connect, user: str) -> None:
        """End the session that a client does not continue, and have it removed from disk.

        Else a crash could bring it back, with messages in flight that the client knows nothing of any more.
        MqttError if the disk takes longer than a client may take for its CONNECT.
        """
        journal = self._broker.journal
        if journal is None or not self._waits(client_id, connect, user):
            return
        if self._is_left(client_id, connect, user):
            self._take_over(client_id, connect, user)
        # A later connection of the client waits, too, and so comes behind this one.
        forgetting = self._forgetting.get(client_id)
        if forgetting is None:
            forgetting = self._forgetting[client_id] = _Forgetting(asyncio.ensure_future(journal.committed()))
            forgetting.gone.add_done_callback(lambda _: self._forgot(client_id))
        wait_s = self._broker.config.bounds.connect_s
        forgetting.connections += 1
        try:
            await asyncio.wait_for(asyncio.shield(forgetting.gone), wait_s)
        except TimeoutError:
            raise MqttError(
                f"the session before this one is not gone from the disk after {wait_s:g} s; try again later",
                where="CONNECT",
                reason=Reason.SERVER_UNAVAILABLE,
            ) from None
        finally:
            forgetting.connections -= 1
            self._forgot(client_id)

    def _forgot(self, client_id: str) -> None:
        """The disk has no earlier session of a client, or a connection waits no longer for that."""
        forgetting = self._forgetting.get(client_id)
        if forgetting is not None and forgetting.gone.done() and not forgetting.connections:
            del self._forgetting[client_id]

    def _new_id(self, most_bytes: int) -> str:
        """Return an identifier for a client without one; a short one if it takes small packets only."""
        while True:
            short = most_bytes < limits.MQTT_SMALL_PACKET_BYTES
            made = f"p{secrets.token_urlsafe(8)}" if short else f"penstock-{secrets.token_hex(8)}"
            if made not in self._by_id:
                return made

    def _attach(
        self, connection: Connection, connect: Connect, client_id: str, assigned: str, user: str
    ) -> None:
        broker = self._broker
        now_us = broker.now_us = broker.clock()
        session = self._take_over(client_id, connect, user)
        present = session is not None
        if session is None:
            if len(self._by_id) >= broker.config.bounds.sessions:
                raise MqttError(
                    f"the node holds {len(self._by_id)} sessions already; see its `bounds.sessions`",
                    where="CONNECT",
                    reason=Reason.QUOTA_EXCEEDED,
                )
            session = Session(
                client_id,
                user=user,
                now_us=now_us,
                retained=broker.retained,
                journal=broker.journal,
                tell=self._tell,
            )
            session.subscriptions.most = broker.config.bounds.subscriptions_per_client
            self._by_id[client_id] = session
        other_version = session.version != connect.version
        again = session.attach_to(
            connection,
            connection.rules,
            connect,
            most_expiry_s=broker.config.bounds.session_expiry_s,
            now_us=now_us,
        )
        broker.router.attached_changed(session)
        connection.session = session
        connection.publisher = broker.new_publisher(connection, session, connect)
        if other_version or session.held:
            broker.router.forget()  # fans know versions and aliases
        session.save()
        connack = connection.rules.accept(session_present=present, assigned_client_id=assigned, now_us=now_us)
        connection.output.write(connack)
        for pubrel in again:
            connection.send(pubrel)
        session.drain(now_us=now_us)
        broker.watch(connection)
        if self.elsewhere is not None:
            self.elsewhere.attached(session)
        broker.client_log.connected(
            client_id, address=connection.address, version=connect.version, user=user, present=present
        )

    def _take_over(self, client_id: str, connect: Connect, user: str) -> Session | None:
        """The session that the client continues, or None; another connection of it is closed."""
        session = self._by_id.get(client_id)
        if session is None:
            return None
        link = session.link
        if link is not None:
            self._cut_off(session, link, void_will=not connect.clean_start)
            session = self._by_id.get(client_id)
            if session is None:
                return None
        if connect.clean_start or session.user != user:
            self._happened(session, session.end())
            return None
        return session

    def _cut_off(self, session: Session, link: Link, *, void_will: bool) -> None:
        """Close the connection of a session, because another one takes over its client identifier.

        If that one carries the session on, a will that may wait is void.
        """
        error = MqttError(
            "another connection has taken over this client id",
            where="CONNECT",
            reason=Reason.SESSION_TAKEN_OVER,
        )
        link.why = str(error)
        self.lost(session, link, taken_over=void_will)
        link.end(error)

    # -- a session goes to another node ----------------------------------------------------------------------

    def part_with(self, client_id: str, *, ended: bool, upto: int | None = None) -> MovedSession | None:
        """Close a client's connection, because another node has one of it; returns its session.

        None: there is none, or it ends (`ended`, or it does not outlive its connection). What it has on disk
        stays there until `forget_moved`. `upto` leaves out, and abandons, what came later than that place of
        the journal.
        """
        session = self._by_id.get(client_id)
        if session is None:
            return None
        link = session.link
        if link is not None:
            self._cut_off(session, link, void_will=not ended)
            session = self._by_id.get(client_id)
            if session is None:
                return None
        if ended:
            self._happened(session, session.end())
            return None
        moved = take_out(session, self._broker.journal, upto=upto)
        carried = dict(session.carried) | {
            name: data for each in self._broker.listeners for name, data in each.carried(session).items()
        }
        self._remove(session, departed=False)
        return msgspec.structs.replace(moved, carried=carried) if carried else moved

    def forget_moved(self, client_id: str) -> None:
        """Remove a session from disk that another node has on its own."""
        if self._broker.journal is not None:
            self._broker.journal.session_ended(client_id)

    # -- a connection goes -----------------------------------------------------------------------------------

    def lost(self, session: Session, link: Link, *, taken_over: bool = False) -> None:
        """A session's connection is gone."""
        if session.link is not link:
            return
        self._broker.client_log.disconnected(session.client_id, address=link.address, why=link.why)
        now_us = self._broker.clock()
        session.lose_link(now_us=now_us)
        will = session.will
        if taken_over and will is not None and (will.properties.will_delay_s or 0) > 0:
            session.will = None
        happened = session.detach(now_us=now_us)
        self._broker.router.attached_changed(session)
        self._happened(session, happened)
        if self._by_id.get(session.client_id) is session:
            self._waiting.watch(session, now_us=now_us)
            session.save()

    def look(self, *, now_us: Instant) -> None:
        """End what has expired, publish wills that have waited long enough."""
        for session in self._waiting.due(now_us=now_us):
            happened = session.on_timer(now_us=now_us)
            self._happened(session, happened)
            if self._by_id.get(session.client_id) is session:
                self._waiting.watch(session, now_us=now_us)
                if happened:  # a will is published once, whenever the node is killed
                    session.save()

    def _happened(self, session: Session, happenings: Iterable[Happening]) -> None:
        for happening in happenings:
            if happening.what is Due.WILL and happening.will is not None:
                self._broker.publish_will(session, happening.will)
            elif happening.what is Due.END:
                self._end(session)

    def _end(self, session: Session) -> None:
        """Remove a session that departs, with its subscriptions and queues."""
        self._remove(session, departed=True)
        session.unsave()

    def _remove(self, session: Session, *, departed: bool) -> None:
        """Remove a session with its subscriptions; what is left in its queues is abandoned."""
        self._by_id.pop(session.client_id, None)
        self._waiting.forget(session)
        self.sent_before += session.delivery.sent
        for filter_ in list(session.held):
            self._broker.unsubscribe(session, filter_, departed=departed)
        for listener in self._broker.listeners:
            listener.ended(session)


def _certificate(connection: Connection) -> dict[str, Any] | None:
    if connection.transport is None or not connection.listener.client_ca:
        return None
    found: dict[str, Any] | None = connection.transport.get_extra_info("peercert")
    return found
