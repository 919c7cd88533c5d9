"""Snapshots of a broker as tests need them."""

from __future__ import annotations

from penstock.model.instant import SECOND_US
from penstock.node.broker.status import Account, BrokerStatus, ClientStatus, SubscriptionStatus


def subscription(filter_: str, *, items: int = 0, level: int = 0, delivered: int = 0) -> SubscriptionStatus:
    """A subscription in which so many items wait."""
    return SubscriptionStatus(
        filter=filter_,
        qos=0,
        policy="",
        content_filter=False,
        account=Account(accepted=delivered + items, delivered=delivered, queued=items),
        level=level,
        items=items,
        bytes=items,
        packs=0,
        packs_by_level={},
        filters=(),
        digests=0,
        oldest_us=items,
        latency_p50_us=1,
        latency_p99_us=2,
    )


def client(client_id: str, *subscriptions: SubscriptionStatus) -> ClientStatus:
    """An attached client."""
    return ClientStatus(
        client_id=client_id,
        user="",
        state="attached",
        address="",
        protocol=5,
        since_us=0,
        expires_us=0,
        in_flight=0,
        behind=False,
        received=0,
        sent=0,
        subscriptions=subscriptions,
    )


def broker(second: int, *clients: ClientStatus) -> BrokerStatus:
    """A broker at that second."""
    return BrokerStatus(
        version="",
        started_us=0,
        now_us=second * SECOND_US,
        connections=0,
        sessions=0,
        subscriptions=0,
        retained=0,
        retained_bytes=0,
        messages_received=0,
        messages_sent=0,
        bytes_received=0,
        bytes_sent=0,
        refused={},
        unrouted=0,
        departed=Account(),
        clients=clients,
    )
