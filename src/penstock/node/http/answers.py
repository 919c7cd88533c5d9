"""Values that the API takes and answers with; their JSON Schemas are in the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from penstock import limits
from penstock.core.slots.flows import FlowStatistics  # noqa: TC001  # msgspec reads annotations
from penstock.node.broker.status import Account, ClientStatus, FilterStatus, StoreStatus, SubscriptionStatus
from penstock.node.slots.status import FlowsStatus  # noqa: TC001  # msgspec reads annotations
from penstock.node.streams.status import NeighbourRow, StreamRow  # noqa: TC001

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not answered (RFC 9457)."""

    title: str
    status: int
    detail: str
    """What was wrong, and what to do about it."""
    where: str = ""
    """The part of the request it is about."""
    policy: dict[str, Any] | None = None
    """Of a bad policy: problem, path, line, column, what is allowed, a near match."""


class Rates(msgspec.Struct, frozen=True, gc=False):
    """Since the sample before, per second."""

    messages_received: float = 0.0
    messages_sent: float = 0.0
    bytes_received: float = 0.0
    bytes_sent: float = 0.0
    accepted: float = 0.0
    delivered: float = 0.0
    digested: float = 0.0


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
    """Of all subscriptions, past and present."""
    balanced: bool
    """Whether accepted = delivered + digested + queued + abandoned."""
    rates: Rates
    queue_events: int
    """Items one queue may hold."""
    store: StoreStatus | None = None
    """None: nothing survives a restart."""
    faults: tuple[str, ...] = ()
    """What does not work at the moment: the disk, the recorder, a control table, a stream."""


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
    latency_p99_us: int
    dropped: int
    """Events its policies' filters dropped into digests."""
    digests: int
    account: Account
    subscription_count: int
    subscriptions: tuple[SubscriptionStatus, ...]


class SubscriptionRow(msgspec.Struct, frozen=True, gc=False):
    """A subscription and whose it is."""

    client_id: str
    state: str
    behind: bool
    subscription: SubscriptionStatus


class Clients(msgspec.Struct, frozen=True, gc=False):
    """Some of the clients, those furthest behind first."""

    total: int
    offset: int
    clients: tuple[ClientRow, ...]


class Subscriptions(msgspec.Struct, frozen=True, gc=False):
    """Some of the subscriptions, those furthest behind first."""

    total: int
    offset: int
    subscriptions: tuple[SubscriptionRow, ...]


class Flows(msgspec.Struct, frozen=True, gc=False):
    """Some of the flows of constant rate: silent ones first, then refused, served and learning ones."""

    enabled: bool
    """Whether a listener has slots."""
    total: int
    offset: int
    flows: tuple[FlowStatistics, ...]
    status: FlowsStatus | None


class Streams(msgspec.Struct, frozen=True):
    """Some of the reliable streams, those in trouble first, and all neighbours."""

    enabled: bool
    """Whether this node has streams."""
    total: int
    offset: int
    streams: tuple[StreamRow, ...]
    neighbours: tuple[NeighbourRow, ...] = ()
    node: str = ""
    """This node's name in the tree."""
    faults: tuple[str, ...] = ()
    """What does not work: logs, the file of places."""


class Snapshot(msgspec.Struct, frozen=True, gc=False):
    """What a live view shows; sent once a second."""

    overview: Overview
    clients: tuple[ClientRow, ...]
    slow: tuple[SubscriptionRow, ...]


class Series(msgspec.Struct, frozen=True, gc=False):
    """A subscription's past, one list per quantity; the n-th members belong together."""

    at_us: list[int]
    level: list[int]
    items: list[int]
    oldest_us: list[int]
    latency_p50_us: list[int]
    latency_p99_us: list[int]
    delivered_per_s: list[int]
    digested_per_s: list[int]


class Timeline(msgspec.Struct, frozen=True, gc=False):
    """The past of one subscription."""

    client_id: str
    filter: str
    series: Series


class Remembered(msgspec.Struct, frozen=True, gc=False):
    """A subscription that has a history."""

    client_id: str
    filter: str


class Histories(msgspec.Struct, frozen=True, gc=False):
    """Which subscriptions have a history."""

    samples_most: int
    histories: tuple[Remembered, ...]


class PolicyFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """A policy, checked."""

    ok: bool
    name: str = ""
    levels: int = 0
    filters: int = 0
    explanation: list[str] = []
    warnings: list[str] = []
    error: str = ""
    """What is wrong with it."""
    facts: dict[str, Any] | None = None
    """The same in parts: problem, path, line, column, allowed, near."""
    text: str = ""
    """The policy itself, where it is a registered one that was asked for."""


class Registered(msgspec.Struct, frozen=True, gc=False):
    """A policy of the configuration."""

    name: str
    policy: PolicyFacts


class Policies(msgspec.Struct, frozen=True, gc=False):
    """The policies of the configuration."""

    policies: tuple[Registered, ...]


class PolicyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to look at."""

    policy: str


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to try on what is being published."""

    policy: _Text
    filter: _Text = "#"
    """Topic filter: which events."""
    events: Annotated[int, msgspec.Meta(ge=1, le=limits.HTTP_TRY_EVENTS)] | None = None
    """Stop when so many came; if omitted, as many as a queue holds."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=limits.HTTP_TRY_S)] = 5.0
    """Stop after this time."""


class LevelEffect(msgspec.Struct, frozen=True, gc=False):
    """The queue after packing at one level."""

    level: int
    """0: the worst case, which follows when the highest level frees too little."""
    kept: int
    digested: int
    digests: int
    share: float
    """Of the events that are kept."""


class Tried(msgspec.Struct, frozen=True, gc=False):
    """What a policy would have done to the events seen, had they waited in one queue."""

    name: str
    events: int
    bytes: int
    seconds: float
    """How long events were collected."""
    topics: int
    levels: tuple[LevelEffect, ...]
    filters: tuple[FilterStatus, ...]
    """What each filter did when packed at the highest level."""
    items: tuple[dict[str, Any], ...]
    """The queue after the highest level: events and digests in order, the first of them."""
    items_total: int
    warnings: list[str]


class Application(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy for a subscription that exists."""

    client_id: _Text
    filter: _Text
    policy: str | None
    """Text of a policy, or the name of a registered one; null: none any more."""


class Publication(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message to publish."""

    topic: _Text
    payload: str = ""
    qos: Annotated[int, msgspec.Meta(ge=0, le=2)] = 0
    retain: bool = False


class Farewell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A client to disconnect."""

    client_id: _Text


class Done(msgspec.Struct, frozen=True, gc=False):
    """It was done."""

    done: str


__all__ = [
    "Account",
    "Application",
    "ClientRow",
    "ClientStatus",
    "Clients",
    "Done",
    "Farewell",
    "Flows",
    "Histories",
    "LevelEffect",
    "Overview",
    "Policies",
    "PolicyFacts",
    "PolicyText",
    "Problem",
    "Publication",
    "Rates",
    "Registered",
    "Remembered",
    "Series",
    "Snapshot",
    "Streams",
    "SubscriptionRow",
    "Subscriptions",
    "Timeline",
    "Trial",
    "Tried",
]
