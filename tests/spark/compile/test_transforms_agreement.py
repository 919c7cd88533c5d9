"""The compiled plans mean what the reference means: one plan per policy, over many queues at once.

Each policy meets every queue of its batch, at a level that differs from queue to queue.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as sf

from penstock.pipeline import pack
from penstock.policy import evaluate, filters
from tests.agreement.comparing import assert_same
from tests.kit.effort import LONG
from tests.spark.compile.frames import (
    Queue,
    frame_of,
    packed_queues,
    policies,
    queues,
    typed_frame_of,
    typed_queues,
    with_urgent,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from penstock.policy.nodes import Policy

QUEUES = 120
JSON_POLICIES = 12 if LONG else 10
URGENT_POLICIES = 4
TYPED = {
    "double": 8 if LONG else 4,
    "bigint": 5 if LONG else 2,
    "string": 5 if LONG else 2,
    "boolean": 2 if LONG else 1,
    "array<double>": 1,
    "array<array<string>>": 1,
}
"""Policies by the type of the column that most of them look at; Spark needs seconds for the plan of one."""


def agree(frame: DataFrame, found: list[Queue], policy: Policy, shift: int) -> None:
    """Every queue packed by Spark equals the queue packed by the reference."""
    levels = policy.highest + 1
    level = sf.pmod(sf.col("queue") + shift, sf.lit(levels))
    packed = frame.transform(
        pack(policy, key=["queue"], order=["spot"], level=level, schema=frame.schema, now=sf.col("now_us"))
    )
    ours = packed_queues(packed, len(found))
    for number, queue in enumerate(found):
        first, rest = evaluate.ahead(policy, queue.items)
        expected = evaluate.pack(policy, rest, level=(number + shift) % levels, now_us=queue.now_us)
        try:
            assert_same(ours[number], [*first, *expected.items])
        except AssertionError as error:
            raise AssertionError(f"queue {number}: {policy}") from error


@pytest.fixture(scope="module")
def json_queues() -> list[Queue]:
    return queues(1, QUEUES)


@pytest.fixture(scope="module")
def json_frame(spark: SparkSession, json_queues: list[Queue]) -> DataFrame:
    return frame_of(spark, json_queues).cache()


@pytest.mark.parametrize("number", range(JSON_POLICIES))
def test_on_payloads(json_frame: DataFrame, json_queues: list[Queue], number: int) -> None:
    agree(json_frame, json_queues, policies(11, JSON_POLICIES)[number], number)


@pytest.mark.usefixtures("generated")
@pytest.mark.parametrize("kind", TYPED)
def test_on_typed_columns(spark: SparkSession, kind: str) -> None:
    kinds = {"v": kind, "tags": "array<string>", "a.b": "string"}
    found = typed_queues(3, QUEUES, kinds)
    frame = typed_frame_of(spark, found, kinds).cache()
    for shift, policy in enumerate(policies(len(kind), TYPED[kind])):
        agree(frame, found, policy, shift)


@pytest.mark.parametrize("number", range(URGENT_POLICIES))
def test_urgent_events_go_first_and_no_filter_sees_them(
    json_frame: DataFrame, json_queues: list[Queue], number: int
) -> None:
    policy = with_urgent(policies(17, URGENT_POLICIES)[number], number)
    ahead = [evaluate.ahead(policy, queue.items) for queue in json_queues]
    assert any(first and rest for first, rest in ahead)
    agree(json_frame, json_queues, policy, number)


def test_the_policies_here_use_every_filter() -> None:
    batches = [policies(11, JSON_POLICIES), *(policies(len(kind), number) for kind, number in TYPED.items())]
    used = {
        type(placed.step.filter)
        for batch in batches
        for policy in batch
        for placed in policy.steps(policy.highest)
    }
    assert set(filters.CATALOGUE.values()) - used == set()


def test_a_time_has_no_effect_and_a_warning_says_so() -> None:
    timed = replace(policies(11, 1)[0], fresh_us=1_000_000)
    with pytest.warns(UserWarning, match="fresh: 1 s has no effect: `pack` packs at the level it is given"):
        pack(timed, key="topic", order="ts", level=1)
