"""Both directions of one end of a session, and the four acknowledgements that concern them.

The same for a server and a client. Nothing here knows the connection: whoever drives it sends what is
returned, and calls `resume` when a connection takes the place of another.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from penstock.mqtt.acks import Ack, Puback, Pubcomp, Pubrec, Pubrel
from penstock.mqtt.incoming import Incoming
from penstock.mqtt.outgoing import Outgoing
from penstock.mqtt.packet_ids import MOST, PacketIds

M = TypeVar("M")


class Step(NamedTuple, Generic[M]):
    """What follows from an acknowledgement."""

    reply: Ack | None
    settled: M | None
    """The message that need not be kept any more."""
    reason: int
    """What the peer said about it."""


class Exchange(Generic[M]):
    """Messages of QoS 1 and 2 in flight, either way."""

    __slots__ = ("ids", "incoming", "outgoing")

    def __init__(self, *, window: int = MOST, maximum: int = MOST) -> None:
        self.ids = PacketIds()
        """Also for SUBSCRIBE and UNSUBSCRIBE, where this end sends them."""
        self.outgoing: Outgoing[M] = Outgoing(ids=self.ids, window=window)
        self.incoming = Incoming(maximum=maximum)

    def receive(self, ack: Ack) -> Step[M]:
        """An acknowledgement has come; afterwards there may be room, and more to send again."""
        reply: Ack | None = None
        settled: M | None = None
        match ack:
            case Puback():
                settled = self.outgoing.puback(ack.packet_id)
            case Pubrec():
                reply, settled = self.outgoing.pubrec(ack.packet_id, ack.reason)
            case Pubrel():
                reply = self.incoming.pubrel(ack.packet_id)
            case Pubcomp():
                self.outgoing.pubcomp(ack.packet_id)
        return Step(reply, settled, ack.reason)

    def resume(self, *, window: int, maximum: int = MOST) -> list[Pubrel]:
        """A new connection carries the session; what to send first. Then comes `outgoing.again`."""
        self.incoming.resume()
        self.incoming.maximum = maximum
        return self.outgoing.resume(window=window)
