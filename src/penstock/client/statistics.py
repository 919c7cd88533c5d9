"""Snapshots of a client's counters; every message is accounted for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SendStatistics:
    """Messages the program published.

    Always: published = sent + digested + waiting + expired + refused_early + abandoned.
    """

    published: int
    sent: int
    """Messages handed to the connection; those of QoS 1 and 2 count once, however often they were sent."""
    digested: int
    """Dropped by the client's own policy into digests."""
    waiting: int
    """Messages in the send buffer."""
    expired: int
    """Messages whose expiry time passed in the send buffer."""
    refused_early: int
    """Messages that the node does not accept, as it said in CONNACK; never sent."""
    abandoned: int
    """Messages in the send buffer when the client closed or failed."""
    acknowledged: int
    """Messages of QoS 1 and 2 that the node acknowledged."""
    refused: int
    """Messages of QoS 1 and 2 that the node refused."""
    in_flight: int
    """Messages of QoS 1 and 2 without an answer yet."""
    packs: int
    """Packs of the send buffer by the client's policy."""

    @property
    def conserved(self) -> bool:
        """Whether every message is accounted for."""
        return self.published == (
            self.sent + self.digested + self.waiting + self.expired + self.refused_early + self.abandoned
        )


@dataclass(frozen=True, slots=True)
class ReceiveStatistics:
    """Counts of what one subscription, or all of a client, received.

    Always: events + digested = taken + taken_digested + waiting + abandoned.
    """

    events: int
    """Events received."""
    digests: int
    """Digests received."""
    digested: int
    """Events counted in the digests received."""
    taken: int
    """Events the program took."""
    taken_digested: int
    """Events counted in digests the program took."""
    waiting: int
    """Events in the client's buffer, as themselves or counted in digests."""
    abandoned: int
    """Events in the buffer when the subscription ended."""
    repeated: int = 0
    """Messages of reliable streams that were received again and left out; not among the events."""

    def __add__(self, other: ReceiveStatistics) -> ReceiveStatistics:
        return ReceiveStatistics(
            self.events + other.events,
            self.digests + other.digests,
            self.digested + other.digested,
            self.taken + other.taken,
            self.taken_digested + other.taken_digested,
            self.waiting + other.waiting,
            self.abandoned + other.abandoned,
            self.repeated + other.repeated,
        )

    @property
    def conserved(self) -> bool:
        """Whether every event is accounted for."""
        return self.events + self.digested == self.taken + self.taken_digested + self.waiting + self.abandoned


NOTHING = ReceiveStatistics(0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class ClientStatistics:
    """A client at one moment."""

    client_id: str
    connected: bool
    connections: int
    """Connections that the node accepted so far."""
    resumed: int
    """Connections at which the node still had the session."""
    reading: bool
    """False while reading is stopped because the program is behind."""
    sent: SendStatistics
    received: ReceiveStatistics
    """Counts of all subscriptions, past and present."""
    unclaimed: int
    """Messages of a resumed session that wait for the program to subscribe."""
    unwanted: int
    """Messages that matched no subscription and found no room to wait for one."""
    unacknowledged: int
    """Messages of QoS 1 and 2 that the program has not taken yet."""
