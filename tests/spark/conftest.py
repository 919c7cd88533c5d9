"""One Spark session for all tests that need a JVM."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from penstock.pipeline.session import STATE_STORE
from tests.kit.jvm import OPTIONS, archive_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


os.environ.setdefault("SPARK_SUBMIT_OPTS", OPTIONS)  # of this process and of programs that tests start


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what lies in this folder. Each worker has a session of its own, which takes 8 s to start."""
    for item in items:
        if "tests/spark/" in str(item.path):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session", autouse=True)
def _classes() -> None:
    archive_classes()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only where it is needed

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers are of the first python3 on the PATH
    session = (
        SparkSession.builder.master("local[2]")
        .appName("penstock tests")
        .config("spark.ui.enabled", "false")  # no port, no threads for pages nobody sees
        .config("spark.sql.shuffle.partitions", "2")  # as many as cores
        .config("spark.sql.adaptive.enabled", "false")  # plans as written
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")  # a stack trace for each column
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.streaming.stateStore.providerClass", STATE_STORE)  # `pack_stream` needs it
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
