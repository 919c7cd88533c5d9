"""The table of requests of the API, from which the server and the OpenAPI document are made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from penstock import limits
from penstock.node.broker.status import ClientStatus
from penstock.node.http import answers
from penstock.node.observe import rows

if TYPE_CHECKING:
    import msgspec

API: Final = "/api/v1"

HEALTHY: Final = "/healthz"
READY: Final = "/readyz"
"""Paths for service managers and load balancers, which send no token."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter in the path or the query of a request."""

    name: str
    about: str
    kind: str = "string"
    most: int | None = None
    in_path: bool = False
    choices: tuple[str, ...] = ()
    required: bool = False
    """Whether the query must have it; a parameter in the path is always required."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One kind of request: method and path, the handler, parameters, body and answer."""

    method: str
    path: str
    handler: str
    """Name of the method that answers, of the class of handlers to which the table belongs."""
    about: str
    answer: tuple[type[msgspec.Struct], ...] = ()
    """Types of a successful answer; empty: the answer is not JSON."""
    media: str = "application/json"
    body: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = field(default=())


PAGE: Final = (
    Parameter("offset", "rows to skip", kind="integer", most=2**31),
    Parameter("limit", "rows to return; 100 if omitted", kind="integer", most=limits.HTTP_ROWS),
)

ROUTES: Final = (
    Route(
        method="GET",
        path=f"{API}/status",
        handler="status",
        about="the node in figures",
        answer=(rows.Overview,),
    ),
    Route(
        method="GET",
        path=f"{API}/clients",
        handler="clients",
        about="clients, those furthest behind first",
        answer=(answers.Clients,),
        parameters=(
            Parameter("search", "text within client id, user or address; case does not matter"),
            Parameter("state", "only clients in this state", choices=("attached", "detached")),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/clients/{{client_id}}",
        handler="client",
        about="everything about one client",
        answer=(ClientStatus,),
        parameters=(Parameter("client_id", "percent-encoded, / included", in_path=True),),
    ),
    Route(
        method="GET",
        path=f"{API}/subscriptions",
        handler="subscriptions",
        about="subscriptions with their queues, those furthest behind first",
        answer=(answers.Subscriptions,),
        parameters=(
            Parameter("client", "only of this client"),
            Parameter("filter", "only with this topic filter"),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/slow",
        handler="slow",
        about="subscriptions in which something waits: longest wait first, then deepest queue",
        answer=(answers.Subscriptions,),
        parameters=PAGE,
    ),
    Route(
        method="GET",
        path=f"{API}/flows",
        handler="flows",
        about="flows of constant rate: silent ones first, then refused, served and learning ones",
        answer=(answers.Flows,),
        parameters=(
            Parameter("search", "text within client id or topic; case does not matter"),
            Parameter(
                "state", "only flows in this state", choices=("learning", "served", "refused", "silent")
            ),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/tables",
        handler="tables",
        about="control tables that the node follows: version, age, and what the newest version changed",
        answer=(answers.ControlTables,),
    ),
    Route(
        method="GET",
        path=f"{API}/streams",
        handler="streams",
        about="reliable streams, those in trouble first, and neighbours: places, logs, readers, links",
        answer=(answers.Streams,),
        parameters=(
            Parameter("search", "text within name, topics or host; case does not matter"),
            *PAGE,
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/cluster",
        handler="cluster",
        about="the cluster as this node sees it: other nodes, links, events by fate",
        answer=(answers.Cluster,),
    ),
    Route(
        method="POST",
        path=f"{API}/cluster/drain",
        handler="drain",
        about="have a node of the cluster send its clients to others, take them again, or leave and stop",
        body=answers.DrainRequest,
        answer=(answers.Drained,),
    ),
    Route(
        method="GET",
        path=f"{API}/history",
        handler="history",
        about="the last minutes of one subscription; without client and filter, which have a history",
        answer=(answers.Timeline, answers.Histories),
        parameters=(
            Parameter("client", "client id"),
            Parameter("filter", "topic filter of the subscription"),
            Parameter("since_us", "only samples after this time", kind="integer", most=2**63 - 1),
        ),
    ),
    Route(
        method="GET",
        path=f"{API}/live",
        handler="live",
        about="server-sent events: a Snapshot at once and then each second",
        answer=(rows.Snapshot,),
        media="text/event-stream",
    ),
    Route(
        method="GET",
        path=f"{API}/policies",
        handler="policies",
        about="the registered policies, each checked",
        answer=(answers.Policies,),
    ),
    Route(
        method="GET",
        path=f"{API}/policies/{{name}}",
        handler="policy",
        about="one registered policy, with its text",
        answer=(answers.Registered,),
        parameters=(Parameter("name", "percent-encoded", in_path=True),),
    ),
    Route(
        method="POST",
        path=f"{API}/policy/check",
        handler="check",
        about="check a policy, and say in plain words what it does",
        body=answers.PolicyText,
        answer=(answers.PolicyFacts,),
    ),
    Route(
        method="POST",
        path=f"{API}/policy/try",
        handler="try_",
        about="try a policy on the events being published now; no subscriber's queue is changed",
        body=answers.Trial,
        answer=(answers.Tried,),
    ),
    Route(
        method="POST",
        path=f"{API}/policy/apply",
        handler="apply",
        about="give a subscription another policy; its queue keeps its items",
        body=answers.Application,
        answer=(rows.SubscriptionRow,),
    ),
    Route(
        method="POST",
        path=f"{API}/disconnect",
        handler="disconnect",
        about="close a client's connection; its session stays until it expires",
        body=answers.Farewell,
        answer=(answers.Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/publish",
        handler="publish",
        about="publish a message in the name of the node",
        body=answers.Publication,
        answer=(answers.Done,),
    ),
    Route(
        method="GET",
        path="/metrics",
        handler="metrics",
        about="metrics for Prometheus",
        media="text/plain",
    ),
    Route(
        method="GET",
        path=HEALTHY,
        handler="healthy",
        about="200 while the node runs; needs no token",
        answer=(answers.Done,),
    ),
    Route(
        method="GET",
        path=READY,
        handler="ready",
        about="200 while the node can do all that it is asked and takes clients, else 503; needs no token",
        answer=(answers.Done,),
    ),
)
"""Requests about the node; the dashboard's files and the OpenAPI document have no row here."""
