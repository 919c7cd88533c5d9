"""A node's status as people look at it: totals, and clients and subscriptions, those in trouble first."""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING

from penstock import limits
from penstock.model.instant import SECOND_US
from penstock.node.broker.status import Account
from penstock.node.http.answers import ClientRow, Overview, Rates, Snapshot, SubscriptionRow

if TYPE_CHECKING:
    from penstock.node.broker.status import BrokerStatus, ClientStatus, SubscriptionStatus
    from penstock.node.observe.status import NodeStatus
    from penstock.node.streams.status import StreamRow, StreamsStatus


def overview(status: NodeStatus, *, rates: Rates, queue_events: int) -> Overview:
    """The totals."""
    account = status.broker.account
    attached = sum(client.state == "attached" for client in status.broker.clients)
    return Overview(
        version=status.broker.version,
        started_us=status.broker.started_us,
        now_us=status.broker.now_us,
        connections=status.broker.connections,
        sessions=status.broker.sessions,
        attached=attached,
        detached=len(status.broker.clients) - attached,
        behind=sum(client.behind for client in status.broker.clients),
        subscriptions=status.broker.subscriptions,
        waiting=sum(one.items > 0 for client in status.broker.clients for one in client.subscriptions),
        retained=status.broker.retained,
        retained_bytes=status.broker.retained_bytes,
        messages_received=status.broker.messages_received,
        messages_sent=status.broker.messages_sent,
        bytes_received=status.broker.bytes_received,
        bytes_sent=status.broker.bytes_sent,
        refused=status.broker.refused,
        unrouted=status.broker.unrouted,
        account=account,
        balanced=account.balanced,
        rates=rates,
        queue_events=queue_events,
        store=status.broker.store,
        faults=status.faults,
    )


def rates(before: BrokerStatus | None, now: BrokerStatus) -> Rates:
    """How fast the totals grew between two looks at the node."""
    if before is None or now.now_us <= before.now_us:
        return Rates()
    per_s = SECOND_US / (now.now_us - before.now_us)
    then, today = before.account, now.account
    return Rates(
        messages_received=(now.messages_received - before.messages_received) * per_s,
        messages_sent=(now.messages_sent - before.messages_sent) * per_s,
        bytes_received=(now.bytes_received - before.bytes_received) * per_s,
        bytes_sent=(now.bytes_sent - before.bytes_sent) * per_s,
        accepted=(today.accepted - then.accepted) * per_s,
        delivered=(today.delivered - then.delivered) * per_s,
        digested=(today.digested - then.digested) * per_s,
    )


def client_row(client: ClientStatus) -> ClientRow:
    """A client in one line."""
    subscriptions = client.subscriptions
    total = Account()
    for one in subscriptions:
        total += one.account
    return ClientRow(
        client_id=client.client_id,
        user=client.user,
        state=client.state,
        address=client.address,
        protocol=client.protocol,
        since_us=client.since_us,
        expires_us=client.expires_us,
        in_flight=client.in_flight,
        behind=client.behind,
        received=client.received,
        sent=client.sent,
        items=sum(one.items for one in subscriptions),
        bytes=sum(one.bytes for one in subscriptions),
        level=max((one.level for one in subscriptions), default=0),
        oldest_us=max((one.oldest_us for one in subscriptions), default=0),
        latency_p99_us=max((one.latency_p99_us for one in subscriptions), default=0),
        dropped=sum(found.dropped for one in subscriptions for found in one.filters),
        digests=sum(one.digests for one in subscriptions),
        account=total,
        subscription_count=len(subscriptions),
        subscriptions=tuple(nlargest(limits.LIVE_SUBSCRIPTIONS, subscriptions, key=_trouble)),
    )


def clients(status: NodeStatus, *, search: str = "", state: str = "") -> list[ClientStatus]:
    """Clients whose id, user or address holds a text, those furthest behind first, else by id."""
    wanted = search.casefold()
    found = [
        client
        for client in status.broker.clients
        if (not state or client.state == state)
        and (
            not wanted
            or wanted in client.client_id.casefold()
            or wanted in client.user.casefold()
            or wanted in client.address
        )
    ]
    found.sort(key=lambda client: client.client_id)
    found.sort(key=_client_trouble, reverse=True)
    return found


def subscriptions(
    status: NodeStatus, *, client_id: str | None = None, filter_: str | None = None
) -> list[SubscriptionRow]:
    """Subscriptions of one client or of all, those furthest behind first."""
    rows = [
        SubscriptionRow(client.client_id, client.state, client.behind, one)
        for client in status.broker.clients
        if client_id is None or client.client_id == client_id
        for one in client.subscriptions
        if filter_ is None or one.filter == filter_
    ]
    rows.sort(key=lambda row: (row.client_id, row.subscription.filter))
    rows.sort(key=_row_trouble, reverse=True)
    return rows


def slow(status: NodeStatus, *, most: int) -> list[SubscriptionRow]:
    """The subscriptions in which something waits: longest wait first, then deepest queue."""
    waiting = (
        SubscriptionRow(client.client_id, client.state, client.behind, one)
        for client in status.broker.clients
        for one in client.subscriptions
        if one.items
    )
    return nlargest(most, waiting, key=_row_trouble)


def snapshot(status: NodeStatus, *, rates: Rates, queue_events: int) -> Snapshot:
    """What a live view shows."""
    return Snapshot(
        overview=overview(status, rates=rates, queue_events=queue_events),
        clients=tuple(
            map(client_row, nlargest(limits.LIVE_CLIENTS, status.broker.clients, key=_client_trouble))
        ),
        slow=tuple(slow(status, most=limits.METRICS_SLOWEST)),
    )


def streams(status: StreamsStatus, *, search: str = "") -> list[StreamRow]:
    """Streams whose name, topics or host hold a text: stopped ones first, then those furthest behind."""
    wanted = search.casefold()
    found = [
        row
        for row in status.streams
        if not wanted or any(wanted in text.casefold() for text in (row.name, row.host, *row.topics))
    ]
    found.sort(key=lambda row: (row.state != "stopped", not row.recovering, -row.lag_s, row.name))
    return found


def _trouble(one: SubscriptionStatus) -> tuple[int, int, int]:
    """Longest wait, then deepest queue, then most events not delivered as themselves."""
    return (one.oldest_us, one.items, one.account.accepted - one.account.delivered)


def _row_trouble(row: SubscriptionRow) -> tuple[int, int, int]:
    return _trouble(row.subscription)


def _client_trouble(client: ClientStatus) -> tuple[bool, tuple[int, int, int]]:
    return (client.behind, max(map(_trouble, client.subscriptions), default=(0, 0, 0)))
