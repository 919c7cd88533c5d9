"""Which groups of tests take long: they start first, so that no worker is left with one at the end.

A group is what one worker runs: the tests of a file, or of an `xdist_group`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

LONG_S = 15
"""Seconds from which on another group should not wait for this one."""

SECONDS: dict[str, int] = {
    "spark-1": 300,
    "spark-2": 280,
    "spark-cluster": 240,
    "tests/spark/project/test_run.py": 220,
    "tests/spark/lab/cli/test_demo.py": 185,
    "tests/e2e/test_control_tables.py": 150,
    "cluster": 100,
    "tests/spark/lab/experiments/streams/test_kill.py": 70,
    "tests/spark/connector/test_data_source.py": 60,
    "tests/spark/cli/backtest/test_backtest.py": 60,
    "tests/spark/cli/test_allocate.py": 35,
    "tests/e2e/test_channels.py": 35,
    "tests/e2e/test_screenshots.py": 30,
    "tests/e2e/test_dashboard.py": 30,
    "tests/cli/test_pub_sub.py": 30,
    "tests/cli/test_app.py": 20,
    "tests/e2e/test_up.py": 20,
    "nats-log": 20,
}
"""Groups that take long, on two quiet cores with four workers."""


def group_of(item: pytest.Item) -> str:
    """What `pytest_xdist_make_scheduler` calls the group of a test."""
    mark = item.get_closest_marker("xdist_group")
    return item.nodeid.split("::", 1)[0] if mark is None else str(mark.args[0])


def seconds_of(group: str) -> int:
    """How long a group takes; 0 if it is a short one."""
    return SECONDS.get(group, 0)
