"""Streams in Prometheus' words; a bounded number of them has series of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from penstock import limits
from penstock.model.instant import SECOND_US
from penstock.node.http import views

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prometheus_client.metrics_core import Metric

    from penstock.node.streams.status import LogRow, NeighbourRow, StreamRow, StreamsStatus

_GAUGES: Final[tuple[tuple[str, str, Callable[[StreamRow], float]], ...]] = (
    ("lag_seconds", "How far this node is behind the stream", lambda row: row.lag_s),
    ("recovering", "1 while something missed is asked for", lambda row: row.recovering),
    ("held", "Messages whose acknowledgement waits for its turn", lambda row: row.held),
    ("waiting", "Messages that are not durable yet", lambda row: row.waiting),
    ("cached_bytes", "Bytes kept in memory to send again", lambda row: row.cached_bytes),
    ("consumers", "Programs with a place in the stream", lambda row: row.consumers_total),
)

_COUNTERS: Final[tuple[tuple[str, str, Callable[[StreamRow], float]], ...]] = (
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
    for name, about, value in _GAUGES:
        yield _gauge(f"penstock_stream_{name}", about, "stream", names, map(value, rows))
    for name, about, value in _COUNTERS:
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
