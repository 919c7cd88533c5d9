"""The publisher of a connection at a listener with slots: assigns its messages to flows and lanes.

Messages that arrive together are looked up by topic, not one by one, and are forwarded as runs, as without
slots. Only if a receiver is behind are the messages of a flow that was ever served forwarded one by one: each
carries its flow and lane, by which the receiver's session knows which message goes first.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.core.slots.flows import key_of
from penstock.core.slots.lanes import Assigned, Lane
from penstock.core.slots.retries import Answer
from penstock.errors import SlotError
from penstock.mqtt.codes import Reason
from penstock.mqtt.packets.properties import Properties
from penstock.node.broker.message import message_of
from penstock.node.broker.publishing import Publisher
from penstock.node.broker.receivers import Target
from penstock.node.broker.runs import QOS1, Run, topics_of
from penstock.node.slots.declared import PERIOD, RETRY, of_connect, of_publish, retry_of
from penstock.node.slots.flows import Topic
from penstock.node.slots.lanes import SessionLanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.core.slots.flows import Flow
    from penstock.core.slots.retries import Verdict
    from penstock.core.slots.unlisted import UnlistedFlow
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.connection import Connection
    from penstock.node.broker.host import ClientLink, Host
    from penstock.node.broker.message import Message
    from penstock.node.broker.receivers import Receiver
    from penstock.node.broker.routes import Fan
    from penstock.node.broker.session import Session
    from penstock.node.slots.flows import Flows


class FlowPublisher(Publisher):
    """Handles what a client publishes at a listener with slots."""

    def __init__(
        self, broker: Host, connection: ClientLink, session: Session, connect: Connect, flows: Flows
    ) -> None:
        super().__init__(broker, connection, session)
        self._flows = flows
        self._told, problems = of_connect(connect.properties.user)
        self._topics: dict[bytes, Topic] = {}
        """Topics that came on this connection; what CONNECT declares about each of them was applied."""
        self._together: dict[bytes, Fan] = {}
        """Fans of the topics in the bytes that have just arrived."""
        for problem in problems:
            flows.unreadable(session.client_id, "", problem)

    # -- messages that came together -------------------------------------------------------------------------

    def begin(self, now_us: Instant) -> None:
        """Bytes have arrived. The cache of routes starts empty, so `miss` sees each topic in them once."""
        super().begin(now_us)
        self.routes = self._together
        self.routes.clear()

    def miss(self, topic: bytes) -> Fan | None:
        """Return the fan of a topic that occurs for the first time in these bytes."""
        fan = self._fans.get(topic) or super().miss(topic)
        if fan is not None:
            self._together[topic] = fan
        return fan

    def lone(self, chunk: bytes, now_us: Instant) -> bool:
        """Forward a message whose receivers all keep up; its lane does not matter."""
        if not super().lone(chunk, now_us):
            return False
        # Length of one or two bytes, as the inherited `lone` checked; inlined, as on that fast path.
        at = 2 if chunk[1] < 128 else 3
        self._now_us = now_us
        topic = chunk[at + 2 : at + 2 + (chunk[at] << 8 | chunk[at + 1])]
        if self._take(topic, 1) is not None:
            self._watch(self._fans[topic])
        return True

    def run(self, fan: Fan, data: bytes, count: int, first: int) -> None:
        """Forward plain messages to the same receivers; one by one if one of them may overtake others."""
        if first == QOS1 or fan.denied or fan.into is not None:
            super().run(fan, data, count, first)
            return
        found: dict[bytes, tuple[Flow | UnlistedFlow, list[Lane]]] = {}
        for topic, messages in self._counted(data, count).items():
            taken = self._take(topic, messages)
            if taken is not None:
                found[topic] = taken
        if found and not _keep_up(fan):
            lanes = {topic: map(partial(Assigned, flow), each) for topic, (flow, each) in found.items()}
            self._run_laned(fan, data, count, lanes)
            return
        super().run(fan, data, count, first)
        if not found:
            return
        if not _keep_up(fan):  # a session that gets two copies may have queued the second
            for flow, _ in found.values():
                flow.last_other_us = self._now_us
        self._watch(fan)

    def _run_laned(
        self, fan: Fan, data: bytes, count: int, lanes: Mapping[bytes, Iterator[Assigned]]
    ) -> None:
        """Forward messages one by one: a receiver is behind, and some of them overtake what waits for it."""
        session, now_us = self._session, self._now_us
        sender, seq = session.client_id, session.published + 1
        run = Run(data, count, version=self._mqtt, sender=sender, seq=seq, now_us=now_us)
        session.published += count
        self._broker.messages_received += count
        if self._rates is not None:
            self._rates.spend(count, len(data), now_us=now_us)
        for number, (topic, payload) in enumerate(run.parts(), start=seq):
            message = message_of(
                topic.decode(),
                payload,
                topic_bytes=topic,
                now_us=now_us,
                sender=sender,
                seq=number,
                flow=next(lanes[topic]) if topic in lanes else None,
            )
            super()._accept(message, fan, 0)

    def _run_qos1(self, fan: Fan, data: bytes, count: int) -> bool:
        """Forward a run with QoS 1 if all receivers keep up: lanes do not matter then."""
        topics = self._counted(data, count)
        if self._told and any(topic not in self._topics for topic in topics):
            return False  # the PUBACK may have to say why its flow is refused
        if fan.far:
            return False  # a message of a flow carries its lane to other nodes
        if not super()._run_qos1(fan, data, count):
            return False
        found = [self._take(topic, messages) for topic, messages in topics.items()]
        if any(taken is not None for taken in found):
            self._watch(fan)
        return True

    def _counted(self, data: bytes, count: int) -> dict[bytes, int]:
        """Return the number of messages of each topic of a run."""
        if len(self._together) == 1:
            return dict.fromkeys(self._together, count)
        return topics_of(data)

    # -- single messages -------------------------------------------------------------------------------------

    def _accept(self, message: Message, fan: Fan, qos: int) -> int:
        """Forward a message with properties or a QoS; it may declare a period, or request a place."""
        self._said = None
        if fan.denied:
            return super()._accept(message, fan, qos)
        asked = None
        if message.properties:
            self._hear(message)
            asked = self._asked(message) if qos else None
        if asked is None:
            taken = self._take(message.topic_bytes, 1)
        elif asked[0].answer is Answer.ACCEPTED:
            taken = asked[1], [Lane.RESERVED]
        else:
            return self._turned_away(asked[0])
        if taken is None:
            return super()._accept(message, fan, qos)
        message = msgspec.structs.replace(message, flow=Assigned(taken[0], taken[1][0]))
        reason = super()._accept(message, fan, qos)
        self._watch(fan)
        return reason

    def _watch(self, fan: Fan) -> None:
        watch(fan.all, self._now_us)

    def _take(self, topic: bytes, count: int) -> tuple[Flow | UnlistedFlow, list[Lane]] | None:
        known = self._topics.get(topic)
        if known is None:
            known = self._know(topic)
            if self._told:
                self._tell_declared(known.name)
        return self._flows.take(self._session.client_id, known, count, now_us=self._now_us)

    # -- what the client says --------------------------------------------------------------------------------

    def _know(self, topic: bytes) -> Topic:
        if len(self._topics) >= limits.FLOW_TOPICS:
            self._topics.clear()
        name = topic.decode()
        known = self._topics[topic] = Topic(key_of(self._session.client_id, name), name)
        return known

    def _tell_declared(self, topic: str) -> None:
        """Apply the period that CONNECT declared, at a topic's first message on this connection."""
        declared = next((one for one in self._told if one.covers(topic)), None)
        if declared is not None:
            self._say(self._flows.tell(self._session.client_id, topic, declared, now_us=self._now_us))

    def _hear(self, event: Event) -> None:
        if not any(name == PERIOD for name, _ in event.properties):
            return
        try:
            declared = of_publish(event.properties)
        except SlotError as error:
            self._say(str(error))
            self._flows.unreadable(self._session.client_id, event.topic, str(error))
            return
        if declared is not None:
            if self._told:
                self._know(event.topic.encode())  # it takes precedence over CONNECT
            client_id = self._session.client_id
            self._say(self._flows.tell(client_id, event.topic, declared, now_us=self._now_us))

    def _asked(self, event: Event) -> tuple[Verdict, Flow] | None:
        """Return the verdict on a request for a place; None if the message is no request."""
        client_id, now_us = self._session.client_id, self._now_us
        try:
            period_us = retry_of(event.properties)
        except SlotError as error:
            self._say(str(error))
            self._flows.unreadable(client_id, event.topic, str(error), what="bad retry")
            return None
        requests = self._flows.requests
        flow = requests.flow(client_id, event.topic, now_us=now_us) if period_us else None
        return None if flow is None else (requests.arrive(flow, period_us, now_us=now_us), flow)

    def _turned_away(self, verdict: Verdict) -> int:
        """Refuse a request; the answer says when there will be a place, or that a retry is useless."""
        broker = self._broker
        if broker.journal is not None:
            broker.journal.begin()
        broker.count_refused("no place in a slot")
        again = "rejected"
        if verdict.at_us:  # without an exponent, which durations in user properties do not allow
            again = f"{(verdict.at_us - self._now_us) / 1_000:.3f}".rstrip("0").rstrip(".") + "ms"
        self._said = Properties(reason_string=verdict.why, user=((RETRY, again),))
        return Reason.QUOTA_EXCEEDED

    def _say(self, why: str) -> None:
        """Note why the flow of the message at hand is refused; empty: it is not."""
        if why and self._said is None:
            self._said = Properties(reason_string=why, user=(("penstock-flow", "refused"),))


