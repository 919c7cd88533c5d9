"""The node's status in Prometheus' text format.

Only the slowest subscriptions, and a bounded number of streams, have series of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from penstock import limits
from penstock.model.instant import SECOND_US
from penstock.node.http import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from penstock.node.broker.status import BrokerStatus
    from penstock.node.http.answers import SubscriptionRow
    from penstock.node.observe.status import NodeStatus
    from penstock.node.streams.status import LogRow, NeighbourRow, StreamRow, StreamsStatus

_STREAM_GAUGES: Final[tuple[tuple[str, str, Callable[[StreamRow], float]], ...]] = (
    ("lag_seconds", "How far this node is behind the stream", lambda row: row.lag_s),
    ("recovering", "1 while something missed is asked for", lambda row: row.recovering),
    ("held", "Messages whose acknowledgement waits for its turn", lambda row: row.held),
    ("waiting", "Messages that are not durable yet", lambda row: row.waiting),
    ("cached_bytes", "Bytes kept in memory to send again", lambda row: row.cached_bytes),
    ("consumers", "Programs with a place in the stream", lambda row: row.consumers_total),
)

_STREAM_COUNTERS: Final[tuple[tuple[str, str, Callable[[StreamRow], float]], ...]] = (
    ("published", "Messages taken", lambda row: row.published),
    ("delivered", "Messages that came to the side of subscribers", lambda row: row.delivered),
    ("nacks", "Times something was asked for again", lambda row: row.nacks),
    ("missed", "Times a reader found messages gone", lambda row: row.readers.missed),
)

_LOG_GAUGES: Final[tuple[tuple[str, str, Callable[[LogRow], float]], ...]] = (
    ("messages", "Messages in the log", lambda log: log.messages),
    ("bytes", "Bytes of the log", lambda log: log.bytes),
    ("bytes_most", "Bytes beyond which nothing is accepted", lambda log: log.bytes_most),
    ("stopped", "1 if nothing can be made durable", lambda log: bool(log.fault)),
)

_LOG_COUNTERS: Final[tuple[tuple[str, str, Callable[[LogRow], float]], ...]] = (
    ("commits", "Commits of the log", lambda log: log.commits),
    ("committed", "Messages of those commits", lambda log: log.committed),
    ("commit_seconds", "Time spent in them", lambda log: log.commits * log.commit_us / SECOND_US),
)

_LINK_COUNTERS: Final[tuple[tuple[str, str, Callable[[NeighbourRow], float]], ...]] = (
    ("sent", "Messages sent to a neighbour", lambda row: row.sent),
    ("sent_bytes", "Bytes sent to a neighbour", lambda row: row.sent_bytes),
    ("received", "Messages from a neighbour", lambda row: row.received),
    ("received_bytes", "Bytes from a neighbour", lambda row: row.received_bytes),
    ("dropped", "Messages that found the link's queue full", lambda row: row.dropped),
    ("reconnects", "Times the link came back", lambda row: row.reconnects),
)


def stream_metrics(status: StreamsStatus) -> Iterator[Metric]:
    """Totals of all, and figures of those in trouble first."""
    yield GaugeMetricFamily("penstock_streams", "Reliable streams", value=float(len(status.streams)))
    yield GaugeMetricFamily(
        "penstock_streams_faults", "What does not work: logs, places", value=float(len(status.faults))
    )
    rows = views.streams(status)[: limits.METRICS_STREAMS]
    names = [row.name for row in rows]
    for name, about, value in _STREAM_GAUGES:
        yield _gauge(f"penstock_stream_{name}", about, "stream", names, map(value, rows))
    for name, about, value in _STREAM_COUNTERS:
        yield _counter(f"penstock_stream_{name}", about, "stream", names, map(value, rows))
    yield from _readers(rows)
    logs = [(row.name, row.log) for row in rows if row.log is not None]
    names = [name for name, _ in logs]
    for name, about, of_log in _LOG_GAUGES:
        yield _gauge(f"penstock_stream_log_{name}", about, "stream", names, (of_log(log) for _, log in logs))
    for name, about, of_log in _LOG_COUNTERS:
        yield _counter(
            f"penstock_stream_log_{name}", about, "stream", names, (of_log(log) for _, log in logs)
        )
    rated = [(row.name, row.rate) for row in rows if row.rate is not None]
    yield _gauge(
        "penstock_stream_rate",
        "Messages a second for which publishers are acknowledged, where that is bounded",
        "stream",
        [name for name, _ in rated],
        (rate for _, rate in rated),
    )
    yield from _links(status.neighbours[: limits.METRICS_STREAMS])


def _readers(rows: list[StreamRow]) -> Iterator[Metric]:
    family = GaugeMetricFamily(
        "penstock_stream_readers", "MQTT sessions that read a stream, by state", labels=["stream", "state"]
    )
    for row in rows:
        for state in ("live", "catching_up", "away"):
            family.add_metric([row.name, state], getattr(row.readers, state))
    yield family


def _links(rows: tuple[NeighbourRow, ...]) -> Iterator[Metric]:
    names = [row.name for row in rows]
    yield _gauge(
        "penstock_stream_link_up",
        "1 if the link to a neighbour is up",
        "neighbour",
        names,
        (row.state == "up" for row in rows),
    )
    yield _gauge(
        "penstock_stream_link_queue_bytes",
        "Bytes that wait for a link",
        "neighbour",
        names,
        (row.queue_bytes for row in rows),
    )
    for name, about, value in _LINK_COUNTERS:
        yield _counter(f"penstock_stream_link_{name}", about, "neighbour", names, map(value, rows))


def _gauge(name: str, about: str, label: str, names: list[str], values: Iterator[float]) -> Metric:
    family = GaugeMetricFamily(name, about, labels=[label])
    for one, value in zip(names, values, strict=True):
        family.add_metric([one], float(value))
    return family


def _counter(name: str, about: str, label: str, names: list[str], values: Iterator[float]) -> Metric:
    family = CounterMetricFamily(name, about, labels=[label])
    for one, value in zip(names, values, strict=True):
        family.add_metric([one], float(value))
    return family


_GAUGES: Final[tuple[tuple[str, str, Callable[[BrokerStatus], float]], ...]] = (
    ("start_time_seconds", "When the node started, in Unix time", lambda s: s.started_us / SECOND_US),
    ("connections", "Open connections", lambda s: s.connections),
    ("sessions", "Sessions, detached ones included", lambda s: s.sessions),
    ("subscriptions", "Subscriptions", lambda s: s.subscriptions),
    ("retained_messages", "Retained messages", lambda s: s.retained),
    ("retained_bytes", "Bytes of retained messages", lambda s: s.retained_bytes),
    ("clients_behind", "Clients whose transport takes nothing", lambda s: sum(c.behind for c in s.clients)),
    ("events_queued", "Events waiting, as themselves or in digests", lambda s: s.account.queued),
    ("account_balanced", "1 if every event is accounted for", lambda s: s.account.balanced),
)

_COUNTERS: Final[tuple[tuple[str, str, Callable[[BrokerStatus], float]], ...]] = (
    ("messages_received", "Messages from clients", lambda s: s.messages_received),
    ("messages_sent", "Messages to clients", lambda s: s.messages_sent),
    ("bytes_received", "Bytes from clients", lambda s: s.bytes_received),
    ("bytes_sent", "Bytes to clients", lambda s: s.bytes_sent),
    ("unrouted_messages", "Messages nobody subscribed to", lambda s: s.unrouted),
)

_OF_SLOWEST: Final[tuple[tuple[str, str, Callable[[SubscriptionRow], float]], ...]] = (
    ("items", "Items waiting", lambda row: row.subscription.items),
    ("bytes", "Bytes waiting", lambda row: row.subscription.bytes),
    ("level", "Level of the policy", lambda row: row.subscription.level),
    ("oldest_seconds", "Wait of the oldest event", lambda row: row.subscription.oldest_us / SECOND_US),
    (
        "latency_p99_seconds",
        "Arrival to transport, 99th percentile",
        lambda row: row.subscription.latency_p99_us / SECOND_US,
    ),
)


def text(status: NodeStatus) -> tuple[bytes, str]:
    """The exposition of a status and of this process, and its content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Status(status))
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Status(Collector):
    """Makes metrics of a status."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Nothing in advance: registering asks for names, and there is but one of these."""
        return ()

    def collect(self) -> Iterable[Metric]:
        status = self._status
        for name, about, value in _GAUGES:
            yield GaugeMetricFamily(f"penstock_{name}", about, value=float(value(status.broker)))
        for name, about, value in _COUNTERS:
            yield CounterMetricFamily(f"penstock_{name}", about, value=float(value(status.broker)))
        yield GaugeMetricFamily(
            "penstock_faults",
            "What does not work: the store, the recorder, a table, a stream",
            value=float(len(status.faults)),
        )
        yield from _events(status)
        yield from _store(status)
        yield from _recorder(status)
        yield from _flows(status)
        yield from _web(status)
        yield from _telling(status)
        if status.streams is not None:
            yield from stream_metrics(status.streams)
        yield from _by_label(status)
        yield from _slowest(status)


