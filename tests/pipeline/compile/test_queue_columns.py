"""Every transform is made, and put on a frame, without a word to Spark: no session, no JVM, no server."""

from __future__ import annotations

import subprocess
import sys
from typing import Final

import pytest
from pyspark.sql import types as st

from penstock.errors import InputError, PolicyError
from penstock.pipeline.compile.queue_columns import queue_columns
from penstock.pipeline.tables.schemas import EVENTS

PROGRAM: Final = """
import os, sys

os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"

from penstock.core.backtest.settings import BASELINES, Candidate, Settings
from penstock.core.queues import drain
from penstock.pipeline import effect, pack, pack_stream, with_digests, with_wire
from penstock.pipeline.jobs.allocation import AllocationTerms, allocation
from penstock.pipeline.jobs.backtest.replay import backtest
from penstock.pipeline.jobs.flows import flows, reservations
from penstock.pipeline.tables.channels import by_domain, channel_factors
from penstock.pipeline.tables.schemas import EVENTS
from penstock.policy.text.forms import parse

POLICY = parse(
    "attribute: pulse\\ndigest: [mean, last]\\nurgent: {gt: 150}\\n"
    "levels: [drop: {delta: 5}, drop: {within: [50, 100]}, keep: {latest_by: $topic}]"
)
made = {
    "pack": pack(POLICY, key="topic", order=["ts", "seq"], level=2),
    "effect": effect(POLICY, key="topic", order="ts"),
    "with_digests": with_digests(),
    "with_wire": with_wire(),
    "pack_stream": pack_stream(POLICY, capacity=100, key="topic", order="ts"),
    "allocation": allocation(AllocationTerms(tau_us=10**6, least_us=1, most_us=10**9, host_limit=9)),
    "flows": flows(client="sender", schema=EVENTS),
    "reservations": reservations(),
    "backtest": backtest(
        Settings(
            candidates=(Candidate("ours", POLICY), *BASELINES),
            capacity=100,
            drain=drain("10/s"),
            key=("topic",),
            measured=("pulse",),
        )
    ),
    "by_domain": by_domain(),
}

from pyspark.sql.connect.session import SparkSession

spark = SparkSession(connection="sc://127.0.0.1:1")  # nobody answers there
asked = []


def refuse(*given, **named):
    asked.append(given)
    raise AssertionError("Spark was asked")


for name in ("_analyze", "_execute_and_fetch_as_iterator", "config", "_execute"):
    assert hasattr(spark.client, name), name
    setattr(spark.client, name, refuse)
made["channel_factors"] = channel_factors(spark.read.table("subscriptions"))
for name, transform in made.items():
    frame = spark.readStream.table("t") if name == "pack_stream" else spark.read.table("t")
    frame.transform(transform)._plan.plan(spark.client)  # what a pipeline sends of a flow
    assert not asked, name
    print(name)
sys.stdout.flush()
os._exit(0)  # a session's end would wait for a server
"""


@pytest.mark.e2e
def test_no_transform_asks_spark_for_anything() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.split()) == 11


def test_names_are_not_taken_apart() -> None:
    found = queue_columns("topic", ["ts", "seq"], EVENTS)
    assert (found.key, found.order) == (("topic",), ("ts", "seq"))
    assert queue_columns(["sender", "topic"], "ts", EVENTS).key == ("sender", "topic")


def test_columns_that_cannot_make_queues_are_refused_before_there_is_a_session() -> None:
    with pytest.raises(InputError, match="there is no column 'patient' to make queues by; the columns"):
        queue_columns("patient", "ts", EVENTS)
    with pytest.raises(InputError, match="column 'properties' is map<string,string>, which cannot name"):
        queue_columns("properties", "ts", EVENTS)
    with pytest.raises(PolicyError, match="a queue needs columns that name it"):
        queue_columns((), "ts", EVENTS)
    with pytest.raises(InputError, match="schema is a str; it is the frame's StructType"):
        queue_columns("topic", "ts", "topic string, ts bigint")  # type: ignore[arg-type]
    reserved = st.StructType([*EVENTS, st.StructField("kind", st.StringType())])
    with pytest.raises(InputError, match="column 'kind': this name is used by the packed frame"):
        queue_columns("topic", "ts", reserved)