def watch(receivers: Sequence[Receiver], now_us: Instant) -> None:
    """Have the receivers of a flow's message see whether it will be long on its way."""
    for target in receivers:
        if isinstance(target, Target):
            for source in target.delivery.sources:
                if isinstance(source, SessionLanes):
                    source.watch(now_us)


def _keep_up(fan: Fan) -> bool:
    """Whether all receivers take a run at once, so that none of its messages can overtake another."""
    return not (fan.special or fan.far) and all(
        target.delivery.keeping_up for target in (*fan.plain4, *fan.plain5)
    )


def add_flows(broker: Broker, flows: Flows) -> None:
    """Give the sessions of a broker lanes, and assign messages of listeners with slots to flows."""
    settings, plain = flows.settings, broker.new_publisher

    def new_publisher(connection: Connection, session: Session, connect: Connect) -> Publisher:
        lanes = SessionLanes(
            session,
            flows.links.attached(session.client_id),
            most=settings.lane_events,
            late_share=settings.late_share,
            clock=lambda: broker.clock(),  # noqa: PLW0108  # whichever it has then
        )
        others = [each for each in session.sources if not isinstance(each, SessionLanes)]
        session.sources[:] = [lanes, *others]
        if not connection.listener.slots:
            return plain(connection, session, connect)
        return FlowPublisher(broker, connection, session, connect, flows)

    broker.new_publisher = new_publisher
