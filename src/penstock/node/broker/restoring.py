"""Restores sessions, queues and retained messages from the store, and sessions that come from other nodes."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol
from zlib import crc32

import msgspec

from penstock.errors import MqttError, PolicyError, printable
from penstock.mqtt.sessions.exchange import Unanswered
from penstock.mqtt.sessions.identifiers import MOST_PACKET_ID
from penstock.node.broker.host import Host
from penstock.node.broker.journal import Journal
from penstock.node.broker.link import Sent
from penstock.node.broker.message import Message
from penstock.node.broker.policies import NO_POLICY
from penstock.node.broker.records import (
    RETAINED,
    MessageState,
    SessionFacts,
    SubscriptionFacts,
    digest_from,
    message_from,
    session_facts,
    stored_qos,
)
from penstock.node.broker.session import Session
from penstock.node.broker.subscription import DigestForm, Subscription
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    from penstock.model.instant import Instant
    from penstock.node.broker.moving import MovedMessage, MovedSession
    from penstock.node.broker.sessions import Sessions
    from penstock.node.store.tables import Store

    MessageRow: TypeAlias = tuple[int, str, str, int, int, bytes]
    """Place, client, filter, state, packet identifier and body of a message."""

log = logging.getLogger(__name__)


class RestoredHost(Host, Protocol):
    """The broker as the code that fills it after a restart sees it."""

    sessions: Sessions


def restore(broker: RestoredHost, store: Store) -> Journal:
    """Read the store into a broker that is empty; returns the journal that writes from then on."""
    loaded = store.load()
    now_us = broker.clock()
    journal = broker.journal = Journal(store, last_place=loaded.messages[-1][0] if loaded.messages else 0)
    for _, body in loaded.retained:
        broker.retained.keep(message_from(body))
    for client_id, data in loaded.sessions:
        restore_session(broker, client_id, session_facts(data), now_us)
    restore_messages(broker, loaded.messages, loaded.received, now_us)
    return journal


def restore_session(broker: RestoredHost, client_id: str, facts: SessionFacts, now_us: Instant) -> Session:
    """Make a session with its subscriptions, detached and without messages."""
    session = Session(
        client_id,
        user=facts.user,
        now_us=now_us,
        retained=broker.retained,
        journal=broker.journal,
        tell=broker.told.tell,
    )
    session.subscriptions.most = broker.config.bounds.subscriptions_per_client
    session.restore(facts, now_us=now_us)
    for each in facts.subscriptions:
        _restore_subscription(broker, session, each)
    broker.sessions.restore(session, now_us=now_us)
    return session


def _restore_subscription(broker: RestoredHost, session: Session, facts: SubscriptionFacts) -> None:
    options = facts.options
    chosen, content = NO_POLICY, None
    try:
        session.subscriptions.add(options, subscription_id=facts.subscription_id)
        content = ContentFilter(facts.content) if facts.content else None
        chosen = broker.policies.chosen(
            client_id=session.client_id, filter_=options.filter, asked=facts.policy or None
        )
    except MqttError as error:  # the bound on subscriptions was lowered meanwhile
        log.warning(
            "client '%s' loses its subscription to '%s': %s", session.client_id, options.filter, error
        )
        return
    except PolicyError as error:  # a registered policy is gone
        log.warning("client '%s' goes on without its policy: %s", session.client_id, error)
    broker.subscribe(
        session,
        Subscription(
            session.client_id,
            options,
            subscription_id=facts.subscription_id,
            chosen=chosen,
            content=content,
            queueing=broker.queueing,
            form=DigestForm(facts.digests),
            fresh_us=facts.fresh_us or None,
        ),
    )


def restore_messages(
    broker: RestoredHost,
    messages: Iterable[MessageRow],
    all_received: Iterable[tuple[str, int]],
    now_us: Instant,
    *,
    reserve: bool = False,
) -> None:
    """Give sessions their messages, and the packet identifiers of messages they have received.

    A message without a place is not on disk. `reserve`: those that wait get the packet identifiers under
    which they will be sent.
    """
    journal = broker.journal
    unanswered: dict[str, list[Unanswered[Sent]]] = {}
    released: dict[str, list[int]] = {}
    received: dict[str, list[int]] = {}
    for place, client_id, filter_, state, packet_id, body in messages:
        session = broker.sessions.get(client_id)
        subscription = session.held.get(filter_) if session is not None else None
        if session is None or (subscription is None and state in (MessageState.QUEUED, MessageState.DIGEST)):
            if place and journal is not None:
                journal.settled(place)
        elif state == MessageState.RELEASED:
            released.setdefault(client_id, []).append(packet_id)
            if place:
                session.acks.restore_released(packet_id, place)
        elif state in (MessageState.SENT_QOS1, MessageState.SENT_QOS2):
            ids = subscription.ids if subscription is not None else ()
            retain, packet_id = bool(packet_id & RETAINED), packet_id & ~RETAINED  # noqa: PLW2901
            sent = Sent(message_from(body), retain, ids, place, filter=filter_)
            qos = 2 if state == MessageState.SENT_QOS2 else 1
            unanswered.setdefault(client_id, []).append(Unanswered(packet_id, qos, sent))
            if subscription is not None:  # it is sent again, or found to be too large
                subscription.direct += 1
        else:
            assert subscription is not None
            item = digest_from(body) if state == MessageState.DIGEST else message_from(body)
            if reserve and place and type(item) is Message:
                _reserve(session, subscription, item, place)
            session.delivery.requeue(subscription, item, place, now_us=now_us)
    for client_id, packet_id in all_received:
        received.setdefault(client_id, []).append(packet_id)
    for name in {*unanswered, *released, *received}:
        session = broker.sessions.get(name)
        if session is None:
            continue
        session.exchange.outgoing.restore(
            unanswered=unanswered.get(name, ()), released=released.get(name, ())
        )
        session.exchange.incoming.restore(received.get(name, ()))


def _reserve(session: Session, subscription: Subscription, message: Message, place: int) -> None:
    qos = min(message.qos, subscription.options.qos)
    retain = message.retain and subscription.options.retain_as_published
    if qos:
        session.delivery.reserve(subscription, message, place, qos=qos, retain=retain)


def put_in(broker: RestoredHost, client_id: str, moved: MovedSession, *, at: str, now_us: Instant) -> Session:
    """Continue a session here, detached; on disk soon if the node has one. StoreError if it is damaged.

    `at` is the name of this node. Packet identifiers go on at a number that depends on it: if the session is
    at two nodes for a while, they use different ones, and what one of them sends is not taken for a repeated
    message of the other.
    """
    rows = [_row(broker, client_id, each) for each in moved.messages]
    facts = msgspec.structs.replace(moved.facts, will=None, detached_us=moved.facts.detached_us or now_us)
    session = restore_session(broker, client_id, facts, now_us)
    session.written = False
    session.save()
    waiting = [row for row in rows if row[3] in (MessageState.QUEUED, MessageState.DIGEST)]
    in_flight = [row for row in rows if row[3] not in (MessageState.QUEUED, MessageState.DIGEST)]
    restore_messages(broker, in_flight, [(client_id, packet_id) for packet_id in moved.received], now_us)
    session.exchange.ids.go_on_behind(crc32(at.encode()) % MOST_PACKET_ID)
    # The client is about to connect, mostly: with identifiers, of which none may be in flight, what waits is
    # on disk as it will be sent, and leaves without waiting for the disk once more.
    restore_messages(broker, waiting, (), now_us, reserve=True)
    if broker.journal is not None and session.written:
        for packet_id in moved.received:
            broker.journal.received(client_id, packet_id)
    taken = [each.came(session, moved.carried) for each in broker.listeners]
    if moved.carried and not any(taken):
        session.carried = moved.carried
        log.warning(
            "client '%s' reads reliable streams, which are off at this node: it gets none of their messages",
            printable(client_id),
        )
    return session


def _row(broker: RestoredHost, client_id: str, each: MovedMessage) -> MessageRow:
    """The message as a row of the store; its place is 0 if it is not on disk."""
    place = 0
    kept = each.state != MessageState.QUEUED or stored_qos(each.body)
    if kept and broker.journal is not None:
        place = broker.journal.moved_in(
            client_id, each.filter, MessageState(each.state), each.packet_id, each.body
        )
    return place, client_id, each.filter, each.state, each.packet_id, each.body
