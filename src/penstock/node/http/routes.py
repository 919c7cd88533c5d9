"""The table of API requests, for the server and for the OpenAPI document."""

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


@dataclass(frozen=True, slots=True)
class Parameter:
    """A part of the path or the query."""

    name: str
    about: str
    kind: str = "string"
    most: int | None = None
    in_path: bool = False
    choices: tuple[str, ...] = ()
    required: bool = False
    """Parts of the path always are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One question."""

    method: str
    path: str
    handler: str
    """Name of a method of `Handlers`, or of `ChannelHandlers`."""
    about: str
    answer: tuple[type[msgspec.Struct], ...] = ()
    """What a good answer is one of; nothing: not JSON."""
    media: str = "application/json"
    body: type[msgspec.Struct] | None = None
    parameters: tuple[Parameter, ...] = field(default=())


PAGE: Final = (
    Parameter("offset", "rows to leave out", kind="integer", most=2**31),
    Parameter("limit", "rows to answer with; 100 if omitted", kind="integer", most=limits.HTTP_ROWS),
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
        path=f"{API}/history",
        handler="history",
        about="the last minutes of one subscription; without client and filter, which are remembered",
        answer=(answers.Timeline, answers.Histories),
        parameters=(
            Parameter("client", "client id"),
            Parameter("filter", "topic filter of the subscription"),
            Parameter("since_us", "only samples younger than this", kind="integer", most=2**63 - 1),
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
        about="whether a policy can be understood, and what it does in plain words",
        body=answers.PolicyText,
        answer=(answers.PolicyFacts,),
    ),
    Route(
        method="POST",
        path=f"{API}/policy/try",
        handler="try_",
        about="what a policy would do to the events being published now; nobody's queue is touched",
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
        about="end a client's connection; its session lives on as it was agreed",
        body=answers.Farewell,
        answer=(answers.Done,),
    ),
    Route(
        method="POST",
        path=f"{API}/publish",
        handler="publish",
        about="publish a message from inside the node",
        body=answers.Publication,
        answer=(answers.Done,),
    ),
    Route(
        method="GET",
        path="/metrics",
        handler="metrics",
        about="for Prometheus",
        media="text/plain",
    ),
)
"""Besides the dashboard's files and the OpenAPI document itself."""