def _events(status: NodeStatus) -> Iterator[Metric]:
    account = status.broker.account
    family = CounterMetricFamily("penstock_events", "Events routed to receivers, by fate", labels=["fate"])
    family.add_metric(["accepted"], account.accepted)
    family.add_metric(["delivered"], account.delivered)
    family.add_metric(["digested"], account.digested)
    family.add_metric(["abandoned"], account.abandoned)
    yield family


def _store(status: NodeStatus) -> Iterator[Metric]:
    store = status.broker.store
    if store is None:
        return
    for name, about, value in (
        ("stopped", "1 if nothing can be written", bool(store.fault)),
        ("rows_waiting", "Rows that wait for the disk", store.rows),
        ("answers_waiting", "Answers to publishers that wait for the disk", store.answers),
    ):
        yield GaugeMetricFamily(f"penstock_store_{name}", about, value=float(value))


def _recorder(status: NodeStatus) -> Iterator[Metric]:
    recorder = status.recorder
    if recorder is None:
        return
    family = GaugeMetricFamily("penstock_recorder_events", "Events to be recorded, by fate", labels=["fate"])
    for fate in ("seen", "recorded", "waiting", "dropped", "lost"):
        family.add_metric([fate], getattr(recorder, fate))
    yield family
    paused = bool(recorder.fault)
    yield GaugeMetricFamily("penstock_recorder_paused", "1 if nothing can be written", value=float(paused))


