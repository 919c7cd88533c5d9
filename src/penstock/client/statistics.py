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
    """Given to the connection; of QoS 1 and 2 each counts once, however often it was sent."""
    digested: int
    """Dropped by the client's own policy into digests."""
    waiting: int
    """For the connection, or for room in it."""
    expired: int
    """Were of no use any more when their turn came."""
    refused_early: int
    """Never sent: the node said when it was connected to that it takes no such messages."""
    abandoned: int
    """Were waiting when the client closed or failed."""
    acknowledged: int
    """Of those sent: QoS 1 and 2, taken by the node."""
    refused: int
    """Of those sent: QoS 1 and 2, not taken by the node."""
    in_flight: int
    """Of those sent: QoS 1 and 2, not answered yet."""
    packs: int
    """How often the client's policy made room."""

    @property
    def conserved(self) -> bool:
        """Whether every message is accounted for."""
        return self.published == (
            self.sent + self.digested + self.waiting + self.expired + self.refused_early + self.abandoned
        )


@dataclass(frozen=True, slots=True)
class ReceiveStatistics:
    """What came for one subscription, or for all of a client.

    Always: events + digested = taken + taken_digested + waiting + abandoned.
    """

    events: int
    """That came as themselves."""
    digests: int
    """That came."""
    digested: int
    """Events counted in the digests that came."""
    taken: int
    """Events the program took."""
    taken_digested: int
    """Events counted in digests the program took."""
    waiting: int
    """In the client's buffer, as themselves or counted in digests."""
    abandoned: int
    """Were in the buffer when the subscription ended."""
    repeated: int = 0
    """Messages of reliable streams that came once more, which nobody was shown; not among the events."""

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
    """Accepted by the node so far."""
    resumed: int
    """Of these, how many found their session still there."""
    reading: bool
    """False: nothing is read, because the program is behind."""
    sent: SendStatistics
    received: ReceiveStatistics
    """Of all subscriptions, past and present."""
    unclaimed: int
    """Messages that wait for a subscription: of a session that was there before."""
    unwanted: int
    """Messages no subscription of this client asked for, and for which there was no room."""
    unacknowledged: int
    """Messages of QoS 1 and 2 that the program has not taken yet."""
