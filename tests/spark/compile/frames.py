"""Queues of the agreement cases as frames, and packed frames as queues again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from random import Random
from typing import TYPE_CHECKING, Any

import cbor2

from penstock.model import Control, Digest, Event, Item
from penstock.pipeline import items_of_rows, row_of_digest
from penstock.pipeline.tables.schemas import DIGEST
from penstock.policy.attributes import own_format
from penstock.policy.filters import Delta, Filter, Swing, Verb
from penstock.policy.nodes import PayloadFormat, Policy, Step
from penstock.policy.text.python_form import when
from tests.agreement.cases import LARGE, TEXTS, WALK, a_policy, a_queue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAN, INF = float("nan"), float("inf")

ENVELOPE = (
    "queue bigint, spot int, now_us bigint, topic string, payload binary, ts bigint, sender string, "
    "seq bigint, properties array<struct<name:string,value:string>>, content_type string"
)
KINDS: dict[str, list[Any]] = {
    "double": [0.0, -0.0, 5.0, 49.5, 72.0, 100.5, -1.0, 1e308, 1e30, INF, -INF, NAN, None, *map(float, WALK)],
    "bigint": [0, 1, -1, 5, 72, 100, 2**53, 2**53 + 1, -(2**63), 2**63 - 1, None, *LARGE],
    "int": [0, 1, -1, 5, 50, 72, 100, None],
    "string": [*TEXTS, None],
    "boolean": [True, False, None],
    "array<string>": [[], ["a"], ["a", "b"], ["a", None], ["5", "zu"], None],
    "array<double>": [[], [5.0], [5.0, NAN, 0.0], [None, 72.0, 100.0], None],
    "array<array<string>>": [[["a"]], [], None],
}
"""Values of a typed column, by its type."""


@dataclass(frozen=True)
class Queue:
    """A queue with the time at which it is packed."""

    items: list[Item]
    now_us: int


def queues(seed: int, number: int, *, most: int = 24) -> list[Queue]:
    """Queues as other engines get them, without what Spark cannot hold: control items, binary payloads."""
    dice = Random(seed)
    found: list[Queue] = []
    for _ in range(number):
        size = dice.choice([0, 1, 2, dice.randrange(most), most])
        items = [item for item in a_queue(dice, size) if readable(item)]
        found.append(Queue(items, 10_000_000 + dice.randrange(5_000_000)))
    return found


def readable(item: Item) -> bool:
    """Whether Spark can hold it: no control item, no MessagePack, no CBOR."""
    if not isinstance(item, Event):
        return not isinstance(item, Control)
    binary = own_format(item) in (PayloadFormat.MSGPACK, PayloadFormat.CBOR)
    return not binary and not 0x80 <= (item.payload or b"\0")[0] <= 0xDF


def policies(seed: int, number: int) -> list[Policy]:
    """Policies whose payloads Spark can read."""
    dice = Random(seed)
    found = [a_policy(dice) for _ in range(number)]
    binary = (PayloadFormat.MSGPACK, PayloadFormat.CBOR)
    return [
        replace(policy, payload=PayloadFormat.AUTO) if policy.payload in binary else policy
        for policy in found
    ]


URGENT: tuple[tuple[Step, ...], ...] = (
    (when(attribute="v").ge(72),),
    (when(attribute="v").within(5, 72), when(attribute="$topic").match("ü")),
    (when(attribute="tags").contain("a"),),
    (when(attribute="v").ne("a"), when(attribute="w.x").lt(0)),
)
"""Predicates of urgent events: numbers, texts, lists, and what some events do not have."""


def with_urgent(policy: Policy, number: int) -> Policy:
    """The policy with urgent events; every second one ends with a fold, which names the runs itself."""
    levels = policy.levels
    if number % 2:
        node: Filter = Delta(change=5) if number % 4 == 1 else Swing(deviation=5)
        levels = (*levels[:2], (Step(Verb.DROP, node, "v"),))
    return replace(policy, levels=levels, urgent=URGENT[number % len(URGENT)])


def typed_queues(seed: int, number: int, kinds: dict[str, str], *, most: int = 24) -> list[Queue]:
    """Queues whose events have an attribute of one type in each column of `kinds`.

    The reference reads them from CBOR, which can say all that a column can.
    """
    dice = Random(seed)
    found: list[Queue] = []
    for queue in queues(seed, number, most=most):
        items: list[Item] = []
        for item in queue.items:
            if isinstance(item, Event):
                values = {name: dice.choice(KINDS[kind]) for name, kind in kinds.items()}
                nested = {"x": dice.choice(KINDS["double"]), "y": [dice.choice(TEXTS)]}
                payload = cbor2.dumps({**values, "w": dice.choice([nested, nested, None])})
                items.append(_with_payload(item, payload))
            else:
                items.append(item)
        found.append(replace(queue, items=items))
    return found


def _with_payload(event: Event, payload: bytes) -> Event:
    return Event(
        topic=event.topic,
        payload=payload,
        ts_us=event.ts_us,
        sender=event.sender,
        seq=event.seq,
        properties=event.properties,
        content_type="application/cbor",
    )


def frame_of(spark: SparkSession, found: list[Queue]) -> DataFrame:
    """Queues as rows with a payload column; their places are in `spot`."""
    rows = [
        (number, spot, queue.now_us, *_envelope(item), _digest(item))
        for number, queue in enumerate(found)
        for spot, item in enumerate(queue.items)
    ]
    return spark.createDataFrame(rows, f"{ENVELOPE}, digest {DIGEST.simpleString()}")


def typed_frame_of(spark: SparkSession, found: list[Queue], kinds: dict[str, str]) -> DataFrame:
    """The frame with a typed column for each attribute."""
    rows = []
    for number, queue in enumerate(found):
        for spot, item in enumerate(queue.items):
            root = cbor2.loads(item.payload) if isinstance(item, Event) else {}
            nested = root.get("w")
            values = [root.get(name) for name in kinds]
            w = None if nested is None else (nested["x"], nested["y"])
            rows.append((number, spot, queue.now_us, *_envelope(item), *values, w, _digest(item)))
    columns = ", ".join(f"`{name}` {kind}" for name, kind in kinds.items())
    nested_kind = "w struct<x:double,y:array<string>>"
    schema = f"{ENVELOPE}, {columns}, {nested_kind}, digest {DIGEST.simpleString()}"
    return spark.createDataFrame(rows, schema)


def _envelope(item: Item) -> tuple[Any, ...]:
    if not isinstance(item, Event):
        return (None,) * 7
    properties = [tuple(pair) for pair in item.properties]
    return (
        item.topic,
        bytearray(item.payload),
        item.ts_us,
        item.sender,
        item.seq,
        properties,
        item.content_type,
    )


def _digest(item: Item) -> tuple[Any, ...] | None:
    return row_of_digest(item) if isinstance(item, Digest) else None


def packed_queues(frame: DataFrame, number: int) -> list[list[Event | Digest]]:
    """The rows of a packed frame as queues."""
    rows: dict[int, list[Any]] = defaultdict(list)
    for row in frame.collect():
        rows[row["queue"]].append(row)
    return [items_of_rows(rows[queue]) for queue in range(number)]
