"""A publisher whose messages are parts of flows: each is asked about before it goes on.

Messages of flows that were never served go the way of all others, as runs; of one that was, each message
carries its flow, by which receivers that are behind know its lane.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock import limits
from penstock.errors import SlotError
from penstock.mqtt.framing import Framer
from penstock.mqtt.kinds import V5
from penstock.mqtt.properties import Properties
from penstock.node.message import Message, event_of
from penstock.node.publishing import Publisher
from penstock.node.runs import QOS1, Run
from penstock.node.slots.declared import PERIOD, of_connect, of_publish

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.model.instant import Instant
    from penstock.mqtt.connect import Connect
    from penstock.node.broker import Broker
    from penstock.node.connection import Connection
    from penstock.node.routes import Fan
    from penstock.node.session import Session
    from penstock.node.slots.flows import Flows
    from penstock.node.slots.lanes import Assigned


class FlowPublisher(Publisher):
    """A connection's way in at a listener with slots."""

    def __init__(
        self, broker: Broker, connection: Connection, session: Session, connect: Connect, flows: Flows
    ) -> None:
        super().__init__(broker, connection, session)
        self._flows = flows
        self._told, problems = of_connect(connect.properties.user)
        self._met: set[bytes] = set()
        """Topics of which it is known on this connection what CONNECT says about them."""
        self._said = ""
        """Why the flow of the message at hand is refused."""
        self._refusals: dict[int, str] = {}
        """The same by packet identifier, for answers that wait."""
        for problem in problems:
            flows.unreadable(session.client_id, "", problem)

    def lone(self, chunk: bytes, now_us: Instant) -> bool:  # noqa: ARG002
        """None is forwarded unseen."""
        return False

    def run(self, fan: Fan, data: bytes, count: int, first: int) -> None:
        """Plain messages for the same receivers; one by one if one of them may be ahead of others."""
        if fan.denied or fan.into is not None:
            super().run(fan, data, count, first)
            return
        if first == QOS1:
            for frame in Framer().feed(data):
                self.frame(frame)
            return
        session = self._session
        run = Run(
            data,
            count,
            version=session.version,
            sender=session.client_id,
            seq=session.published + 1,
            now_us=self._now_us,
        )
        assigned = [self._assigned(topic) for topic, _ in run.parts()]
        if not any(assigned):
            super().run(fan, data, count, first)
            return
        session.published += count
        self._broker.messages_received += count
        if self._budget is not None:
            self._budget.spend(count, len(data))
        for event, one in zip(run.events(), assigned, strict=True):
            message = Message(event.topic.encode(), flow=one)
            carrying = event_of(
                message,
                event.payload,
                topic=event.topic,
                now_us=self._now_us,
                sender=event.sender,
                seq=event.seq,
            )
            super()._accept(carrying, fan, 0)

    def _accept(self, event: Event, fan: Fan, qos: int) -> int:
        """A message with properties or a QoS: it may tell its flow's period."""
        self._said = ""
        message: Message = event.carried
        if fan.denied:
            return super()._accept(event, fan, qos)
        if message.properties.user:
            self._hear(event)
        assigned = self._assigned(message.topic)
        if assigned is not None:
            event = msgspec.structs.replace(event, carried=msgspec.structs.replace(message, flow=assigned))
        return super()._accept(event, fan, qos)

    def _assigned(self, topic: bytes) -> Assigned | None:
        if self._told and topic not in self._met:
            self._know(topic)
            self._tell_declared(topic.decode())
        return self._flows.assigned(self._session.client_id, topic, now_us=self._now_us)

    # -- what the client says --------------------------------------------------------------------------------

    def _know(self, topic: bytes) -> None:
        if len(self._met) >= limits.ROUTES:
            self._met.clear()
        self._met.add(topic)

    def _tell_declared(self, topic: str) -> None:
        """A topic's first message on this connection: CONNECT may have told its period."""
        declared = next((one for one in self._told if one.covers(topic)), None)
        if declared is not None:
            why = self._flows.tell(self._session.client_id, topic, declared, now_us=self._now_us)
            self._said = self._said or why

    def _hear(self, event: Event) -> None:
        if not any(name == PERIOD for name, _ in event.properties):
            return
        try:
            declared = of_publish(event.properties)
        except SlotError as error:
            self._said = str(error)
            self._flows.unreadable(self._session.client_id, event.topic, self._said)
            return
        if declared is not None:
            if self._told:
                self._know(event.topic.encode())  # it counts more than what CONNECT said
            client_id = self._session.client_id
            self._said = self._flows.tell(client_id, event.topic, declared, now_us=self._now_us)

    def _answer_when_safe(self, packet_id: int, qos: int, reason: int) -> None:
        if self._said:
            self._refusals[packet_id], self._said = self._said, ""
        super()._answer_when_safe(packet_id, qos, reason)

    def _answer(self, packet_id: int, qos: int, reason: int) -> None:
        why = self._refusals.pop(packet_id, "")
        if not why or self._session.version != V5:
            super()._answer(packet_id, qos, reason)
            return
        ack = self._session.exchange.incoming.answer(packet_id, reason=reason)
        said = Properties(reason_string=why, user=(("penstock-flow", "refused"),))
        self._connection.send(msgspec.structs.replace(ack, properties=said))
