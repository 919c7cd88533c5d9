"""A client's side of a session: messages in flight either way, and requests that wait for their answer.

The counterpart of `session.py`, with the same `Exchange` inside. The owner sends what is returned, in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from penstock.errors import ProtocolError
from penstock.mqtt.acks import Ack
from penstock.mqtt.exchange import Exchange
from penstock.mqtt.incoming import Arrival
from penstock.mqtt.properties import NONE, Properties
from penstock.mqtt.publish import Publish
from penstock.mqtt.reasons import Reason
from penstock.mqtt.subscribe import Suback, Subscribe, Subscription, Unsuback, Unsubscribe

if TYPE_CHECKING:
    from penstock.mqtt.packet import Packet


class Settled(NamedTuple):
    """A message of ours is done with."""

    packet_id: int
    message: Publish
    reason: int
    words: str = ""
    """What the server says about it."""


class Answered(NamedTuple):
    """A SUBSCRIBE or UNSUBSCRIBE of ours has its answer."""

    request: Subscribe | Unsubscribe
    answer: Suback | Unsuback


class Received(NamedTuple):
    """A message for us, its topic resolved. With QoS 1 and 2, `ClientSession.answer` follows."""

    message: Publish


class Outcome(NamedTuple):
    """What follows from a packet."""

    send: list[Packet]
    happened: Settled | Answered | Received | None = None


class ClientSession:
    """What a client keeps while connections come and go."""

    def __init__(self) -> None:
        self.exchange: Exchange[Publish] = Exchange()
        self._requests: dict[int, Subscribe | Unsubscribe] = {}
        self._dup = True
        """Whether the server may know the messages that are sent again."""

    @property
    def room(self) -> int:
        """How many QoS 1 and 2 messages may be published now."""
        return self.exchange.outgoing.room

    def publish(self, message: Publish) -> Publish:
        """The packet to send; with QoS 1 and 2 there must be `room`."""
        if not message.qos:
            return message
        return replace(message, packet_id=self.exchange.outgoing.send(message, qos=message.qos))

    def subscribe(self, *subscriptions: Subscription, properties: Properties = NONE) -> Subscribe:
        """The packet to send; `Answered` follows."""
        request = Subscribe(self.exchange.ids.take(), subscriptions, properties)
        self._requests[request.packet_id] = request
        return request

    def unsubscribe(self, *filters: str, properties: Properties = NONE) -> Unsubscribe:
        """The packet to send; `Answered` follows."""
        request = Unsubscribe(self.exchange.ids.take(), filters, properties)
        self._requests[request.packet_id] = request
        return request

    def resume(self, *, session_present: bool, window: int, maximum: int) -> list[Packet]:
        """A new connection is accepted; what to send first. Requests without answer are to be made anew.

        Where the server has no session, messages it had not answered are sent as new ones, in order, and
        those it had received (PUBREC) are done.
        """
        for packet_id in self._requests:
            self.exchange.ids.free(packet_id)
        self._requests.clear()
        if not session_present:
            unanswered = self.exchange.outgoing.unanswered()
            self.exchange = Exchange()
            self.exchange.outgoing.restore(unanswered=unanswered, released=())
        self._dup = session_present
        released = self.exchange.resume(window=window, maximum=maximum)
        return [*released, *self._again()]

    def receive(self, packet: Packet) -> Outcome:
        """A packet of the server, after `ClientConnection.receive`."""
        match packet:
            case Publish():
                return self._arrived(packet)
            case Ack():
                step = self.exchange.receive(packet)
                send: list[Packet] = [step.reply] if step.reply is not None else []
                send += self._again()
                if step.settled is None:
                    return Outcome(send)
                words = packet.properties.reason_string or ""
                return Outcome(send, Settled(packet.packet_id, step.settled, step.reason, words))
            case Suback() | Unsuback():
                return Outcome([], self._answered(packet))
            case _:
                return Outcome([])

    def answer(self, packet_id: int, *, reason: int = Reason.SUCCESS) -> Ack:
        """The acknowledgement of a message received with QoS 1 or 2, once it is in safe hands."""
        return self.exchange.incoming.answer(packet_id, reason=reason)

    def _arrived(self, packet: Publish) -> Outcome:
        if not packet.qos:
            return Outcome([], Received(packet))
        match self.exchange.incoming.arrive(packet.packet_id, qos=packet.qos):
            case Arrival.NEW:
                return Outcome([], Received(packet))
            case Arrival.AGAIN:
                return Outcome([self.answer(packet.packet_id)])
            case Arrival.PENDING:
                return Outcome([])

    def _answered(self, packet: Suback | Unsuback) -> Answered:
        request = self._requests.pop(packet.packet_id, None)
        kind = "SUBACK" if isinstance(packet, Suback) else "UNSUBACK"
        if request is None or isinstance(request, Subscribe) is not isinstance(packet, Suback):
            raise ProtocolError(f"no request has the packet identifier {packet.packet_id}", where=kind)
        self.exchange.ids.free(packet.packet_id)
        asked = len(request.subscriptions if isinstance(request, Subscribe) else request.filters)
        if len(packet.reasons) not in (asked, 0 if isinstance(packet, Unsuback) else asked):
            raise ProtocolError(f"{len(packet.reasons)} reason codes for {asked} filters", where=kind)
        return Answered(request, packet)

    def _again(self) -> list[Packet]:
        return [
            replace(each.message, packet_id=each.packet_id, dup=self._dup)
            for each in self.exchange.outgoing.again()
        ]
