"""Bodies of requests and answers of the API, as far as they are not rows of the snapshot.

Their JSON Schemas are in the OpenAPI document, with these sentences as descriptions.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from penstock import limits
from penstock.core.slots.statistics import FlowStatistics  # noqa: TC001  # msgspec reads annotations
from penstock.node.broker.status import FilterStatus  # noqa: TC001
from penstock.node.cluster.status import ClusterStatus  # noqa: TC001
from penstock.node.observe.history import Series  # noqa: TC001
from penstock.node.observe.rows import ClientRow, SubscriptionRow  # noqa: TC001
from penstock.node.slots.status import FlowsStatus  # noqa: TC001  # msgspec reads annotations
from penstock.node.store.control_table import TableStatus  # noqa: TC001
from penstock.node.streams.status import NeighbourRow, StreamRow  # noqa: TC001

_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=65_535)]


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why a request was not answered (RFC 9457)."""

    title: str
    status: int
    detail: str
    """Says what was wrong, and what to do about it."""
    where: str = ""
    """The parameter, header or field of the body that is wrong."""
    policy: dict[str, Any] | None = None
    """If a policy is wrong: problem, path, line, column, what is allowed, a near match."""


class Clients(msgspec.Struct, frozen=True, gc=False):
    """A page of the clients, those furthest behind first."""

    total: int
    offset: int
    clients: tuple[ClientRow, ...]


class Subscriptions(msgspec.Struct, frozen=True, gc=False):
    """A page of the subscriptions, those furthest behind first."""

    total: int
    offset: int
    subscriptions: tuple[SubscriptionRow, ...]


class Flows(msgspec.Struct, frozen=True, gc=False):
    """A page of the flows of constant rate: silent ones first, then refused, served and learning ones."""

    enabled: bool
    """Whether a listener has slots."""
    total: int
    offset: int
    flows: tuple[FlowStatistics, ...]
    status: FlowsStatus | None


class ControlTables(msgspec.Struct, frozen=True):
    """The control tables that the node follows."""

    now_us: int
    """The node's time, from which the age of a version follows."""
    tables: tuple[TableStatus, ...]


class Cluster(msgspec.Struct, frozen=True):
    """The cluster as this node sees it: the other nodes and the links to them."""

    enabled: bool
    """Whether this node belongs to a cluster."""
    status: ClusterStatus | None = None


class DrainRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node is to send its clients to others, or to stop doing so."""

    node: str = ""
    """Name of the node; empty: the one that is asked."""
    undo: bool = False
    """Whether the node is to take clients again."""
    rate: Annotated[int, msgspec.Meta(ge=1, le=limits.CLUSTER_DRAIN_MOST)] = limits.CLUSTER_DRAIN_RATE
    """Clients per second."""
    leave: bool = False
    """Whether the node then leaves the cluster and stops."""


class Drained(msgspec.Struct, frozen=True):
    """A node has taken the order."""

    node: str
    clients: int
    """Clients attached to the node at the moment."""


class Streams(msgspec.Struct, frozen=True):
    """A page of the reliable streams, those in trouble first, and all neighbours."""

    enabled: bool
    """Whether this node has streams."""
    total: int
    offset: int
    streams: tuple[StreamRow, ...]
    neighbours: tuple[NeighbourRow, ...] = ()
    node: str = ""
    """Name of this node in the tree of nodes."""
    faults: tuple[str, ...] = ()
    """Parts that do not work: logs, the file of places."""


class Timeline(msgspec.Struct, frozen=True, gc=False):
    """The last minutes of one subscription."""

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
    """Samples that are kept of each."""
    histories: tuple[Remembered, ...]


class PolicyFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """The result of checking a policy."""

    ok: bool
    name: str = ""
    levels: int = 0
    filters: int = 0
    explanation: list[str] = []
    warnings: list[str] = []
    error: str = ""
    """The mistake in the policy; empty: there is none."""
    facts: dict[str, Any] | None = None
    """The error in parts: problem, path, line, column, allowed, near."""
    text: str = ""
    """Text of the policy, if one registered policy was asked for."""


class Registered(msgspec.Struct, frozen=True, gc=False):
    """A policy that is registered in the configuration."""

    name: str
    policy: PolicyFacts


class Policies(msgspec.Struct, frozen=True, gc=False):
    """The policies that are registered in the configuration."""

    policies: tuple[Registered, ...]


class PolicyText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to check."""

    policy: str


class Trial(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to try on the messages that are being published."""

    policy: _Text
    filter: _Text = "#"
    """Topic filter of the events to collect."""
    events: Annotated[int, msgspec.Meta(ge=1, le=limits.HTTP_TRY_EVENTS)] | None = None
    """Collect at most so many events; if omitted, as many as a queue holds."""
    seconds: Annotated[float, msgspec.Meta(gt=0, le=limits.HTTP_TRY_S)] = 5.0
    """Collect for at most this time."""


class LevelEffect(msgspec.Struct, frozen=True, gc=False):
    """The queue after packing at one level."""

    level: int
    """0: the worst case, when even the highest level frees too little and all events become digests."""
    kept: int
    digested: int
    digests: int
    share: float
    """Share of the events that are kept."""


class Tried(msgspec.Struct, frozen=True, gc=False):
    """The effect that a policy would have had on the collected events in one queue."""

    name: str
    events: int
    bytes: int
    seconds: float
    """Time for which events were collected."""
    topics: int
    levels: tuple[LevelEffect, ...]
    filters: tuple[FilterStatus, ...]
    """Events that each filter saw and dropped in a pack at the highest level."""
    items: tuple[dict[str, Any], ...]
    """The first events and digests of the queue after the highest level, in order."""
    items_total: int
    warnings: list[str]


class Application(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy to give to an existing subscription."""

    client_id: _Text
    filter: _Text
    policy: str | None
    """Text of a policy, or the name of a registered one; null: no policy."""


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
    """Confirms a request: `done` says what was done, or found to be so."""

    done: str
