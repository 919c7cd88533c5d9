"""Restores sessions, queues and retained messages from the store when a node starts."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.errors import MqttError, PolicyError
from penstock.mqtt.sessions.exchange import Unanswered
from penstock.node.broker.host import Host
from penstock.node.broker.journal import Journal
from penstock.node.broker.link import Sent
from penstock.node.broker.policies import NO_POLICY
from penstock.node.broker.records import (
    RETAINED,
    MessageState,
    SessionFacts,
    SubscriptionFacts,
    digest_from,
    message_from,
    session_facts,
)
from penstock.node.broker.session import Session
from penstock.node.broker.subscription import DigestForm, Subscription
from penstock.policy.content import ContentFilter

if TYPE_CHECKING:
    from penstock.model.instant import Instant
    from penstock.node.broker.sessions import Sessions
    from penstock.node.store.tables import Store, StoredRows

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
        _restore_session(broker, client_id, session_facts(data), now_us)
    _restore_messages(broker, journal, loaded, now_us)
    return journal


def _restore_session(broker: RestoredHost, client_id: str, facts: SessionFacts, now_us: Instant) -> None:
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


def _restore_messages(broker: RestoredHost, journal: Journal, loaded: StoredRows, now_us: Instant) -> None:
    unanswered: dict[str, list[Unanswered[Sent]]] = {}
    released: dict[str, list[int]] = {}
    received: dict[str, list[int]] = {}
    for place, client_id, filter_, state, packet_id, body in loaded.messages:
        session = broker.sessions.get(client_id)
        subscription = session.held.get(filter_) if session is not None else None
        if session is None or (subscription is None and state in (MessageState.QUEUED, MessageState.DIGEST)):
            journal.settled(place)
        elif state == MessageState.RELEASED:
            released.setdefault(client_id, []).append(packet_id)
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
            session.delivery.requeue(subscription, item, place, now_us=now_us)
    for client_id, packet_id in loaded.received:
        received.setdefault(client_id, []).append(packet_id)
    for session in broker.sessions:
        name = session.client_id
        session.exchange.outgoing.restore(
            unanswered=unanswered.get(name, ()), released=released.get(name, ())
        )
        session.exchange.incoming.restore(received.get(name, ()))
