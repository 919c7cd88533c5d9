"""The plans: no Python worker, one sort for all windows in queue order, and the text of a few to look at.

After a change that is meant to change plans, set PENSTOCK_SNAPSHOTS=update and run this module.
"""

from __future__ import annotations

import os
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline import effect, pack
from penstock.pipeline.tables.schemas import DIGEST, EFFECT
from penstock.policy.filters import CATALOGUE
from penstock.policy.text.forms import parse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.usefixtures("generated")

SNAPSHOTS = Path(__file__).parent / "snapshots"
PYTHON = ("PythonUDF", "EvalPython", "InPandas", "InArrow", "PythonRDD", "PythonUDTF")
SCHEMA = (
    "queue string, ts bigint, seq bigint, sender string, topic string, v double, name string, "
    "tags array<string>, vitals struct<pulse:double>"
)
JSON_SCHEMA = "queue string, ts bigint, seq bigint, payload binary"
SUMMARIES = "digest: [count, mean, stddev, min, max, first, last, distinct, quantiles]"

POLICIES = {
    "predicates": """
attribute: v
levels:
  - - drop: {within: [50, 100]}
    - keep: {ge: 10}
    - drop: {inset: [1, 2.5, x], attribute: name}
  - - drop: {match: '^a$', attribute: name}
    - drop: {eq: 5}
    - keep: {ne: 7}
    - keep: {gt: 0}
    - keep: {lt: 99}
    - keep: {le: 98}
  - - drop: {contain: a, attribute: tags}
    - drop: {subset: [a, b], attribute: tags}
    - drop: {supset: [a, b], attribute: tags}
  - - drop: {random: {fraction: 0.5}}
    - drop: {older: 60}
""",
    "windows": """
attribute: v
levels:
  - [drop: uniq, drop: guniq, keep: {first: [1, 2]}, keep: {last: [3]}]
  - [keep: {latest: 10}, keep: {every: 2}, keep: {latest_by: {by: $topic}}]
  - [drop: {throttle: {seconds: 5, by: name}}, keep: {top: {n: 3}}, drop: {delta: {change: 5, since: event}}]
""",
    "sequential": """
attribute: vitals.pulse
levels:
  - drop: {delta: {change: 5, max_silence: 60}}
  - drop: {swing: 2}
""",
    "digesters": f"""
attribute: v
{SUMMARIES}
levels:
  - keep: {{latest: 1}}
""",
    "payload": """
attribute: vitals.pulse
digest: [count, mean]
levels:
  - drop: {within: [50, 100]}
  - drop: uniq
""",
}


def empty(spark: SparkSession, name: str, *, digests: bool = False) -> DataFrame:
    """A frame to plan on."""
    schema = JSON_SCHEMA if name == "payload" else SCHEMA
    return spark.createDataFrame([], f"{schema}, digest {DIGEST.simpleString()}" if digests else schema)


def physical(frame: DataFrame) -> str:
    """The physical plan as `explain` prints it, without numbers that differ from run to run."""
    out = StringIO()
    with redirect_stdout(out):
        frame.explain()
    text = re.sub(r"#\d+L?|\[plan_id=\d+\]|_gen_alias_\d+|(?<=_common_expr)_\d+", "", out.getvalue())
    text = re.sub(r"\b(x|y|z)_\d+\b", r"\1", text)
    return re.sub(r"Scan ExistingRDD.*|LocalTableScan.*", "Scan", text).strip() + "\n"


def plan(spark: SparkSession, name: str, *, digests: bool = False) -> str:
    frame, policy = empty(spark, name, digests=digests), parse(POLICIES[name])
    packed = pack(policy, key=["queue"], order=["ts"], level=policy.highest, schema=frame.schema, now=0)
    return physical(frame.transform(packed))


@pytest.mark.parametrize("name", POLICIES)
def test_no_python_worker_takes_part(spark: SparkSession, name: str) -> None:
    text = plan(spark, name, digests=True)
    assert [word for word in PYTHON if word in text] == []


@pytest.mark.parametrize("name", POLICIES)
def test_the_plan_is_the_one_on_file(spark: SparkSession, name: str) -> None:
    text, file = plan(spark, name), SNAPSHOTS / f"{name}.txt"
    if os.environ.get("PENSTOCK_SNAPSHOTS") == "update":
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8")


def test_every_filter_is_in_a_plan_here() -> None:
    found = [parse(text) for text in POLICIES.values()]
    used = {placed.cause.filter for policy in found for placed in policy.steps(policy.highest)}
    assert set(CATALOGUE) - used == set()


def test_queues_are_shuffled_and_sorted_once(spark: SparkSession) -> None:
    policy = parse(
        "attribute: v\ndigest: [mean, stddev, min, max]\n"
        "levels: [drop: uniq, keep: {every: 2}, keep: {first: [1]}, keep: {last: [1]}, drop: {gt: 5}, "
        "keep: {latest: 9}]"
    )
    frame = empty(spark, "")
    packed = pack(policy, key="queue", order=["ts", "seq"], level=policy.highest, schema=frame.schema)
    text = physical(frame.transform(packed))
    assert (text.count("Exchange"), text.count("Sort ["), text.count("SortAggregate")) == (1, 1, 0)


def test_a_dead_band_that_ends_a_policy_sorts_once_and_needs_no_window(spark: SparkSession) -> None:
    policy = parse("attribute: v\ndigest: [mean, min, max]\nlevels: [drop: {delta: 5}]")
    frame = empty(spark, "")
    packed = pack(policy, key="queue", order=["ts", "seq"], level=1, schema=frame.schema)
    text = physical(frame.transform(packed))
    assert (text.count("Exchange"), text.count("Sort ["), text.count("Window")) == (1, 1, 0)
    rows = [line for line in text.splitlines() if "posexplode" in line or "named_struct(ts" in line]
    assert all("*(" in line for line in rows), "only the fold itself is interpreted"
    assert "SortAggregate" in text  # queues are gathered as they were sorted


def test_what_looks_at_one_event_alone_is_counted_without_sorting(spark: SparkSession) -> None:
    policy = parse("attribute: v\nlevels: [drop: {within: [50, 100]}, drop: {eq: 5}]")
    frame = empty(spark, "")
    text = physical(frame.transform(effect(policy, key="queue", order="ts", schema=frame.schema)))
    assert "Sort [" not in text
    assert "Window" not in text


def test_the_contracts(spark: SparkSession) -> None:
    policy = parse(POLICIES["digesters"])
    frame = empty(spark, "digesters", digests=True)
    packed = frame.transform(pack(policy, key=["queue"], order=["ts"], level=1, schema=frame.schema))
    own = [name for name in frame.columns if name not in ("queue", "digest")]
    assert packed.columns == ["queue", "place", "kind", *own, "digest"]
    assert packed.schema["digest"].dataType.simpleString() == DIGEST.simpleString()
    effects = frame.transform(effect(policy, key=["queue"], order=["ts"], schema=frame.schema))
    assert effects.schema.simpleString() == EFFECT.simpleString()


def test_rows_that_are_parted_already_are_shuffled_once_for_all_levels(spark: SparkSession) -> None:
    policy = parse(
        "attribute: v\ndigest: [mean, min, max]\nlevels: [drop: uniq, drop: {delta: 5}, keep: {latest: 9}]"
    )
    frame = empty(spark, "").repartition("queue").selectExpr("*", "explode(sequence(1, 3)) as tried")
    packed = pack(
        policy, key=["queue", "tried"], order=["ts", "seq"], level="tried", schema=frame.schema, parted=True
    )
    assert physical(frame.transform(packed)).count("Exchange") == 1
