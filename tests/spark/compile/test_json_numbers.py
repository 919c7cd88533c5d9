"""Numbers in payloads are those that a node finds there, whatever the payload is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from penstock.model.event import Event
from penstock.pipeline import pack
from penstock.pipeline.compile.json_numbers import tree_of
from penstock.policy import evaluate
from penstock.policy.text.forms import parse
from tests.agreement.comparing import assert_same
from tests.spark.compile.frames import Queue, frame_of, packed_queues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ODD = [
    '{"pulse":75.5,"in":{"drift":3}}',
    '{"pulse":"75.5","in":{"drift":3}}',
    '{"pulse":{"a":[1]},"in":{"drift":-0.0}}',
    '{"in":{"drift":3},"pulse":[1,2]}',
    '{"pulse":1} x',
    '{"pulse":1},{"pulse":2}',
    '{"pulse":1},"x":2',
    '[{"pulse":1}]',
    "[]",
    "5",
    "null",
    '"s"',
    "",
    " ",
    '{"pulse":"NaN"}',
    '{"pulse":NaN}',
    '{"pulse":"Infinity","in":{"drift":2}}',
    '{"pulse":1e999}',
    '{"pulse":1e-400,"in":{"drift":1E2}}',
    '{"pulse":123456789012345678901234567890}',
    '{"pulse":-9223372036854775809}',
    '{"pulse":true,"in":{"drift":-0.0}}',
    "{'pulse':1}",
    '{"pulse":01}',
    '{"pulse":.5}',
    '{"pulse":+5}',
    '{"pulse":1,}',
    '{"pulse":1',
    '/**/{"pulse":1}',
    '{"pulse":1,"pulse":2}',
    '{"pulse":1,"in":5}',
    '{"pulse":1,"in":[{"drift":1}]}',
    '{"pulse":1,"in":null}',
    '{"pulse":"\x01","in":{"drift":3}}',
    '{"x":"\\q","in":{"drift":8}}',
    '{"Pulse":1,"in":{"Drift":2}}',
    '  {"pulse": 7 , "x": {"pulse": 60, "in": {}} }\n',
    '{"pulse":5,"x":"\u2063penstock end of payload\u2063"}',
    '{"pulse":0.1,"in":{"drift":1.7976931348623157e308}}',
]
POLICY = """
attribute: pulse
levels:
  - drop: {within: [50, 100]}
  - drop: {delta: 2, attribute: in.drift}
digest: {pulse: [count, mean, min, max], in.drift: [min, max]}
"""


@pytest.mark.parametrize("content_type", ["", "application/json", "text/plain"])
def test_numbers_in_odd_payloads_are_those_of_the_reference(spark: SparkSession, content_type: str) -> None:
    queue = Queue(
        [
            Event("t", text.encode(), ts_us=number, seq=number, sender="s", content_type=content_type)
            for number, text in enumerate(ODD)
        ],
        now_us=10_000,
    )
    policy = parse(POLICY)
    frame = frame_of(spark, [queue])
    for level in (1, 2):
        packed = frame.transform(
            pack(policy, key="queue", order="spot", level=level, schema=frame.schema, now=10_000)
        )
        (ours,) = packed_queues(packed, 1)
        assert_same(ours, list(evaluate.pack(policy, queue.items, level=level, now_us=10_000).items))


def test_a_payload_that_must_be_parsed_as_a_whole_is_known() -> None:
    assert tree_of([["pulse"], ["in", "drift"]]) == {"pulse": None, "in": {"drift": None}}
    assert tree_of([[]]) is None
    assert tree_of([["list", "0"]]) is None
    assert tree_of([["a"], ["a", "b"]]) is None
    assert tree_of([["a", "b"], ["a"]]) is None
    assert tree_of([["a"], ["A"]]) is None