def _flows(status: NodeStatus) -> Iterator[Metric]:
    flows = status.flows
    if flows is None:
        return
    for name, about, value in (
        ("known", "Flows of constant rate that are known", flows.known),
        ("served", "Flows with reserved slots", flows.served),
        ("silent", "Served flows that do not come any more", flows.silent),
        ("fullest_slot", "Share taken of the fullest slot ahead", flows.fullest),
        ("table_version", "Version of the control table in force", flows.table_version),
        ("table_broken", "1 if a newer control table was refused", bool(flows.table_fault)),
    ):
        yield GaugeMetricFamily(f"penstock_flows_{name}", about, value=float(value))
    yield CounterMetricFamily("penstock_flows_alarms", "Flows that fell silent", value=float(flows.alarms))
    lanes = CounterMetricFamily("penstock_flow_messages", "Messages by lane", labels=["lane"])
    for lane in ("reserved", "best_effort", "late"):
        lanes.add_metric([lane], getattr(flows, lane))
    yield lanes
    requests = CounterMetricFamily(
        "penstock_flow_requests", "Messages that ask for a place, by the answer", labels=["answer"]
    )
    for answer, count in flows.requests.items():
        requests.add_metric([answer], count)
    yield requests
    refused = CounterMetricFamily("penstock_flows_refused", "Flows not served, by reason", labels=["reason"])
    for reason, count in sorted(flows.refused.items()):
        refused.add_metric([reason], count)
    yield refused


