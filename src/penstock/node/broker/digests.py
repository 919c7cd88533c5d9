"""Tells on `$digest/<topic>` what was dropped for subscriptions that get no digests in their stream.

A subscription that brings a policy or asks for digests gets them in the place of the dropped events (see
`Delivery.tell`). For all others a digest is published here: the filter of the subscription behind `$digest/`,
with `*` in the place of wildcards. Any client may subscribe, if it may subscribe to the filter itself.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from penstock.model.digest_wire import JSON_TYPE, to_json
from penstock.mqtt.fields import TEXT_BYTES
from penstock.mqtt.packets.properties import Properties
from penstock.mqtt.topics import DIGEST_TOPICS, shared_of
from penstock.node.broker.message import message_of
from penstock.node.broker.receivers import Group, Spread, Target

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.model.digest import Digest
    from penstock.model.instant import Instant
    from penstock.node.access.gate import Gate
    from penstock.node.broker.receivers import Receiver
    from penstock.node.broker.routes import Router
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription


_PROPERTIES: Final = Properties(payload_format_indicator=1, content_type=JSON_TYPE)

_json = msgspec.json.Encoder()


class DigestHost(Protocol):
    """The broker as this module sees it."""

    clock: Callable[[], Instant]
    gate: Gate
    router: Router


class DigestTopics:
    """Collects digests of one turn of the event loop, and publishes them at its end.

    Digests come while the queues of a session are drained. Whoever is told may be that session, whose
    queues must not change then.
    """

    def __init__(self, broker: DigestHost) -> None:
        self._broker = broker
        self._waiting: dict[Subscription, Digest] = {}

    def tell(self, subscription: Subscription, digest: Digest) -> None:
        """Publish a digest soon, if anybody listens; digests of one subscription are merged until then."""
        if shared_of(subscription.filter).filter.startswith(DIGEST_TOPICS):
            return  # whoever cannot follow the digests of others is not told in more of them
        topic = DIGEST_TOPICS + subscription.digest_topic()
        if len(topic.encode()) > TEXT_BYTES or not self._broker.router.find(topic).all:
            return
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.publish)
        before = self._waiting.get(subscription)
        self._waiting[subscription] = digest if before is None else before.merge(digest)

    def publish(self) -> None:
        """Publish what was collected."""
        waiting, self._waiting = self._waiting, {}
        now_us = self._broker.clock()
        for subscription, digest in waiting.items():
            topic = DIGEST_TOPICS + subscription.digest_topic()
            told = {"client": subscription.client_id, "filter": subscription.filter} | to_json(digest)
            # Each receiver gets it with the QoS of its own subscription. It has no mark of a digest: in the
            # stream of the receiver it stands for nothing that was dropped there.
            message = message_of(
                topic,
                _json.encode(told),
                topic_bytes=topic.encode(),
                now_us=now_us,
                sender="$node",
                seq=digest.seq_last,
                qos=2,
                properties=_PROPERTIES,
            )
            about = DIGEST_TOPICS + shared_of(subscription.filter).filter
            for receiver in self._broker.router.find(topic).all:
                if self._may_know(receiver, about):
                    receiver.deliver(message, origin=self, now_us=now_us)

    def _may_know(self, receiver: Receiver, filter_: str) -> bool:
        """Whether a receiver may read all topics that the digest may be about.

        The topic alone does not tell: the digests of `#` are published on `$digest/*`.
        """
        if isinstance(receiver, Target):
            return self._may_subscribe(receiver.session, filter_)
        if isinstance(receiver, Group | Spread):
            return all(self._may_subscribe(each.session, filter_) for each in receiver.members)
        return True

    def _may_subscribe(self, session: Session, filter_: str) -> bool:
        return self._broker.gate.may_subscribe(session.user, session.client_id, filter_)
