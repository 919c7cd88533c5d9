"""Frozen snapshots of the broker: totals, clients, subscriptions, filters, the journal.

The account is kept per subscription and adds up at every moment:

    accepted = delivered + digested + counted + queued + abandoned
"""

from __future__ import annotations

from collections import Counter

import msgspec


class Account(msgspec.Struct, frozen=True, gc=False):
    """Events of a subscription, or of all of them."""

    accepted: int = 0
    """Routed to the receiver's queue."""
    delivered: int = 0
    """Sent to the receiver as themselves."""
    digested: int = 0
    """Dropped, and counted in digests that the receiver was sent in its stream."""
    counted: int = 0
    """Dropped without a digest in the stream of the receiver; told on `$digest/…` to whoever subscribes."""
    queued: int = 0
    """Waiting, as themselves or counted in waiting digests."""
    abandoned: int = 0
    """Were waiting when their session departed or their subscription ended, or expired while they waited.
    What a member of a shared group leaves is accepted by another."""
    oversized: int = 0
    """Larger than the receiver takes; they are among the digested and the counted ones."""

    def __add__(self, other: Account) -> Account:
        return Account(
            self.accepted + other.accepted,
            self.delivered + other.delivered,
            self.digested + other.digested,
            self.counted + other.counted,
            self.queued + other.queued,
            self.abandoned + other.abandoned,
            self.oversized + other.oversized,
        )

    @property
    def unaccounted(self) -> int:
        """Events of which nothing is known; 0, or there is a bug."""
        found = self.delivered + self.digested + self.counted + self.queued + self.abandoned
        return self.accepted - found

    @property
    def balanced(self) -> bool:
        """Whether nothing is unaccounted for."""
        return not self.unaccounted


class FilterStatus(msgspec.Struct, frozen=True, gc=False):
    """Counts of the events that one filter of a policy saw and dropped."""

    level: int
    position: int
    filter: str
    seen: int
    dropped: int


class SubscriptionStatus(msgspec.Struct, frozen=True, gc=False):
    """One subscription of one client, with its queue."""

    filter: str
    qos: int
    policy: str
    """Name of the policy; `inline` if it has none, empty without a policy."""
    content_filter: bool
    account: Account
    level: int
    items: int
    bytes: int
    packs: int
    packs_by_level: dict[int, int]
    filters: tuple[FilterStatus, ...]
    digests: int
    """Digests sent."""
    digests_in_stream: bool
    """Whether digests come in the stream of the subscription; else they are told on `$digest/…`."""
    oldest_us: int
    """How long the oldest waiting event has waited; 0 if none waits."""
    latency_p50_us: int
    """From arrival to being handed to the transport, of the last events sent."""
    latency_p99_us: int
    fresh_us: int = 0
    """Time that no event should wait longer; 0: any time."""
    wait_us: int = 0
    """How long an event that arrives now will wait; 0: not at all, or the client's pace is not known."""
    urgent: int = 0
    """Events waiting that go ahead of the others."""
    packs_in_time: int = 0
    """Packs that `fresh` asked for, and not the capacity."""
    bytes_per_s: int = 0
    """Bytes that the client takes a second, by the newest observations; 0: not known."""


class ClientStatus(msgspec.Struct, frozen=True, gc=False):
    """Figures of one session."""

    client_id: str
    user: str
    state: str
    """attached or detached."""
    address: str
    protocol: int
    """4: MQTT 3.1.1, 5: MQTT 5."""
    since_us: int
    """When it attached or detached, in microseconds since 1970."""
    expires_us: int
    """When a detached session departs; 0: never or not detached."""
    in_flight: int
    """QoS 1 and 2 messages sent and not acknowledged."""
    behind: bool
    """Whether the transport takes nothing at the moment."""
    received: int
    sent: int
    subscriptions: tuple[SubscriptionStatus, ...]

    # Sums and extremes over the subscriptions: a client in one line of a table.

    @property
    def items(self) -> int:
        return sum(one.items for one in self.subscriptions)

    @property
    def bytes(self) -> int:
        return sum(one.bytes for one in self.subscriptions)

    @property
    def level(self) -> int:
        return max((one.level for one in self.subscriptions), default=0)

    @property
    def oldest_us(self) -> int:
        return max((one.oldest_us for one in self.subscriptions), default=0)

    @property
    def wait_us(self) -> int:
        return max((one.wait_us for one in self.subscriptions), default=0)

    @property
    def latency_p99_us(self) -> int:
        return max((one.latency_p99_us for one in self.subscriptions), default=0)

    @property
    def dropped(self) -> int:
        """Events that the filters of its policies dropped into digests."""
        return sum(found.dropped for one in self.subscriptions for found in one.filters)

    @property
    def digests(self) -> int:
        return sum(one.digests for one in self.subscriptions)

    @property
    def account(self) -> Account:
        return sum((one.account for one in self.subscriptions), Account())

    @property
    def subscription_count(self) -> int:
        return len(self.subscriptions)


class StoreStatus(msgspec.Struct, frozen=True, gc=False):
    """The journal of sessions and retained messages."""

    fault: str
    """Why nothing can be written; empty if it can."""
    rows: int
    """Rows that wait for the disk."""
    answers: int
    """Answers to publishers that wait for those rows."""


class BrokerStatus(msgspec.Struct, frozen=True, gc=False):
    """The broker at one moment."""

    version: str
    started_us: int
    now_us: int
    connections: int
    sessions: int
    subscriptions: int
    retained: int
    retained_bytes: int
    messages_received: int
    messages_sent: int
    bytes_received: int
    bytes_sent: int
    refused: dict[str, int]
    """Connections and packets refused, by reason."""
    unrouted: int
    """Messages without a subscriber."""
    departed: Account
    """Account of sessions and subscriptions that are gone, so that totals never fall."""
    clients: tuple[ClientStatus, ...]
    store: StoreStatus | None = None
    """None: nothing survives a restart."""
    queue_events: int = 0
    """Items one queue may hold."""

    @property
    def account(self) -> Account:
        """The sum over all subscriptions, past and present."""
        total = self.departed
        for client in self.clients:
            for subscription in client.subscriptions:
                total += subscription.account
        return total

    @property
    def attached(self) -> int:
        """Clients that are connected."""
        return sum(client.state == "attached" for client in self.clients)

    @property
    def detached(self) -> int:
        """Clients whose session waits for them."""
        return len(self.clients) - self.attached

    @property
    def disconnected(self) -> int:
        """Sessions without a connection, as mosquitto counts them."""
        return max(0, self.sessions - self.connections)

    @property
    def behind(self) -> int:
        """Attached clients whose transport takes nothing at the moment."""
        return sum(client.behind for client in self.clients)

    @property
    def waiting(self) -> int:
        """Subscriptions with items in their queue."""
        return sum(one.items > 0 for client in self.clients for one in client.subscriptions)

    @property
    def levels(self) -> dict[int, int]:
        """How many subscriptions are at each level."""
        return dict(Counter(one.level for client in self.clients for one in client.subscriptions))

    @property
    def faults(self) -> tuple[str, ...]:
        """Faults at the moment, each with its consequence."""
        if self.store is None or not self.store.fault:
            return ()
        consequence = (
            "nothing that must survive a restart is acknowledged, "
            f"{self.store.answers:,} answers to publishers wait"
        )
        return (f"{self.store.fault}; {consequence}",)
