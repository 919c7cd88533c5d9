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
    "spark-1": 500,
    "spark-2": 480,
    "spark-cluster": 370,
    "tests/spark/lab/cli/test_demo.py": 185,
    "tests/e2e/test_control_tables.py": 170,
    "cluster": 225,
    "tests/lab/bench/node/test_throughput.py": 120,
    "tests/lab/experiments/gryphon/test_measures.py": 70,
    "tests/spark/lab/experiments/streams/test_kill.py": 60,
    "tests/spark/connector/test_data_source.py": 60,
    "tests/e2e/test_channels.py": 60,
    "tests/node/outbound/test_render.py": 50,
    "tests/lab/experiments/corona/test_figures.py": 50,
    "tests/lab/experiments/rbf/test_fig5_7.py": 45,
    "tests/test_examples.py": 45,
    "tests/lab/experiments/fuzz/test_run.py": 40,
    "tests/e2e/test_dashboard.py": 35,
    "tests/e2e/test_screenshots.py": 35,
    "tests/lab/runs/test_everything.py": 30,
    "tests/cli/test_pub_sub.py": 30,
    "tests/lab/experiments/test_phones.py": 25,
    "tests/lab/experiments/ces/test_overload_live.py": 25,
    "tests/core/slots/test_formulas.py": 25,
    "tests/cli/test_app.py": 20,
    "tests/e2e/test_up.py": 20,
    "nats-log": 20,
    "tests/lab/experiments/streams/test_kill.py": 20,
    "tests/lab/experiments/gryphon/live/test_tree.py": 20,
}
"""Groups that take long, on two quiet cores with five workers."""


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
