"""The snapshot in Prometheus' text format, by `tables`.

Only the slowest subscriptions, and a bounded number of streams, have series of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from penstock.node.observe.figures import numbers, value_at
from penstock.node.observe.tables import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric

    from penstock.node.observe.figures import Table
    from penstock.node.observe.status import NodeStatus

PREFIX: Final = "penstock_"

_FAMILIES: Final = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}


def text(status: NodeStatus) -> tuple[bytes, str]:
    """Write the metrics of a snapshot and of this process; return them with their content type."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(status))
    ProcessCollector(registry=registry)
    return generate_latest(registry), CONTENT_TYPE_LATEST


class _Snapshot(Collector):
    """Makes metrics of a snapshot."""

    def __init__(self, status: NodeStatus) -> None:
        self._status = status

    def describe(self) -> Iterable[Metric]:
        """Name no metrics in advance: the registry is used once, so no name can be taken."""
        return ()

    def collect(self) -> Iterable[Metric]:
        for table in TABLES:
            yield from _families(table, self._status)


def _families(table: Table, status: NodeStatus) -> Iterable[Metric]:
    """Make the metrics of a table: a family for each name, with all its labels."""
    part = value_at(table.part, status)
    if part is None:
        return ()
    rows = table.shown(status) if table.row_labels else (part,)
    names = [[str(value_at(path, row)) for path in table.row_labels.values()] for row in rows]
    families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
    for figure in table.figures:
        if not figure.metric:
            continue
        labels = [*table.row_labels, figure.label] if figure.label else [*table.row_labels]
        family = families.get(figure.metric)
        if family is None:
            family = _FAMILIES[figure.kind](
                PREFIX + table.metrics + figure.metric, figure.about, labels=labels
            )
            families[figure.metric] = family
        for row, name in zip(rows, names, strict=True):
            for label_value, number in numbers(figure, row):
                family.add_metric([*name, label_value] if figure.label else name, float(number))
    return families.values()
