"""A broker of one thread and no sockets, made of the product's parts: bytes in, bytes out."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from msgspec.structs import replace

from penstock.errors import MqttError
from penstock.mqtt.packets.connect import Connect, Disconnect, Pingreq, Pingresp
from penstock.mqtt.packets.framing import Framer
from penstock.mqtt.packets.publish import Ack, Publish
from penstock.mqtt.packets.subscribe import Suback, Subscribe, Unsuback, Unsubscribe
from penstock.mqtt.sessions.exchange import Arrival
from penstock.mqtt.sessions.server import ServerConnection, ServerState, Terms
from penstock.mqtt.sessions.session import Due, Session, Subscribed
from penstock.mqtt.trees import TopicTree

if TYPE_CHECKING:
    from penstock.mqtt.packets.packet import Packet


class Broker:
    """Sessions by client identifier, and who subscribed to what."""

    def __init__(self, *, terms: Terms | None = None) -> None:
        self.terms = terms or Terms()
        self.sessions: dict[str, Session[Publish]] = {}
        self.links: dict[str, Link] = {}
        self.queues: dict[str, deque[Publish]] = {}
        self.tree: TopicTree[str, tuple[str, Subscribed]] = TopicTree()

    def publish(self, sender: str, message: Publish) -> None:
        matching: dict[str, list[Subscribed]] = {}
        for client_id, subscribed in self.tree.match(message.topic):
            matching.setdefault(client_id, []).append(subscribed)
        for client_id, found in matching.items():
            wanted = [each for each in found if not (client_id == sender and each.options.no_local)]
            if not wanted:
                continue
            numbers = tuple(each.subscription_id for each in wanted if each.subscription_id)
            self.queues[client_id].append(
                Publish(
                    message.topic,
                    message.payload,
                    qos=min(message.qos, max(each.options.qos for each in wanted)),
                    retain=message.retain and any(each.options.retain_as_published for each in wanted),
                    properties=replace(message.properties, topic_alias=None, subscription_ids=numbers),
                )
            )
            if client_id in self.links:
                self.links[client_id].pump()

    def forget(self, client_id: str) -> None:
        for subscribed in self.sessions.pop(client_id).subscriptions:
            self.tree.remove(subscribed.options.filter, client_id)
        del self.queues[client_id]


class Link:
    """One connection to the broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.framer = Framer(max_bytes=broker.terms.maximum_packet_bytes)
        self.connection = ServerConnection(broker.terms, now_us=0)
        self.client_id = ""
        self.said = bytearray()
        """Packets that the client has not read."""
        self.error: MqttError | None = None

    @property
    def closed(self) -> bool:
        return self.connection.state is ServerState.CLOSED

    @property
    def session(self) -> Session[Publish]:
        return self.broker.sessions[self.client_id]

    def feed(self, chunk: bytes) -> None:
        """Bytes from the client."""
        try:
            for frame in self.framer.feed(chunk):
                if self.closed:
                    return
                self.handle(self.connection.receive(frame))
            if self.framer.fault is not None:
                raise self.framer.fault
        except MqttError as error:
            self.error = error
            self.said += self.connection.farewell(error)
            self.lost()

    def lost(self) -> None:
        """The connection is gone."""
        self.connection.close()
        if self.broker.links.get(self.client_id) is not self:
            return
        del self.broker.links[self.client_id]
        for each in self.session.detach(now_us=0):
            if each.what is Due.END:
                self.broker.forget(self.client_id)

    def send(self, packet: Packet) -> None:
        self.said += self.connection.fit(packet) or b""

    def handle(self, packet: Packet) -> None:
        match packet:
            case Connect():
                self.connect(packet)
            case Publish():
                self.published(packet)
            case Ack():
                step = self.session.exchange.receive(packet)
                if step.reply is not None:
                    self.send(step.reply)
                self.pump()
            case Subscribe():
                number = (*packet.properties.subscription_ids, 0)[0]
                for each in packet.subscriptions:
                    self.session.subscriptions.add(each, subscription_id=number)
                    subscribed = Subscribed(each, number)
                    self.broker.tree.add(each.filter, self.client_id, (self.client_id, subscribed))
                self.send(Suback(packet.packet_id, tuple(each.qos for each in packet.subscriptions)))
            case Unsubscribe():
                self.send(Unsuback(packet.packet_id, tuple(map(self.unsubscribe, packet.filters))))
            case Pingreq():
                self.send(Pingresp())
            case Disconnect():
                self.session.leave(packet)
                self.lost()
            case _:
                raise AssertionError(packet)

    def unsubscribe(self, filter_: str) -> int:
        self.broker.tree.remove(filter_, self.client_id)
        return 0x00 if self.session.subscriptions.remove(filter_) is not None else 0x11

    def connect(self, packet: Connect) -> None:
        broker = self.broker
        self.connection.check_room()
        client_id = packet.client_id or "unnamed"
        if client_id in broker.links:
            broker.links[client_id].lost()
        if packet.clean_start and client_id in broker.sessions:
            broker.forget(client_id)
        present = client_id in broker.sessions
        broker.sessions.setdefault(client_id, Session(client_id))
        broker.queues.setdefault(client_id, deque())
        broker.links[client_id] = self
        self.client_id = client_id
        self.said += self.connection.accept(session_present=present, now_us=0)
        released = self.session.attach(
            packet, window=self.connection.receive_maximum, maximum=self.connection.terms.receive_maximum
        )
        for each in released:
            self.send(each)
        self.pump()

    def published(self, packet: Publish) -> None:
        if self.connection.version == 5:
            topic = self.connection.aliases_in.resolve(packet.topic.encode(), packet.properties.topic_alias)
            packet = Publish(
                topic.decode(),
                packet.payload,
                packet.qos,
                packet.retain,
                packet.dup,
                packet.packet_id,
                packet.properties,
            )
        incoming = self.session.exchange.incoming
        if packet.qos:
            arrival = incoming.arrive(packet.packet_id, qos=packet.qos)
            self.send(incoming.answer(packet.packet_id))
            if arrival is not Arrival.NEW:
                return
        self.broker.publish(self.client_id, packet)

    def pump(self) -> None:
        """Send again what must be, then what waits, as far as the window goes."""
        out = self.session.exchange.outgoing
        for again in out.again():
            self.send_message(again.message, again.packet_id, dup=True)
        queue = self.broker.queues[self.client_id]
        while queue and (not queue[0].qos or out.room):
            message = queue.popleft()
            self.send_message(message, out.send(message, qos=message.qos) if message.qos else 0)

    def send_message(self, message: Publish, packet_id: int, *, dup: bool = False) -> None:
        self.send(
            Publish(
                message.topic,
                message.payload,
                message.qos,
                message.retain,
                dup,
                packet_id,
                message.properties,
            )
        )
