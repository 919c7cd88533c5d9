"""The broker as its connections, publishers and sessions see it.

`Broker` is made of these parts, so they cannot name it; they name what they need of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from penstock.node.broker.answers import PublishingLink

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.model.instant import Instant
    from penstock.mqtt.packets.connect import Will
    from penstock.mqtt.packets.properties import Properties
    from penstock.mqtt.sessions.server import ServerConnection, Terms
    from penstock.node.access.gate import Gate
    from penstock.node.broker.client_log import ClientLog
    from penstock.node.broker.digests import DigestTopics
    from penstock.node.broker.extensions import SessionListener
    from penstock.node.broker.journal import Journal
    from penstock.node.broker.message import Message, Retained
    from penstock.node.broker.policies import Policies, Queueing
    from penstock.node.broker.routes import Fan, Router
    from penstock.node.broker.session import Session
    from penstock.node.broker.subscription import Subscription
    from penstock.node.config.schema import Config


class Host(Protocol):
    """The parts of a node that all its connections share."""

    config: Config
    gate: Gate
    clock: Callable[[], Instant]
    now_us: Instant
    """When the present turn of the loop began, about."""
    terms: Terms
    router: Router
    policies: Policies
    queueing: Queueing
    retained: Retained
    journal: Journal | None
    listeners: list[SessionListener]
    messages_received: int
    bytes_received: int
    bytes_sent: int
    unrouted: int
    told: DigestTopics
    client_log: ClientLog
    flushed_us: int
    """When something was written for the last time, about."""

    def count_refused(self, why: str, count: int = 1) -> None:
        """Count something refused; `why` is one of few texts."""
        ...

    def is_own(self, topic: str) -> bool:
        """Whether only the node publishes on a topic."""
        ...

    def properties(self, raw: bytes) -> Properties:
        """Decode the properties of a PUBLISH."""
        ...

    def accept(self, message: Message, fan: Fan, *, origin: object, now_us: Instant) -> int:
        """Give a message to its receivers; the reason code its publisher is told."""
        ...

    def publish_will(self, session: Session, will: Will) -> None:
        """Publish the will of a client whose connection is gone."""
        ...

    def subscribe(
        self, session: Session, subscription: Subscription, asked: Mapping[str, str] = ...
    ) -> Subscription:
        """Begin a subscription, or change the one to the same filter; the one in force."""
        ...

    def unsubscribe(self, session: Session, filter_: str, *, departed: bool = False) -> bool:
        """End a subscription; whether there was one."""
        ...


class ClientLink(PublishingLink, Protocol):
    """A connection, as seen by code that handles the requests of its client."""

    rules: ServerConnection
    why: str
    """Why the connection ended, for the log."""

    @property
    def broker(self) -> Host:
        """The broker of the connection."""
        ...

    def close(self) -> None:
        """Close after everything written has been sent."""
        ...
