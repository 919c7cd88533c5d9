"""What must survive a restart, as the sessions tell it while it happens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from penstock.model.event import Event
    from penstock.node.delivery import Delivery
    from penstock.node.publishing import Publisher
    from penstock.node.session import Session
    from penstock.node.subscription import Subscription


class Journal(Protocol):
    """Where sessions that outlive their connections, their messages and retained ones are written down."""

    def accepted(self, session: Delivery, subscription: Subscription, event: Event) -> int:
        """A QoS 1 or 2 message was accepted for such a session; its place from now on."""
        ...

    def sent(self, place: int, *, packet_id: int, qos: int) -> None:
        """It is in flight."""
        ...

    def released(self, place: int) -> None:
        """The client has it (QoS 2) and was sent a PUBREL."""
        ...

    def settled(self, place: int) -> None:
        """Nobody needs it any more."""
        ...

    def packed(self, session: Delivery, subscription: Subscription) -> None:
        """Something was queued; the queue may have dropped events into digests."""
        ...

    def received(self, session: Session, packet_id: int) -> None:
        """A QoS 2 message of this client was accepted."""
        ...

    def completed(self, session: Session, packet_id: int) -> None:
        """The client released it."""
        ...

    def hold(self, publisher: Publisher, packet_id: int, qos: int, reason: int) -> bool:
        """Whether the publisher's answer waits until what was accepted last is on disk."""
        ...

    def retained(self, event: Event) -> None:
        """A topic's retained message has changed."""
        ...

    def session_changed(self, session: Session) -> None:
        """Its expiry, its subscriptions or its connection have changed."""
        ...

    def session_ended(self, session: Session) -> None:
        """It departed."""
        ...