def _web(status: NodeStatus) -> Iterator[Metric]:
    web = status.channels
    if web is None:
        return
    counts = web.counts
    polls = CounterMetricFamily(
        "penstock_web_polls", "Polls of web pages, by what they brought", labels=["fate"]
    )
    for fate in ("first", "same", "changes", "noise", "errors"):
        polls.add_metric([fate], getattr(counts, fate))
    yield polls
    yield CounterMetricFamily("penstock_web_bytes", "Bytes of web pages", value=float(counts.bytes))
    told = CounterMetricFamily("penstock_web_changes", "Changes of web pages, by way", labels=["way"])
    told.add_metric(["published"], web.published)
    told.add_metric(["handed"], web.handed)
    yield told
    for name, about, value in (
        ("channels", "Web pages known", web.channels),
        ("channels_polled", "Web pages polled", web.polled),
        ("channels_failing", "Web pages whose last poll told nothing", web.failing),
        ("subscriptions", "Subscriptions to web pages", web.subscriptions),
        ("fetches_active", "Fetches under way", web.fetching),
        ("fetches_due", "Web pages that wait for a fetch", web.due),
        ("changes_untold", "Changes on their way to the disk, and told then", web.untold),
        ("faults", "What does not work: the store, a control table", len(web.faults)),
        ("balanced", "1 if every poll and every change is accounted for", web.balanced),
    ):
        yield GaugeMetricFamily(f"penstock_web_{name}", about, value=float(value))


def _telling(status: NodeStatus) -> Iterator[Metric]:
    telling = status.notify
    if telling is None:
        return
    told = CounterMetricFamily(
        "penstock_telling_changes", "Changes told to subscribers, by fate", labels=["fate"]
    )
    for fate in ("taken", "told", "digested", "forgotten"):
        told.add_metric([fate], getattr(telling, fate))
    yield told
    for name, about, value in (
        ("waiting", "Changes that wait for subscribers", telling.waiting),
        ("subscribers_waiting", "Subscribers for whom something waits", telling.subscribers),
        ("subscribers_failing", "Subscribers that could not be reached", telling.failing),
    ):
        yield GaugeMetricFamily(f"penstock_telling_{name}", about, value=float(value))


def _by_label(status: NodeStatus) -> Iterator[Metric]:
    refused = CounterMetricFamily("penstock_refused", "Connections and packets refused", labels=["reason"])
    for reason, count in sorted(status.broker.refused.items()):
        refused.add_metric([reason], count)
    yield refused
    clients = GaugeMetricFamily("penstock_clients", "Clients by state", labels=["state"])
    attached = sum(client.state == "attached" for client in status.broker.clients)
    clients.add_metric(["attached"], attached)
    clients.add_metric(["detached"], len(status.broker.clients) - attached)
    yield clients
    levels: dict[int, int] = {}
    for client in status.broker.clients:
        for one in client.subscriptions:
            levels[one.level] = levels.get(one.level, 0) + 1
    by_level = GaugeMetricFamily(
        "penstock_subscriptions_by_level", "Subscriptions by level", labels=["level"]
    )
    for level, count in sorted(levels.items()):
        by_level.add_metric([str(level)], count)
    yield by_level


def _slowest(status: NodeStatus) -> Iterator[Metric]:
    rows = views.slow(status, most=limits.METRICS_SLOWEST)
    for name, about, value in _OF_SLOWEST:
        family = GaugeMetricFamily(
            f"penstock_slow_subscription_{name}",
            f"{about}, of the {limits.METRICS_SLOWEST} slowest subscriptions",
            labels=["client", "filter"],
        )
        for row in rows:
            family.add_metric([row.client_id, row.subscription.filter], value(row))
        yield family
