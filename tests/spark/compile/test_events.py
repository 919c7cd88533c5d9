"""Rows made events: the reference on a worker sees what the compiled policy sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as sf

from penstock.errors import InputError
from penstock.model import Digest, Event
from penstock.pipeline import digest_of_row, pack
from penstock.pipeline.compile.events import EVENT, as_events, events_of
from penstock.policy import evaluate
from penstock.policy.attributes import read
from penstock.policy.nodes import PayloadFormat, read_by
from penstock.policy.paths import parse
from tests.agreement.comparing import assert_same_digest
from tests.kit.effort import LONG
from tests.spark.compile.frames import frame_of, policies, queues, typed_frame_of, typed_queues

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.policy.nodes import Policy

QUEUES = 60


def items_by_queue(frame: DataFrame, policy: Policy) -> dict[int, list[Event | Digest]]:
    """Every queue of a frame as a worker would hold it."""
    table = frame.transform(
        as_events(list(read_by(policy)), payload=policy.payload, schema=frame.schema)
    ).orderBy("queue", "spot")
    arrow = table.select("queue", "digest", EVENT).toArrow()
    found: dict[int, list[Event | Digest]] = {}
    rows = zip(arrow["queue"].to_pylist(), arrow["digest"].to_pylist(), events_of(arrow[EVENT]), strict=True)
    for queue, digest, event in rows:
        assert (event is None) is (digest is not None)
        found.setdefault(queue, []).append(digest_of_row(digest) if event is None else event)
    return found


def agree(frame: DataFrame, policy: Policy) -> None:
    """The reference on the events keeps the rows that the compiled policy keeps, and makes its digests."""
    level = policy.highest
    packed = frame.transform(
        pack(policy, key=["queue"], order=["spot"], level=level, schema=frame.schema, now=sf.col("now_us"))
    ).orderBy("queue", "place")
    ours: dict[int, list[Any]] = {}
    for row in packed.collect():
        one = digest_of_row(row["digest"]) if row["kind"] == "digest" else (row["ts"], row["seq"])
        ours.setdefault(row["queue"], []).append(one)
    now_us = {row["queue"]: row["now_us"] for row in frame.select("queue", "now_us").distinct().collect()}
    for queue, items in items_by_queue(frame, policy).items():
        expected = evaluate.pack(policy, items, level=level, now_us=now_us[queue]).items
        assert len(ours[queue]) == len(expected), (queue, policy)
        for a, b in zip(ours[queue], expected, strict=True):
            if isinstance(b, Digest):
                assert_same_digest(a, b)
            else:
                assert isinstance(b, Event)
                assert a == (b.ts_us, b.seq), (queue, policy)


@pytest.mark.parametrize("number", range(6))
def test_agreement_on_payloads(spark: SparkSession, number: int) -> None:
    agree(frame_of(spark, queues(2, QUEUES)), policies(21, 6)[number])


@pytest.mark.parametrize("kind", ["double", "bigint", "string", "boolean", "array<double>"])
def test_agreement_on_typed_columns(spark: SparkSession, kind: str) -> None:
    kinds = {"v": kind, "tags": "array<string>", "a.b": "string"}
    frame = typed_frame_of(spark, typed_queues(5, QUEUES, kinds), kinds).cache()
    some = [policy for policy in policies(31, 12) if "$value" not in read_by(policy)]
    for policy in some[: 3 if LONG else 1]:
        agree(frame, policy)


def one(frame: DataFrame, *wanted: str, **more: Any) -> Event:
    (event,) = events_of(frame.transform(as_events(wanted, schema=frame.schema, **more)).toArrow()[EVENT])
    assert event is not None
    return event


def seen(event: Event, path: str) -> Any:
    return read(event, parse(path), PayloadFormat.AUTO)


def test_a_payload_that_holds_all_passes_unchanged(spark: SparkSession) -> None:
    frame = spark.sql(
        "select 7L as ts, 'a/b' as topic, '{\"v\":  1.50}' as payload, 'text/json' as content_type"
    )
    assert one(frame, "v") == Event("a/b", b'{"v":  1.50}', 7, content_type="text/json")


def test_typed_columns_stand_beside_the_payload_and_its_size(spark: SparkSession) -> None:
    frame = spark.sql(
        """select timestamp_micros(7) as ts, 't' as topic, 'xyz' as payload, 72.5D as `vitals.pulse`,
           named_struct('x', 1, 'y', array(1.5D, double('NaN'), double('inf'))) as w, 3Y as seq,
           map('unit', 'bpm') as properties, parse_json('{"a": [1, 2.50]}') as body, 'kg' as mass"""
    )
    event = one(
        frame, "vitals.pulse", "w.x", "w.y", "w.y.0", "body.a", "$size", "$prop.unit", "$prop.mass",
        attributes={"$prop.mass": "mass"},
    )  # fmt: skip
    assert (event.ts_us, event.seq, event.payload, event.size) == (7, 3, b"xyz", 4)
    assert seen(event, "vitals.pulse") == 72.5
    assert seen(event, "w.x") == 1
    assert seen(event, "w.y") == (1.5, None, 1.7976931348623157e308)
    assert seen(event, "w.y.0") == 1.5
    assert seen(event, "body.a") == (1, 2.5)
    assert (seen(event, "$prop.unit"), seen(event, "$prop.mass")) == ("bpm", "kg")


@pytest.mark.parametrize("number", ["inf", "-inf"])
def test_infinities_arrive(spark: SparkSession, number: str) -> None:
    frame = spark.sql(f"select 7L as ts, double('{number}') as v, named_struct('x', double('{number}')) as w")
    event = one(frame, "v", "w.x")
    assert seen(event, "v") == seen(event, "w.x") == float(number)


def test_what_is_not_in_columns_is_read_from_the_payload(spark: SparkSession) -> None:
    frame = spark.sql('select 7L as ts, 1 as v, \'{"w": {"x": 10.25}, "v": 2}\' as payload')
    event = one(frame, "v", "w.x", payload=PayloadFormat.JSON)
    assert read(event, parse("v"), PayloadFormat.JSON) == 1
    assert read(event, parse("w.x"), PayloadFormat.JSON) == 10.25


@pytest.mark.parametrize(
    ("payload", "path", "value"),
    [
        ("named_struct('v', 5)", "v", 5),
        ("map('v', 5)", "v", 5),
        ("parse_json('{\"v\": 5}')", "v", 5),
        ("5.5D", "$value", 5.5),
    ],
)
def test_a_payload_column_may_be_typed_itself(
    spark: SparkSession, payload: str, path: str, value: Any
) -> None:
    event = one(spark.sql(f"select 7L as ts, {payload} as payload"), path)
    assert seen(event, path) == value
    assert event.payload in (b'{"v":5}', b"5.5")


def test_without_a_payload_the_attributes_are_one(spark: SparkSession) -> None:
    event = one(spark.sql("select 7L as ts, 5.25D as v, 'other' as unused"), "v")
    assert (event.payload, event.topic, event.sender, event.seq) == (b'{"v":5.25}', "", "", 0)


@pytest.mark.parametrize(
    ("select", "wanted", "said"),
    [
        ("7L as ts, 1 as pulse", ["puls"], "attribute 'puls': there is no such column .did you mean 'pulse'"),
        ("7L as ts, 1 as v", ["$topic"], "there is no column 'topic'"),
        ("7L as ts, date'2020-01-01' as v", ["v"], "column 'v' is date, expected a number"),
        ("'x' as ts, 1 as v", ["v"], "column 'ts' is string, expected whole microseconds"),
        ("7L as ts, 1 as v, '5' as payload", ["v", "$value"], "'\\$value' is the payload, which"),
        ("7L as ts, array(1) as v, 2 as `v.0`", ["v", "v.0"], "'v' and 'v.0' are two columns"),
        ("7L as ts, 1 as __event, 1 as v", ["v"], "column '__event': this name is used"),
    ],
)  # fmt: skip
def test_a_frame_that_does_not_serve_is_refused(
    spark: SparkSession, select: str, wanted: list[str], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        one(spark.sql(f"select {select}"), *wanted)
