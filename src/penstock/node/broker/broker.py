"""The broker: puts sessions, subscriptions and messages of one node together.

Everything happens in one thread and one event loop; nothing here waits for a client.
"""

from __future__ import annotations

import asyncio
import logging
import time
from importlib.metadata import version
from math import ceil
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from penstock.errors import MqttError
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.properties import NONE, Properties
from penstock.mqtt.sessions.server import Terms
from penstock.mqtt.topics import SHARE, check_filter, check_topic
from penstock.node.broker.client_log import ClientLog
from penstock.node.broker.connection import Connection
from penstock.node.broker.deadlines import Deadlines
from penstock.node.broker.digests import DigestTopics
from penstock.node.broker.message import PropertySets, Retained, expiry_of, message_of, unstamped_properties
from penstock.node.broker.output import Flusher
from penstock.node.broker.policies import NO_POLICY, Policies, Queueing
from penstock.node.broker.publishing import Publisher
from penstock.node.broker.receiver_policies import ReceiverPolicies
from penstock.node.broker.restoring import restore
from penstock.node.broker.routes import Router
from penstock.node.broker.sessions import Sessions
from penstock.node.broker.status import BrokerStatus

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from penstock.model.event import Event, Item
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect, Will
    from penstock.node.access.gate import Gate
    from penstock.node.broker.extensions import SessionListener
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.link import Link
    from penstock.node.broker.message import Message
    from penstock.node.broker.policies import PolicyRow
    from penstock.node.broker.routes import Fan, Tap
    from penstock.node.broker.session import Session
    from penstock.node.broker.status import SubscriptionStatus
    from penstock.node.broker.subscription import Subscription
    from penstock.node.config.schema import Config, Listener
    from penstock.node.store.tables import Store

log = logging.getLogger(__name__)

VERSION: Final = version("penstock")
"""Read once, because it is read from a file."""

NOTHING: Final[Mapping[str, str]] = MappingProxyType({})
"""Asked for with a subscription that no SUBSCRIBE made."""

SYS = "$SYS/"
"""Topics of the node's own figures, which are not stored."""

TICK_S = 0.25
"""How often deadlines are looked at: wills and expiries are given in seconds."""

HORIZON_US = 30_000_000
"""Every connection is looked at after this time at the latest."""

_EPOCH_NS = time.time_ns() - time.monotonic_ns()


def now_us() -> Instant:
    """Microseconds since 1970, never going back: the wall clock of the start, carried on."""
    return (_EPOCH_NS + time.monotonic_ns()) // 1_000


