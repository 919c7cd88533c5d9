"""Runs a project's graph of tables by Spark's own program, `spark-pipelines run`, in a process of its own.

That program is a client of Spark Connect. Left to itself it starts a server on port 15002 of every network
of the machine, finds another run's server there if that was first, and waits ten minutes for one that has
ended. So on this machine the session of the run is the server: at a free port of the loopback address, with a
token that is made for the process, and with the catalog that the decided tables use as well.
"""

from __future__ import annotations

import os
import re
import secrets
import subprocess
import sys
from typing import TYPE_CHECKING, Final

from penstock.errors import SparkFailed
from penstock.pipeline.session import reason

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    from penstock.pipeline.project.settings import Project

LOG: Final = "spark-pipelines.log"
_CLIENT: Final = "penstock.pipeline.project.pipelines_client"
_LASTING_CLIENT: Final = "pyspark.pipelines.cli"
TOKEN: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"  # noqa: S105  # a variable's name
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"
_FLOW: Final = re.compile(r"Flow (?:\S+\.)?(?P<table>\w+) (?:is|has) (?P<state>[A-Z]+)\.")
"""How spark-pipelines tells that a table is begun, or ready."""


def as_server() -> dict[str, str]:
    """Settings of a session of this machine that is a Connect server for processes of this run only."""
    os.environ.setdefault(TOKEN, secrets.token_urlsafe())  # an option would be seen by all users
    return {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        # As Spark sets them for a server of its own.
        "spark.sql.artifact.isolation.enabled": "true",
        "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
    }


def address_of(spark: SparkSession) -> str:
    """Address of the server inside a session of this machine."""
    service = getattr(getattr(spark.sparkContext._jvm, _SERVICE), "MODULE$")  # noqa: SLF001  # as Spark
    return f"sc://localhost:{service.localPort()}"  # to another name it would speak TLS


def program(*, lasting: bool) -> list[str]:
    """Command of `spark-pipelines`: its Python program, as `bin/spark-pipelines` starts it by a JVM."""
    return [sys.executable, "-m", _LASTING_CLIENT if lasting else _CLIENT]


def run_declared(
    project: Project,
    specification: Path,
    remote: str,
    lock: int | None,
    step: Callable[[int, int, str], None],
) -> None:
    """Run the graph of tables; all that `spark-pipelines` says goes to a file of the project.

    `lock` is the run's lock if the server is not ours: it goes on if we are killed, and the client with the
    lock stays until it is done. Without one the client ends with us.
    """
    path = project.folder / LOG
    step(0, 1, "starting spark-pipelines")
    with (
        path.open("w", encoding="utf-8", buffering=1) as log,  # line by line, for whoever watches
        subprocess.Popen(  # noqa: S603  # our own program with our own arguments
            [*program(lasting=lock is not None), "run", "--spec", str(specification)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "SPARK_REMOTE": remote, "PYSPARK_PYTHON": sys.executable},
            text=True,
            pass_fds=[] if lock is None else [lock],
        ) as process,
    ):
        try:
            last = _followed(process, log.write, step)
            code = process.wait()
        except BaseException:
            process.kill()
            raise
    if code:
        why = reason(last) if last else f"its exit code is {code}"
        raise SparkFailed(f"spark-pipelines failed: {why}; all it said is in {path}")


def _followed(
    process: subprocess.Popen[str], write: Callable[[str], object], step: Callable[[int, int, str], None]
) -> str:
    """Read what the program says until it ends; return its last line about an error."""
    assert process.stdout is not None
    last = ""
    flows: dict[str, str] = {}
    for line in process.stdout:
        write(line)
        if (flow := _FLOW.search(line)) is not None:
            flows[flow["table"]] = flow["state"]
            ready = sum(state == "COMPLETED" for state in flows.values())
            step(ready, len(flows), flow["table"])
        elif "SQLSTATE" in line or "Error" in line.partition(":")[0]:
            last = line
    return last
