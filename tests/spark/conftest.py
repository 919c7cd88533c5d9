"""One Spark session for all tests that need a JVM."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.pipeline import session as sessions
from penstock.pipeline.session import STATE_STORE
from tests.kit.jvm import CODEGEN, SPARK_OPTIONS, archive_classes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.spark.cluster.findings import Found


# Of this process and of programs that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", SPARK_OPTIONS)


SECOND = ("cli", "connector", "jobs", "stream", "tables")
"""Folders of the second session: about half of the time."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of this folder, and give those that use the session to two workers.

    Each worker that gets one starts a session, and warms its JVM up with the first queries.
    """
    here = Path(__file__).parent
    for item in items:
        if not item.path.is_relative_to(here):
            continue
        item.add_marker(pytest.mark.spark)
        if "spark" in getattr(item, "fixturenames", ()):
            second = item.path.relative_to(here).parts[0] in SECOND
            item.add_marker(pytest.mark.xdist_group("spark-2" if second else "spark-1"))


@pytest.fixture(scope="session", autouse=True)
def _classes() -> None:
    archive_classes()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession  # noqa: PLC0415  # only where it is needed

    from tests.kit.py4j_lookups import remember_lookups  # noqa: PLC0415

    remember_lookups()
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


@pytest.fixture
def generated(spark: SparkSession) -> Iterator[None]:
    """Queries of this test run as those of users do: as Java that Spark writes and compiles."""
    before = {name: str(spark.conf.get(name)) for name in CODEGEN}
    for name, value in CODEGEN.items():
        spark.conf.set(name, value)
    yield
    for name, value in before.items():
        spark.conf.set(name, value)


@pytest.fixture
def opened(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that run in this process get the tests' session: one for each would take minutes."""

    @contextmanager
    def here(**_: Any) -> Iterator[SparkSession]:
        with sessions.translated():
            yield spark

    monkeypatch.setattr(sessions, "open_session", here)


# -- one program on a cluster, and one on a server -----------------------------------------------------------


@pytest.fixture(scope="session")
def moved_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a pipeline that goes on on the cluster, and then on the server: its first run was killed.

    The folder `whole` beside it is of a pipeline with the same data, and without a run.
    """
    from penstock.pipeline.project.create import create  # noqa: PLC0415  # Spark, only where it is needed
    from tests.spark.project.kills import kill_runs  # noqa: PLC0415
    from tests.spark.project.recordings import node  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("moved")
    node(folder / "data", 200)
    killed, _ = (create(folder / name, data=[folder / "data"]) for name in ("killed", "whole"))
    kill_runs(killed)
    return killed.folder


@pytest.fixture(scope="session")
def on_master(tmp_path_factory: pytest.TempPathFactory, moved_project: Path) -> Found:
    """Findings of a program on a standalone master with two workers."""
    from tests.spark.cluster import findings  # noqa: PLC0415

    return findings.on_master(tmp_path_factory.mktemp("master"), moved_project)


@pytest.fixture(scope="session")
def on_remote(tmp_path_factory: pytest.TempPathFactory, moved_project: Path, on_master: Found) -> Found:
    """Findings of a program on a Spark Connect server, after those on the cluster."""
    from tests.spark.cluster import findings  # noqa: PLC0415

    return findings.on_remote(tmp_path_factory.mktemp("remote"), moved_project)
