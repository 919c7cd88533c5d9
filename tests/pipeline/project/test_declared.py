"""What a run makes of `spark-pipelines`: a stand-in for it says what that program says, without a JVM."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from penstock.errors import InputError, SparkFailed
from penstock.pipeline.project import declared as module
from penstock.pipeline.project.create import create
from penstock.pipeline.project.run import _alone
from penstock.pipeline.project.standstill import Standstill, children, standing
from tests.kit.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.pipeline.project.settings import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return create(tmp_path / "project", data=[tmp_path / "data"])


def declared(
    project: Project, script: str, monkeypatch: pytest.MonkeyPatch, *, lasting: bool = False
) -> list[tuple[int, int, str]]:
    """Run the graph by a shell script; return the steps that were told."""
    monkeypatch.setattr(module, "program", lambda **_: ["sh", "-c", script, "sh"])
    steps: list[tuple[int, int, str]] = []

    def step(*told: Any) -> None:
        steps.append(told)

    with _alone(project) as lock:
        specification = project.folder / "spark-pipeline.yml"
        module.run_declared(project, specification, "sc://localhost:1", lock if lasting else None, step)
    return steps


def test_progress_names_tables_and_counts_those_that_are_ready(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = ["events is QUEUED", "flows is QUEUED", "events is RUNNING", "events has COMPLETED"]
    lines = "\n".join(f"echo '2026-11-17 10:30:58: Flow spark_catalog.default.{one}.'" for one in says)
    steps = declared(project, f'{lines}\necho "$@" $SPARK_REMOTE', monkeypatch)
    assert steps[1:] == [(0, 1, "events"), (0, 2, "flows"), (0, 2, "events"), (1, 2, "events")]
    told = (project.folder / module.LOG).read_text().splitlines()
    assert told[-1] == f"run --spec {project.folder / 'spark-pipeline.yml'} sc://localhost:1"


def test_a_failure_is_told_in_one_sentence(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    script = (
        "echo 'pyspark.errors.exceptions.connect.StreamingQueryException: [STREAM_FAILED] Query [id = 1-2, "
        "runId = 3] terminated with exception: Out of luck. SQLSTATE: XXKST'\nexit 1"
    )
    with pytest.raises(SparkFailed) as told:
        declared(project, script, monkeypatch)
    assert str(told.value) == (
        f"spark-pipelines failed: Out of luck; all it said is in {project.folder / module.LOG}"
    )


async def test_a_graph_that_outlives_its_run_keeps_the_next_run_out(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = f"sleep 600 > /dev/null 2>&1 &\necho $! > {tmp_path / 'pid'}"
    declared(project, script, monkeypatch, lasting=True)
    graph = int((tmp_path / "pid").read_text())
    try:
        with pytest.raises(InputError, match="another run of this pipeline"), _alone(project):
            pass
    finally:
        os.kill(graph, signal.SIGKILL)

    def is_free() -> bool:
        try:
            with _alone(project):
                return True
        except InputError:
            return False

    await until(is_free)


@pytest.mark.slow
def test_a_client_that_hangs_is_ended_by_the_watch(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """As Spark's client does after the end of its server."""
    script = f"echo $$ > {tmp_path / 'pid'}; echo 'Flow default.flows is RUNNING.'; exec sleep 600"
    monkeypatch.setattr(module, "program", lambda **_: ["sh", "-c", script, "sh"])
    spared = {one.pid for one in children()}
    with (
        pytest.raises(Standstill, match=r"neither said nor did anything .* at 'flows'"),
        standing("local[2]", None, lambda *_: None, still_s=2, spared=spared) as told,
    ):
        module.run_declared(project, project.folder / "spark-pipeline.yml", "sc://localhost:1", None, told)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_the_client_ends_with_its_parent(tmp_path: Path) -> None:
    """Spark's program hangs here, and what has started it is killed."""
    fake = tmp_path / "pyspark" / "pipelines"
    fake.mkdir(parents=True)
    (fake.parent / "__init__.py").touch()
    (fake / "__init__.py").touch()
    (fake / "cli.py").write_text(
        "import time\ndef main():\n    print('here', flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen(
        module.program(lasting=False),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    ) as client:
        try:
            assert client.stdout is not None
            assert client.stdin is not None
            assert client.stdout.readline() == b"here\n"
            client.stdin.close()
            assert client.wait(timeout=300) == 1
        finally:
            client.kill()
