"""Makes metrics and $SYS topics of the numbers of a snapshot that `tables` lists.

A figure names a field of its part by a path of attributes. How the value becomes a number:

    a text         1 if it is not empty (a fault), else 0
    a tuple        its length
    a dictionary   one number for each key; the key is the value of the label and the end of the topic
    None           no number
    a time in µs   seconds, where the metric is in seconds

Where a part has rows, each row has a metric of its own, with the row's name as a label; the topic has the
sum over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from penstock.model.instant import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.node.observe.status import NodeStatus


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a part, or one for each key of a dictionary."""

    path: str
    """Attributes that lead from the part, or from one of its rows, to the value."""
    metric: str
    """End of the metric's name; empty: it is not a metric."""
    topic: str
    """End of the topic; empty: it is not published."""
    about: str = ""
    """Says what the number means: the help text of the metric."""
    kind: Literal["gauge", "counter"] = "gauge"
    label: str = ""
    """Label that tells numbers of the same metric apart; empty: the metric has one number."""
    label_value: str = ""
    """Empty: the value is a dictionary, and its keys are the values of the label."""


@dataclass(frozen=True, slots=True)
class Table:
    """The figures of one part of a snapshot."""

    part: str
    """Attributes that lead from the snapshot to the part; a part that is None has no numbers."""
    figures: tuple[Figure, ...]
    metrics: str = ""
    """Beginning of the metrics' names, after `penstock_`."""
    topics: str = ""
    """Beginning of the topics, below `$SYS/broker/`."""
    row_labels: dict[str, str] = field(default_factory=dict)
    """Labels of a row and the paths of their values; empty: the part has no rows."""
    shown: Callable[[NodeStatus], Sequence[object]] = lambda _: ()
    """Chooses the rows that have metrics."""


def gauge(path: str, metric: str, topic: str, about: str = "", *, label: str = "") -> Figure:
    """Make a figure that goes up and down."""
    return Figure(path, metric, topic, about, "gauge", label)


def counter(path: str, metric: str, topic: str, about: str = "", *, label: str = "") -> Figure:
    """Make a figure that only goes up."""
    return Figure(path, metric, topic, about, "counter", label)


def by(label: str, *figures: Figure) -> list[Figure]:
    """Put figures of one metric apart: each has the name of its field as the value of the label."""
    return [
        Figure(one.path, one.metric, one.topic, one.about, one.kind, label, one.path.rpartition(".")[2])
        for one in figures
    ]


def value_at(path: str, value: Any) -> Any:
    """Follow a path of attributes; None where something on the way is None."""
    for name in path.split(".") if path else ():
        if value is None:
            return None
        value = getattr(value, name)
    return value


def numbers(figure: Figure, part: object) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a figure, each with the value of its label."""
    value = value_at(figure.path, part)
    if value is None:
        return
    if isinstance(value, dict):
        yield from ((str(key), number) for key, number in sorted(value.items()))
    elif isinstance(value, str):
        yield figure.label_value, bool(value)
    elif isinstance(value, tuple):
        yield figure.label_value, len(value)
    elif figure.metric.endswith("_seconds") and figure.path.endswith("_us"):
        yield figure.label_value, value / SECOND_US
    else:
        yield figure.label_value, value


def topics(table: Table, status: NodeStatus) -> Iterator[tuple[str, int]]:
    """Yield the topics of a table, each with its number; figures of rows are summed up."""
    part = value_at(table.part, status)
    for figure in table.figures if part is not None else ():
        if not figure.topic:
            continue
        topic = table.topics + figure.topic
        if table.row_labels:
            yield topic, int(sum(number for row in part for _, number in numbers(figure, row)))
            continue
        for key, number in numbers(figure, part):
            of_key = figure.label and not figure.label_value
            yield f"{topic}/{key.replace(' ', '-')}" if of_key else topic, int(number)
