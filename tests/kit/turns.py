"""Which groups of tests take long: they start first, so that no worker is left with one at the end.

A group is what one worker runs: the tests of a file, or of an `xdist_group`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LONG_S = 15
"""Seconds from which on another group should not wait for this one."""

SPARK_AT_ONCE = 3
"""Groups with a JVM that run at the same time: each keeps two cores busy, and a fourth would only slow them.
Other workers meanwhile run what mostly waits."""

SECONDS: dict[str, int] = {
    "spark-1": 615,
    "spark-2": 545,
    "spark-cluster": 420,
    "cluster": 205,
    "tests/e2e/test_control_tables.py": 205,
    "tests/spark/lab/cli/test_demo.py": 175,
    "tests/lab/bench/node/test_throughput.py": 145,
    "tests/lab/experiments/gryphon/test_measures.py": 130,
    "tests/spark/connector/test_data_source.py": 85,
    "tests/lab/experiments/corona/test_figures.py": 70,
    "tests/spark/lab/experiments/streams/test_kill.py": 70,
    "tests/test_examples.py": 65,
    "tests/node/outbound/test_render.py": 60,
    "tests/lab/experiments/rbf/test_fig5_7.py": 55,
    "tests/e2e/test_channels.py": 50,
    "tests/lab/experiments/fuzz/test_run.py": 50,
    "tests/e2e/test_screenshots.py": 35,
    "tests/lab/runs/test_everything.py": 35,
    "tests/lab/experiments/qos2/test_kill.py": 30,
    "tests/e2e/test_dashboard.py": 30,
    "tests/lab/experiments/ces/test_overload_live.py": 30,
    "tests/lab/experiments/streams/test_kill.py": 30,
    "tests/lab/experiments/test_phones.py": 25,
    "tests/spark/cli/test_generate.py": 20,
    "tests/lab/bench/streams/test_jetstream.py": 20,
    "tests/lab/experiments/gryphon/live/test_tree.py": 15,
    "tests/lab/experiments/ces/test_overload.py": 15,
    "tests/e2e/test_xmpp.py": 15,
    "tests/e2e/test_recipes.py": 15,
    "tests/cli/test_pub_sub.py": 15,
    "tests/e2e/test_up.py": 15,
    "tests/e2e/test_flows_live.py": 15,
}
"""Groups that take long, on two quiet cores with four workers."""


def group_of(item: pytest.Item) -> str:
    """What `pytest_xdist_make_scheduler` calls the group of a test."""
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid.split("::", 1)[0] if mark is None else str(mark.args[0])


def seconds_of(group: str) -> int:
    """How long a group takes; 0 if it is a short one."""
    return SECONDS.get(group, 0)


def uses_spark(group: str) -> bool:
    """Whether the tests of a group keep a JVM busy."""
    return group.startswith(("spark-", "tests/spark/")) or group == "tests/e2e/test_control_tables.py"