class Broker:
    """One node's broker; start it, and give its protocols to listeners."""

    def __init__(
        self,
        config: Config,
        *,
        gate: Gate,
        store: Store | None = None,
        clock: Callable[[], Instant] = now_us,
    ) -> None:
        self.config = config
        self.gate = gate
        self.clock = clock
        self.now_us = clock()
        """When the present turn of the loop began, about."""
        self.router = Router()
        self.policies = Policies(config)
        self.queueing = Queueing(config.queues)
        self.terms = _terms(config)
        bounds = config.bounds
        self.retained = Retained(most=bounds.retained, most_bytes=bounds.retained_bytes)
        self.journal: Journal | None = None
        self.listeners: list[SessionListener] = []
        """Other parts of the node that follow sessions and subscriptions."""
        self.on_retained: list[Callable[[Message], None]] = []
        """Called after the retained message of a topic has changed, before its receivers get the message."""
        self.new_publisher: Callable[[Connection, Session, Connect], Publisher] = self._new_publisher
        """Makes what reads the messages of a connection; another part of the node may have its own."""
        self.turn_away: Callable[[Connection], MqttError | None] | None = None
        """Asked for each client that may come in: why it may not at the moment, or None."""
        self.client_log = ClientLog(clock)
        self.told = DigestTopics(self)
        """Publishes digests that do not come in the stream of their subscription."""
        self.sessions = Sessions(self)
        self.bytes_received = 0
        self.bytes_sent = 0
        self.messages_received = 0
        self.unrouted = 0
        self._started_us = self.now_us
        self._refused: dict[str, int] = {}
        self._connections: dict[Connection, None] = {}
        self._watched: Deadlines[Connection] = Deadlines(horizon_us=HORIZON_US)
        self.flusher = Flusher()
        self.flushed_us = 0
        """When something was written for the last time, about."""
        self.properties = PropertySets().read
        """Reads the properties of a PUBLISH."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tick: asyncio.TimerHandle | None = None
        self._seq = 0
        if store is not None:
            restore(self, store)

    # -- living ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Look after deadlines from now on, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self.flusher.start(self._loop)
        if self.journal is not None:
            self.journal.start()
        policies = ReceiverPolicies(self)
        self.listeners.append(policies)
        policies.start(self.sessions)
        self._look()

    async def close(self) -> None:
        """Tell every client, write what is to be kept, and end; StoreError if that cannot be written."""
        if self._tick is not None:
            self._tick.cancel()
        self.told.publish()
        for connection in list(self._connections):
            session = connection.session
            if session is not None and session.will is not None and not session.will.properties.will_delay_s:
                session.will = None  # it is the node that goes, not the client
            connection.end(
                MqttError("the node is shutting down", where="node", reason=Reason.SERVER_SHUTTING_DOWN)
            )
        # One turn of the loop, in which the DISCONNECTs are written.
        await asyncio.sleep(0)
        for session in list(self.sessions):
            if session.link is not None:
                self.sessions.lost(session, session.link)
        if self.journal is not None:
            for session in self.sessions:
                for subscription in session.held.values():
                    self.journal.keep_queue(subscription)
            await self.journal.close()

    def protocol(self, listener: Listener) -> Connection:
        """Return the protocol for a new connection of a listener."""
        return Connection(self, listener)

    def _new_publisher(self, connection: Connection, session: Session, connect: Connect) -> Publisher:  # noqa: ARG002
        return Publisher(self, connection, session)

    def _look(self) -> None:
        assert self._loop is not None
        self._tick = self._loop.call_later(TICK_S, self._look)
        self.now_us = self.clock()
        for connection in self._watched.due(now_us=self.now_us):
            error = connection.rules.overdue(now_us=self.now_us)
            if error is None:
                continue
            if connection.reading:
                connection.end(error)
            else:  # not read from, so it cannot be heard
                connection.heard_us = self.now_us
                self.watch(connection)
        if all(listener.ready for listener in self.listeners):  # wills may be theirs
            self.sessions.look(now_us=self.now_us)
        self.client_log.catch_up()

    # -- connections -----------------------------------------------------------------------------------------

    def opened(self, connection: Connection) -> None:
        """Watch a new connection; the client has a while to send its CONNECT."""
        self._connections[connection] = None
        self.watch(connection)

    def watch(self, connection: Connection) -> None:
        """Look at a connection when its deadline comes, which has changed."""
        self._watched.watch(connection, now_us=self.now_us)

    def admit_at_once(self, connection: Connection, connect: Connect) -> bool:
        """Decide about a CONNECT; False: that takes a while, call `admit`. MqttError if it is refused."""
        return self.sessions.admit_at_once(connection, connect)

    async def admit(self, connection: Connection, connect: Connect) -> None:
        """Decide about a CONNECT; MqttError with the reason if it is refused."""
        await self.sessions.admit(connection, connect)

    def lost(self, session: Session, link: Link) -> None:
        """Detach a session from a connection that has ended."""
        self.sessions.lost(session, link)

    def closed(self, connection: Connection) -> None:
        """A connection is gone."""
        self._connections.pop(connection, None)
        self._watched.forget(connection)
        if connection.session is not None:
            self.sessions.lost(connection.session, connection)

    def disconnect(self, client_id: str, *, reason: int = Reason.ADMINISTRATIVE_ACTION) -> bool:
        """Close a client's connection; whether there was one."""
        session = self.sessions.get(client_id)
        if session is None or session.link is None:
            return False
        session.link.end(MqttError("disconnected by the operator", where="node", reason=reason))
        return True

    def count_refused(self, why: str, count: int = 1) -> None:
        """Something was refused; `why` is one of few texts."""
        self._refused[why] = self._refused.get(why, 0) + count

    # -- subscriptions ---------------------------------------------------------------------------------------

    def subscribe(
        self, session: Session, subscription: Subscription, asked: Mapping[str, str] = NOTHING
    ) -> Subscription:
        """A session's subscription begins, or changes the one to the same filter; the one in force."""
        before = session.held.get(subscription.filter)
        if before is not None:  # what waits there must not be lost
            before.change(subscription, now_us=self.now_us)
            self.router.policy_changed(before)
            subscription = before
        else:
            session.held[subscription.filter] = subscription
            subscription.begin(session.delivery)
            self.router.add(session, subscription)
        for listener in self.listeners:
            listener.subscribed(subscription, asked, again=before is not None)
        return subscription

    def unsubscribe(self, session: Session, filter_: str, *, departed: bool = False) -> bool:
        """A session's subscription ends, with the session if it departs; whether there was one."""
        subscription = session.held.get(filter_)
        if subscription is None:
            return False
        left: list[Item] = []
        if filter_.startswith(SHARE):
            left = session.left_of(subscription, departed=departed, now_us=self.now_us)
        session.drop(subscription, now_us=self.now_us)
        others = self.router.remove(session, subscription)
        if others is not None:
            others.take_over(left, now_us=self.now_us)
        for listener in self.listeners:
            listener.unsubscribed(session, filter_)
        self.sessions.departed += subscription.account()
        return True

    def install_policy(self, client_id: str, filter: str, policy: str | None) -> None:  # noqa: A002
        """Give a live subscription another policy; its queue keeps its items. PolicyError if it is wrong."""
        session = self.sessions.get(client_id)
        subscription = session.held.get(filter) if session is not None else None
        if subscription is None:
            raise KeyError(f"client '{client_id}' has no subscription to '{filter}'")
        chosen = NO_POLICY if policy is None else self.policies.asked(policy)
        assert session is not None
        subscription.install(chosen, now_us=self.clock())
        self.router.policy_changed(subscription)
        session.save()

    # -- messages --------------------------------------------------------------------------------------------

    def accept(self, message: Message, fan: Fan, *, origin: object, now_us: Instant) -> int:
        """A message for its receivers; the reason code its publisher is told."""
        if fan.into is not None:
            return fan.into.accept(message)
        wanted = False
        full = message.retain and not self.keep_retained(message)
        for receiver in fan.all:
            wanted |= receiver.deliver(message, origin=origin, now_us=now_us)
        self.unrouted += not wanted and origin is not self
        if full:
            return Reason.QUOTA_EXCEEDED
        return Reason.SUCCESS if wanted else Reason.NO_MATCHING_SUBSCRIBERS

    def keep_retained(self, message: Message) -> bool:
        """A topic's retained message has changed; False: no room."""
        if not self.retained.keep(message):
            self.count_refused("retained messages full")
            return False
        if self.journal is not None and not message.topic.startswith(SYS):
            self.journal.retained(message)
        for told in self.on_retained:
            told(message)
        return True

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int = 0,
        retain: bool = False,
        properties: Properties = NONE,
    ) -> None:
        """Publish from inside the node."""
        check_topic(topic, where="topic")
        now_us = self.clock()
        self._seq += 1
        message = message_of(
            topic,
            payload,
            topic_bytes=topic.encode(),
            now_us=now_us,
            sender="$node",
            seq=self._seq,
            qos=qos,
            retain=retain,
            properties=properties,
            expires_us=expiry_of(properties, now_us),
        )
        self.accept(message, self.router.find(topic), origin=self, now_us=now_us)

    def publish_will(self, session: Session, will: Will) -> None:
        """Publish the will of a client whose connection is gone."""
        now_us = self.clock()
        properties = unstamped_properties(will.properties)
        if properties.will_delay_s is not None:
            properties = replace(properties, will_delay_s=None)
        session.published += 1
        message = message_of(
            will.topic,
            will.payload,
            topic_bytes=will.topic.encode(),
            now_us=now_us,
            sender=session.client_id,
            seq=session.published,
            qos=will.qos,
            retain=will.retain,
            properties=properties,
            expires_us=expiry_of(properties, now_us),
        )
        self.accept(message, self.router.find(will.topic), origin=session, now_us=now_us)

    def is_own(self, topic: str) -> bool:
        """Whether only the node publishes on a topic."""
        return topic.startswith(self.router.own)

    def tap(self, filter: str, seen: Callable[[Event], None]) -> Tap:  # noqa: A002
        """Show every accepted message that matches, until the tap is closed."""
        check_filter(filter, where="filter")
        return self.router.tap(filter, seen)

    # -- what can be changed and known -----------------------------------------------------------------------

    def reconfigure(self, config: Config) -> None:
        """Other policies, rules and bounds from now on; no connection is closed.

        PolicyError if a policy is wrong; then nothing is changed.
        """
        self.policies.reconfigure(config)
        self.config = config
        self.queueing = Queueing(config.queues)
        self.terms = _terms(config)
        self.retained.most = config.bounds.retained
        self.retained.most_bytes = config.bounds.retained_bytes
        for session in self.sessions:
            session.subscriptions.most = config.bounds.subscriptions_per_client
            for subscription in session.held.values():
                subscription.reconfigure(self.queueing)
        self._choose_all_again()

    def take_policies(self, rows: Sequence[PolicyRow]) -> None:
        """Other policies of classes of receivers from now on; PolicyError, and nothing changes, if one is
        wrong."""
        self.policies.take_table(rows)
        self._choose_all_again()

    def _choose_all_again(self) -> None:
        now_us = self.clock()
        for session in self.sessions:
            for subscription in session.held.values():
                self._choose_again(session, subscription, now_us)
        self.router.forget()

    def _choose_again(self, session: Session, subscription: Subscription, now_us: Instant) -> None:
        """Registered and installed policies may have changed; inline ones are the client's own."""
        asked = subscription.chosen.asked
        if asked and asked not in self.policies.names():
            return
        chosen = self.policies.chosen(
            client_id=session.client_id, filter_=subscription.filter, asked=asked or None
        )
        before = subscription.chosen.plan.policy if subscription.chosen.plan is not None else None
        after = chosen.plan.policy if chosen.plan is not None else None
        if before != after:
            subscription.install(chosen, now_us=now_us)
            self.router.policy_changed(subscription)

    @property
    def messages_sent(self) -> int:
        """Messages sent to all clients since the start."""
        return self.sessions.sent_before + sum(each.delivery.sent for each in self.sessions)

    def subscription_statuses(self, *, now_us: Instant) -> Iterator[tuple[str, SubscriptionStatus]]:
        """Look at each subscription, with the identifier of its client; nothing may change meanwhile."""
        for session in self.sessions:
            for one in session.subscription_statuses(now_us=now_us):
                yield session.client_id, one

    def status(self) -> BrokerStatus:
        """Take a snapshot of the broker."""
        now_us = self.clock()
        return BrokerStatus(
            version=VERSION,
            started_us=self._started_us,
            now_us=now_us,
            connections=len(self._connections),
            sessions=len(self.sessions),
            subscriptions=len(self.router),
            retained=len(self.retained),
            retained_bytes=self.retained.bytes,
            messages_received=self.messages_received,
            messages_sent=self.messages_sent,
            bytes_received=self.bytes_received,
            bytes_sent=self.bytes_sent,
            refused=dict(self._refused),
            unrouted=self.unrouted,
            departed=self.sessions.departed,
            clients=tuple(each.status(now_us=now_us) for each in self.sessions),
            store=None if self.journal is None else self.journal.status(),
            queue_events=self.config.queues.events,
        )


def _terms(config: Config) -> Terms:
    bounds = config.bounds
    return Terms(
        receive_maximum=bounds.receive_maximum,
        maximum_packet_bytes=bounds.packet_bytes,
        topic_alias_maximum=bounds.topic_aliases,
        most_keep_alive_s=bounds.keep_alive_s,
        most_session_expiry_s=bounds.session_expiry_s,
        connect_s=ceil(bounds.connect_s),
    )
