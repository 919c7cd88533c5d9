"""The snapshot as people look at it: totals, and clients and subscriptions, those in trouble first.

The HTTP API answers with these rows, the dashboard shows them, and `penstock top` decodes them.
"""

from __future__ import annotations

from heapq import nlargest
from typing import TYPE_CHECKING, TypeVar

import msgspec

from penstock import limits
from penstock.model.instant import SECOND_US
from penstock.node.broker.status import Account, StoreStatus, SubscriptionStatus  # noqa: TC001  # msgspec reads them

if TYPE_CHECKING:
    from penstock.node.broker.status import BrokerStatus, ClientStatus
    from penstock.node.observe.status import NodeStatus
    from penstock.node.streams.status import StreamRow, StreamsStatus

_Row = TypeVar("_Row", bound=msgspec.Struct)


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Growth of the totals since the sample before, per second."""

    messages_received: float = 0.0
    messages_sent: float = 0.0
    bytes_received: float = 0.0
    bytes_sent: float = 0.0
    accepted: float = 0.0
    delivered: float = 0.0
    digested: float = 0.0
    counted: float = 0.0


class Grown(msgspec.Struct, frozen=True, gc=False):
    """Totals that only grow, at one moment; named as in `Rates`."""

    now_us: int
    messages_received: int
    messages_sent: int
    bytes_received: int
    bytes_sent: int
    accepted: int
    delivered: int
    digested: int
    counted: int


class Overview(msgspec.Struct, frozen=True, gc=False):
    """The node in figures."""

    version: str
    started_us: int
    now_us: int
    connections: int
    sessions: int
    attached: int
    detached: int
    behind: int
    """Attached clients whose transport takes nothing at the moment."""
    subscriptions: int
    waiting: int
    """Subscriptions with items in their queue."""
    retained: int
    retained_bytes: int
    messages_received: int
    messages_sent: int
    bytes_received: int
    bytes_sent: int
    refused: dict[str, int]
    unrouted: int
    account: Account
    """The sum over all subscriptions, past and present."""
    balanced: bool
    """Whether accepted = delivered + digested + counted + queued + abandoned."""
    rates: Rates
    queue_events: int
    """Items one queue may hold."""
    store: StoreStatus | None = None
    """Figures of the store; None if nothing is kept on disk."""
    faults: tuple[str, ...] = ()
    """Parts that do not work at the moment: the disk, the recorder, a control table, a stream."""
    parts: tuple[str, ...] = ()
    """Parts of the node that are on: channels, cluster, flows, notify, recorder, streams, tables."""


class ClientRow(msgspec.Struct, frozen=True, gc=False):
    """A client in one line, with those of its subscriptions that are furthest behind."""

    client_id: str
    user: str
    state: str
    address: str
    protocol: int
    since_us: int
    expires_us: int
    in_flight: int
    behind: bool
    received: int
    sent: int
    items: int
    bytes: int
    level: int
    """The highest among its subscriptions."""
    oldest_us: int
    wait_us: int
    """How long an event that arrives now will wait, at most; 0: not at all, or not known."""
    latency_p99_us: int
    dropped: int
    """Events that the filters of its policies dropped into digests."""
    digests: int
    account: Account
    subscription_count: int
    subscriptions: tuple[SubscriptionStatus, ...]


class SubscriptionRow(msgspec.Struct, frozen=True, gc=False):
    """A subscription and the client that has it."""

    client_id: str
    state: str
    behind: bool
    subscription: SubscriptionStatus


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """The rows that a live view shows; sent once a second."""

    overview: Overview
    clients: tuple[ClientRow, ...]
    slow: tuple[SubscriptionRow, ...]


def _taken(kind: type[_Row], source: object, **known: object) -> _Row:
    """Make a row of the attributes that have the names of its fields; `known` comes before `source`."""
    names = kind.__struct_fields__
    return kind(**{name: known[name] if name in known else getattr(source, name) for name in names})


def overview(status: NodeStatus, *, rates: Rates) -> Overview:
    """Return the totals."""
    account = status.broker.account
    return _taken(
        Overview,
        status.broker,
        account=account,
        balanced=account.balanced,
        rates=rates,
        faults=status.faults,
        parts=status.parts,
    )


def rates(before: Grown | None, now: Grown) -> Rates:
    """Return how fast the totals grew between two moments."""
    if before is None or now.now_us <= before.now_us:
        return Rates()
    per_s = SECOND_US / (now.now_us - before.now_us)
    return Rates(
        *(float(getattr(now, name) - getattr(before, name)) * per_s for name in Rates.__struct_fields__)
    )


def client_row(client: ClientStatus) -> ClientRow:
    """Return a client in one line."""
    worst = nlargest(limits.LIVE_SUBSCRIPTIONS, client.subscriptions, key=_trouble)
    return _taken(ClientRow, client, subscriptions=tuple(worst))


def subscription_row(client: ClientStatus, subscription: SubscriptionStatus) -> SubscriptionRow:
    """Return a subscription with the client that has it."""
    return SubscriptionRow(client.client_id, client.state, client.behind, subscription)


def clients(status: BrokerStatus, *, search: str = "", state: str = "") -> list[ClientStatus]:
    """Return the clients whose id, user or address holds a text, those furthest behind first, else by id."""
    wanted = search.casefold()
    found = [
        client
        for client in status.clients
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
    status: BrokerStatus, *, client_id: str | None = None, filter_: str | None = None
) -> list[SubscriptionRow]:
    """Return the subscriptions of one client or of all, those furthest behind first."""
    rows = [
        subscription_row(client, one)
        for client in status.clients
        if client_id is None or client.client_id == client_id
        for one in client.subscriptions
        if filter_ is None or one.filter == filter_
    ]
    rows.sort(key=lambda row: (row.client_id, row.subscription.filter))
    rows.sort(key=_row_trouble, reverse=True)
    return rows


def slow(status: BrokerStatus, *, most: int) -> list[SubscriptionRow]:
    """Return the subscriptions in which something waits: longest wait first, then deepest queue."""
    waiting = (
        subscription_row(client, one)
        for client in status.clients
        for one in client.subscriptions
        if one.items
    )
    return nlargest(most, waiting, key=_row_trouble)


def snapshot(status: NodeStatus, *, rates: Rates) -> Snapshot:
    """Return what a live view shows."""
    worst = nlargest(limits.LIVE_CLIENTS, status.broker.clients, key=_client_trouble)
    return Snapshot(
        overview=overview(status, rates=rates),
        clients=tuple(map(client_row, worst)),
        slow=tuple(slow(status.broker, most=limits.METRICS_SLOWEST)),
    )


def streams(status: StreamsStatus, *, search: str = "") -> list[StreamRow]:
    """Return the streams whose name, topics or host hold a text: stopped ones first, then by lag."""
    wanted = search.casefold()
    found = [
        row
        for row in status.streams
        if not wanted or any(wanted in text.casefold() for text in (row.name, row.host, *row.topics))
    ]
    found.sort(key=lambda row: (not row.stopped, not row.recovering, -row.lag_s, row.name))
    return found


def _trouble(one: SubscriptionStatus) -> tuple[int, int, int]:
    """Order by longest wait, then deepest queue, then most events not delivered as themselves."""
    return (one.oldest_us, one.items, one.account.accepted - one.account.delivered)


def _row_trouble(row: SubscriptionRow) -> tuple[int, int, int]:
    return _trouble(row.subscription)


def _client_trouble(client: ClientStatus) -> tuple[bool, tuple[int, int, int]]:
    return (client.behind, max(map(_trouble, client.subscriptions), default=(0, 0, 0)))
