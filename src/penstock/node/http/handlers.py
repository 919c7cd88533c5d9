"""Handlers of the API about the node; the table in `routes` assigns requests to them."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from penstock import limits
from penstock.errors import ClusterError, PenstockError, PolicyError, RequestRefused
from penstock.mqtt.codes import Reason
from penstock.mqtt.topics import check_filter, check_topic
from penstock.node.http import answers, guard
from penstock.node.http.replies import bad_policy, body_of, checked, json_answer, number_of, page_of
from penstock.node.http.routes import API
from penstock.node.http.trial import try_policy
from penstock.node.observe import rows
from penstock.policy.explain import explain
from penstock.policy.lint import lint
from penstock.policy.text import forms

if TYPE_CHECKING:
    from penstock.node.observe.status import Observed
    from penstock.node.observe.watch import Watch
    from penstock.policy.nodes import Policy


class Handlers:
    """Answers requests about the node; each method handles one row of the table."""

    def __init__(self, observed: Observed, watch: Watch) -> None:
        self._observed = observed
        self._broker = observed.broker
        self._watch = watch
        self._tries = 0

    # -- what there is ---------------------------------------------------------------------------------------

    async def status(self, _: web.Request) -> web.Response:
        """Answer with the node in figures."""
        return json_answer(await self._watch.overview())

    async def clients(self, request: web.Request) -> web.Response:
        """Answer with a page of clients, those furthest behind first."""
        query = request.query
        search, state = query.get("search", ""), _one_of(query.get("state", ""), "attached", "detached")
        found = await asyncio.to_thread(rows.clients, self._watch.status().broker, search=search, state=state)
        offset, limit = page_of(request)
        page = tuple(map(rows.client_row, found[offset : offset + limit]))
        return json_answer(answers.Clients(total=len(found), offset=offset, clients=page))

    async def client(self, request: web.Request) -> web.Response:
        """Answer with everything about one client."""
        client_id = request.match_info["client_id"]
        for found in self._watch.status().broker.clients:
            if found.client_id == client_id:
                return json_answer(found)
        raise _no_client(client_id, where="client_id")

    async def subscriptions(self, request: web.Request) -> web.Response:
        """Answer with a page of subscriptions and their queues, those furthest behind first."""
        client_id, filter_ = request.query.get("client"), request.query.get("filter")
        found = await asyncio.to_thread(
            rows.subscriptions, self._watch.status().broker, client_id=client_id, filter_=filter_
        )
        offset, limit = page_of(request)
        page = tuple(found[offset : offset + limit])
        return json_answer(answers.Subscriptions(total=len(found), offset=offset, subscriptions=page))

    async def slow(self, request: web.Request) -> web.Response:
        """Answer with subscriptions with a queue: longest wait first, then deepest queue."""
        status = self._watch.status().broker
        offset, limit = page_of(request)
        found = await asyncio.to_thread(rows.slow, status, most=offset + limit)
        page = tuple(found[offset:])
        return json_answer(answers.Subscriptions(total=status.waiting, offset=offset, subscriptions=page))

    async def flows(self, request: web.Request) -> web.Response:
        """Answer with a page of flows: silent ones first, then refused, served and learning ones."""
        query = request.query
        state = _one_of(query.get("state", ""), "learning", "served", "refused", "silent")
        search = query.get("search", "").casefold()
        offset, limit = page_of(request)
        flows = self._observed.flows
        found = [
            row
            for row in (() if flows is None else flows.rows())
            if (not state or row.state == state)
            and (not search or search in row.client_id.casefold() or search in row.topic.casefold())
        ]
        page = tuple(found[offset : offset + limit])
        status = None if flows is None else flows.status()
        return json_answer(
            answers.Flows(
                enabled=flows is not None, total=len(found), offset=offset, flows=page, status=status
            )
        )

    async def tables(self, _: web.Request) -> web.Response:
        """Answer with the control tables that the node follows."""
        status = self._watch.status()
        return json_answer(answers.ControlTables(now_us=status.broker.now_us, tables=status.tables))

    async def cluster(self, _: web.Request) -> web.Response:
        """Answer with the other nodes of the cluster, and the links to them."""
        status = self._watch.status().cluster
        return json_answer(answers.Cluster(enabled=status is not None, status=status))

    async def drain(self, request: web.Request) -> web.Response:
        """Have a node of the cluster send its clients away, or take them again."""
        asked = await body_of(request, answers.DrainRequest)
        cluster = self._observed.cluster
        if cluster is None:
            raise RequestRefused(HTTPStatus.CONFLICT, "this node belongs to no cluster")
        try:
            name, clients = await cluster.drain(
                asked.node, undo=asked.undo, rate=asked.rate, leave=asked.leave
            )
        except ClusterError as error:
            raise RequestRefused(HTTPStatus.CONFLICT, str(error), where="node") from None
        self._watch.changed()
        return json_answer(answers.Drained(name, clients))

    async def streams(self, request: web.Request) -> web.Response:
        """Answer with a page of reliable streams, those in trouble first, and all neighbours."""
        offset, limit = page_of(request)
        status = self._watch.status().streams
        if status is None:
            return json_answer(answers.Streams(enabled=False, total=0, offset=offset, streams=()))
        found = rows.streams(status, search=request.query.get("search", ""))
        return json_answer(
            answers.Streams(
                enabled=True,
                total=len(found),
                offset=offset,
                streams=tuple(found[offset : offset + limit]),
                neighbours=status.neighbours,
                node=status.node,
                faults=status.faults,
            )
        )

    async def history(self, request: web.Request) -> web.Response:
        """Answer with the last minutes of one subscription, or which subscriptions have a history."""
        history = self._watch.history
        client_id, filter_ = request.query.get("client"), request.query.get("filter")
        if client_id is None and filter_ is None:
            known = tuple(answers.Remembered(*key) for key in history.remembered())
            return json_answer(answers.Histories(samples_most=history.samples, histories=known))
        if client_id is None or filter_ is None:
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST,
                "give both client and filter, or neither",
                where="client" if client_id is None else "filter",
            )
        since_us = number_of(request, "since_us", default=0, most=2**63 - 1)
        series = history.series(client_id, filter_, since_us=since_us)
        return json_answer(answers.Timeline(client_id=client_id, filter=filter_, series=series))

    async def live(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events: a snapshot at once and then each second."""
        if self._watch.viewers >= limits.HTTP_LIVE_STREAMS:
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"{limits.HTTP_LIVE_STREAMS} live views are open; close one, or use /api/v1/status",
                headers={"Retry-After": "10"},
            )
        headers = guard.stream_headers() | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
        response = web.StreamResponse(headers=headers)
        self._watch.viewers += 1
        try:
            await response.prepare(request)
            async for snapshot in self._watch.snapshots():
                async with asyncio.timeout(limits.HTTP_STALL_S):
                    await response.write(b"data: " + snapshot + b"\n\n")
        except (TimeoutError, ConnectionError):  # the viewer stalls, or is gone
            request.protocol.force_close()
        finally:
            self._watch.viewers -= 1
        return response

    async def metrics(self, _: web.Request) -> web.Response:
        """Answer with metrics for Prometheus."""
        from penstock.node.observe import metrics  # noqa: PLC0415  # Prometheus, for nodes that are scraped

        body, content_type = await asyncio.to_thread(metrics.text, self._watch.status())
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def healthy(self, _: web.Request) -> web.Response:
        """Answer 200: a node that answers has an event loop that turns."""
        return json_answer(answers.Done("running"))

    async def ready(self, _: web.Request) -> web.Response:
        """Answer whether all parts work; a disk that is full, for instance, is not ready."""
        status = self._watch.status()
        if status.cluster is not None and status.cluster.draining:
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, "draining: this node sends its clients to other nodes"
            )
        faults = len(status.faults)
        if faults:
            raise RequestRefused(
                HTTPStatus.SERVICE_UNAVAILABLE, f"faults: {faults}; with the token {API}/status lists them"
            )
        return json_answer(answers.Done("ready"))

    # -- policies --------------------------------------------------------------------------------------------

    async def policies(self, _: web.Request) -> web.Response:
        """Answer with the registered policies, each checked."""
        named = self._broker.config.policies
        found = tuple(answers.Registered(name, _facts(text, source=name)) for name, text in named.items())
        return json_answer(answers.Policies(found))

    async def policy(self, request: web.Request) -> web.Response:
        """Answer with one registered policy and its text."""
        name = request.match_info["name"]
        text = self._broker.config.policies.get(name)
        if text is None:
            raise RequestRefused(HTTPStatus.NOT_FOUND, f"unknown policy '{name}'", where="name")
        facts = msgspec.structs.replace(_facts(text, source=name), text=text)
        return json_answer(answers.Registered(name, facts))

    async def check(self, request: web.Request) -> web.Response:
        """Check a policy, and say in plain words what it does."""
        asked = await body_of(request, answers.PolicyText)
        return json_answer(_facts(asked.policy, source=""))

    async def try_(self, request: web.Request) -> web.Response:
        """Try a policy on the events being published now; no subscriber's queue is changed."""
        asked = await body_of(request, answers.Trial)
        policy = self._policy(asked.policy)
        filter_ = checked(check_filter, asked.filter, where="filter").filter
        if self._tries >= limits.HTTP_TRIES:
            raise RequestRefused(
                HTTPStatus.TOO_MANY_REQUESTS,
                f"{limits.HTTP_TRIES} policies are being tried at the moment",
                headers={"Retry-After": "5"},
            )
        events = asked.events or min(self._broker.config.queues.events, limits.HTTP_TRY_EVENTS)
        self._tries += 1
        try:
            tried = await try_policy(
                self._broker, policy, filter_=filter_, events=events, seconds=asked.seconds
            )
        finally:
            self._tries -= 1
        return json_answer(tried)

    def _policy(self, text: str) -> Policy:
        """Return the policy of a text or of a registered name."""
        text = self._broker.config.policies.get(text, text)
        try:
            return forms.parse(text)
        except PolicyError as error:
            raise bad_policy(error, where="policy") from None

    # -- what can be done ------------------------------------------------------------------------------------

    async def apply(self, request: web.Request) -> web.Response:
        """Give a subscription another policy; its queue keeps its items."""
        asked = await body_of(request, answers.Application)
        if asked.policy is not None:
            self._policy(asked.policy)
        self._watch.changed()
        self._subscription(asked.client_id, asked.filter)
        try:
            self._broker.install_policy(asked.client_id, asked.filter, asked.policy)
        except PolicyError as error:
            raise bad_policy(error, where="policy") from None
        except PenstockError as error:
            raise RequestRefused(HTTPStatus.CONFLICT, str(error), where="client_id, filter") from None
        self._watch.changed()
        return json_answer(self._subscription(asked.client_id, asked.filter))

    def _subscription(self, client_id: str, filter_: str) -> rows.SubscriptionRow:
        known = [client for client in self._watch.status().broker.clients if client.client_id == client_id]
        if not known:
            raise _no_client(client_id, where="client_id")
        for one in known[0].subscriptions:
            if one.filter == filter_:
                return rows.subscription_row(known[0], one)
        raise RequestRefused(
            HTTPStatus.NOT_FOUND, f"client '{client_id}' has no subscription to '{filter_}'", where="filter"
        )

    async def disconnect(self, request: web.Request) -> web.Response:
        """Close a client's connection; its session stays until it expires."""
        asked = await body_of(request, answers.Farewell)
        done = self._broker.disconnect(asked.client_id, reason=Reason.ADMINISTRATIVE_ACTION)
        if not done:
            raise RequestRefused(
                HTTPStatus.NOT_FOUND, f"no client '{asked.client_id}' is attached", where="client_id"
            )
        self._watch.changed()
        return json_answer(answers.Done("disconnected"))

    async def publish(self, request: web.Request) -> web.Response:
        """Publish a message in the name of the node."""
        asked = await body_of(request, answers.Publication)
        checked(check_topic, asked.topic, where="topic")
        if self._broker.is_own(asked.topic):
            raise RequestRefused(
                HTTPStatus.BAD_REQUEST, "only the node itself publishes on this topic", where="topic"
            )
        self._broker.publish(asked.topic, asked.payload.encode(), qos=asked.qos, retain=asked.retain)
        self._watch.changed()
        return json_answer(answers.Done("published"))


def _facts(text: str, *, source: str) -> answers.PolicyFacts:
    try:
        policy = forms.parse(text, source=source)
    except PolicyError as error:
        return answers.PolicyFacts(ok=False, error=str(error), facts=error.facts())
    return answers.PolicyFacts(
        ok=True,
        name=policy.name,
        levels=policy.highest,
        filters=sum(map(len, policy.levels)),
        explanation=explain(policy),
        warnings=lint(policy),
    )


def _no_client(client_id: str, *, where: str) -> RequestRefused:
    return RequestRefused(HTTPStatus.NOT_FOUND, f"unknown client '{client_id}'", where=where)


def _one_of(found: str, *states: str) -> str:
    if found and found not in states:
        said = f"{', '.join(states[:-1])} or {states[-1]}"
        raise RequestRefused(HTTPStatus.BAD_REQUEST, f"expected {said}, found '{found}'", where="state")
    return found
