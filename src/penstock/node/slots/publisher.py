"""A publisher whose messages are parts of flows.

Messages that came together are looked up by topic, not one by one, and go the way of all others, as runs.
Only where a receiver is behind do messages of a flow that was ever served go alone: each carries its flow
and lane, by which that receiver knows what goes ahead.
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
from penstock.mqtt.codes import V5, Reason
from penstock.mqtt.packets.properties import Properties
from penstock.node.broker.message import message_of
from penstock.node.broker.publishing import Publisher
from penstock.node.broker.runs import QOS1, Run, topics_of
from penstock.node.slots.declared import PERIOD, RETRY, of_connect, of_publish, retry_of
from penstock.node.slots.flows import Topic
from penstock.node.slots.lanes import SessionLanes

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from penstock.core.slots.flows import Flow
    from penstock.core.slots.retries import Verdict
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Connect
    from penstock.node.broker.broker import Broker
    from penstock.node.broker.connection import Connection
    from penstock.node.broker.host import ClientLink, Host
    from penstock.node.broker.message import Message
    from penstock.node.broker.routes import Fan
    from penstock.node.broker.session import Session
    from penstock.node.slots.flows import Flows


class FlowPublisher(Publisher):
    """A connection's way in at a listener with slots."""

    def __init__(
        self, broker: Host, connection: ClientLink, session: Session, connect: Connect, flows: Flows
    ) -> None:
        super().__init__(broker, connection, session)
        self._flows = flows
        self._told, problems = of_connect(connect.properties.user)
        self._topics: dict[bytes, Topic] = {}
        """Topics that came on this connection; what CONNECT declares about each of them was applied."""
        self._together: dict[bytes, Fan] = {}
        """Fans of the topics in what has just come."""
        self._said: Properties | None = None
        """What the answer to the message at hand says beside its reason code."""
        self._words: dict[int, Properties] = {}
        """Properties of answers that wait, by packet identifier."""
        for problem in problems:
            flows.unreadable(session.client_id, "", problem)

    # -- messages that came together -------------------------------------------------------------------------

    def begin(self, now_us: Instant) -> None:
        """Bytes have come; each topic in them is missed once, so that it is known which there are."""
        super().begin(now_us)
        self.routes = self._together
        self.routes.clear()

    def miss(self, topic: bytes) -> Fan | None:
        """The fan of a topic that comes for the first time in these bytes."""
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
        self._take(chunk[at + 2 : at + 2 + (chunk[at] << 8 | chunk[at + 1])], 1)
        return True

    def run(self, fan: Fan, data: bytes, count: int, first: int) -> None:
        """Plain messages for the same receivers; one by one if one of them may be ahead of others."""
        if first == QOS1 or fan.denied or fan.into is not None:
            super().run(fan, data, count, first)
            return
        found: dict[bytes, tuple[Flow, list[Lane]]] = {}
        for topic, messages in self._counted(data, count).items():
            taken = self._take(topic, messages)
            if taken is not None:
                found[topic] = taken
        if found and not _keep_up(fan):
            lanes = {topic: map(partial(Assigned, flow), each) for topic, (flow, each) in found.items()}
            self._run_laned(fan, data, count, lanes)
            return
        super().run(fan, data, count, first)
        if found and not _keep_up(fan):  # a session that gets two copies may have queued the second
            for flow, _ in found.values():
                flow.last_other_us = self._now_us

    def _run_laned(
        self, fan: Fan, data: bytes, count: int, lanes: Mapping[bytes, Iterator[Assigned]]
    ) -> None:
        """A receiver is behind, and some of these go ahead of what waits for it."""
        session, now_us = self._session, self._now_us
        sender, seq = session.client_id, session.published + 1
        run = Run(data, count, version=self._mqtt, sender=sender, seq=seq, now_us=now_us)
        session.published += count
        self._broker.messages_received += count
        if self._budget is not None:
            self._budget.spend(count, len(data), now_us=now_us)
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
            return False  # the answer may say why its flow is refused
        if not super()._run_qos1(fan, data, count):
            return False
        for topic, messages in topics.items():
            self._take(topic, messages)
        return True

    def _counted(self, data: bytes, count: int) -> dict[bytes, int]:
        """The topics of a run, and how many messages each has."""
        if len(self._together) == 1:
            return dict.fromkeys(self._together, count)
        return topics_of(data)

    # -- single messages -------------------------------------------------------------------------------------

    def _accept(self, message: Message, fan: Fan, qos: int) -> int:
        """A message with properties or a QoS: it may tell its flow's period, or ask for a place."""
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
        if taken is not None:
            message = msgspec.structs.replace(message, flow=Assigned(taken[0], taken[1][0]))
        return super()._accept(message, fan, qos)

    def _take(self, topic: bytes, count: int) -> tuple[Flow, list[Lane]] | None:
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
        """A topic's first message on this connection: CONNECT may have told its period."""
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
                self._know(event.topic.encode())  # it counts more than what CONNECT said
            client_id = self._session.client_id
            self._say(self._flows.tell(client_id, event.topic, declared, now_us=self._now_us))

    def _asked(self, event: Event) -> tuple[Verdict, Flow] | None:
        """The answer to a message that is of use only with a place; None: it goes the way of its flow."""
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
        """No place: the answer says when there will be one, or that trying again is of no use."""
        broker = self._broker
        if broker.journal is not None:
            broker.journal.begin()
        broker.count_refused("no place in a slot")
        again = "rejected"
        if verdict.at_us:  # no exponent: it is read as it may be asked for
            again = f"{(verdict.at_us - self._now_us) / 1_000:.3f}".rstrip("0").rstrip(".") + "ms"
        self._said = Properties(reason_string=verdict.why, user=((RETRY, again),))
        return Reason.QUOTA_EXCEEDED

    def _say(self, why: str) -> None:
        """Note why the flow of the message at hand is refused; empty: it is not."""
        if why and self._said is None:
            self._said = Properties(reason_string=why, user=(("penstock-flow", "refused"),))

    def _answer_when_safe(self, packet_id: int, qos: int, reason: int) -> None:
        if self._said is not None:
            self._words[packet_id], self._said = self._said, None
        super()._answer_when_safe(packet_id, qos, reason)

    def _answer(self, packet_id: int, qos: int, reason: int) -> None:
        said = self._words.pop(packet_id, None)
        if said is None or self._mqtt != V5:
            super()._answer(packet_id, qos, reason)
            return
        ack = self._session.exchange.incoming.answer(packet_id, reason=reason)
        self._connection.send(msgspec.structs.replace(ack, properties=said))


def _keep_up(fan: Fan) -> bool:
    """Whether all receivers take a run at once, so that nothing of it can be ahead of anything."""
    return not fan.special and all(target.delivery.keeping_up for target in (*fan.plain4, *fan.plain5))


def add_flows(broker: Broker, flows: Flows) -> None:
    """Have the sessions of a broker lanes, and the messages of listeners with slots assigned to flows."""
    settings, plain = flows.settings, broker.new_publisher

    def new_publisher(connection: Connection, session: Session, connect: Connect) -> Publisher:
        lanes = SessionLanes(session, most=settings.lane_events, late_share=settings.late_share)
        others = [each for each in session.sources if not isinstance(each, SessionLanes)]
        session.sources[:] = [lanes, *others]
        if not connection.listener.slots:
            return plain(connection, session, connect)
        return FlowPublisher(broker, connection, session, connect, flows)

    broker.new_publisher = new_publisher
